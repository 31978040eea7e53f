"""The wire format of protobuf: numbers, lengths and bytes, without messages."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final

VARINT: Final = 0
FIXED64: Final = 1
BYTES: Final = 2
FIXED32: Final = 5

_MOST_BITS: Final = 64
_WIDTHS: Final = {FIXED64: 8, FIXED32: 4}


class WireError(ValueError):
    """Bytes that are no protobuf message."""


def varint(value: int) -> bytes:
    """Encode an integer. A negative one takes ten bytes, as a number of 64 bits."""
    value &= (1 << _MOST_BITS) - 1
    made = bytearray()
    while value > 0x7F:  # noqa: PLR2004 - seven bits a byte
        made.append(value & 0x7F | 0x80)
        value >>= 7
    made.append(value)
    return bytes(made)


def read_varint(data: memoryview, at: int) -> tuple[int, int]:
    """Return the unsigned integer at a place, and the place behind it.

    Raises:
        WireError: it is cut off, or longer than 64 bits.
    """
    value = shift = 0
    while True:
        if at >= len(data):
            raise WireError("unexpected EOF")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:  # noqa: PLR2004 - the last byte has its highest bit clear
            return value & (1 << _MOST_BITS) - 1, at
        shift += 7
        if shift >= _MOST_BITS:
            raise WireError("integer overflow")


def signed(value: int, bits: int) -> int:
    """Return the lowest bits of an unsigned integer as one with a sign."""
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def field(number: int, kind: int, value: bytes) -> bytes:
    """Encode one field. The value of `BYTES` gets its length before it."""
    size = varint(len(value)) if kind == BYTES else b""
    return varint(number << 3 | kind) + size + value


def fields(data: memoryview) -> Iterator[tuple[int, int, int | memoryview]]:
    """Yield the fields of a message: number, kind, and the value, which is an integer for `VARINT`.

    Raises:
        WireError: the bytes are no message.
    """
    at = 0
    while at < len(data):
        tag, at = read_varint(data, at)
        number, kind = tag >> 3, tag & 7
        if number == 0:
            raise WireError(f"illegal tag {number} (wire type {kind})")
        if kind == VARINT:
            value, at = read_varint(data, at)
            yield number, kind, value
            continue
        if kind == BYTES:
            size, at = read_varint(data, at)
        elif kind in _WIDTHS:
            size = _WIDTHS[kind]
        else:
            raise WireError(f"illegal wireType {kind}")
        if size > len(data) - at:
            raise WireError("unexpected EOF")
        yield number, kind, data[at : at + size]
        at += size


def double(value: float) -> bytes:
    """Encode a number as `FIXED64`."""
    return struct.pack("<d", value)


def read_double(value: memoryview) -> float:
    """Return the number in the bytes of a `FIXED64`."""
    found: float = struct.unpack("<d", value)[0]
    return found
