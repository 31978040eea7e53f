"""Fields that mean nothing here: most likely slips.

Of Moorage's own kinds they are refused, for a misspelt scope would hold the whole fleet's evictions. Of the kinds of
Open Cluster Management that decide what is chosen they are kept and told of, as `kubectl --validate=warn` does. Other
kinds have many fields that Moorage does not use.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from pydantic import BaseModel

from moorage.core.apimachinery.field_errors import FieldError, forbidden
from moorage_schemas.resources.managed import ManagedClusterSet, ManagedClusterSetBinding, Placement
from moorage_schemas.resources.meta import Resource

TOLD_OF: Final[Mapping[str, type[Resource]]] = {
    "ManagedClusterSet": ManagedClusterSet,
    "ManagedClusterSetBinding": ManagedClusterSetBinding,
    "Placement": Placement,
}
"""The kinds whose writers are told of unknown fields, with all that these can have."""

_ELSEWHERE: Final = frozenset({"status", "spec.spreadPolicy"})
"""What has a meaning that the models do not hold."""


def unknown_fields(resource: Resource) -> list[FieldError]:
    """The fields of an object, and of its `spec`, that mean nothing."""
    known = ", ".join(_names(resource))
    found = [_unknown(name, known) for name in resource.model_extra or {} if name not in _ELSEWHERE]
    spec = getattr(resource, "spec", None)
    return [*found, *_within(spec, "spec")] if isinstance(spec, BaseModel) else found


def told_of(document: Mapping[str, Any]) -> Iterator[str]:
    """What to tell whoever has written an object, that it has unknown fields."""
    model = TOLD_OF.get(str(document.get("kind")))
    if model is not None:
        for error in unknown_fields(model.model_validate(document)):
            yield f'unknown field "{error.path}"'


def _within(model: BaseModel, path: str) -> Iterator[FieldError]:
    known = ", ".join(_names(model))
    for name in model.model_extra or {}:
        if f"{path}.{name}" not in _ELSEWHERE:
            yield _unknown(f"{path}.{name}", known)
    for name, shown in zip(type(model).model_fields, _names(model), strict=True):
        value, where = getattr(model, name), f"{path}.{shown}"
        if isinstance(value, BaseModel):
            yield from _within(value, where)
        elif isinstance(value, Sequence) and not isinstance(value, str):
            for i, one in enumerate(value):
                if isinstance(one, BaseModel):
                    yield from _within(one, f"{where}[{i}]")


def _names(model: BaseModel) -> list[str]:
    return [field.alias or name for name, field in type(model).model_fields.items()]


def _unknown(path: str, known: str) -> FieldError:
    return forbidden(path, f"unknown field; known fields: {known}")
