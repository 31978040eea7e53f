"""Kafka's format of a record (version 2), as bytes.

aiokafka takes the headers of each record as a list of tuples. Making these lists takes longer than writing the records,
and a few decisions in flight hold a million objects, which every garbage collection visits. So a record that is written
is bytes from the start. Only readers in memory make tuples of its headers again.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Final

Header = tuple[str, bytes]

_KEPT: Final = 65_536
"""Numbers below this are encoded once."""


class _Varints(dict[int, bytes]):
    """Lengths and counts as Kafka writes them: zigzag, in groups of seven bits."""

    def __missing__(self, number: int) -> bytes:
        left, found = number << 1, bytearray()
        while left > 0x7F:  # noqa: PLR2004 - the largest number of seven bits
            found.append(left & 0x7F | 0x80)
            left >>= 7
        found.append(left)
        encoded = bytes(found)
        if number < _KEPT:
            self[number] = encoded
        return encoded


VARINT: Final = _Varints()
"""The encoding of each number from 0."""

NULL: Final = b"\x01"
"""The length of an absent value: -1."""


def header_bytes(name: str, value: bytes) -> bytes:
    """Return the bytes of one header."""
    raw = name.encode()
    return b"%b%b%b%b" % (VARINT[len(raw)], raw, VARINT[len(value)], value)


def headers_bytes(headers: Sequence[Header]) -> bytes:
    """Return the bytes of all headers of a record, with their number."""
    return VARINT[len(headers)] + b"".join([header_bytes(name, value) for name, value in headers])


def record_bytes(key: bytes, value: bytes | None, headers: bytes) -> bytes:
    """Return the bytes of a record from its key on.

    Args:
        key: its key.
        value: its value; None for a tombstone.
        headers: the result of `headers_bytes`.
    """
    has = NULL if value is None else VARINT[len(value)]
    return b"".join((VARINT[len(key)], key, has, value or b"", headers))


def headers_of(data: bytes, at: int = 0) -> list[Header]:
    """Return the headers that `headers_bytes` was given, from its result or from a place in a record."""
    count, at = _number(data, at)
    found: list[Header] = []
    for _ in range(count):
        length, at = _number(data, at)
        name = _name(data[at : at + length])
        length, at = _number(data, at + length)
        found.append((name, data[at : at + length]))
        at += length
    return found


def _number(data: bytes, at: int) -> tuple[int, int]:
    """Return the number at a place, and the place after it."""
    byte = data[at]
    found, shift = byte & 0x7F, 7
    while byte & 0x80:
        at += 1
        byte = data[at]
        found |= (byte & 0x7F) << shift
        shift += 7
    return found >> 1, at + 1


@lru_cache(maxsize=1024)
def _name(raw: bytes) -> str:
    return raw.decode()
