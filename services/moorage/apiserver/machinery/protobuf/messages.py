"""Kubernetes' protobuf: objects in their envelope, and the frames of a watch.

An object is a prefix of four bytes (`k8s` and a zero), then a message (`runtime.Unknown`) with its `apiVersion` and
`kind`, and the object itself as bytes. What it contains follows from the schema of its kind.

A message does not distinguish an absent field from one with the zero value where upstream's type does not either. What
JSON shows then is what upstream's type would show.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from moorage.apiserver.machinery.openapi import registry
from moorage.apiserver.machinery.openapi.built_in import DecodeError
from moorage.apiserver.machinery.protobuf import encoding, wire
from moorage.apiserver.machinery.protobuf.encoding import (
    MICRO_TIME,
    ONLY,
    MessageLayout,
    NotEncodableError,
    is_repeated,
    layout,
    wire_type,
)
from moorage.apiserver.machinery.protobuf.wire import BYTES, VARINT, WireError
from moorage.apiserver.machinery.schema import ZEROS, Field, Form, Schema

MEDIA_TYPE: Final = "application/vnd.kubernetes.protobuf"
"""The media type of an object. A watch has it with the parameter `stream=watch`."""

_PREFIX: Final = b"k8s\x00"
_DEEPEST: Final = 4
"""Envelopes within each other. A list of `v1` contains objects in theirs."""

_TYPE, _RAW, _ENCODING, _CONTENT_TYPE = 1, 2, 3, 4
"""The numbers of the envelope's fields."""

Document = dict[str, Any]


def decode_object(body: bytes, group: str = "", version: str = "", kind: str = "") -> Document:
    """Return the object in an envelope, with its `apiVersion` and `kind`. Fields that are null are left out.

    The group, version and kind are those of an object whose envelope does not name its type.

    Raises:
        DecodeError: the bytes are no such envelope, or name a kind that has no protobuf.
    """
    try:
        return _decode(memoryview(body), (group, version, kind), _DEEPEST)
    except (WireError, UnicodeDecodeError) as error:
        raise DecodeError(f"proto: {error}") from None


def encode_object(document: Mapping[str, Any]) -> bytes:
    """Return an object in its envelope. Fields that its kind does not have are left out.

    Raises:
        NotEncodableError: its kind has no protobuf, or a value is not of the type of its field.
    """
    api_version, kind = str(document.get("apiVersion", "")), str(document.get("kind", ""))
    schema = _schema_of(*_split(api_version), kind)
    if schema is None:
        raise NotEncodableError(
            "object *unstructured.Unstructured does not implement the protobuf marshalling interface and cannot be "
            "encoded to a protobuf message"
        )
    return b"".join(_enveloped(api_version, kind, encoding.message(schema, document, kind)))


def encode_list(empty: Mapping[str, Any], items: Iterable[Mapping[str, Any] | None], piece: int) -> Iterator[bytes]:
    """Yield a list in its envelope. Its bytes come last, because the envelope begins with their number.

    None among `items` stands for one that is not in the list, and cost time. After each `piece` of them, empty bytes
    are yielded, so that others get the processor.

    Raises:
        NotEncodableError: the kind has no protobuf, or a value is not of the type of its field.
    """
    api_version, kind = str(empty["apiVersion"]), str(empty["kind"])
    schema = _schema_of(*_split(api_version), kind)
    field_of_items = schema.fields["items"] if schema is not None else None
    if schema is None or field_of_items is None or field_of_items.schema.items is None:
        raise NotEncodableError(f"{kind} has no protobuf")
    of_item, number = field_of_items.schema.items, field_of_items.number
    parts = [encoding.message(schema, {**empty, "items": []}, kind)]
    for count, item in enumerate(items, start=1):
        if item is not None:
            parts.append(wire.field(number, BYTES, encoding.message(of_item, item, kind)))
        if count % piece == 0:
            yield b""
    yield from _enveloped(api_version, kind, b"".join(parts))


def _enveloped(api_version: str, kind: str, raw: bytes) -> Iterator[bytes]:
    """Yield an envelope in pieces."""
    named = wire.field(1, BYTES, api_version.encode()) + wire.field(2, BYTES, kind.encode())
    yield _PREFIX + wire.field(_TYPE, BYTES, named)
    yield wire.field(_RAW, BYTES, raw)
    yield wire.field(_ENCODING, BYTES, b"") + wire.field(_CONTENT_TYPE, BYTES, b"")


def encode_event(kind: str, encoded: bytes) -> bytes:
    """Return the frame of an event of a watch: its length in four bytes, then the event.

    The object is in its envelope (`encode_object`).
    """
    raw = wire.field(1, BYTES, encoded)
    event = wire.field(1, BYTES, kind.encode()) + wire.field(2, BYTES, raw)
    return len(event).to_bytes(4, "big") + event


def _split(api_version: str) -> tuple[str, str]:
    group, _, version = api_version.rpartition("/")
    return group, version


def _schema_of(group: str, version: str, kind: str) -> Schema | None:
    """Return the schema of a kind that has protobuf. None for others."""
    if not registry.origin_of(group, kind).has_protobuf:
        return None
    try:
        return registry.schema_of(group, version, kind)
    except LookupError:
        return None


@dataclass(slots=True)
class _Envelope:
    api_version: str = ""
    kind: str = ""
    raw: memoryview = field(default_factory=lambda: memoryview(b""))


def _opened(body: memoryview) -> _Envelope:
    if bytes(body[: len(_PREFIX)]) != _PREFIX:
        raise DecodeError("provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]")
    found = _Envelope()
    for number, _, value in wire.fields(body[len(_PREFIX) :]):
        if isinstance(value, int):
            continue
        if number == _TYPE:
            said = {at: bytes(one).decode() for at, _, one in wire.fields(value) if not isinstance(one, int)}
            found.api_version, found.kind = said.get(1, ""), said.get(2, "")
        elif number == _RAW:
            found.raw = value
        elif number == _ENCODING and value:
            raise DecodeError(f'proto: the object has the content encoding "{bytes(value).decode()}"')
    return found


def _decode(body: memoryview, expected: tuple[str, str, str], deepest: int) -> Document:
    if not deepest:
        raise DecodeError("proto: envelopes are nested too deeply")
    found = _opened(body)
    if not found.kind:
        group, version, found.kind = expected
        found.api_version = f"{group}/{version}" if group else version
    schema = _schema_of(*_split(found.api_version), found.kind)
    if schema is None:
        raise DecodeError(f'no kind "{found.kind}" is registered for version "{found.api_version}"')

    def embedded(raw: memoryview) -> Document | None:
        """Return an object in an envelope of its own. None if the bytes are no envelope."""
        is_envelope = bytes(raw[: len(_PREFIX)]) == _PREFIX
        return _decode(raw, ("", "", ""), deepest - 1) if is_envelope else None

    document = decoded(schema, found.raw, embedded)
    return {"apiVersion": found.api_version, "kind": found.kind, **document}


Embedded = Callable[[memoryview], Document | None]
"""Decodes bytes that are embedded in a message, if they are an object in its envelope."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def decoded(schema: Schema, data: memoryview, embedded: Embedded) -> Document:
    """Return a message of a struct's type.

    Raises:
        WireError: the bytes are no such message.
        UnicodeDecodeError: a text is not UTF-8.
    """
    return _Decoder(embedded).struct(schema, data)


class _Decoder:
    def __init__(self, embedded: Embedded) -> None:
        self._embedded = embedded

    def struct(self, schema: Schema, data: memoryview) -> Document:
        found: Document = {}
        self._collect(layout(schema), data, found)
        made: Document = {}
        for name, one in schema.fields.items():
            if not one.number:
                continue
            value = found.get(name)
            if value is None:
                value = self._absent(one)
            elif one.omits_empty and not one.is_pointer and _is_empty(value, one.schema):
                continue
            if value is not None:
                made[name] = value
        return made

    def _absent(self, one: Field) -> Any:
        """Return the JSON value of a field that the message lacks. None if JSON omits it."""
        if one.is_pointer or one.omits_empty or one.schema.format == "byte":
            return None
        match one.schema.form:
            case Form.STRUCT:
                return self.struct(one.schema, memoryview(b""))
            case Form.LIST:
                return []
        return ZEROS.get(one.schema.form)

    def _collect(self, at: MessageLayout, data: memoryview, into: Document) -> None:
        """Read the fields of a message. Those of embedded messages are put beside its own."""
        for number, kind, value in wire.fields(data):
            if (embedded := at.embedded.get(number)) is not None and isinstance(value, memoryview):
                self._collect(embedded, value, into)
            elif (one := at.fields.get(number)) is not None:
                self._field(one, kind, value, into)

    def _field(self, one: Field, kind: int, value: int | memoryview, into: Document) -> None:
        schema = one.schema
        if is_repeated(schema) and schema.items is not None:
            listed = into.setdefault(one.name, [])
            if kind == BYTES and wire_type(schema.items) == VARINT and isinstance(value, memoryview):
                listed += _packed(schema.items, value)
            else:
                listed.append(self._value(schema.items, kind, value))
        elif schema.form is Form.MAP and schema.items is not None:
            key, entry = self._entry(schema.items, value)
            into.setdefault(one.name, {})[key] = entry
        else:
            # Protobuf merges a message that comes twice. No client sends one, so the last one counts here.
            into[one.name] = self._value(schema, kind, value)

    def _entry(self, items: Schema, data: int | memoryview) -> tuple[str, Any]:
        """Return the key and the value of an entry of a map."""
        if isinstance(data, int):
            raise WireError("wrong wireType = 0 for an entry of a map")
        kind = wire_type(items)
        key, entry = "", self._value(items, kind, _nothing(kind))
        for number, inner_kind, value in wire.fields(data):
            if number == 1 and isinstance(value, memoryview):
                key = bytes(value).decode()
            elif number == 2:  # noqa: PLR2004 - the number of the value
                entry = self._value(items, inner_kind, value)
        return key, entry

    def _value(self, schema: Schema, kind: int, value: int | memoryview) -> Any:
        """Return one value of a field, of a list or of a map."""
        if kind != wire_type(schema):
            raise WireError(f"wrong wireType = {kind} for a value of the form {schema.form.value}")
        if isinstance(value, int):
            return _integer(schema, value)
        if schema.form is Form.STRUCT:
            return self.struct(schema, value)
        if schema.form is Form.LIST and schema.items is not None:
            items = schema.items
            inner = ((kind, one) for number, kind, one in wire.fields(value) if number == ONLY)
            return [self._value(items, kind, one) for kind, one in inner]
        if schema.form is Form.ANY:
            return self._any(value)
        return _VALUES.get(schema.form, _text)(schema, value)

    def _any(self, data: memoryview) -> Any:
        """Return a value that is embedded as text, or as an object in its envelope."""
        raw = _last(data, ONLY)
        if not raw:
            return None
        if (found := self._embedded(raw)) is not None:
            return found
        try:
            return json.loads(bytes(raw), parse_constant=_no_constant)
        except (ValueError, RecursionError):
            raise WireError("embedded bytes are not JSON") from None


def _no_constant(text: str) -> Any:
    raise WireError(f"embedded bytes are not JSON: {text}")


def _nothing(kind: int) -> int | memoryview:
    """Return the placeholder of an absent value."""
    return 0 if kind == VARINT else memoryview(bytes(8) if kind != BYTES else b"")


def _is_empty(value: Any, schema: Schema) -> bool:
    """Return whether a value is the zero value of a type that is no struct."""
    return schema.form not in {Form.STRUCT, Form.ANY, Form.INT_OR_STRING, Form.QUANTITY} and not value


def _packed(items: Schema, data: memoryview) -> Iterator[Any]:
    at = 0
    while at < len(data):
        value, at = wire.read_varint(data, at)
        yield _integer(items, value)


def _integer(schema: Schema, value: int) -> int | bool:
    return value != 0 if schema.form is Form.BOOLEAN else wire.signed(value, 64 if schema.format == "int64" else 32)


def _last(data: memoryview, number: int) -> memoryview:
    """Return the bytes of the last field of a number. Empty if there is none."""
    found = [value for at, _, value in wire.fields(data) if at == number and isinstance(value, memoryview)]
    return found[-1] if found else memoryview(b"")


def _text(schema: Schema, data: memoryview) -> str:
    return base64.b64encode(data).decode() if schema.format == "byte" else bytes(data).decode()


def _number(_: Schema, data: memoryview) -> float:
    found = wire.read_double(data)
    if not math.isfinite(found):
        raise WireError("a number is not finite")
    return found


def _quantity(_: Schema, data: memoryview) -> str:
    return bytes(_last(data, ONLY)).decode() or "0"


def _time(schema: Schema, data: memoryview) -> str | None:
    if not data:
        return None
    said = {number: value for number, _, value in wire.fields(data) if isinstance(value, int)}
    seconds, nanos = wire.signed(said.get(1, 0), 64), wire.signed(said.get(2, 0), 32)
    try:
        found = _EPOCH + timedelta(seconds=seconds, microseconds=nanos // 1000 if schema.name == MICRO_TIME else 0)
    except OverflowError:
        raise WireError(f"a time is out of range: {seconds} s") from None
    text = found.replace(tzinfo=None).isoformat(timespec="microseconds" if schema.name == MICRO_TIME else "seconds")
    return f"{text}Z"


def _int_or_string(_: Schema, data: memoryview) -> int | str:
    said = {number: value for number, _, value in wire.fields(data) if isinstance(value, int)}
    is_text, number = said.get(1, 0), said.get(2, 0)
    return bytes(_last(data, 3)).decode() if is_text else wire.signed(number, 32)


_VALUES: Final[Mapping[Form, Callable[[Schema, memoryview], Any]]] = {
    Form.NUMBER: _number,
    Form.TIME: _time,
    Form.QUANTITY: _quantity,
    Form.INT_OR_STRING: _int_or_string,
}
