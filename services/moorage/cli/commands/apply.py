"""`moorage apply`: create or change the objects in files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Annotated, Any

import typer

from moorage.cli import completion
from moorage.cli.api import last_applied
from moorage.cli.api.client import APPLY_PATCH, Client, JsonObject
from moorage.cli.api.endpoints import connect
from moorage.cli.api.manifests import Manifest
from moorage.cli.commands import options, pruning
from moorage.cli.errors import FAILED, CliError, ServerError, UnreachableError, UsageError, warn
from moorage.cli.render import output, printing
from moorage.kinds.kind import AFTER_ALL, ServedKind

SERVER_SIDE_MANAGER = "kubectl"
"""The manager of fields that are applied by the server, unless another is named. kubectl has the same."""

_WORKERS = 8
_TRIES = 8


@dataclass(frozen=True, slots=True)
class Way:
    """How manifests are applied. The default is by this client, for good."""

    server_side: bool = False
    dry_run: str = options.NONE
    parameters: Mapping[str, str] = field(default_factory=lambda: {"fieldManager": last_applied.MANAGER})
    """The query parameters of each write."""


@dataclass(frozen=True, slots=True)
class Applied:
    """The outcome for one manifest."""

    manifest: Manifest
    word: str
    """`created`, `configured` or `unchanged`. Empty if it failed."""

    object: JsonObject
    error: str = ""


def apply(
    ctx: typer.Context,
    *,
    files: options.Files = None,
    kustomize: options.Kustomize = "",
    namespace: Annotated[
        str,
        typer.Option(
            "-n", "--namespace", help="Namespace of objects that name none.", autocompletion=completion.namespaces
        ),
    ] = "default",
    recursive: options.Recursive = False,
    server_side: Annotated[
        bool, typer.Option("--server-side", help="Let the server merge, and record who owns which field.")
    ] = False,
    force_conflicts: Annotated[
        bool, typer.Option("--force-conflicts", help="With --server-side: take fields over from other managers.")
    ] = False,
    field_manager: options.FieldManager = "",
    dry_run: options.DryRun = options.NONE,
    validate: options.Validate = options.STRICT,
    prune: Annotated[
        bool, typer.Option("--prune", help="Delete objects that were applied before and are not in the files now.")
    ] = False,
    selector: Annotated[str, typer.Option("-l", "--selector", help="Only objects with these labels.")] = "",
    every: Annotated[bool, typer.Option("--all", help="With --prune: all objects, whatever their labels are.")] = False,
    prune_kinds: Annotated[
        list[str] | None,
        typer.Option(
            "--prune-allowlist", help="With --prune: GROUP/VERSION/KIND instead of the usual kinds.", show_default=False
        ),
    ] = None,
    form: options.FormOption = printing.TABLE,
) -> None:
    """Create or change the objects in files.

    A field that was applied before and is left out now is removed, whether this command or `kubectl apply` has applied
    it.
    """
    way = _way(field_manager, validate, dry_run, server_side=server_side, force=force_conflicts)
    if prune and not (every or selector):
        raise UsageError(
            "all resources selected for prune without explicitly passing --all. To prune all resources, pass --all"
        )
    good, refused = options.manifests_of(files, kustomize, recursive=recursive)
    for document in refused:
        warn(str(document))
    if selector:
        good = list(filter(options.chooser(selector), good))
    results = printing.Results(form, dry_run)
    with connect(ctx) as client:
        failed = _write(apply_all(client, good, namespace, way=way), results, form) or bool(refused)
        if prune and not failed:
            kept = pruning.PruneScope(good, namespace, selector)
            for kind, name, found in pruning.prune(client, kept, prune_kinds or [], options.deletion(dry_run)):
                if not results.wants_objects:
                    results.show(kind, name, "pruned", found)
    if failed:
        raise typer.Exit(FAILED)


def _way(field_manager: str, validate: str, dry_run: str, *, server_side: bool, force: bool) -> Way:
    if force and not server_side:
        raise UsageError("--force-conflicts only works with --server-side")
    if server_side and dry_run == options.CLIENT:
        raise UsageError("--dry-run=client doesn't work with --server-side (did you mean --dry-run=server instead?)")
    manager = field_manager or (SERVER_SIDE_MANAGER if server_side else last_applied.MANAGER)
    parameters = options.parameters(dry_run, manager, validate)
    return Way(server_side, dry_run, {**parameters, "force": "true"} if force else parameters)


def _write(outcomes: Iterable[Applied], results: printing.Results, form: printing.OutputForm) -> bool:
    """Write the outcomes as they come, and return whether one is a failure."""
    failed = False
    shown: list[JsonObject] = []
    for done in outcomes:
        if done.error:
            failed = True
            warn(done.error)
        elif results.wants_objects:
            shown.append(done.object)
        elif done.manifest.kind:
            results.show(done.manifest.kind, done.manifest.name or _name(done.object), done.word, done.object)
    if shown:
        whole = shown[0] if len(shown) == 1 else {"apiVersion": "v1", "kind": "List", "items": shown}
        output.write(printing.renderer(form)(whole))
    return failed


def apply_all(
    client: Client,
    items: Iterable[Manifest],
    namespace: str = "default",
    *,
    workers: int = _WORKERS,
    way: Way | None = None,
) -> Iterable[Applied]:
    """Apply manifests, several at a time, and yield the outcomes. Objects that others depend on come first."""
    applier = _Applier(client, namespace, way or Way())
    stages: dict[int, list[Manifest]] = {}
    for item in items:
        stages.setdefault(_rank(item), []).append(item)
    with ThreadPoolExecutor(workers) as pool:
        for rank in sorted(stages):
            # An object that occurs twice is applied in the order of the files.
            lanes: dict[tuple[str, str, str], list[Manifest]] = {}
            for item in stages[rank]:
                kind = item.kind.kind if item.kind else ""
                lanes.setdefault((kind, item.namespace(namespace), item.name), []).append(item)
            work: Callable[[list[Manifest]], list[Applied]] = lambda lane: [  # noqa: E731 - binds the applier
                applier.apply(item) for item in lane
            ]
            for lane in pool.map(work, lanes.values()):
                yield from lane


def _rank(item: Manifest) -> int:
    return item.kind.definition.apply_order if item.kind else AFTER_ALL


@dataclass(frozen=True, slots=True)
class _Applier:
    """Applies one manifest after another."""

    client: Client
    default: str
    """The namespace of objects that name none."""

    way: Way

    def apply(self, item: Manifest) -> Applied:
        """Apply a manifest. What is wrong with it is part of the outcome."""
        try:
            return self._create_or_change(item)
        except UnreachableError:
            raise
        except ServerError as error:
            if error.reason == "ServiceUnavailable":
                raise  # it concerns none of the objects, and would be repeated for each
            return Applied(item, "", {}, f"error when applying {item.place}: {error}")
        except CliError as error:
            return Applied(item, "", {}, f"error when applying {item.place}: {error}")

    def _create_or_change(self, item: Manifest) -> Applied:
        kind = item.kind
        if kind is None:
            raise CliError("kind is not known")
        namespace = item.namespace(self.default)
        wanted = last_applied.wanted(item, kind, namespace)
        if kind.read_only:  # the server accepts it if it agrees with what has been decided
            return Applied(item, "unchanged", self.client.create(kind, namespace, dict(item.document)))
        if self.way.server_side:
            return self._by_the_server(item, kind, namespace, wanted)
        if not item.name:  # generateName: always a new object
            return Applied(item, "created", self._create(kind, namespace, wanted))
        for left in reversed(range(_TRIES)):
            try:
                return self._once(item, kind, namespace, wanted)
            except ServerError as error:
                # Someone else created, changed or deleted it after it was read, so read it again.
                if error.reason not in {"Conflict", "AlreadyExists"} or not left:
                    raise
        raise CliError("unreachable")

    def _by_the_server(
        self, item: Manifest, kind: ServedKind, namespace: str, wanted: last_applied.WantedObject
    ) -> Applied:
        if not item.name:
            raise CliError("metadata.name: Required value: name is required")
        after = self.client.patch(
            kind, namespace, item.name, wanted.plain, content_type=APPLY_PATCH, options=self.way.parameters
        )
        return Applied(item, "serverside-applied", after)

    def _once(self, item: Manifest, kind: ServedKind, namespace: str, wanted: last_applied.WantedObject) -> Applied:
        try:
            before = self.client.get(kind, namespace, item.name)
        except ServerError as error:
            if error.reason != "NotFound":
                raise
            return Applied(item, "created", self._create(kind, namespace, wanted))
        change = last_applied.change(before, wanted, kind)
        if not change:
            return Applied(item, "unchanged", before)
        if self.way.dry_run == options.CLIENT:
            return Applied(item, "configured", last_applied.changed(before, change))
        version = _version(before)
        metadata = {**(change.get("metadata") or {}), "resourceVersion": version}
        change = {**change, "metadata": metadata}
        after = self.client.patch(kind, namespace, item.name, change, options=self.way.parameters)
        # What is only tried has no new version.
        same = _version(after) == version if self.way.dry_run == options.NONE else after == before
        return Applied(item, "unchanged" if same else "configured", after)

    def _create(self, kind: ServedKind, namespace: str, wanted: last_applied.WantedObject) -> JsonObject:
        if self.way.dry_run == options.CLIENT:
            return wanted.annotated
        return self.client.create(kind, namespace, wanted.annotated, options=self.way.parameters)


def _version(document: Mapping[str, Any]) -> str:
    return str((document.get("metadata") or {}).get("resourceVersion") or "")


def _name(document: Mapping[str, Any]) -> str:
    return str((document.get("metadata") or {}).get("name") or "")
