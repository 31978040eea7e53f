"""Reads the values of records without creating their models.

A restore reads a million records, and a model of each takes most of its time. A row has the fields of the model, with
the same names and values, but it is an `msgspec.Struct`: it is checked while it is parsed, which takes a tenth of the
time. The types of rows are generated from the models, so that the contract is written down only once.

Whatever is a row is valid for the model, too, with equal values. A value that is not in the form in which Moorage
itself writes it is no row, and is left to the model: it may still be valid, for example if a newer version wrote it.

Where a model is needed, but pydantic is too slow, `ModelReader` creates it from the row.
"""

from __future__ import annotations

import dataclasses
import functools
from datetime import UTC, datetime
from enum import StrEnum
from types import NoneType, UnionType
from typing import Annotated, Any, Final, Generic, Literal, TypeVar, Union, get_args, get_origin

import msgspec
from msgspec.structs import asdict
from pydantic import AwareDatetime, TypeAdapter
from pydantic.fields import FieldInfo

from moorage.core.apimachinery.trusted_events import trusted_maker
from moorage_schemas.base import Model

M = TypeVar("M", bound=Model)

_SHARED: Final = 4096
"""How many distinct values of a field are kept, to be shared."""

_LONGEST: Final = 4096
"""How many bytes a value may have that is kept. Third parties may write long ones."""

_ABSENT: Final = msgspec.Raw(b"")
"""The text of a shared field that a value does not have."""


class RowReader:
    """Reads the values of one model as rows.

    Args:
        model: the model of the values.
        shared: fields with few distinct values. The model reads each of those once, and all rows share the object that
            it returned. Composite fields must be shared, or their items are rows themselves. Unknown fields in a shared
            value are ignored, as for records of Moorage; in all others they make the value no row.

    Raises:
        TypeError: the model has a field that rows cannot express.
    """

    def __init__(self, model: type[Model], *, shared: tuple[str, ...] = ()) -> None:
        fields = model.model_fields
        self._times = tuple(name for name, field in fields.items() if _is_time(field) and name not in shared)
        self._shared = tuple((name, _Shared(fields[name], "ignore")) for name in shared)
        self._decode = msgspec.json.Decoder(_row_type(model, frozenset(shared))).decode

    def read(self, value: bytes) -> Any | None:
        """Return the row of a value; None when the value is to be left to the model."""
        try:
            row = self._decode(value)
            for name, shared in self._shared:
                setattr(row, name, shared[b"" + getattr(row, name)])
            for name in self._times:
                text = getattr(row, name)
                if text is not None:
                    time = datetime.fromisoformat(text)
                    if time.tzinfo is not UTC:
                        return None
                    setattr(row, name, time)
        except ValueError:  # those of msgspec, of pydantic and of `fromisoformat`
            return None
        return row


class ModelReader(Generic[M]):
    """Reads the values of one model as models, faster than pydantic does.

    Args:
        model: the model of the values. Its composite fields must be shared, because rows have no models in them.
        shared: fields with few distinct values, as for `RowReader`. A field with a pattern should be shared, too,
            because checking the pattern takes longer than reading everything else.

    Raises:
        TypeError: the model has a field that rows cannot express, or a composite field that is not shared.
    """

    def __init__(self, model: type[M], *, shared: tuple[str, ...] = ()) -> None:
        fields = model.model_fields
        for name in fields:
            if name not in shared and not _is_simple(fields[name]):
                raise TypeError(f"{model.__name__}.{name}: is composite, and must be shared")
        # A text with a pattern is looked up as it is. Everything else that is shared is looked up by its JSON.
        texts = frozenset(name for name in shared if fields[name].annotation is str and fields[name].is_required())
        composite = tuple(name for name in shared if name not in texts)
        self._texts = tuple((name, _SharedText(fields[name])) for name in texts)
        self._composite = tuple((name, _Shared(fields[name], "forbid")) for name in composite)
        self._times = tuple(name for name, field in fields.items() if _is_time(field))
        self._decode = msgspec.json.Decoder(_row_type(model, frozenset(composite), texts)).decode
        self._make = trusted_maker(model)

    def read(self, value: bytes) -> M | None:
        """Return the model of a value; None when the value is to be left to pydantic."""
        try:
            # The same as `RowReader.read`, in the mapping that the model keeps.
            found = asdict(self._decode(value))
            for name, shared in self._composite:
                found[name] = shared[b"" + found[name]]
            for name, texts in self._texts:
                found[name] = texts[found[name]]
            for name in self._times:
                text = found[name]
                if text is not None:
                    time = found[name] = datetime.fromisoformat(text)
                    if time.tzinfo is not UTC:
                        return None
        except ValueError:  # those of msgspec, of pydantic and of `fromisoformat`
            return None
        return self._make(found)


class _Shared(dict[bytes, Any]):
    """The values of one field, by their text. No text stands for a field that is absent.

    Args:
        field: the field.
        extra: what happens to unknown fields in a value.
    """

    def __init__(self, field: FieldInfo, extra: Literal["ignore", "forbid"]) -> None:
        super().__init__()
        kind: Any = Annotated[field.annotation, *field.metadata] if field.metadata else field.annotation
        self._adapter: TypeAdapter[Any] = TypeAdapter(kind)
        self._extra = extra
        self._is_required = field.is_required()
        self._absent = None if self._is_required else field.get_default(call_default_factory=True)

    def __missing__(self, text: bytes) -> Any:
        if not text and self._is_required:
            raise ValueError("a required field is missing")
        found = self._adapter.validate_json(text, extra=self._extra) if text else self._absent
        if len(text) <= _LONGEST:
            if len(self) >= _SHARED:
                self.clear()
            self[text] = found
        return found


class _SharedText(dict[str, str]):
    """The valid values of one field that is a text with constraints."""

    def __init__(self, field: FieldInfo) -> None:
        super().__init__()
        self._adapter: TypeAdapter[str] = TypeAdapter(Annotated[str, *field.metadata])

    def __missing__(self, text: str) -> str:
        found = self._adapter.validate_python(text)
        if len(text) <= _LONGEST:
            if len(self) >= _SHARED:
                self.clear()
            self[text] = found
        return found


def _is_time(field: FieldInfo) -> bool:
    """Return whether a field is a `Timestamp`, or one or None."""
    annotation = field.annotation
    if get_origin(annotation) in (Union, UnionType):
        (annotation, *others) = (one for one in get_args(annotation) if one is not NoneType)
        if others:
            return False
    if get_origin(annotation) is Annotated:
        annotation = get_args(annotation)[0]
    return annotation is AwareDatetime


def _is_simple(field: FieldInfo) -> bool:
    """Return whether a row has the same value of a field as the model."""
    annotation = field.annotation
    return (
        annotation in (str, int, bool)
        or (isinstance(annotation, type) and issubclass(annotation, StrEnum))
        or _is_time(field)
    )


@functools.cache
def _row_type(
    model: type[Model], shared: frozenset[str] = frozenset(), texts: frozenset[str] = frozenset()
) -> type[msgspec.Struct]:
    """Return the type of the rows of a model. It has the properties of the model, too, such as the key of a target.

    Unknown fields are not ignored: among them may be a field under its Python name, which models accept.

    Args:
        model: the model.
        shared: fields whose JSON is kept as it is.
        texts: required texts whose constraints are left to the caller.
    """
    decorators = model.__pydantic_decorators__
    if (
        decorators.field_validators
        or decorators.model_validators
        or decorators.validators
        or decorators.root_validators
    ):
        raise TypeError(f"{model.__name__}: has validators, which rows do not call")
    fields: list[Any] = []
    for name, field in model.model_fields.items():
        if name in shared:
            fields.append((name, msgspec.Raw, _ABSENT))
            continue
        if name in texts:
            fields.append((name, str))
            continue
        if _is_time(field):
            kind: Any = str | None if NoneType in get_args(field.annotation) else str
        else:
            kind = _type(field.annotation, field.metadata, f"{model.__name__}.{name}")
        if field.is_required():
            fields.append((name, kind))
        elif field.default_factory is None:
            fields.append((name, kind, field.default))
        else:
            make: Any = field.default_factory
            fields.append((name, kind, msgspec.field(default_factory=make)))
    return msgspec.defstruct(
        f"{model.__name__}Row",
        fields,
        namespace={name: part for name, part in vars(model).items() if isinstance(part, property)},
        rename={name: str(field.alias) for name, field in model.model_fields.items()},
        forbid_unknown_fields=True,
        kw_only=True,  # so that fields without a default may follow others
        gc=False,  # rows refer to nothing that could refer back to them
    )


def _type(annotation: Any, metadata: list[Any], place: str) -> Any:
    """Return what msgspec calls a type of pydantic."""
    origin, args = get_origin(annotation), get_args(annotation)
    found: Any = None
    if origin is Annotated:
        found = _type(args[0], [*args[1:], *metadata], place)
    elif annotation in (str, int):
        constraints = _constraints(metadata, place)
        found = Annotated[annotation, msgspec.Meta(**constraints)] if constraints else annotation
    elif metadata:
        pass
    elif origin in (Union, UnionType) and args[1:] == (NoneType,):
        found = _type(args[0], [], place) | None
    elif origin is tuple and args[1:] == (...,):
        found = tuple[_type(args[0], [], place), ...]  # type: ignore[misc]  # a type that is made here
    elif origin is dict:
        found = dict[_type(args[0], [], place), _type(args[1], [], place)]  # type: ignore[misc]  # as above
    elif isinstance(annotation, type) and issubclass(annotation, Model):
        found = _row_type(annotation)
    elif isinstance(annotation, type) and issubclass(annotation, (StrEnum, bool)):
        found = annotation
    if found is None:
        raise TypeError(f"{place}: rows have no type for {annotation!r} with {metadata!r}")
    return found


def _constraints(metadata: list[Any], place: str) -> dict[str, Any]:
    """Return the constraints of a type under the names that pydantic and msgspec have in common."""
    found: dict[str, Any] = {}
    for part in metadata:
        if isinstance(part, FieldInfo):
            given = _constraints(part.metadata, place)
        else:
            is_data = dataclasses.is_dataclass(part) and not isinstance(part, type)
            given = dataclasses.asdict(part) if is_data else vars(part)
        found |= {name: value for name, value in given.items() if value is not None}
    if unknown := found.keys() - {"ge", "min_length", "max_length", "pattern"}:
        raise TypeError(f"{place}: rows cannot check {', '.join(sorted(unknown))}")
    if "pattern" in found:
        # In Python `$` also matches before a newline at the end, and for pydantic it does not.
        pattern: str = found["pattern"]
        if not pattern.endswith("$") or "$" in pattern[:-1]:
            raise TypeError(f"{place}: rows cannot check the pattern {pattern!r}")
        found["pattern"] = rf"{pattern[:-1]}\Z"
    return found
