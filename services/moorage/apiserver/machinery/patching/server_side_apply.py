"""Server-side apply, and who owns which field after every other write.

Each manager owns the fields that it has set. An **apply** merges a configuration into the live object. The manager owns
what the configuration declares. If it changes a field of another manager, that is a conflict, unless it is forced. What
it declared before and no longer does is removed, unless another manager owns it as well. An **update** is every other
write. Its manager owns what it changes, and all other managers lose it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any, Final

import orjson

from moorage.apiserver.machinery.patching import field_sets as sets
from moorage.apiserver.machinery.patching import managed_fields as managed
from moorage.apiserver.machinery.patching import typed_values as typed
from moorage.apiserver.machinery.patching.errors import CONFLICT, PatchCause, PatchError, bad_patch, shown, type_name
from moorage.apiserver.machinery.patching.field_sets import FieldSet
from moorage.apiserver.machinery.patching.managed_fields import APPLY, UPDATE, Entries, ManagedEntry
from moorage.apiserver.machinery.patching.merge_patch import without_nulls
from moorage.apiserver.machinery.patching.typed_values import UntypedError, compared
from moorage.apiserver.machinery.schema import Form, ListType, Schema

Document = dict[str, Any]

LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
"""The annotation in which a client-side apply keeps what it applied."""

_KUBECTL: Final = "kubectl"
"""The manager of `kubectl apply --server-side`."""

_BEFORE: Final = "before-first-apply"
"""The manager of an object's fields from before any manager was known."""

_UNKNOWN: Final = "unknown"
_REMOVED: Final[list[Any]] = [{}]
"""`managedFields` that remove all managers. An empty list does it as well."""

_CURRENT: Final = "FieldManagerConflict"
_LONGEST_ANNOTATIONS: Final = 256 << 10  # bytes of the names and values of all annotations together

_NEVER_OWNED: Final = sets.make(
    ("apiVersion",),
    ("kind",),
    ("metadata",),
    *(
        ("metadata", name)
        for name in (
            "name",
            "namespace",
            "creationTimestamp",
            "selfLink",
            "uid",
            "clusterName",
            "generation",
            "managedFields",
            "resourceVersion",
        )
    ),
)

_STATUS_KEEPS: Final[Mapping[tuple[str, str], tuple[tuple[str, ...], ...]]] = {
    ("", "Pod"): (("spec",), ("metadata", "deletionTimestamp"), ("metadata", "ownerReferences")),
    ("apps", "Deployment"): (("spec",), ("metadata", "labels")),
}
"""The fields that a write of `status` cannot set, where they are not `spec` alone (`GetResetFields`)."""


def reset_fields(
    group: str, kind: str, subresource: str, *, has_status: bool, is_custom: bool = False
) -> tuple[tuple[str, ...], ...]:
    """Return the fields that a request cannot set, so that it never owns them.

    `subresource` is empty for the object itself. `status` of a custom resource cannot set its metadata either.
    """
    if not has_status:
        return ()
    if subresource != "status":
        return (("status",),)
    if is_custom:
        return (("metadata",), ("spec",))
    return _STATUS_KEEPS.get((group, kind), (("spec",),))


class FieldManagement:
    """Applies and records the writes of one kind, through the object itself or one of its subresources.

    It is made once for each of them and keeps nothing of the objects. No document that it is given is changed; what it
    returns may share parts with them.
    """

    def __init__(
        self,
        schema: Schema,
        api_version: str,
        kind: str,
        *,
        subresource: str = "",
        reset: Iterable[tuple[str, ...]] = (),
        is_custom: bool = False,
        as_declared: Callable[[Mapping[str, Any]], Document] | None = None,
        as_shown: Callable[[Document, Mapping[str, Any]], Document] | None = None,
        with_defaults: Callable[[Document], Document] | None = None,
    ) -> None:
        """Prepare for a kind.

        Args:
            schema: the schema of the kind.
            api_version: the group and version of the requests: `apps/v1`.
            kind: the kind.
            subresource: the subresource that is written, for entries. Empty for the object itself.
            reset: the fields that such requests cannot set: `reset_fields`.
            is_custom: whether it is a custom resource. A new one is compared with nothing, one of the other kinds with
                its type as it is when it is empty.
            as_declared: an object without what the server adds to fields that clients set. No manager owns that, and
                it is no change.
            as_shown: such an object with what the server has added to the live one, which is given as well.
            with_defaults: an object with the values of the fields that it leaves out. Who creates or replaces it owns
                them, although they are not stored.
        """
        self._schema = schema
        self._as_declared = as_declared or dict
        self._as_shown = as_shown or (lambda document, _live: document)
        self._with_defaults = with_defaults or dict
        self._api_version = api_version
        self._kind = kind
        self._subresource = subresource
        self._reset = sets.make(*reset)
        self._is_custom = is_custom
        self._empty = {} if is_custom else typed.empty(schema)

    def updated(self, live: Mapping[str, Any] | None, new: Mapping[str, Any], manager: str, now: datetime) -> Document:
        """Return the new state of an object with `managedFields` after a create, replace or patch.

        Of a kind that is built into upstream's server, empty fields and nulls are left out that its type leaves out.

        An object that exists and has no `managedFields` gets none: they were removed, and the next apply
        begins anew. A list that is empty, or has one empty entry, removes them. Other `managedFields` that the request
        has itself are taken as the present ones.

        Args:
            live: the object as it was, with its `managedFields`. None if it is created.
            new: the object as it will be stored. Of its `managedFields`, the live ones count if
                they are absent or malformed, or a subresource is written.
            manager: who writes (`managed_fields.manager_of`).
            now: the present time.
        """
        entries = self._present(live, new)
        before, after = self._empty if live is None else _bare(live), _bare(new)
        if not self._is_custom and after != before:
            after = self._shown(after)
        if not entries and live is not None:
            return after
        try:
            before, new = self._as_declared(before), self._as_declared(self._with_defaults(after))
            entries = self._recorded(entries, before, new, manager, managed.rfc3339(now))
        except UntypedError:
            entries = managed.kept(live or {})
        return _with(after, entries)

    def applied(
        self,
        live: Mapping[str, Any] | None,
        config: Mapping[str, Any],
        manager: str,
        now: datetime,
        *,
        force: bool = False,
    ) -> Document:
        """Return the object after a server-side apply, with `managedFields`. It equals the live one if nothing changes.

        The result is what the configuration makes of the live object. Defaults still have to be filled in.

        Args:
            live: the object as it is, with its `managedFields`. None if it is created.
            config: what the manager declares: the request's body.
            manager: who applies (`fieldManager`, which an apply must have).
            now: the present time.
            force: whether fields of other managers are taken over.

        Raises:
            PatchError: 409 if fields of other managers would change, with a cause for each; 400 if the configuration
                does not fit the schema, has `managedFields`, or is of another kind or version.
        """
        self._check(config)
        before = {} if live is None else self._as_declared(_bare(live))
        entries = managed.kept(live or {})
        time = managed.rfc3339(now)
        if live is not None and not entries:
            entries = self._recorded({}, self._empty, before, _BEFORE, time)
        after, then, refused = self._merged(before, config, entries, manager or _UNKNOWN, time, force=force)
        if refused and manager == _KUBECTL:
            # Fields that a client-side apply declared, and no manager has changed since, are kubectl's own.
            mine = self._applied_before(before)
            refused = [(entry, path) for entry, path in refused if not sets.has(mine, path)]
            if not refused:
                after, then, _ = self._merged(before, config, entries, manager, time, force=True)
        if refused:
            raise _conflict(refused)
        if manager == _KUBECTL:
            after = _with_last_applied(after, config)
        if live is not None:
            after = _bare(live) if after == before else self._as_shown(after, live)
        return _with(after, then)

    def _shown(self, document: Document) -> Document:
        """Return a document as the API shows it."""
        shown: Document = without_nulls(document) if self._is_custom else typed.as_typed(document, self._schema)
        return shown

    # Updates

    def _present(self, live: Mapping[str, Any] | None, new: Mapping[str, Any]) -> Entries:
        """Return the entries before a write."""
        if self._subresource and live is not None:
            return managed.kept(live)
        metadata, was = new.get("metadata"), (live or {}).get("metadata")
        if isinstance(metadata, Mapping) and isinstance(was, Mapping):
            entries = metadata.get("managedFields")
            if entries is None or entries == was.get("managedFields"):
                return managed.kept(live or {})
            if entries == _REMOVED:
                return {}
        found = managed.sent(new)
        return managed.kept(live or {}) if found is None else found

    def _recorded(
        self, entries: Entries, before: Mapping[str, Any], after: Mapping[str, Any], manager: str, time: str
    ) -> Entries:
        change = compared(before, after, self._schema)
        set_ = sets.without(sets.union(change.modified, change.added), self._reset)
        gone = sets.without(change.removed, self._reset)
        if set_ or gone:
            entries = _disowned(entries, set_, gone)
        mine = sets.difference(set_, _NEVER_OWNED)
        if not mine:
            return entries
        entry = ManagedEntry(manager or _UNKNOWN, UPDATE, self._api_version, self._subresource, mine, time)
        had = entries.get(entry.key)
        fields = sets.ordered(mine if had is None else sets.union(mine, had.fields))
        return managed.capped({**entries, entry.key: replace(entry, fields=fields)})

    # Applies

    def _check(self, config: Mapping[str, Any]) -> None:
        api_version, kind = config.get("apiVersion"), config.get("kind")
        if (api_version, kind) != (self._api_version, self._kind):
            raise bad_patch(f"invalid object type: {_qualified(api_version, kind)}")
        metadata = config.get("metadata")
        metadata = metadata if isinstance(metadata, Mapping) else {}
        if metadata.get("managedFields") is not None:
            raise bad_patch("metadata.managedFields must be nil")
        if errors := errors_in(config, self._schema):
            object_ = f"{metadata.get('namespace') or ''}/{metadata.get('name') or ''}"
            text = errors[0] if len(errors) == 1 else "\n  ".join(("errors:", *errors))
            raise bad_patch(f"failed to create typed patch object ({object_}; {_qualified(api_version, kind)}): {text}")

    def _merged(
        self, before: Document, config: Mapping[str, Any], entries: Entries, manager: str, time: str, *, force: bool
    ) -> tuple[Document, Entries, list[tuple[ManagedEntry, tuple[str, ...]]]]:
        """Return the object and its entries after an apply, and the conflicts if it is not forced."""
        schema = self._schema
        fields = sets.without(typed.declared(config, schema), self._reset)
        entry = ManagedEntry(manager, APPLY, self._api_version, self._subresource, fields, "")
        had = entries.get(entry.key)
        entries = {**entries, entry.key: entry}
        try:
            after: Document = typed.merged(before, config, schema)
            if had is not None:
                after = self._pruned(after, had.fields, entries)
            change = compared(before, after, schema)
        except UntypedError as error:
            raise bad_patch(f"failed to merge config: {error}") from None
        set_ = sets.without(sets.union(change.modified, change.added), self._reset)
        gone = sets.without(change.removed, self._reset)
        others = {key: one for key, one in entries.items() if key != entry.key}
        if not force:
            refused = [
                (one, path)
                for one in sorted(others.values(), key=lambda one: one.identifier)
                for path in sets.members(sets.intersection(one.fields, set_))
            ]
            if refused:
                return before, others, refused
        entries = _disowned(others, set_, gone)
        is_same = after == before
        after = before if is_same else self._shown(after)
        mine = sets.ordered(sets.difference(fields, _NEVER_OWNED))
        if mine:
            was = had.time if had is not None else ""
            entries[entry.key] = replace(entry, fields=mine, time=was if is_same else time)
        return after, entries, []

    def _pruned(self, after: Document, had: FieldSet, entries: Entries) -> Document:
        """Return the object without what the manager applied before, applies no longer, and no other manager owns."""
        schema = self._schema
        owned = managed.owned(entries.values())
        if not sets.difference(had, owned):
            return after
        named = typed.with_named_fields
        last = named(had, schema)
        all_ = named(typed.declared(after, schema), schema)
        left: Any = typed.removed(after, last, schema)
        stays = sets.union(named(typed.declared(left, schema), schema), named(owned, schema))
        left = typed.removed(after, sets.difference(all_, stays), schema)
        gone = sets.intersection(sets.difference(all_, named(typed.declared(left, schema), schema)), last)
        result: Document = typed.removed(after, gone, schema) or {}
        return result

    def _applied_before(self, live: Document) -> FieldSet:
        """Return the fields of the last client-side apply that are as it declared them."""
        metadata = live.get("metadata")
        annotations = metadata.get("annotations") if isinstance(metadata, Mapping) else None
        text = annotations.get(LAST_APPLIED) if isinstance(annotations, Mapping) else None
        try:
            last = orjson.loads(text or "")
            if not isinstance(last, dict) or last.get("apiVersion") != self._api_version:
                return {}
            if errors_in(last, self._schema) or errors_in(live, self._schema):
                return {}
            change = compared(last, live, self._schema)
        except ValueError:
            return {}
        fields = typed.declared(last, self._schema)
        for changed in (change.modified, change.added, change.removed):
            fields = sets.difference(fields, changed)
        return fields


def _disowned(entries: Entries, set_: FieldSet, gone: FieldSet) -> Entries:
    """Return the entries without the fields that another manager has set or removed."""
    result: Entries = {}
    for key, entry in entries.items():
        fields = sets.difference(sets.difference(entry.fields, set_), gone)
        if fields:
            result[key] = entry if fields is entry.fields else replace(entry, fields=fields)
    return result


def _conflict(refused: list[tuple[ManagedEntry, tuple[str, ...]]]) -> PatchError:
    """409: the fields that belong to others, each as a cause, and all of them in the message."""
    written = [(entry, "".join(sets.written(key) for key in path)) for entry, path in refused]
    causes = tuple(PatchCause(_CURRENT, f"conflict with {entry.written}", path) for entry, path in written)
    if len(written) == 1:
        ((entry, path),) = written
        message = f"Apply failed with 1 conflict: conflict with {entry.written}: {path}"
    else:
        lines: dict[str, list[str]] = {}
        for entry, path in written:
            lines.setdefault(f"conflicts with {entry.written}:", []).append(f"- {path}")
        text = "\n".join(line for head, paths in lines.items() for line in (head, *paths))
        message = f"Apply failed with {len(written)} conflicts: {text}"
    return PatchError(409, CONFLICT, message, causes)


def _with_last_applied(after: Document, config: Mapping[str, Any]) -> Document:
    """Keep the annotation of client-side applies in step, if the object has one."""
    metadata = after.get("metadata", {})
    annotations = metadata.get("annotations", {})
    if not annotations.get(LAST_APPLIED):
        return after
    declared = dict(config)
    about = config.get("metadata")
    if isinstance(about, Mapping) and isinstance(about.get("annotations"), Mapping):
        kept = {key: value for key, value in about["annotations"].items() if key != LAST_APPLIED}
        declared["metadata"] = {**about, "annotations": kept}
    text = json.dumps(declared, sort_keys=True, separators=(",", ":"), ensure_ascii=False) + "\n"
    annotations = {**annotations, LAST_APPLIED: text}
    if sum(len(key.encode()) + len(value.encode()) for key, value in annotations.items()) > _LONGEST_ANNOTATIONS:
        del annotations[LAST_APPLIED]
    return {**after, "metadata": {**metadata, "annotations": annotations}}


def _bare(document: Mapping[str, Any]) -> Document:
    """Return a document without `managedFields`."""
    metadata = document.get("metadata")
    if not isinstance(metadata, Mapping) or "managedFields" not in metadata:
        return dict(document)
    return {**document, "metadata": {key: value for key, value in metadata.items() if key != "managedFields"}}


def _with(document: Document, entries: Entries) -> Document:
    if not entries:
        return document
    return {**document, "metadata": {**document.get("metadata", {}), "managedFields": managed.listed(entries)}}


def _qualified(api_version: Any, kind: Any) -> str:
    """Return a kind as Kubernetes' messages show it: `apps/v1, Kind=Deployment`."""
    text = api_version if isinstance(api_version, str) else ""
    return f"{text if '/' in text else f'/{text}'}, Kind={kind if isinstance(kind, str) else ''}"


_OBJECTS: Final = frozenset({Form.STRUCT, Form.MAP})
_STRING_FORMATS: Final = frozenset({"", "byte"})


def errors_in(document: Any, schema: Schema) -> list[str]:
    """Return the errors of a document by its schema, with paths. Of unknown fields, the first of each object."""
    return list(_errors(document, schema, ""))


def _errors(value: Any, schema: Schema, path: str) -> Iterator[str]:
    form = schema.form
    if value is None:
        return
    if form in _OBJECTS or (form is Form.ANY and isinstance(value, dict)):
        if not isinstance(value, dict):
            yield _error(path, f"expected map, got &{{{shown(value)}}}")
            return
        for key, inner in value.items():
            if form is Form.STRUCT and key not in schema.fields and not schema.keeps_unknown:
                yield _error(f"{path}.{key}", "field not declared in schema")
                return
            yield from _errors(inner, typed.at(schema, key), f"{path}.{key}")
    elif form is Form.LIST or (form is Form.ANY and isinstance(value, list)):
        if not isinstance(value, list):
            yield _error(path, f"expected list, got &{{{shown(value)}}}")
        elif form is Form.ANY or schema.list_type is ListType.ATOMIC:
            for number, inner in enumerate(value):
                yield from _errors(inner, typed.item_schema(schema), f"{path}[{number}]")
        else:
            yield from _errors_of_elements(value, schema, path)
    else:
        yield from _errors_of_scalar(value, schema, path)


def _errors_of_elements(value: list[Any], schema: Schema, path: str) -> Iterator[str]:
    try:
        elements = typed.elements(value, schema)
    except UntypedError as error:
        yield _error(path, str(error))
        return
    seen: set[str] = set()
    for element, inner in zip(elements, value, strict=True):
        (written,) = sets.paths({element: {}})
        if element in seen:
            yield _error(path, f"duplicate entries for key {written}")
        seen.add(element)
        yield from _errors(inner, typed.item_schema(schema), f"{path}{written}")


def _errors_of_scalar(value: Any, schema: Schema, path: str) -> Iterator[str]:
    form = schema.form
    is_scalar = isinstance(value, (str, bool, int, float))
    if form in {Form.INTEGER, Form.NUMBER}:
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            yield _error(path, f"expected numeric (int or float), got {type_name(value)}")
    elif form is Form.STRING and schema.format in _STRING_FORMATS:
        if not isinstance(value, str):
            yield _error(path, f"expected string, got &value.valueUnstructured{{Value:{_go_value(value)}}}")
    elif form is Form.BOOLEAN:
        if not isinstance(value, bool):
            yield _error(path, f"expected boolean, got &{{{shown(value)}}}")
    elif not is_scalar:
        yield _error(path, f"expected any scalar, got &{{{shown(value)}}}")


def _error(path: str, message: str) -> str:
    return f"{path}: {message}" if path else message


def _go_value(value: Any) -> str:
    """Return a value as Go writes it in its own syntax."""
    if isinstance(value, dict):
        inner = ", ".join(f'"{key}":{_go_value(value[key])}' for key in sorted(value))
        return f"map[string]interface {{}}{{{inner}}}"
    if isinstance(value, list):
        return f"[]interface {{}}{{{', '.join(map(_go_value, value))}}}"
    if value is None:
        return "interface {}(nil)"
    return f'"{value}"' if isinstance(value, str) else shown(value)
