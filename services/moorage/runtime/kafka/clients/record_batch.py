"""Batches of records in Kafka's format (version 2), which aiokafka sends like its own.

aiokafka's builder takes record after record, each with its headers as tuples. A transaction has its records all at
once, and as bytes (`kafka_records`), so its batches are joined from these.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import Final

from aiokafka.record.util import calc_crc32c

from moorage.runtime.wire.codec import Outgoing
from moorage.runtime.wire.kafka_records import VARINT

_HEAD: Final = struct.Struct(">qiibI")
"""Base offset, length after this field, leader epoch, version, checksum of all that follows."""

_TAIL: Final = struct.Struct(">hiqqqhii")
"""Attributes, last offset, first and last timestamp, producer's id and epoch, first sequence, number of records."""

_SIZE: Final = _HEAD.size + _TAIL.size
_UNTIL_LENGTH: Final = 12  # bytes up to the end of the length
_VERSION: Final = 2
_TRANSACTIONAL: Final = 0x10
_BEGIN: Final = b"\0\0"
"""Attributes of a record, and how many milliseconds after the batch it was written."""


class RecordBatch:
    """A full batch, with the methods of aiokafka's `BatchBuilder` that its producer calls.

    Args:
        records: what it has.
        parts: the bytes of these records.
        timestamp: when they are written, in milliseconds since the epoch.
    """

    def __init__(self, records: Sequence[Outgoing], parts: list[bytes], timestamp: int) -> None:
        self.records = records
        self._count = len(records)
        self._parts = parts
        self._timestamp = timestamp
        self._producer = (-1, -1, 0)
        self._buffer = bytearray()

    def close(self) -> None:
        """Accept no more records: always the case."""

    def closed(self) -> bool:
        """Return whether it is closed."""
        return True

    def record_count(self) -> int:
        """Return the number of records."""
        return self._count

    def size(self) -> int:
        """Return the size in bytes."""
        return len(self._build())

    def _set_producer_state(self, producer_id: int, producer_epoch: int, base_sequence: int) -> None:
        self._producer = (producer_id, producer_epoch, base_sequence)
        self._buffer = bytearray()

    def _build(self) -> bytearray:
        if not self._buffer:
            stamp, count = self._timestamp, self._count
            tail = _TAIL.pack(_TRANSACTIONAL, count - 1, stamp, stamp, *self._producer, count)
            buffer = bytearray().join((bytes(_HEAD.size), tail, *self._parts))
            with memoryview(buffer) as view:
                checksum = calc_crc32c(view[_HEAD.size :])
            _HEAD.pack_into(buffer, 0, 0, len(buffer) - _UNTIL_LENGTH, -1, _VERSION, checksum)
            self._buffer = buffer
        return self._buffer


def batches_of(records: Sequence[Outgoing], timestamp: int, limit: int) -> Iterator[RecordBatch]:
    """Yield the batches of a partition's records in a transaction.

    Args:
        records: the records, in their order.
        timestamp: when they are written, in milliseconds since the epoch.
        limit: the size of a batch in bytes. A larger record gets one of its own.
    """
    varint = VARINT
    parts: list[bytes] = []
    first = count = 0
    size = _SIZE
    for number, record in enumerate(records):
        body = record.record
        offset = varint[count]
        length = varint[len(_BEGIN) + len(offset) + len(body)]
        more = len(length) + len(_BEGIN) + len(offset) + len(body)
        if count and size + more > limit:
            yield RecordBatch(records[first:number], parts, timestamp)
            parts, first, count, size = [], number, 0, _SIZE
            offset = varint[0]
            length = varint[len(_BEGIN) + len(offset) + len(body)]
            more = len(length) + len(_BEGIN) + len(offset) + len(body)
        parts += (length, _BEGIN, offset, body)
        count += 1
        size += more
    if parts:
        yield RecordBatch(records[first:], parts, timestamp)
