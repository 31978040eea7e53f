"""Checks whether an object may be written: the types of its fields, and the rules of its kind."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Final

from pydantic import ValidationError

from moorage.apiserver.admission.deletion import finalizers_of
from moorage.apiserver.admission.unknown_fields import unknown_fields
from moorage.apiserver.kinds.kind import Kind, ServedKind, UnknownFields
from moorage.apiserver.machinery import api_errors
from moorage.apiserver.machinery.api_errors import Cause
from moorage.apiserver.machinery.openapi.built_in import structural_errors
from moorage.apiserver.machinery.openapi.registry import Origin, origin_of, schema_of
from moorage.apiserver.rules.feature_gates import FeatureGates
from moorage.apiserver.rules.field_defaults import with_field_defaults
from moorage.apiserver.rules.validation.ties import validate_domains, validate_ties
from moorage.decide.kubernetes.field_errors import ErrorKind, FieldError, invalid
from moorage.decide.kubernetes.quantities import QuantityError
from moorage_schemas.resources.meta import Resource

_OF_THE_SERVER: Final = ("uid", "deletionTimestamp", "deletionGracePeriodSeconds")
_OF_EVERY_OBJECT: Final = frozenset({"apiVersion", "kind", "metadata"})


def typed(document: Mapping[str, Any], kind: ServedKind) -> Resource:
    """The typed view of an object.

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
    """The rules of its kind that an object breaks.

    What an object is to be is looked at when it changes. So one that a program has written past the gateway, or that an
    older release has accepted, may still get labels and finalizers, and lose them.

    Args:
        resource: the typed view of the object.
        document: the object, with the defaults of its fields.
        kind: of the object.
        switches: the features that are turned on.
        before: the object as it is shown. None if it is being created.
    """
    definition = kind.definition
    found = definition.validate_metadata(resource.metadata) + validate_ties(resource.metadata)
    if before is not None:  # nobody can change it
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


def _incomplete(document: Mapping[str, Any], kind: ServedKind, told: Collection[str]) -> Iterator[FieldError]:
    """The errors that the structure of a built-in kind finds in fields that none of the paths `told` contains."""
    if origin_of(kind.group, kind.kind) is Origin.BUILT_IN:
        for error in structural_errors(schema_of(kind.group, kind.version, kind.kind), document):
            if not any(error.path == path or error.path.startswith(f"{path}.") for path in told):
                yield error


def _changed_by_the_server(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[FieldError]:
    """The errors of fields that only the server changes. What is left out stays, and so do the marks of a deletion."""
    is_marked = bool(before.get("deletionTimestamp"))
    return [
        invalid(f"metadata.{field}", after[field], "field is immutable")
        for field in _OF_THE_SERVER
        if after.get(field) not in {None, ""}
        and after[field] != before.get(field)
        and not (is_marked and field != "uid")
    ]


def _has_domains(kind: ServedKind) -> bool:
    """Whether finalizers of a kind need a domain. An API server does not look at those of events of the core group."""
    is_old_event = kind.definition.logged and not kind.group
    return origin_of(kind.group, kind.kind) is Origin.BUILT_IN and not is_old_event


def broken_by_change(before: Mapping[str, Any], after: Mapping[str, Any], kind: ServedKind) -> list[FieldError]:
    """The rules of its kind that a change of an object breaks. Like the object, it is looked at if there is one.

    Args:
        before: the object as it is shown.
        after: the object as it is wanted, with the defaults of admission.
        kind: of the object.
    """
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
    """Refuse an object that has errors.

    Raises:
        StatusError: 422, with a cause for each error.
    """
    if found:
        raise api_errors.invalid(kind.group, kind.kind, name, found)


def quantity_error(error: QuantityError, kind: ServedKind, name: str) -> api_errors.StatusError:
    """422 for an invalid quantity."""
    return api_errors.invalid(kind.group, kind.kind, name, [invalid(error.field, error.value, error.rule)])
