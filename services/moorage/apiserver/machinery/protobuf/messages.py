"""Kubernetes' protobuf: objects in their envelope, and the frames of a watch.

An object is a prefix of four bytes (`k8s` and a zero), then a message (`runtime.Unknown`) with its `apiVersion` and
`kind`, and the object itself as bytes. What it contains follows from the schema of its kind.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from moorage.apiserver.machinery.openapi import registry
from moorage.apiserver.machinery.openapi.built_in import DecodeError
from moorage.apiserver.machinery.protobuf import decoding, encoding, wire
from moorage.apiserver.machinery.protobuf.encoding import NotEncodableError
from moorage.apiserver.machinery.protobuf.wire import BYTES, WireError
from moorage.apiserver.machinery.schema import Schema

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

    Args:
        body: the envelope.
        group: the API group of an object whose envelope does not name its type. Empty for the core group.
        version: of the group.
        kind: of such an object.

    Raises:
        DecodeError: the bytes are no such envelope, or name a kind that has no protobuf.
    """
    try:
        return _decode(memoryview(body), (group, version, kind), _DEEPEST)
    except (WireError, UnicodeDecodeError) as error:
        raise DecodeError(f"proto: {error}") from None


def encode_object(document: Mapping[str, Any]) -> bytes:
    """Return an object in its envelope. Fields that its kind does not have are left out.

    Args:
        document: an object or a list, with `apiVersion` and `kind`.

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
    named = wire.field(1, BYTES, api_version.encode()) + wire.field(2, BYTES, kind.encode())
    raw = encoding.message(schema, document, kind)
    fields = ((_TYPE, named), (_RAW, raw), (_ENCODING, b""), (_CONTENT_TYPE, b""))
    return _PREFIX + b"".join(wire.field(number, BYTES, value) for number, value in fields)


def encode_list(empty: Mapping[str, Any], items: Iterable[Mapping[str, Any] | None], piece: int) -> Iterator[bytes]:
    """Yield a list in its envelope. Its bytes come last, because the envelope begins with their number.

    Args:
        empty: the list without its items, with `apiVersion` and `kind`.
        items: its objects. None stands for one that is not in the list, and cost time.
        piece: the number of objects after which empty bytes are yielded, so that others get the processor.

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
    named = wire.field(1, BYTES, api_version.encode()) + wire.field(2, BYTES, kind.encode())
    raw = b"".join(parts)
    yield _PREFIX + wire.field(_TYPE, BYTES, named)
    yield wire.field(_RAW, BYTES, raw)
    yield wire.field(_ENCODING, BYTES, b"") + wire.field(_CONTENT_TYPE, BYTES, b"")


def encode_event(kind: str, encoded: bytes) -> bytes:
    """Return the frame of an event of a watch: its length in four bytes, then the event.

    Args:
        kind: `ADDED`, `MODIFIED`, `DELETED`, `BOOKMARK` or `ERROR`.
        encoded: the object in its envelope (`encode_object`).
    """
    raw = wire.field(1, BYTES, encoded)
    event = wire.field(1, BYTES, kind.encode()) + wire.field(2, BYTES, raw)
    return len(event).to_bytes(4, "big") + event


def _split(api_version: str) -> tuple[str, str]:
    group, _, version = api_version.rpartition("/")
    return group, version


def _schema_of(group: str, version: str, kind: str) -> Schema | None:
    """The schema of a kind that has protobuf. None for others."""
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
        """An object in an envelope of its own. None if the bytes are no envelope."""
        is_envelope = bytes(raw[: len(_PREFIX)]) == _PREFIX
        return _decode(raw, ("", "", ""), deepest - 1) if is_envelope else None

    document = decoding.message(schema, found.raw, embedded)
    return {"apiVersion": found.api_version, "kind": found.kind, **document}
