"""How the engine reads and writes records, whatever they are made of: bytes on Kafka, events themselves in memory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from moorage.runtime import codec
from moorage.runtime.service import Emit, Input, Malformed, RawRecord
from moorage_schemas.base import Model
from moorage_schemas.topics import Topic


class RecordFormat(Protocol):
    """What the engine must be able to do with a record. Every record has an `offset`."""

    def decode(
        self, topic: Topic, record: Any, *, third_party: bool = False, max_bytes: int | None = None
    ) -> Input | Malformed:
        """A consumed record as a service sees it."""

    def table(self, topic: Topic, record: Any) -> tuple[str, Model | None]:
        """The key and event of a record of a table, None for a tombstone.

        Raises:
            ValueError: it cannot be decoded.
        """

    def positions(self, record: Any, source: str) -> Mapping[str, int] | None:
        """The positions, by short name, that a state record of that writer rests on; None when it has none."""

    def written(self, record: Any) -> int:
        """When it was written: a number that grows, to be compared with that of other records of the same kind."""

    def raw(self, record: Any) -> RawRecord:
        """A record as it came."""

    def serialize(self, emit: Emit) -> bytes | None:
        """The value that is written; None for a tombstone, or where nothing becomes bytes.

        Raises:
            EncodeError: the topic does not take a record so large.
        """


class KafkaFormat:
    """Records of aiokafka."""

    def decode(
        self, topic: Topic, record: Any, *, third_party: bool = False, max_bytes: int | None = None
    ) -> Input | Malformed:
        """A consumed record as a service sees it."""
        return codec.decode(topic, record, third_party=third_party, max_bytes=max_bytes)

    def table(self, topic: Topic, record: Any) -> tuple[str, Model | None]:
        """The key and event of a record of a table, None for a tombstone.

        Raises:
            ValueError: it cannot be decoded.
        """
        return codec.decode_table(topic, record)

    def positions(self, record: Any, source: str) -> Mapping[str, int] | None:
        """The positions, by short name, that a state record of that writer rests on; None when it has none."""
        return codec.state_positions(record.headers, source)

    def written(self, record: Any) -> int:
        """When it was written, in milliseconds since the epoch."""
        return int(record.timestamp)

    def raw(self, record: Any) -> RawRecord:
        """A record as it came."""
        return codec.raw_record(record)

    def serialize(self, emit: Emit) -> bytes | None:
        """The value that is written.

        Raises:
            EncodeError: the topic does not take a record so large.
        """
        return codec.serialize(emit)
