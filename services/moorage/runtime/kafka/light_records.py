"""Records of a consumer without what Moorage does not use.

aiokafka 0.14 makes a dataclass with eleven fields of each record, which takes a third of the time of reading it, and
keeps half a kilobyte for each one that waits.
"""

from __future__ import annotations

import functools
from typing import Any

from aiokafka import TopicPartition
from aiokafka.consumer.fetcher import PartitionRecords
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


def make_records_light() -> None:
    """Make consumers that ask for light records return them. All others work as before.

    This changes aiokafka's class, because aiokafka creates its records itself. Further calls change nothing.
    """
    record_of = PartitionRecords._consumer_record  # noqa: SLF001 - aiokafka has no public way
    if hasattr(record_of, "__wrapped__"):
        return

    @functools.wraps(record_of)
    def made(self: Any, tp: TopicPartition, record: Any) -> Any:
        if self._value_deserializer is not light:
            return record_of(self, tp, record)
        return LightRecord(
            tp.topic, tp.partition, record.offset, record.timestamp, record.key, record.value, tuple(record.headers)
        )

    PartitionRecords._consumer_record = made  # noqa: SLF001 - as above
