"""The format of records, as bytes on Kafka or as events in memory, and dead letters for those that are refused."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Protocol

from msgspec import Struct

from moorage.runtime.service import Emit, Input, Malformed, RawRecord, RowFormat
from moorage.runtime.wire import codec
from moorage.runtime.wire.codec import record_meta
from moorage.runtime.wire.kafka_records import Header
from moorage_schemas.base import Model
from moorage_schemas.dead_letter import DeadLettered, RefusalReason
from moorage_schemas.envelope import Meta
from moorage_schemas.topics import DEAD_LETTERS, Topic


class HandedOver(Struct, frozen=True, gc=False):
    """A record that one service hands over to the next one in memory, in the transaction in which it is written.

    It has what a consumed record has, so that it can stand for one.
    """

    offset: int
    """The offset that it has once the transaction is committed."""

    written: codec.Outgoing
    """The record as it is written."""

    input: Input
    """The record as a service sees it."""

    @property
    def key(self) -> bytes:
        """Its key."""
        return self.written.key

    @property
    def value(self) -> bytes | None:
        """Its value; None for a tombstone."""
        return self.written.value

    @property
    def headers(self) -> list[Header]:
        """Its headers. They are read anew each time."""
        return self.written.headers


class RecordFormat(Protocol):
    """The operations that the engine needs on records. Every record has an `offset`."""

    def decode(
        self, topic: Topic, record: Any, *, third_party: bool = False, max_bytes: int | None = None
    ) -> Input | Malformed:
        """Return a consumed record as a service sees it."""

    def table(self, topic: Topic, record: Any) -> tuple[str, Model | None]:
        """Return the key and event of a record of a table; the event of a tombstone is None.

        Raises:
            ValueError: the record cannot be decoded.
        """

    def rows(self, topic: Topic, reader: RowFormat) -> Callable[[Any], Any | None] | None:
        """Return the function that returns the row of a record, or None when it is to be read with `table`.

        Returns None when the format has no rows.
        """

    def positions(self, record: Any, source: str) -> Mapping[str, int] | None:
        """Return the positions, by short name, that a state record of this writer rests on; None when it has none."""

    def written(self, record: Any) -> int:
        """Return when a record was written: a growing number, comparable among records of the same kind."""

    def raw(self, record: Any) -> RawRecord:
        """Return a record as it was received."""

    def serialize(self, emit: Emit) -> bytes | None:
        """Return the value to write; None for a tombstone, or for a format that does not use bytes.

        Raises:
            EncodeError: the record is too large for the topic.
        """


class KafkaFormat:
    """Records of aiokafka."""

    # These run for every record, so they are the functions themselves.
    decode = staticmethod(codec.decode)
    table = staticmethod(codec.decode_table)
    rows = staticmethod(codec.row_decoder)
    raw = staticmethod(codec.raw_record)
    serialize = staticmethod(codec.serialize)

    def positions(self, record: Any, source: str) -> Mapping[str, int] | None:
        """Return the positions, by short name, that a state record of this writer rests on; None when it has none."""
        return codec.state_positions(record.headers, source)

    def written(self, record: Any) -> int:
        """Return when a record was written, in milliseconds since the epoch."""
        return int(record.timestamp)


_MAX_ORIGINAL = 1_048_576  # bytes of the original that are kept
_SHOWN = 256  # characters of the offending value
_MAX_KEY = 1024  # characters of the original key
_MAX_HEADER, _MAX_HEADERS = 1024, 64  # characters of each header, and headers


def dead_letter(service: str, bad: Malformed, now: datetime, cause: Meta | None = None) -> Emit:
    """Return the dead letter of a record.

    Args:
        service: the service that refused it.
        bad: the record, and why it was refused.
        now: the time of the refusal.
        cause: the record's CloudEvents attributes. Without them, its topic, partition and offset identify it.
    """
    raw = bad.raw.value or b""
    original, encoding = _text(raw[:_MAX_ORIGINAL])
    # Original, key and headers are truncated: a dead letter too large for its topic would be refused again and again.
    key = (bad.raw.key or b"").decode("utf-8", "replace")[:_MAX_KEY]
    return Emit(
        topic=DEAD_LETTERS,
        key=key,
        partition_key=key,
        content=DeadLettered(
            service=service,
            reason=RefusalReason(bad.reason),
            message=bad.message,
            field=bad.field,
            value=bad.value[:_SHOWN],
            rule=bad.rule,
            topic=bad.topic.short,
            partition=bad.partition,
            offset=bad.offset,
            key=key,
            headers={
                name[:_SHOWN]: (value or b"")[: 4 * _MAX_HEADER].decode("utf-8", "replace")[:_MAX_HEADER]
                for name, value in bad.raw.headers[:_MAX_HEADERS]
            },
            original=original,
            original_encoding=encoding,
            original_size=len(raw),
            truncated=len(raw) > _MAX_ORIGINAL,
            refused_time=now,
            count=bad.count,
        ),
        cause=cause or record_meta(bad.topic, bad.partition, bad.offset),
    )


def _text(raw: bytes) -> tuple[str, str]:
    """Return the bytes as text when they are mostly plain UTF-8, otherwise as base64.

    Control characters would take six bytes each in JSON, which could make the dead letter too large for its topic.
    """
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        return base64.b64encode(raw).decode(), "base64"
    if sum(1 for char in text if char < " ") > len(text) // 8:
        return base64.b64encode(raw).decode(), "base64"
    return text, "utf-8"
