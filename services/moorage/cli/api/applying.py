"""Server-side apply: the gateway merges a manifest into an object, and records which fields it has set.

Objects that were applied by a client before, by `kubectl apply` or an earlier `moorage apply`, have an annotation with
what was applied. The fields of its manager become fields of this apply first, as kubectl does it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final

from moorage.apiserver.kinds.kind import AFTER_ALL, ServedKind
from moorage.apiserver.machinery.patching.field_sets import SELF, union
from moorage.cli.api.client import APPLY_PATCH, JSON_PATCH, Client, JsonObject
from moorage.cli.api.manifests import Manifest
from moorage.cli.errors import CliError, ServerError, UnreachableError
from moorage.decide.kubernetes.unstructured import at

MANAGER: Final = "moorage"
"""The manager of fields that are applied, unless another is named."""

ANNOTATIONS: Final = frozenset(
    {"kubectl.kubernetes.io/last-applied-configuration", "moorage.io/last-applied-configuration"}
)
"""The annotations in which clients keep what they have applied: kubectl's, and that of earlier versions of Moorage."""

_SERVERS: Final = frozenset({"resourceVersion", "uid", "creationTimestamp", "generation", "managedFields", "selfLink"})
"""The fields of metadata that the server sets. A manifest that was read from a server may still have them."""

_ADVICE: Final = """
Please review the fields above--they currently have other managers. Here
are the ways you can resolve this warning:
* If you intend to manage all of these fields, please re-run the apply
  command with the `--force-conflicts` flag.
* If you do not intend to manage all of the fields, please edit your
  manifest to remove references to the fields that should keep their
  current managers.
* You may co-own fields by updating your manifest to match the existing
  value; in this case, you'll become the manager if the other manager(s)
  stop managing the field (remove it from their configuration).
See https://kubernetes.io/docs/reference/using-api/server-side-apply/#conflicts"""

_WORKERS: Final = 8
_TRIES: Final = 8


@dataclass(frozen=True, slots=True)
class Applied:
    """The outcome for one manifest."""

    manifest: Manifest
    word: str
    """`created`, `configured` or `unchanged`. Empty if it failed."""

    object: JsonObject
    error: str = ""


def apply_all(
    client: Client,
    items: Iterable[Manifest],
    namespace: str = "default",
    *,
    workers: int = _WORKERS,
    options: Mapping[str, str] | None = None,
) -> Iterable[Applied]:
    """Apply manifests, several at a time, and yield the outcomes. Objects that others depend on come first.

    `fieldManager` is `MANAGER` if it is not among the `options`, the query parameters of each write.
    """
    applier = _Applier(client, namespace, {"fieldManager": MANAGER, **(options or {})})
    stages: dict[int, list[Manifest]] = {}
    for item in items:
        stages.setdefault(item.kind.definition.apply_order if item.kind else AFTER_ALL, []).append(item)
    with ThreadPoolExecutor(workers) as pool:
        for rank in sorted(stages):
            # An object that occurs twice is applied in the order of the files.
            lanes: dict[tuple[str, str, str], list[Manifest]] = {}
            for item in stages[rank]:
                kind = item.kind.kind if item.kind else ""
                lanes.setdefault((kind, item.namespace(namespace), item.name), []).append(item)
            for lane in pool.map(applier.in_order, lanes.values()):
                yield from lane


def configuration(item: Manifest, kind: ServedKind, namespace: str) -> JsonObject:
    """Return what a manifest declares: the object with its namespace, without what only the server or clients set.

    `namespace` is that of objects that name none.
    """
    document = dict(item.document)
    metadata = {name: value for name, value in (document.get("metadata") or {}).items() if name not in _SERVERS}
    if kind.namespaced:
        metadata["namespace"] = namespace
    if metadata.get("annotations"):
        metadata["annotations"] = {
            key: value for key, value in metadata["annotations"].items() if key not in ANNOTATIONS
        }
    if isinstance(document.get("status"), dict):
        # A node's capacity is declared. Its conditions are reported, never applied.
        document["status"] = {name: value for name, value in document["status"].items() if name != "conditions"}
    return {**document, "metadata": metadata}


def is_same(before: Mapping[str, Any], after: Mapping[str, Any], manager: str) -> bool:
    """Return whether an apply by a manager has changed nothing.

    The fields that it owned before or owns now decide. Others may have changed meanwhile: a pod has been bound, say.
    Answers without owners are compared as a whole.
    """
    had, has = (at(one, "metadata", "managedFields") or () for one in (before, after))
    if not has:
        return before == after
    owned: JsonObject = {}
    for entry in (*had, *has):
        if (entry.get("manager"), entry.get("operation")) == (manager, "Apply") or _is_of_client(entry):
            owned = union(owned, entry.get("fieldsV1") or {})
    return not owned or bool(_part(before, owned) == _part(after, owned))


def _part(value: Any, fields: Mapping[str, Any]) -> Any:
    """Return the part of a value that a set of fields names."""
    if all(key == SELF for key in fields):
        return value
    if isinstance(value, Mapping):
        return {key: _part(value[key[2:]], below) for key, below in fields.items() if key[2:] in value}
    return {
        key: [_part(one, below) for one in value if _is_element(one, key)]
        for key, below in fields.items()
        if isinstance(value, list) and key != SELF
    }


def _is_element(value: Any, key: str) -> bool:
    """Return whether an element of a list is the one that `managedFields` names so."""
    named = json.loads(key[2:])
    if key[0] == "k":
        return isinstance(value, Mapping) and named.items() <= value.items()
    return bool(value == named)


def adopted(entries: Iterable[Mapping[str, Any]], manager: str) -> list[JsonObject] | None:
    """Return `managedFields` in which an apply by a client is one by the server. None if there was none."""
    kept: list[JsonObject] = []
    own: dict[str, JsonObject] = {}
    clients: list[Mapping[str, Any]] = []
    for entry in entries:
        if _is_of_client(entry):
            clients.append(entry)
        elif (entry.get("manager"), entry.get("operation"), entry.get("subresource")) == (manager, "Apply", None):
            own[str(entry.get("apiVersion"))] = dict(entry)
        else:
            kept.append(dict(entry))
    if not clients:
        return None
    for entry in clients:
        version = str(entry.get("apiVersion"))
        fields = union(own.get(version, {}).get("fieldsV1") or {}, entry.get("fieldsV1") or {})
        own[version] = {**entry, "manager": manager, "operation": "Apply", "fieldsV1": fields}
    return [*own.values(), *kept]


def _is_of_client(entry: Mapping[str, Any]) -> bool:
    """Return whether an entry is of a manager that has written one of the annotations."""
    if entry.get("operation") != "Update" or entry.get("subresource"):
        return False
    annotations = at(entry, "fieldsV1", "f:metadata", "f:annotations") or {}
    return any(f"f:{name}" in annotations for name in ANNOTATIONS)


@dataclass(frozen=True, slots=True)
class _Applier:
    """Applies one manifest after another."""

    client: Client
    default: str
    """The namespace of objects that name none."""

    options: Mapping[str, str]

    def in_order(self, items: Iterable[Manifest]) -> list[Applied]:
        """Apply manifests. What is wrong with one is part of its outcome."""
        return [self._outcome(item) for item in items]

    def _outcome(self, item: Manifest) -> Applied:
        try:
            return self._apply(item)
        except UnreachableError:
            raise
        except CliError as error:
            if isinstance(error, ServerError) and error.reason == "ServiceUnavailable":
                raise  # it concerns none of the objects, and would be repeated for each
            causes = error.details.get("causes") if isinstance(error, ServerError) else None
            is_conflict = any(one.get("reason") == "FieldManagerConflict" for one in causes or ())
            return Applied(item, "", {}, f"error when applying {item.place}: {error}{_ADVICE if is_conflict else ''}")

    def _apply(self, item: Manifest) -> Applied:
        kind = item.kind
        if kind is None:
            raise CliError("kind is not known")
        namespace = item.namespace(self.default)
        if kind.read_only:  # the server accepts it if it agrees with what has been decided
            return Applied(item, "unchanged", self.client.create(kind, namespace, dict(item.document)))
        sent, options = configuration(item, kind, namespace), dict(self.options)
        if not item.name:  # generateName: always a new object
            options.pop("force", None)
            return Applied(item, "created", self.client.create(kind, namespace, sent, options=options))
        before = self.client.find(kind, namespace, item.name)
        if before is not None and not self._is_owned(kind, namespace, before):
            options["force"] = "true"
        after = self.client.patch(kind, namespace, item.name, sent, content_type=APPLY_PATCH, options=options)
        if before is None:
            return Applied(item, "created", after)
        unchanged = is_same(before, after, self.options["fieldManager"])
        return Applied(item, "unchanged" if unchanged else "configured", after)

    def _is_owned(self, kind: ServedKind, namespace: str, found: JsonObject) -> bool:
        """Take over what a client has applied, and return whether the fields of others are theirs.

        They are not if no owners of fields are recorded, as of objects that the gateway makes, and if what a client has
        applied cannot be taken over because the apply is only tried.
        """
        manager = self.options["fieldManager"]
        for left in reversed(range(_TRIES)):
            entries = at(found, "metadata", "managedFields") or ()
            taken = adopted(entries, manager)
            if taken is None or "dryRun" in self.options:
                return bool(entries) and taken is None
            name, version = (at(found, "metadata", field) for field in ("name", "resourceVersion"))
            change = [
                {"op": "replace", "path": "/metadata/managedFields", "value": taken},
                {"op": "replace", "path": "/metadata/resourceVersion", "value": version},
            ]
            try:
                self.client.patch(
                    kind, namespace, name, change, content_type=JSON_PATCH, options={"fieldManager": manager}
                )
            except ServerError as error:
                # Someone else changed it after it was read, so read it again.
                if error.reason != "Conflict" or not left:
                    raise
                found = self.client.get(kind, namespace, name)
            else:
                break
        return True
