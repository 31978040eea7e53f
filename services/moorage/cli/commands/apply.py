"""`moorage apply`: create or change the objects in files."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from moorage.cli import completion
from moorage.cli.api import manifests, targets
from moorage.cli.api.client import Client, JsonObject
from moorage.cli.api.endpoints import connect
from moorage.cli.api.manifests import Manifest
from moorage.cli.errors import FAILED, CliError, ServerError, UnreachableError, warn
from moorage.cli.render import output
from moorage.kinds.kind import AFTER_ALL, ServedKind

LAST_APPLIED = "moorage.io/last-applied-configuration"
"""Annotation with the applied object, so that a field that a later file leaves out is removed."""

_TARGETS = frozenset(kind.kind for kind in targets.KINDS)

_SERVERS = frozenset({"resourceVersion", "uid", "creationTimestamp", "generation", "managedFields", "selfLink"})
"""The fields of metadata that the server sets. A manifest that was read from a server may still have them."""

_WORKERS = 8
_TRIES = 8


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
    files: Annotated[
        list[str],
        typer.Option(
            "-f",
            "--filename",
            help="A file, a folder, or - for standard input. Repeatable.",
            autocompletion=completion.manifests,
        ),
    ],
    namespace: Annotated[
        str,
        typer.Option(
            "-n", "--namespace", help="Namespace of objects that name none.", autocompletion=completion.namespaces
        ),
    ] = "default",
    recursive: Annotated[bool, typer.Option("-R", "--recursive", help="Read subfolders, too.")] = False,
    form: output.FormatOption = output.Format.TABLE,
) -> None:
    """Create or change the objects in files."""
    good, refused = manifests.read(files, recursive=recursive)
    failed = bool(refused)
    for document in refused:
        warn(str(document))
    shown: list[JsonObject] = []
    with connect(ctx) as client:
        for done in apply_all(client, good, namespace):
            if done.error:
                failed = True
                warn(done.error)
            elif form in {output.Format.JSON, output.Format.YAML}:
                shown.append(done.object)
            else:
                kind = done.manifest.kind
                name = done.manifest.name or _name(done.object)
                called = kind.called(name) if kind else name
                output.line(called if form is output.Format.NAME else f"{called} {done.word}")
    if shown:
        whole = shown[0] if len(shown) == 1 else {"apiVersion": "v1", "kind": "List", "items": shown}
        output.write(output.document(whole, form))
    if failed:
        raise typer.Exit(FAILED)


def apply_all(
    client: Client, items: Iterable[Manifest], namespace: str = "default", *, workers: int = _WORKERS
) -> Iterable[Applied]:
    """Apply manifests, several at a time, and yield the outcomes. Objects that others depend on come first."""
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
            work: Callable[[list[Manifest]], list[Applied]] = lambda lane: [  # noqa: E731 - binds client and namespace
                _apply_one(client, item, namespace) for item in lane
            ]
            for lane in pool.map(work, lanes.values()):
                yield from lane


def _rank(item: Manifest) -> int:
    return item.kind.definition.apply_order if item.kind else AFTER_ALL


def _apply_one(client: Client, item: Manifest, default: str) -> Applied:
    try:
        return _create_or_change(client, item, default)
    except UnreachableError:
        raise
    except ServerError as error:
        if error.reason == "ServiceUnavailable":
            raise  # it concerns none of the objects, and would be repeated for each
        return Applied(item, "", {}, f"error when applying {item.place}: {error}")
    except CliError as error:
        return Applied(item, "", {}, f"error when applying {item.place}: {error}")


def _create_or_change(client: Client, item: Manifest, default: str) -> Applied:
    kind = item.kind
    if kind is None:
        raise CliError("kind is not known")
    namespace = item.namespace(default)
    document = wanted(item, kind, namespace)
    if kind.read_only:  # the server accepts it if it agrees with what has been decided
        return Applied(item, "unchanged", client.create(kind, namespace, dict(item.document)))
    if not item.name:  # generateName: always a new object
        return Applied(item, "created", client.create(kind, namespace, document))
    for left in reversed(range(_TRIES)):
        try:
            return _once(client, kind, namespace, item, document)
        except ServerError as error:
            # Someone else created, changed or deleted it after it was read, so read it again.
            if error.reason not in {"Conflict", "AlreadyExists"} or not left:
                raise
    raise CliError("unreachable")


def _once(client: Client, kind: ServedKind, namespace: str, item: Manifest, document: JsonObject) -> Applied:
    try:
        before = client.get(kind, namespace, item.name)
    except ServerError as error:
        if error.reason != "NotFound":
            raise
        return Applied(item, "created", client.create(kind, namespace, document))
    change = difference(before, document)
    if not change:
        return Applied(item, "unchanged", before)
    after = client.patch(kind, namespace, item.name, change)
    same = _version(after) == _version(before)
    return Applied(item, "unchanged" if same else "configured", after)


def wanted(item: Manifest, kind: ServedKind, namespace: str) -> JsonObject:
    """Return the object to send for a manifest, with its namespace and the annotation."""
    document = dict(item.document)
    metadata = {name: value for name, value in (document.get("metadata") or {}).items() if name not in _SERVERS}
    if kind.namespaced:
        metadata["namespace"] = namespace
    document["metadata"] = metadata
    if isinstance(document.get("status"), dict):
        # A node's capacity is declared. Its conditions are reported, never applied.
        document["status"] = {name: value for name, value in document["status"].items() if name != "conditions"}
    # A file that was made with `get` contains the last annotation. If it were kept, it would grow with each round.
    annotations = {key: value for key, value in (metadata.get("annotations") or {}).items() if key != LAST_APPLIED}
    if annotations or "annotations" in metadata:
        metadata["annotations"] = annotations
    applied = json.dumps(document, separators=(",", ":"), sort_keys=True)
    metadata["annotations"] = {**annotations, LAST_APPLIED: applied}
    return document


def difference(before: Mapping[str, Any], document: Mapping[str, Any]) -> JsonObject:
    """Return the merge patch from the present object to the wanted one. Empty if nothing differs.

    Fields that the server or others have set stay. Fields that were applied last time and are left out now are removed.
    The same holds for each taint of a target: one that was applied and is left out is removed, all others stay.
    """
    last = _last_applied(before)
    kind = document.get("kind")
    return _merge(before, document, last, taints=kind in _TARGETS, longer=kind == "Pod")


def _merge(
    before: Mapping[str, Any], new: Mapping[str, Any], last: Mapping[str, Any], *, taints: bool, longer: bool
) -> JsonObject:
    change: JsonObject = {}
    for name, value in new.items():
        had = before.get(name)
        was = last.get(name)
        if isinstance(value, dict) and isinstance(had, dict):
            inner = _merge(had, value, was if isinstance(was, dict) else {}, taints=taints, longer=longer)
            if inner:
                change[name] = inner
        elif taints and name == "taints" and isinstance(value, list):
            merged = _merge_taints(had or [], value, was or [])
            if merged != (had or []):
                change[name] = merged
        elif not _same(had, value, longer=longer) or (isinstance(value, list) and name in last and was != value):
            change[name] = value
    for name, value in last.items():
        if name not in new and name in before:
            if taints and name == "taints" and isinstance(value, list):
                change[name] = _merge_taints(before[name], [], value)
            else:
                change[name] = None
    return change


def _same(had: Any, value: Any, *, longer: bool) -> bool:
    """Return whether the server's value is the same, apart from defaults that it has filled in in objects of a list.

    Args:
        had: the server's value.
        value: the file's value.
        longer: whether the server's lists may have more at the end. Those of a pod may, because admission adds to them
            and nothing can be removed from them. For other kinds the object is sent, admission gives the same
            result again, and the server answers that nothing has changed.
    """
    if isinstance(value, dict):
        return isinstance(had, dict) and all(_same(had.get(name), part, longer=longer) for name, part in value.items())
    if isinstance(value, list) and isinstance(had, list):
        whole = len(had) >= len(value) if longer else len(had) == len(value)
        return whole and all(_same(h, v, longer=longer) for h, v in zip(had, value, strict=False))
    return bool(had == value) or (had is None and value in ({}, [], "", None))


def _merge_taints(had: list[JsonObject], new: list[JsonObject], was: list[JsonObject]) -> list[JsonObject]:
    """Merge taints by key and effect: add new ones, and remove those of last time that are left out."""

    def identity(taint: JsonObject) -> tuple[Any, Any]:
        return (taint.get("key"), taint.get("effect"))

    asked = {identity(taint): taint for taint in new}
    dropped = {identity(taint) for taint in was} - set(asked)
    merged = []
    for taint in had:
        if identity(taint) in dropped:
            continue
        ask = asked.pop(identity(taint), None)
        merged.append(taint if ask is None or (ask.get("value") or "") == (taint.get("value") or "") else ask)
    return [*merged, *asked.values()]


def _last_applied(before: Mapping[str, Any]) -> JsonObject:
    try:
        last = json.loads(_annotation(before) or "{}")
    except ValueError:
        return {}
    return last if isinstance(last, dict) else {}


def _annotation(document: Mapping[str, Any]) -> str:
    annotations = (document.get("metadata") or {}).get("annotations") or {}
    return str(annotations.get(LAST_APPLIED) or "")


def _version(document: Mapping[str, Any]) -> str:
    return str((document.get("metadata") or {}).get("resourceVersion") or "")


def _name(document: Mapping[str, Any]) -> str:
    return str((document.get("metadata") or {}).get("name") or "")
