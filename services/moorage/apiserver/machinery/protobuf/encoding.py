"""Documents as messages of protobuf. Fields that are absent have the zero value for readers."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any, Final

from moorage.apiserver.machinery.openapi.definitions import META
from moorage.apiserver.machinery.protobuf import wire
from moorage.apiserver.machinery.protobuf.wire import BYTES, FIXED64, VARINT
from moorage.apiserver.machinery.schema import Field, Form, Schema

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class NotEncodableError(ValueError):
    """An object without a form in protobuf. An API server answers 406."""


def message(schema: Schema, document: Mapping[str, Any], path: str) -> bytes:
    """Return the message of an object. Fields that its schema does not have are left out.

    Raises:
        NotEncodableError: a value is not of the type of its field.
    """
    return _struct(layout(schema), document, path)


def _struct(at: MessageLayout, document: Mapping[str, Any], path: str) -> bytes:
    parts: list[tuple[int, bytes]] = []
    for number, embedded in at.embedded.items():
        if inner := _struct(embedded, document, path):
            parts.append((number, wire.field(number, BYTES, inner)))
    for number, one in at.fields.items():
        value = document.get(one.name)
        if value is not None:
            parts.append((number, _field(number, one.schema, value, f"{path}.{one.name}")))
    return b"".join(part for _, part in sorted(parts, key=lambda part: part[0]))


def _field(number: int, schema: Schema, value: Any, path: str) -> bytes:
    if is_repeated(schema) and schema.items is not None:
        return _repeated(number, schema.items, value, path)
    if schema.form is Form.MAP and schema.items is not None:
        return _map(number, schema.items, value, path)
    return wire.field(number, wire_type(schema), _value(schema, value, path))


def _repeated(number: int, items: Schema, value: Any, path: str) -> bytes:
    kind = wire_type(items)
    listed = enumerate(_typed(value, path, list))
    return b"".join(wire.field(number, kind, _value(items, one, f"{path}[{at}]")) for at, one in listed)


def _map(number: int, items: Schema, value: Any, path: str) -> bytes:
    kind = wire_type(items)
    entries = (
        wire.field(1, BYTES, key.encode()) + wire.field(2, kind, _value(items, one, f"{path}.{key}"))
        for key, one in sorted(_typed(value, path, Mapping).items())
    )
    return b"".join(wire.field(number, BYTES, entry) for entry in entries)


def _typed(value: Any, path: str, *wanted: type) -> Any:
    if not isinstance(value, wanted) or (isinstance(value, bool) and bool not in wanted):
        raise NotEncodableError(f"{path}: a {type(value).__name__} cannot be encoded to a protobuf message")
    return value


def _value(schema: Schema, value: Any, path: str) -> bytes:
    """Return the bytes of one value, without its tag and length. null in a list or a map is the zero value."""
    if value is None:
        return {VARINT: b"\x00", FIXED64: bytes(8)}.get(wire_type(schema), b"")
    if schema.form is Form.STRUCT:
        return message(schema, _typed(value, path, Mapping), path)
    if schema.form is Form.LIST and schema.items is not None:
        return _repeated(ONLY, schema.items, value, path)
    return _VALUES.get(schema.form, _text)(schema, value, path)


def _text(schema: Schema, value: Any, path: str) -> bytes:
    text: str = _typed(value, path, str)
    try:
        return base64.b64decode(text, validate=True) if schema.format == "byte" else text.encode()
    except (binascii.Error, ValueError):
        raise NotEncodableError(f"{path}: it is not {'base64' if schema.format == 'byte' else 'UTF-8'}") from None


def _integer(_: Schema, value: Any, path: str) -> bytes:
    whole = int(value) if isinstance(value, float) and value.is_integer() else value
    return wire.varint(_typed(whole, path, int))


def _boolean(_: Schema, value: Any, path: str) -> bytes:
    return wire.varint(int(_typed(value, path, bool)))


def _number(_: Schema, value: Any, path: str) -> bytes:
    return wire.double(float(_typed(value, path, int, float)))


def _time(schema: Schema, value: Any, path: str) -> bytes:
    try:
        found = datetime.fromisoformat(_typed(value, path, str))
    except ValueError:
        raise NotEncodableError(f"{path}: {value!r} is no time") from None
    since = (found if found.tzinfo is not None else found.replace(tzinfo=UTC)) - _EPOCH
    nanos = since.microseconds * 1000 if schema.name == MICRO_TIME else 0
    seconds = wire.field(1, VARINT, wire.varint(since // timedelta(seconds=1)))
    return seconds + wire.field(2, VARINT, wire.varint(nanos))


def _int_or_string(_: Schema, value: Any, path: str) -> bytes:
    text = value if isinstance(value, str) else ""
    number = 0 if isinstance(value, str) else _typed(value, path, int)
    kind = wire.field(1, VARINT, wire.varint(int(isinstance(value, str))))
    return kind + wire.field(2, VARINT, wire.varint(number)) + wire.field(3, BYTES, text.encode())


def _quantity(_: Schema, value: Any, path: str) -> bytes:
    text = value if isinstance(value, str) else json.dumps(_typed(value, path, int, float))
    return wire.field(ONLY, BYTES, text.encode())


def _any(_: Schema, value: Any, path: str) -> bytes:
    try:
        return wire.field(ONLY, BYTES, json.dumps(value, separators=(",", ":"), allow_nan=False).encode())
    except (TypeError, ValueError):
        raise NotEncodableError(f"{path}: it is not JSON") from None


_VALUES: Final[Mapping[Form, Callable[[Schema, Any, str], bytes]]] = {
    Form.INTEGER: _integer,
    Form.BOOLEAN: _boolean,
    Form.NUMBER: _number,
    Form.TIME: _time,
    Form.INT_OR_STRING: _int_or_string,
    Form.QUANTITY: _quantity,
    Form.ANY: _any,
}


MICRO_TIME: Final = f"{META}.MicroTime"
"""The definition of an instant with microseconds. Others have seconds."""

ONLY: Final = 1
"""The number of the one field of messages that stand for a value: a quantity, embedded JSON, a list in a map."""


@dataclass(slots=True)
class MessageLayout:
    """The fields of a message by their numbers."""

    fields: dict[int, Field] = field(default_factory=dict)
    embedded: dict[int, MessageLayout] = field(default_factory=dict)
    """Messages whose fields JSON shows beside those of the message that they are in."""


@cache
def layout(schema: Schema) -> MessageLayout:
    """Return how the message of a struct is laid out."""
    made = MessageLayout()
    for one in schema.fields.values():
        if one.number:
            at = made
            for number in one.within:
                at = at.embedded.setdefault(number, MessageLayout())
            at.fields[one.number] = one
    return made


def wire_type(schema: Schema) -> int:
    """Return the wire type of one value."""
    return {Form.INTEGER: VARINT, Form.BOOLEAN: VARINT, Form.NUMBER: FIXED64}.get(schema.form, BYTES)


def is_repeated(schema: Schema) -> bool:
    """Return whether each element of a list is a field. A list whose type has a name is a message of its elements."""
    return schema.form is Form.LIST and not schema.type_name
