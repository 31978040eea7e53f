"""Whether an object may be written: its types, and the rules of its kind."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from moorage.core.admission.feature_gates import FeatureGates
from moorage.core.apimachinery.field_errors import ErrorKind, invalid
from moorage.core.apimachinery.quantities import QuantityError
from moorage.gateway import errors
from moorage.gateway.admission.unknown_fields import unknown_fields
from moorage.gateway.errors import Cause
from moorage.kinds.kind import ServedKind, UnknownFields
from moorage_schemas.resources.meta import Resource


def typed(document: Mapping[str, Any], kind: ServedKind) -> Resource:
    """The typed view of an object.

    Raises:
        StatusError: 400 when a field has a wrong type, 422 when one is missing or has a value that cannot be.
    """
    try:
        resource: Resource = kind.definition.model.model_validate(document)
    except ValidationError as error:
        found = errors.field_errors(error)
        if any(item.kind is ErrorKind.TYPE_INVALID for item in found):
            shown = "; ".join(map(str, found))
            causes = [Cause(item.kind.value, item.body, item.path) for item in found]
            raise errors.bad_request(
                f"{kind.kind} in version {kind.version!r} cannot be handled as a {kind.kind}: {shown}", causes
            ) from None
        name = str(document.get("metadata", {}).get("name", ""))
        raise errors.invalid(kind.group, kind.kind, name, found) from None
    return resource


def check(resource: Resource, kind: ServedKind, switches: FeatureGates) -> None:
    """Hold an object to the rules of its kind, and to what is switched on.

    Raises:
        StatusError: 422 with a cause for each rule that is broken.
    """
    definition = kind.definition
    found = definition.validate_metadata(resource.metadata)
    if definition.unknown_fields is UnknownFields.REFUSED:
        found = found + unknown_fields(resource, definition)
    found = found + definition.validate(resource, switches)
    if found:
        raise errors.invalid(kind.group, kind.kind, resource.metadata.name, found)


def quantity_error(error: QuantityError, kind: ServedKind, name: str) -> errors.StatusError:
    """422 for a quantity that cannot be read."""
    return errors.invalid(kind.group, kind.kind, name, [invalid(error.field, error.value, error.rule)])


def check_update(before: Mapping[str, Any], after: Mapping[str, Any], kind: ServedKind) -> None:
    """Hold a change to the rules on what may not change.

    Args:
        before: the object as it is shown.
        after: the object as it is wanted, with what admission adds.
        kind: their kind.

    Raises:
        StatusError: 422 when a field changes that may not.
    """
    if found := kind.definition.validate_update(before, after):
        raise errors.invalid(kind.group, kind.kind, str(after["metadata"]["name"]), found)
