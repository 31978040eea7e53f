"""Decoding of upstream's built-in types: what their decoder in Go drops, reports and refuses, in its words.

Beside it, `structural_errors` finds missing fields and values that a field may not have. These checks are all that
kinds have that are only stored.

Patches are applied to values in memory, so the words are those of their conversion, and not of a JSON decoder.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from moorage.apiserver.machinery.openapi.parsing import Repeating
from moorage.apiserver.machinery.schema import Field, Form, Schema
from moorage.decide.kubernetes.field_errors import FieldError, not_supported, required
from moorage.decide.kubernetes.quantities import QuantityError, parse_quantity

Document = dict[str, Any]


class DecodeError(ValueError):
    """A document that is not of its kind. An API server answers 400.

    Args:
        reason: what is wrong: `json: cannot unmarshal string into Go struct field PodSpec.spec.priority of type int32`.
        message: the whole message, for a document that is the body of a request.
        mistyped: the structure of a field and the value that is of another type, if that is what is wrong.
    """

    def __init__(self, reason: str, message: str = "", mistyped: tuple[Schema, Any] | None = None) -> None:
        super().__init__(message or reason)
        self.reason = reason
        self.mistyped = mistyped


_DECODED: Final = {"int64": "number", "float64": "number", "map": "object", "slice": "array"}
"""The names of JSON values in upstream's decoder, by those of their types in its memory."""


def json_type(value: Any) -> str:
    """Return the name of a value's type in upstream's decoder."""
    name = _type(value)
    return _DECODED.get(name, name)


_TYPES: Final[Mapping[Form, str]] = {Form.INT_OR_STRING: "int32", Form.NUMBER: "float64", Form.BOOLEAN: "bool"}


def type_name(schema: Schema) -> str:
    """Return the name of a field's type in upstream's decoder."""
    if schema.type_name:
        return schema.type_name
    if schema.items is not None:
        return f"{'[]' if schema.form is Form.LIST else 'map[string]'}{type_name(schema.items)}"
    if schema.form is Form.STRUCT:
        return ".".join(schema.name.split(".")[-2:])
    return "[]uint8" if schema.format == "byte" else kind_of(schema)


def kind_of(schema: Schema) -> str:
    """Return the name of a simple type in upstream's language: `int32`, `string`."""
    return schema.format if schema.form is Form.INTEGER else _TYPES.get(schema.form, "string")


_TIME: Final = (
    ("2006", r"\d{4}"),
    ("-", "-"),
    ("01", r"\d\d"),
    ("-", "-"),
    ("02", r"\d\d"),
    ("T", "T"),
    ("15", r"\d\d"),
    (":", ":"),
    ("04", r"\d\d"),
    (":", ":"),
    ("05", r"\d\d"),
    ("", r"([.,]\d+)?"),
    ("Z07:00", r"Z|[+-]\d\d:\d\d"),
)
_RANGES: Final = {"01": (1, 12, "month"), "02": (1, 31, "day"), "15": (0, 23, "hour"), "04": (0, 59, "minute")}
_LAYOUT: Final = "2006-01-02T15:04:05Z07:00"
_MICRO_LAYOUT: Final = "2006-01-02T15:04:05.000000Z07:00"


def time_flaw(text: str, layout: str = _LAYOUT) -> str:
    """Return why a text is no instant, in upstream's words. Empty if it is one."""
    rest = text
    for name, pattern in _TIME:
        found = re.match(pattern, rest, re.ASCII)
        if found is None:
            return f'parsing time "{text}" as "{layout}": cannot parse "{rest}" as "{name}"'
        low, high, words = _RANGES.get(name, (0, 0, ""))
        if words and not low <= int(found[0]) <= high:
            return f'parsing time "{text}": {words} out of range'
        rest = rest[found.end() :]
    return f'parsing time "{text}": extra text: "{rest}"' if rest else ""


_DECODE_THEMSELVES: Final = frozenset({Form.TIME, Form.INT_OR_STRING})
"""Types whose errors end decoding. After those of others it goes on, and the first one counts."""

_ZEROS: Final[Mapping[Form, Any]] = {Form.STRING: "", Form.INTEGER: 0, Form.NUMBER: 0, Form.BOOLEAN: False}


def pairs(found: Mapping[str, Any]) -> Iterator[tuple[str, Any, bool]]:
    """Yield the fields of an object, and whether each repeats one before it."""
    if not isinstance(found, Repeating):
        for name, value in found.items():
            yield name, value, False
        return
    seen: set[str] = set()
    for name, value in found.pairs:
        yield name, value, name in seen
        seen.add(name)


class Decoder:
    """Decodes a document into upstream's built-in types.

    A path has indexes (`spec.tolerations[0].key`). `where` is the Go struct and the names to a field, without indexes.
    """

    def __init__(self) -> None:
        self._problems: dict[str, None] = {}
        self._mistyped = ""
        self._which: tuple[Schema, Any] | None = None

    @property
    def problems(self) -> list[str]:
        """The unknown and the repeated fields, in the order of the document."""
        return list(self._problems)

    def _found(self, problem: str) -> None:
        self._problems[problem] = None

    def finish(self) -> None:
        """Raise a DecodeError for the first mistyped field, if there is one."""
        if self._mistyped:
            raise DecodeError(self._mistyped, mistyped=self._which)

    def struct(self, schema: Schema, found: Mapping[str, Any], path: str, where: tuple[str, ...]) -> Document:
        """Return an object without the fields that its schema does not have."""
        made: Document = {}
        struct = schema.name.rpartition(".")[2]
        names = where[1:]
        for name, value, repeats in pairs(found):
            inner = f"{path}.{name}" if path else name
            field = schema.fields.get(name)
            if field is None:
                if schema.keeps_unknown:
                    made[name] = value
                else:
                    self._found(f'unknown field "{inner}"')
                continue
            if repeats:
                self._found(f'duplicate field "{inner}"')
            if value is not None:
                made[name] = self.value(field.schema, value, inner, (struct, *names, *field.embedded, name))
        return made

    def value(self, schema: Schema, value: Any, path: str, where: tuple[str, ...]) -> Any:
        """Return a value as its schema has it. A mistyped one is remembered."""
        match schema.form:
            case Form.STRUCT if isinstance(value, dict):
                return self.struct(schema, value, path, where)
            case Form.LIST if isinstance(value, list):
                return [self._item(schema.items, one, f"{path}[{at}]", where) for at, one in enumerate(value)]
            case Form.MAP if isinstance(value, dict):
                return self._map(schema, value, path, where)
            case Form.STRUCT | Form.LIST | Form.MAP:
                return self._mistaken(schema, value, where)
            case Form.ANY:
                return self._any(schema, value, path)
        return self._scalar(schema, value, where)

    def _item(self, schema: Schema | None, value: Any, path: str, where: tuple[str, ...]) -> Any:
        """Return an element of a list, or a value of a map. null is the zero value."""
        if schema is None:
            return value
        if value is None:
            return {} if schema.form is Form.STRUCT else _ZEROS.get(schema.form)
        return self.value(schema, value, path, where)

    def _map(self, schema: Schema, value: Mapping[str, Any], path: str, where: tuple[str, ...]) -> Document:
        made = {}
        for key, one, repeats in pairs(value):
            if repeats:
                self._found(f'duplicate field "{path}.{key}"')
            made[key] = self._item(schema.items, one, f"{path}.{key}", where)
        return made

    def _any(self, schema: Schema, value: Any, path: str) -> Any:
        # A type that decodes itself keeps its text, so repeated fields in it are not reported.
        if not schema.name:
            for one in repeated(value, path):
                self._found(one)
        return value

    def _scalar(self, schema: Schema, value: Any, where: tuple[str, ...]) -> Any:
        if schema.form is Form.QUANTITY:
            _check_quantity(value)
            return value
        if schema.format == "byte" and isinstance(value, list):
            return self._bytes(schema, value, where)
        if not _is_of(schema, value):
            return self._mistaken(schema, value, where)
        if schema.form is Form.TIME:
            layout = _MICRO_LAYOUT if schema.name.endswith(".MicroTime") else _LAYOUT
            if flaw := time_flaw(value, layout):
                raise DecodeError(flaw)
        elif schema.format == "byte" and (flaw := _base64_flaw(value)):
            self._mistyped = self._mistyped or flaw
        return value

    def _bytes(self, schema: Schema, value: list[Any], where: tuple[str, ...]) -> Any:
        """Return bytes that are written as numbers, which upstream takes as well as base64."""
        if all(isinstance(one, int) and not isinstance(one, bool) and one in range(256) for one in value):
            return base64.b64encode(bytes(value)).decode()
        return self._mistaken(schema, value, where)

    def _mistaken(self, schema: Schema, value: Any, where: tuple[str, ...]) -> Any:
        if self._mistyped and schema.form not in _DECODE_THEMSELVES:
            return None
        said = json_type(value)
        if said == "number" and schema.form in {Form.INTEGER, Form.INT_OR_STRING}:
            said = f"number {value}"
        target = type_name(schema)
        place = f"Go struct field {'.'.join(where)} of type" if len(where) > 1 else "Go value of type"
        self._mistyped = f"json: cannot unmarshal {said} into {place} {target}"
        self._which = (schema, value)
        if schema.form in _DECODE_THEMSELVES:
            self.finish()
        return None


def _is_of(schema: Schema, value: Any) -> bool:
    """Return whether a scalar has the form of its schema."""
    if isinstance(value, bool):
        return schema.form is Form.BOOLEAN
    if isinstance(value, str):
        return schema.form in {Form.STRING, Form.TIME, Form.INT_OR_STRING}
    if schema.form in {Form.INTEGER, Form.INT_OR_STRING} and isinstance(value, int):
        limit = 1 << (63 if schema.format == "int64" else 31)
        return -limit <= value < limit
    return schema.form is Form.NUMBER and isinstance(value, int | float)


def repeated(value: Any, path: str) -> Iterator[str]:
    """Yield the repeated fields of a value of any structure."""
    if isinstance(value, Mapping):
        for name, one, repeats in pairs(value):
            inner = f"{path}.{name}" if path else name
            if repeats:
                yield f'duplicate field "{inner}"'
            yield from repeated(one, inner)
    elif isinstance(value, list):
        for at, one in enumerate(value):
            yield from repeated(one, f"{path}[{at}]")


_QUANTITY: Final = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"


def _check_quantity(value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise DecodeError(_QUANTITY)
    try:
        parse_quantity(value if isinstance(value, str) else str(value))
    except QuantityError:
        raise DecodeError(_QUANTITY) from None


def _base64_flaw(value: str) -> str:
    """Return why a text is not base64. Empty if it is."""
    try:
        base64.b64decode(re.sub(r"[\r\n]", "", value), validate=True)
    except (binascii.Error, ValueError):
        good = len(re.match(r"[A-Za-z0-9+/]*", value)[0])  # type: ignore[index]  # it matches every text
        at = good if good < len(value) and value[good] != "=" else good - good % 4
        return f"illegal base64 data at input byte {at}"
    return ""


_ELSEWHERE: Final = frozenset({"metadata", "status"})
"""Fields of an object that have checks of their own, or that only services write."""

_NOTHING: Final[Mapping[str, Any]] = {}


def structural_errors(schema: Schema, document: Mapping[str, Any]) -> Iterator[FieldError]:
    """Yield the errors of texts that are missing, and of those that are none of a field's values.

    As in a client in Go, an empty text counts as absent where none is required. A number, an object or a list that is
    missing counts as 0 or empty. The document was decoded, and has the defaults of its fields.
    """
    for name, field in schema.fields.items():
        if name not in _ELSEWHERE:
            yield from _in_field(field, document.get(name), name)


def _in_field(field: Field, value: Any, path: str) -> Iterator[FieldError]:
    if value is not None:
        yield from _in_value(field.schema, value, path)
    elif field.required and field.schema.form is Form.STRING:
        yield required(path)
    elif field.required and field.schema.form is Form.STRUCT:
        yield from _in_value(field.schema, _NOTHING, path)


def _in_value(schema: Schema, value: Any, path: str) -> Iterator[FieldError]:
    if isinstance(value, Mapping):
        for name, field in schema.fields.items():
            if (inner := value.get(name)) is not None or field.required:
                yield from _in_field(field, inner, f"{path}.{name}")
    elif isinstance(value, list):
        if schema.items is not None:
            for index, one in enumerate(value):
                yield from _in_value(schema.items, one, f"{path}[{index}]")
    elif schema.enum and value and value not in schema.enum:
        yield not_supported(path, value, schema.enum)


_RESTORED: Final[Mapping[Form, str]] = {
    Form.STRUCT: "cannot restore struct from: {}",
    Form.LIST: "cannot restore slice from {}",
    Form.MAP: "cannot restore map from {}",
}
_CONVERTED: Final = frozenset({Form.TIME, Form.INT_OR_STRING, Form.QUANTITY})


_BASE64: Final = "illegal base64 data"


def conversion_flaw(error: DecodeError) -> str:
    """Return what is wrong with a document, in the words of a conversion."""
    if error.mistyped is None:
        return f"error decoding from json: {error.reason}" if error.reason.startswith(_BASE64) else error.reason
    schema, value = error.mistyped
    if schema.form in _CONVERTED:
        return error.reason
    return _flaw(schema, _type(value))


def _flaw(schema: Schema, found: str) -> str:
    if (words := _RESTORED.get(schema.form)) is not None:
        return words.format(found)
    if schema.format == "byte":
        return _RESTORED[Form.LIST].format(found)
    kind = kind_of(schema)
    # Upstream's language converts whole numbers to texts, and numbers to each other, so these fail later than others.
    if (found == "int64" and kind != "bool") or (found == "float64" and kind not in {"bool", "string"}):
        return f"cannot convert {found} to {type_name(schema)}"
    return f"unrecognized type: {kind}"


def _type(value: Any) -> str:
    """Return the name of a JSON value's type in upstream's memory."""
    match value:
        case bool():
            return "bool"
        case int():
            return "int64"
        case float():
            return "float64"
        case str():
            return "string"
        case Mapping():
            return "map"
    return "slice"
