"""Fields that a kind's model does not have, most likely typos. The kind determines whether they are errors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pydantic import BaseModel

from moorage.apiserver.kinds.kind import Kind, UnknownFields
from moorage.decide.kubernetes.field_errors import FieldError, forbidden
from moorage_schemas.resources.meta import Resource


def unknown_fields(resource: Resource, kind: Kind[Any]) -> list[FieldError]:
    """The unknown fields of an object and of its `spec`."""
    elsewhere = kind.fields_elsewhere
    known = ", ".join(_names(resource))
    found = [_unknown(name, known) for name in resource.model_extra or {} if name not in elsewhere]
    spec = getattr(resource, "spec", None)
    return [*found, *_within(spec, "spec", elsewhere)] if isinstance(spec, BaseModel) else found


def unknown_field_warnings(document: Mapping[str, Any], kind: Kind[Any]) -> Iterator[str]:
    """Warnings about the unknown fields of an object, if its kind accepts them with a warning."""
    if kind.unknown_fields is UnknownFields.WARNED:
        for error in unknown_fields(kind.model.model_validate(document), kind):
            yield f'unknown field "{error.path}"'


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
