"""Topics in memory, with the records of every partition as Kafka keeps them."""

from __future__ import annotations

import bisect
import heapq
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Any

from moorage.insight.copy.snapshot import Kept, Snapshot
from moorage.runtime.service import Input, Malformed
from moorage.runtime.wire import codec
from moorage_schemas.envelope import Meta, from_headers, to_headers
from moorage_schemas.topics import TOPICS, Topic

_AGES_AGO = datetime.min.replace(tzinfo=UTC)

Headers = tuple[tuple[str, bytes], ...]


class Record:
    """One record of a topic. It is given as bytes, or as an event that becomes bytes only on demand."""

    __slots__ = ("_decoded", "_given", "_headers", "_value", "key", "offset", "partition", "seq", "timestamp", "topic")

    def __init__(
        self,
        topic: Topic,
        partition: int,
        offset: int,
        seq: int,
        key: bytes | None,
        *,
        value: bytes | None = None,
        headers: Headers = (),
        given: Input | None = None,
        written: datetime | None = None,
    ) -> None:
        self.topic = topic
        self.partition = partition
        self.offset = offset
        self.seq = seq
        """The record's place among the records of all topics."""

        self.key = key
        self.timestamp = None if written is None else int(written.timestamp() * 1000)
        """The time of writing in milliseconds since the epoch, as in Kafka. None if it is not known."""

        self._value = value
        self._headers = headers
        self._given = given
        self._decoded: dict[bool, Input | Malformed] = {}

    @property
    def value(self) -> bytes | None:
        """The event as JSON. None for a tombstone."""
        if self._value is None and self._given is not None and self._given.event is not None:
            self._value = self._given.event.model_dump_json().encode()
        return self._value

    @property
    def headers(self) -> Headers:
        """The CloudEvents attributes."""
        if not self._headers and self._given is not None:
            self._headers = tuple(to_headers(self._given.meta))
        return self._headers

    def decode(self, *, third_party: bool = False, max_bytes: int | None = None) -> Input | Malformed:
        """Return the record as a service gets it."""
        if self._given is not None:
            return self._given
        if third_party not in self._decoded:
            self._decoded[third_party] = codec.decode(self.topic, self, third_party=third_party, max_bytes=max_bytes)
        return self._decoded[third_party]

    @property
    def name(self) -> str:
        """The key as text."""
        return self._given.key if self._given is not None else (self.key or b"").decode(errors="replace")

    @property
    def gone(self) -> bool:
        """Whether it is a tombstone."""
        return self._given.event is None if self._given is not None else self._value is None

    @property
    def event(self) -> Any:
        """The event. None for a tombstone. The type is Any, so that its fields can be read.

        Raises:
            TypeError: the record is not an event of Moorage.
        """
        found = self.decode()
        if not isinstance(found, Input):
            raise TypeError(found.message)
        return found.event

    @property
    def meta(self) -> Meta:
        """The parsed CloudEvents attributes."""
        return self._given.meta if self._given is not None else from_headers(self.headers)

    @property
    def time(self) -> datetime:
        """The time of the decision, by the clock of its writer."""
        return self.meta.time or _AGES_AGO

    @property
    def content(self) -> tuple[str, int, bytes | None, bytes | None, str]:
        """The part that must be the same in a replay: place, key, value and id, but not the time of writing."""
        return (self.topic.short, self.partition, self.key, self.value, self.meta.id)


class MemoryTopics:
    """Every topic of the contract.

    Args:
        clock: returns the time at which a record is written.
    """

    def __init__(self, partitions: int, clock: Callable[[], datetime]) -> None:
        self.partitions = partitions
        self._clock = clock
        self.ends = {(topic.short, p): 0 for topic in TOPICS for p in range(partitions)}
        """The next offset of each partition."""

        self.latest = {topic.short: -1 for topic in TOPICS}
        """The `seq` of the last record of each topic."""

        self._logs: dict[tuple[str, int], list[Record]] = {place: [] for place in self.ends}
        self._topics: dict[str, list[Record]] = {topic.short: [] for topic in TOPICS}
        self._seq = 0

    @property
    def written(self) -> int:
        """The number of records that were ever written, which is the `seq` of the next one."""
        return self._seq

    def load(self, snapshot: Snapshot) -> None:
        """Load a copy, with each record at its offset."""
        logs: dict[tuple[str, int], list[Kept]] = {}
        for one in snapshot.all():
            logs.setdefault((one.topic.short, one.partition), []).append(one)
        # Partitions are merged by time. Within a partition the order of the log is kept.
        for one in heapq.merge(*logs.values(), key=lambda kept: kept.timestamp):
            given = one.input
            key, when = one.key.encode(), one.timestamp
            self._put(
                Record(one.topic, one.partition, one.offset, self._seq, key, given=given, written=when), one.offset
            )
        for place, end in snapshot.ends.items():
            self.ends[place] = max(self.ends[place], end)

    def append(
        self,
        topic: Topic,
        partition: int,
        key: bytes | None,
        *,
        value: bytes | None = None,
        headers: Headers = (),
        given: Input | None = None,
    ) -> Record:
        """Write a record to the end of a partition. With `given` it need not become bytes."""
        offset = self.ends[topic.short, partition]
        now = self._clock()
        record = Record(
            topic, partition, offset, self._seq, key, value=value, headers=headers, given=given, written=now
        )
        self._put(record, offset)
        return record

    def _put(self, record: Record, offset: int) -> None:
        short = record.topic.short
        self._logs[short, record.partition].append(record)
        self._topics[short].append(record)
        self.ends[short, record.partition] = offset + 1
        self.latest[short] = self._seq
        self._seq += 1

    def partition(self, topic: Topic, partition: int, since: int = 0) -> list[Record]:
        """Return the records of a partition from an offset on."""
        log = self._logs[topic.short, partition]
        return log[bisect.bisect_left(log, since, key=lambda record: record.offset) :]

    def topic(self, short: str, since: int = 0) -> list[Record]:
        """Return the records of a topic from a `seq` on, in the order in which they were written."""
        found = self._topics[short]
        return found[bisect.bisect_left(found, since, key=lambda record: record.seq) :]

    def drop(self, records: Iterable[Record]) -> None:
        """Remove records, as compaction does. Offsets stay the same."""
        gone = {record.seq for record in records}
        for found in (*self._logs.values(), *self._topics.values()):
            if found:
                found[:] = [record for record in found if record.seq not in gone]
