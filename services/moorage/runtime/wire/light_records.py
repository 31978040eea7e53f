"""Records of a consumer without what Moorage does not use. `aiokafka_patches` makes consumers return them."""

from __future__ import annotations

from msgspec import Struct


class LightRecord(Struct, gc=False):
    """The fields of aiokafka's `ConsumerRecord` that Moorage reads."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    """Milliseconds since the epoch."""

    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


def light(value: bytes | None) -> bytes | None:
    """Return a value as it is. A consumer that has this as its `value_deserializer` returns light records."""
    return value
