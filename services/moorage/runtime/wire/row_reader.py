"""Reads the values of records without creating their models.

A restore reads a million records, and a model of each takes most of its time. A row has the fields of the model, with
the same names and values, but it is an `msgspec.Struct`: it is checked while it is parsed, which takes a tenth of the
time. The types of rows are generated from the models, so that the contract is written down only once.

Every row is valid for the model, with equal values. A value in another form than Moorage's own is no row, and is left
to the model: it may still be valid, for example from a newer version.

Where a model is needed, but pydantic is too slow, `ModelReader` creates it from the row.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from types import NoneType, UnionType
from typing import Annotated, Any, Final, Generic, Literal, TypeVar, Union, cast, get_args, get_origin

import msgspec
from msgspec.structs import asdict
from pydantic import AwareDatetime, TypeAdapter
from pydantic.fields import FieldInfo

from moorage_schemas.base import Model
from moorage_schemas.trusted_events import trusted_maker

M = TypeVar("M", bound=Model)
K = TypeVar("K", str, bytes)

_SHARED: Final = 4096
"""How many distinct values of a field are kept, to be shared."""

_LONGEST: Final = 4096
"""How many bytes a value may have that is kept. Third parties may write long ones."""

_ABSENT: Final = msgspec.Raw(b"")
"""The text of a shared field that a value does not have."""


class RowReader:
    """Reads the values of one model as rows.

    Args:
        shared: fields with few distinct values. The model reads each of those once, and all rows share the object that
            it returned. Composite fields must be shared, or their items are rows themselves. Unknown fields in a shared
            value are ignored, as for records of Moorage; in all others they make the value no row.
        keys: returns whether the record of a key is read as a row; None for all records.

    Raises:
        TypeError: the model has a field that rows cannot express.
    """

    def __init__(
        self, model: type[Model], *, shared: tuple[str, ...] = (), keys: Callable[[bytes], bool] | None = None
    ) -> None:
        fields = model.model_fields
        times = [name for name, field in fields.items() if _is_time(field) and name not in shared]
        kept = {name: _Shared(fields[name], "ignore") for name in shared}
        self.read: Callable[[bytes], Any | None] = _reader(_row_type(model, frozenset(shared)), kept, times)
        """Returns the row of a value; None when the value is to be left to the model."""

        self.keys = keys
        """Returns whether the record of a key is read as a row; None for all records."""


def with_fields(record: M, **fields: Any) -> M:
    """Return a record with other values of some fields, as what it is: a model, or the row of one."""
    found: Any = record
    if isinstance(found, msgspec.Struct):
        changed: Any = msgspec.structs.replace(found, **fields)
    else:
        changed = found.model_copy(update=fields)
    return cast("M", changed)


class ModelReader(Generic[M]):
    """Reads the values of one model as models, faster than pydantic does.

    Args:
        model: the model of the values. Its composite fields must be shared, because rows have no models in them.
        shared: fields with few distinct values, as for `RowReader`. Fields with a pattern should be shared, because
    checking the pattern takes longer than reading everything else.

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
        kept: dict[str, _Shared | _SharedText] = {
            name: _SharedText(fields[name]) if name in texts else _Shared(fields[name], "forbid") for name in shared
        }
        times = [name for name, field in fields.items() if _is_time(field)]
        row = _row_type(model, frozenset(shared) - texts, texts)
        self.read: Callable[[bytes], M | None] = _reader(row, kept, times, trusted_maker(model))
        """Returns the model of a value; None when the value is to be left to pydantic."""


def _reader(
    row: type[msgspec.Struct],
    shared: Mapping[str, _Shared | _SharedText],
    times: Sequence[str],
    make: Callable[[dict[str, Any]], Any] | None = None,
) -> Callable[[bytes], Any]:
    """Return the function that reads a value. It returns None when the value is left to the model.

    Its code is written out for the fields, because a loop over them takes a sixth of the time of reading a binding.
    Without `make`, which creates the result from a mapping of all fields, it returns the row.
    """
    lines = ["row = decode(value)" if make is None else "row = asdict(decode(value))"]
    for name, values in shared.items():
        place = f"row.{name}" if make is None else f"row[{name!r}]"
        key = place if isinstance(values, _SharedText) else f"b'' + {place}"
        lines.append(f"{place} = shared_{name}[{key}]")
    for name in times:
        place = f"row.{name}" if make is None else f"row[{name!r}]"
        lines += [
            f"if {place} is not None:",
            f"    time = {place} = datetime.fromisoformat({place})",
            "    if time.tzinfo is not UTC:",
            "        return None",
        ]
    source = [
        "def read(value):",
        "    try:",
        *(f"        {line}" for line in lines),
        "    except ValueError:",  # those of msgspec, of pydantic and of `fromisoformat`
        "        return None",
        f"    return {'row' if make is None else 'make(row)'}",
    ]
    names: dict[str, Any] = {f"shared_{name}": values for name, values in shared.items()}
    names |= {
        "decode": msgspec.json.Decoder(row).decode,
        "asdict": asdict,
        "datetime": datetime,
        "UTC": UTC,
        "make": make,
    }
    exec("\n".join(source), names)  # noqa: S102 - as dataclasses do; the names are those of a model's fields
    found: Callable[[bytes], Any] = names["read"]
    return found


class _Bounded(dict[K, Any]):
    """The values of one field that were read last, by their text."""

    def _keep(self, text: K, found: Any) -> Any:
        if len(text) <= _LONGEST:
            if len(self) >= _SHARED:
                self.clear()
            self[text] = found
        return found


class _Shared(_Bounded[bytes]):
    """The values of one field, by their text. An absent field has no text.

    Args:
        extra: the treatment of unknown fields in a value.
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
        return self._keep(text, self._adapter.validate_json(text, extra=self._extra) if text else self._absent)


class _SharedText(_Bounded[str]):
    """The valid values of one field that is a text with constraints."""

    def __init__(self, field: FieldInfo) -> None:
        super().__init__()
        self._adapter: TypeAdapter[str] = TypeAdapter(Annotated[str, *field.metadata])

    def __missing__(self, text: str) -> str:
        found: str = self._keep(text, self._adapter.validate_python(text))
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
    """Return the type of the rows of a model, with the properties of the model, such as the key of a target.

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
    """Return msgspec's name for a type of pydantic."""
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
