"""Checks whether an object may be written: its fields, its kind, its namespace, and where it comes from.

Objects that a bridge mirrors (docs/bridge.md) are read-only here. They are changed in
their cluster. Only taints can be added here, and removed again; the bridge writes them to the cluster.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from pydantic import BaseModel, ValidationError

from moorage.apiserver.admission.deletion import finalizers_of
from moorage.apiserver.admission.mutation import twice_named
from moorage.apiserver.kinds.kind import Kind, ServedKind, UnknownFields
from moorage.apiserver.kinds.status.namespaces import NAMESPACE, exists
from moorage.apiserver.kinds.status.records import ObjectId
from moorage.apiserver.machinery import api_errors
from moorage.apiserver.machinery.api_errors import Cause, StatusError
from moorage.apiserver.machinery.openapi.built_in import structural_errors
from moorage.apiserver.machinery.openapi.registry import Origin, origin_of, schema_of
from moorage.apiserver.rules.feature_gates import FeatureGates
from moorage.apiserver.rules.field_defaults import with_field_defaults
from moorage.apiserver.rules.field_effects import ineffective_fields
from moorage.apiserver.rules.validation.core import validate_domains, validate_ties, without_domain
from moorage.apiserver.storage.tables import Tables
from moorage.decide.kubernetes.field_errors import ErrorKind, FieldError, forbidden, invalid, quote
from moorage.runtime.settings.process_settings import Settings
from moorage_schemas.resource import Mirrored, ResourceDeclared, TaintWish
from moorage_schemas.resources.meta import Resource

_OF_THE_SERVER: Final = ("uid", "deletionTimestamp", "deletionGracePeriodSeconds")
_OF_EVERY_OBJECT: Final = frozenset({"apiVersion", "kind", "metadata"})


def typed(document: Mapping[str, Any], kind: ServedKind) -> Resource:
    """Return the typed view of an object.

    Raises:
        StatusError: 400 if a field has a wrong type, 422 if one is missing or has an impossible value.
    """
    try:
        resource: Resource = kind.definition.model.model_validate(document)
    except ValidationError as error:
        found = api_errors.field_errors(error)
        if any(item.kind is ErrorKind.TYPE_INVALID for item in found):
            shown = "; ".join(map(str, found))
            causes = [Cause(item.kind.value, item.body, item.path) for item in found]
            raise api_errors.bad_request(
                f"{kind.kind} in version {kind.version!r} cannot be handled as a {kind.kind}: {shown}", causes
            ) from None
        name = str(document.get("metadata", {}).get("name", ""))
        raise api_errors.invalid(kind.group, kind.kind, name, found) from None
    return resource


def broken_rules(
    resource: Resource,
    document: Mapping[str, Any],
    kind: ServedKind,
    switches: FeatureGates,
    *,
    before: Mapping[str, Any] | None,
) -> list[FieldError]:
    """Return the rules of its kind that an object breaks.

    What an object is to be is looked at when it changes. So one that a program has written past the gateway, or that an
    older release has accepted, may still get labels and finalizers, and lose them.
    """
    definition = kind.definition
    found = definition.validate_metadata(resource.metadata) + validate_ties(resource.metadata)
    if before is not None:  # a name never changes
        found = [error for error in found if error.path not in {"metadata.name", "metadata.generateName"}]
        found += _changed_by_the_server(before["metadata"], document["metadata"])
    if _has_domains(kind):
        present = finalizers_of(before) if before is not None else ()
        found = found + validate_domains(resource.metadata.finalizers or [], present)
    if definition.unknown_fields is UnknownFields.REFUSED:
        found = found + unknown_fields(resource, definition)
    found = found + definition.validate(resource, switches)
    if before is not None and not _is_changed(with_field_defaults({**before}), document, definition):
        return found
    found = found + definition.validate_fields(document, is_new=before is None)
    return [*found, *_incomplete(document, kind, {error.path for error in found})]


def _incomplete(document: Mapping[str, Any], kind: ServedKind, known: Collection[str]) -> Iterator[FieldError]:
    """Yield the structural errors of a built-in kind in fields outside of the known paths."""
    if origin_of(kind.group, kind.kind) is Origin.BUILT_IN:
        for error in structural_errors(schema_of(kind.group, kind.version, kind.kind), document):
            if not any(error.path == path or error.path.startswith(f"{path}.") for path in known):
                yield error


def _changed_by_the_server(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[FieldError]:
    """Return the errors of fields that only the server changes. Absent ones stay, and so do the marks of a deletion."""
    is_marked = bool(before.get("deletionTimestamp"))
    return [
        invalid(f"metadata.{field}", after[field], "field is immutable")
        for field in _OF_THE_SERVER
        if after.get(field) not in {None, ""}
        and after[field] != before.get(field)
        and not (is_marked and field != "uid")
    ]


def _has_domains(kind: ServedKind) -> bool:
    """Return whether finalizers of a kind need a domain. An API server ignores those of events of the core group."""
    is_old_event = kind.definition.logged and not kind.group
    return origin_of(kind.group, kind.kind) is Origin.BUILT_IN and not is_old_event


def broken_by_change(before: Mapping[str, Any], after: Mapping[str, Any], kind: ServedKind) -> list[FieldError]:
    """Return the rules of its kind that a change of an object breaks. Without a change, there are none."""
    definition = kind.definition
    if not _is_changed(with_field_defaults({**before}), after, definition):
        return []
    if kind.other_group:  # its rules are not those of the form that is stored
        before, after = kind.converted(before), kind.converted(after)
    return definition.validate_update(before, after)


def _is_changed(before: Mapping[str, Any], after: Mapping[str, Any], kind: Kind[Any]) -> bool:
    others = _OF_EVERY_OBJECT if kind.status_declared else {*_OF_EVERY_OBJECT, "status"}
    return any(before.get(field) != after.get(field) for field in (before.keys() | after.keys()) - others)


def refuse(kind: ServedKind, name: str, found: Sequence[FieldError]) -> None:
    """Refuse an object that has errors. Raises StatusError: 422, with a cause for each error."""
    if found:
        raise api_errors.invalid(kind.group, kind.kind, name, found)


def unknown_fields(resource: Resource, kind: Kind[Any]) -> list[FieldError]:
    """Return the unknown fields of an object and of its `spec`."""
    elsewhere = kind.fields_elsewhere
    known = ", ".join(_names(resource))
    found = [_unknown(name, known) for name in resource.model_extra or {} if name not in elsewhere]
    spec = getattr(resource, "spec", None)
    return [*found, *_within(spec, "spec", elsewhere)] if isinstance(spec, BaseModel) else found


def _within(model: BaseModel, path: str, elsewhere: frozenset[str]) -> Iterator[FieldError]:
    known = ", ".join(_names(model))
    for name in model.model_extra or {}:
        if f"{path}.{name}" not in elsewhere:
            yield _unknown(f"{path}.{name}", known)
    for name, shown in zip(type(model).model_fields, _names(model), strict=True):
        value, where = getattr(model, name), f"{path}.{shown}"
        if isinstance(value, BaseModel):
            yield from _within(value, where, elsewhere)
        elif isinstance(value, Sequence) and not isinstance(value, str):
            for i, one in enumerate(value):
                if isinstance(one, BaseModel):
                    yield from _within(one, f"{where}[{i}]", elsewhere)


def _names(model: BaseModel) -> list[str]:
    return [field.alias or name for name, field in type(model).model_fields.items()]


def _unknown(path: str, known: str) -> FieldError:
    return forbidden(path, f"unknown field; known fields: {known}")


TERMINATING: Final = "NamespaceTerminating"
"""The reason of the cause when a namespace is being deleted."""


def check_namespace(kind: ServedKind, namespace: str, name: str, tables: Tables) -> None:
    """Check that an object's namespace exists and is not being deleted.

    Raises:
        StatusError: 404 if there is no such namespace, 403 if it is being deleted.
    """
    if not kind.namespaced or not namespace:
        return
    declared = tables.resources.get(ObjectId(NAMESPACE, "", namespace).key)
    if declared is None:
        if not exists(namespace, tables):
            raise api_errors.not_found("", "namespaces", namespace)
    elif declared.object["metadata"].get("deletionTimestamp"):
        why = f"unable to create new content in namespace {namespace} because it is being terminated"
        cause = Cause(TERMINATING, f"namespace {namespace} is being terminated", "metadata.namespace")
        raise api_errors.forbidden(kind.group, kind.plural, name, why, [cause])


_KEPT_BY_SERVER: Final = frozenset({"managedFields", "resourceVersion", "generation"})

_REPORTED: Final = frozenset({"conditions", "heldTaints"})
"""Parts of a status that are not written: services determine them, and conditions that are sent become reports."""

_PARTS: Final = frozenset({"apiVersion", "kind", "metadata", "spec", "status"})

Document = Mapping[str, Any]


def read_only(kind: ServedKind, name: str, mirrored: Mirrored | None, cluster: str) -> StatusError:
    """Return 403: an object is read-only, because a cluster has it."""
    return api_errors.forbidden(kind.group, kind.plural, name, f"{_place(mirrored, cluster)}: change it there")


def check_taints_alone(
    kind: ServedKind, declared: ResourceDeclared, shown: Document, wanted: Document, *, cluster: str
) -> None:
    """Check that a write changes nothing of a mirrored object but its taints.

    Raises:
        StatusError: 403 if it changes more.
    """
    if _without_taints(shown) != _without_taints(wanted):
        raise read_only(kind, declared.name, declared.mirrored, cluster)


def check_taint_edits(
    kind: ServedKind, declared: ResourceDeclared, wishes: Iterable[TaintWish], *, cluster: str
) -> None:
    """Check that edits of taints do not concern those that others have set in the cluster.

    Raises:
        StatusError: 403 if one does.
    """
    there = {taint.identity for taint in declared.mirrored.taints} if declared.mirrored is not None else set()
    for wish in wishes:
        if (wish.key, wish.effect) in there:
            why = f"the taint {wish.key}:{wish.effect} {_place(declared.mirrored, cluster)}: change it there"
            raise api_errors.forbidden(kind.group, kind.plural, declared.name, why)


def _place(mirrored: Mirrored | None, cluster: str) -> str:
    where = f"cluster {cluster}" if cluster else "its cluster"
    return f"is mirrored from {where} by {mirrored.source}" if mirrored is not None else f"is in {where}"


def _without_taints(document: Document) -> dict[str, Any]:
    metadata = {
        name: value
        for name, value in document["metadata"].items()
        if name not in _KEPT_BY_SERVER and value not in ({}, [], None)
    }
    spec = {name: value for name, value in (document.get("spec") or {}).items() if name != "taints"}
    status = {name: value for name, value in (document.get("status") or {}).items() if name not in _REPORTED}
    rest = {name: value for name, value in document.items() if name not in _PARTS}
    return {**rest, "metadata": metadata, "spec": spec, "status": status}


def feature_gates(settings: Settings) -> FeatureGates:
    """Return the features that the settings of a process turn on."""
    return FeatureGates(
        failover=settings.failover,
        allow_no_execute_taint_policy=settings.allow_no_execute_taint_policy,
        enable_no_execute_taint_eviction=settings.enable_no_execute_taint_eviction,
        external_cloud=settings.cloud_provider == "external",
    )


def warnings(document: Mapping[str, Any], kind: Kind[Any], switches: FeatureGates) -> Iterator[str]:
    """Yield warnings for the writer of an object: which parts of it have no effect at present."""
    if kind.unknown_fields is UnknownFields.WARNED:
        for error in unknown_fields(kind.model.model_validate(document), kind):
            yield f'unknown field "{error.path}"'
    yield from kind.warnings(document, switches)
    yield from ineffective_fields(kind.kind, document)


def finalizer_warnings(sent: Mapping[str, Any]) -> Iterator[str]:
    """Yield warnings about finalizers without a domain, which only built-in kinds of an API server must have."""
    metadata = sent.get("metadata")
    finalizers = metadata.get("finalizers") if isinstance(metadata, Mapping) else None
    if isinstance(finalizers, list):
        for _, one in without_domain(finalizers):
            yield (
                f"metadata.finalizers: {quote(one)}: prefer a domain-qualified finalizer name to avoid accidental "
                "conflicts with other finalizer writers"
            )


def owner_warnings(sent: Mapping[str, Any]) -> Iterator[str]:
    """Yield a warning about owners that an object names more than once."""
    metadata = sent.get("metadata")
    if isinstance(metadata, Mapping) and (uids := twice_named(metadata.get("ownerReferences"))):
        yield (
            ".metadata.ownerReferences contains duplicate entries; API server dedups owner references in 1.20+, and "
            "may reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: "
            + ", ".join(uids)
        )


def warning_header(text: str) -> str:
    """Return a warning in the form of the HTTP header `Warning` (RFC 7234), which kubectl shows.

    Names of fields come from the sender. What is not printable would break the header, or begin another one.
    """
    plain = "".join(char if char.isascii() and char.isprintable() else "?" for char in text)
    return '299 - "{}"'.format(plain.replace("\\", "\\\\").replace('"', '\\"'))
