"""Writes the values of records: the JSON of their models, byte for byte, in less than half the time.

Each record that is written is encoded once, and thousands a second are. msgspec encodes the values of an event without
visiting pydantic's schema. What it needs is generated from the models, so that the contract is written down only once.

A model that cannot be encoded in this way is left to pydantic: one with open fields, with serializers of its own, or
with values whose text the two libraries may write differently, such as floats.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from enum import StrEnum
from types import NoneType, UnionType
from typing import Annotated, Any, Final, Union, get_args, get_origin

import msgspec
from pydantic import AwareDatetime, PlainSerializer
from pydantic.fields import FieldInfo

from moorage_schemas.base import Model
from moorage_schemas.times import format_time


def write_value(event: Model) -> bytes:
    """Return the JSON of an event, which is that of `model_dump_json`.

    Args:
        event: an event whose instants are in UTC, as validation leaves them.
    """
    row = _row_type(type(event))
    if row is not None:
        try:
            return encode_row(row(**event.__dict__))
        except (TypeError, ValueError, OverflowError):  # a number above 64 bits, or a value of a type that is not meant
            pass
    return _plain(event)


def row_type(model: type[Model]) -> type[msgspec.Struct]:
    """Return a type with the fields of a model, for a service that writes thousands of such events at once.

    `encode_row` writes an instance as `write_value` writes the event with these fields, but no event is made for it.
    All fields must be given, by their Python names. A part that is itself a model may be given as `msgspec.Raw`.

    Raises:
        TypeError: the model can only be written by pydantic.
    """
    found = _row_type(model)
    if found is None:
        raise TypeError(f"{model.__name__}: only pydantic can write it")
    return found


def _plain(event: Model) -> bytes:
    found: bytes = event.__pydantic_serializer__.to_json(event)
    return found


def _nested(part: object) -> object:
    """Return the value that msgspec encodes for a part of an event that is itself a model."""
    if not isinstance(part, Model):
        raise TypeError(f"unexpected type {type(part).__name__}")
    row = _row_type(type(part))
    return msgspec.Raw(_plain(part)) if row is None else row(**part.__dict__)


encode_row: Callable[[object], bytes] = msgspec.json.Encoder(enc_hook=_nested).encode
"""Writes an instance of a `row_type`."""


@functools.cache
def _row_type(model: type[Model]) -> type[msgspec.Struct] | None:
    """Return a type with the fields of a model under their names on the wire; None for a model that has no such type.

    A field that the model leaves out when it is empty has a default, and is left out when it has that value.
    """
    decorators = model.__pydantic_decorators__
    if (
        decorators.field_serializers
        or decorators.model_serializers
        or decorators.computed_fields
        or model.model_config.get("extra") == "allow"
    ):
        return None
    fields: list[Any] = []
    for name, field in model.model_fields.items():
        if field.exclude or not _is_plain(field.annotation, tuple(field.metadata)):
            return None
        if field.exclude_if is None:
            fields.append((name, Any))
        elif _is_left_out_when_empty(field):
            fields.append((name, Any, field.default))
        else:
            return None
    return msgspec.defstruct(
        f"{model.__name__}Row",
        fields,
        rename={name: field.serialization_alias or name for name, field in model.model_fields.items()},
        kw_only=True,
        omit_defaults=True,
        gc=False,
    )


_NOT_EMPTY: Final[Mapping[Any, object]] = {str: "x", int: 1, bool: True}


def _is_left_out_when_empty(field: FieldInfo) -> bool:
    """Return whether a field is left out when it has its default, which is empty, and only then."""
    excludes, annotation = field.exclude_if, field.annotation
    if excludes is None or field.default not in ("", 0, None, ()) or not excludes(field.default):
        return False
    if field.default == ():  # there is one empty tuple, so msgspec recognises it
        return get_origin(annotation) is tuple and not excludes((object(),))
    if annotation in _NOT_EMPTY:
        return not excludes(_NOT_EMPTY[annotation])
    return field.default is None and get_origin(annotation) in (Union, UnionType) and not excludes(object())


def _is_plain(annotation: Any, metadata: tuple[Any, ...] = ()) -> bool:
    """Return whether pydantic and msgspec write all values of a type in the same way."""
    origin, args = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _is_plain(args[0], (*args[1:], *metadata))
    serializers = [part for part in metadata if isinstance(part, PlainSerializer)]
    if annotation is AwareDatetime or serializers:
        return annotation is AwareDatetime and [part.func for part in serializers] == [format_time]
    if any(isinstance(part, FieldInfo) and part.exclude_if is not None for part in metadata):
        return False
    if origin in (Union, UnionType):
        return all(one is NoneType or _is_plain(one) for one in args)
    if origin in (tuple, dict):
        part, *others = args
        return others == [...] and _is_plain(part) if origin is tuple else part is str and _is_plain(*others)
    return isinstance(annotation, type) and (annotation in (str, int, bool) or issubclass(annotation, (StrEnum, Model)))
