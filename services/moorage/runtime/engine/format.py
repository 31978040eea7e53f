"""How the engine reads and writes records. They are bytes on Kafka, and the events themselves in memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from moorage.runtime.service import Emit, Input, Malformed, RawRecord, RowFormat
from moorage.runtime.wire import codec
from moorage_schemas.base import Model
from moorage_schemas.topics import Topic


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
