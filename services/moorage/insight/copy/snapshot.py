"""A copy of what is in the topics at one moment. Reading it changes nothing in Kafka.

The last record of each key is kept, with its offset and attributes. Records that a service has not processed yet are
also kept, because they are still to be processed in the copy. So memory grows with the number of keys and of waiting
records, not with the length of the log.

The copy is as consistent as the state after a restart. Committed offsets are read first, then the ends of all
partitions, below which no transaction is open, and then the records up to those ends. Records that were written in
between count as not processed, unless a state record names them (`moorage-sources`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from aiokafka import TopicPartition

from moorage.runtime.kafka.clients import clients
from moorage.runtime.kafka.tables.read_to_end import CONNECT_SECONDS, Progress, read_to
from moorage.runtime.service import Input, Malformed, RawRecord, Service, source_name
from moorage.runtime.settings.process_settings import Settings
from moorage.runtime.wire import codec
from moorage_schemas.base import Model
from moorage_schemas.envelope import Meta
from moorage_schemas.topics import CONDITION_REPORTS, OBJECTS, TOPICS, Cleanup, Topic

COMPACTED: tuple[Topic, ...] = tuple(
    topic for topic in TOPICS if topic.cleanup is Cleanup.COMPACT and topic is not OBJECTS
)
"""The topics that hold state. What the API shows follows from them."""

_AGES_AGO = datetime.min.replace(tzinfo=UTC)


class SnapshotError(Exception):
    """The topics cannot be copied, because there are none or they do not match."""


@dataclass(frozen=True, slots=True)
class Kept:
    """One record of the copy."""

    topic: Topic
    partition: int
    offset: int
    key: str
    event: Model | None
    """None for a tombstone."""

    meta: Meta
    timestamp: datetime
    """Kafka's timestamp of the record."""

    raw: RawRecord | None = None
    """The raw record, for topics that third parties write."""

    @classmethod
    def of(cls, found: Input, timestamp: datetime | None = None) -> Kept:
        """Return a decoded record. Its time is that of the event, unless Kafka's is known."""
        when = timestamp or found.meta.time or _AGES_AGO
        return cls(found.topic, found.partition, found.offset, found.key, found.event, found.meta, when, found.raw)

    @property
    def input(self) -> Input:
        """The record as a service gets it."""
        return Input(self.topic, self.partition, self.offset, self.key, self.event, self.meta, self.raw)


@dataclass(slots=True)
class Snapshot:
    """The copy. It is never modified."""

    taken: datetime
    """The time at which the ends of the topics were known."""

    partitions: int
    ends: dict[tuple[str, int], int]
    """The next offset of each partition, by the topic's short name."""

    positions: dict[tuple[str, str, int], int]
    """The next offset that a service has not processed, by service, topic's short name and partition."""

    unreadable: int = 0
    """The number of records that are not events of Moorage and were left out."""

    _kept: dict[str, list[Kept]] = field(default_factory=dict)
    _last: dict[str, dict[str, Kept]] = field(default_factory=dict)
    _by_id: dict[str, Kept] | None = None

    @classmethod
    def of(
        cls,
        records: Iterable[Kept | Input],
        *,
        partitions: int = 3,
        positions: Mapping[tuple[str, str, int], int] | None = None,
        ends: Mapping[tuple[str, int], int] | None = None,
        taken: datetime | None = None,
        unreadable: int = 0,
    ) -> Snapshot:
        """Return a copy with some records.

        Args:
            records: the records, those of a partition in the order of its log.
            partitions: the number of partitions of each topic.
            positions: what services have processed. The default is everything.
            ends: the ends of partitions that are after their last records.
            taken: the time of the copy. The default is the time of the latest record.
            unreadable: the number of records that were left out.
        """
        kept: dict[str, list[Kept]] = {}
        beyond = dict(ends or {})
        for found in records:
            record = Kept.of(found) if isinstance(found, Input) else found
            kept.setdefault(record.topic.short, []).append(record)
            place = (record.topic.short, record.partition)
            beyond[place] = max(beyond.get(place, 0), record.offset + 1)
        for some in kept.values():
            some.sort(key=lambda one: (one.partition, one.offset))
        if taken is None:
            taken = max((one.timestamp for some in kept.values() for one in some), default=_AGES_AGO)
        whole = cls(taken, partitions, beyond, dict(positions or {}), unreadable, kept)
        for short, some in kept.items():
            last = whole._last[short] = {}
            for one in some:
                before = last.get(one.key)
                if before is None or before.partition == one.partition or before.timestamp <= one.timestamp:
                    last[one.key] = one
        return whole

    @classmethod
    async def load(
        cls,
        settings: Settings,
        *,
        services: Sequence[Service[Any] | type[Service[Any]]] = (),
        topics: Iterable[Topic] | None = None,
        progress: Progress | None = None,
    ) -> Snapshot:
        """Read the copy from Kafka.

        Args:
            settings: the address of Kafka, and the topics' prefix.
            services: the services whose positions and unprocessed records are read.
            topics: the topics to read. The default is all that hold state, and those that the services read.
            progress: called with the progress.

        Raises:
            SnapshotError: a topic does not exist.
            KafkaError: Kafka does not answer, or an answer is an error.
            TimeoutError: Kafka does not answer.
            OSError: Kafka cannot be reached.
        """
        chosen = list(dict.fromkeys((*COMPACTED, *topics_of(services)) if topics is None else topics))
        return await _Loading(settings, services, chosen, progress).run()

    def records(self, topic: Topic) -> list[Kept]:
        """Return the records of a topic, by partition and offset."""
        return self._kept.get(topic.short, [])

    def all(self) -> Iterable[Kept]:
        """Yield all records, topic by topic."""
        for some in self._kept.values():
            yield from some

    def last(self, topic: Topic, key: str) -> Kept | None:
        """Return the last record of a key. It may be a tombstone."""
        return self._last.get(topic.short, {}).get(key)

    def table(self, topic: Topic) -> dict[str, Any]:
        """Return the last event of each key that is not deleted."""
        return {key: one.event for key, one in self._last.get(topic.short, {}).items() if one.event is not None}

    def find(self, event_id: str) -> Kept | None:
        """Return the record of an event if it is in the copy, which has only the last record of each key."""
        if self._by_id is None:
            self._by_id = {one.meta.id: one for one in self.all()}
        return self._by_id.get(event_id)

    def position(self, service: str, topic: Topic, partition: int) -> int:
        """Return the next offset of a source that a service has not processed."""
        whole = self.ends.get((topic.short, partition), 0)
        return self.positions.get((service, topic.short, partition), whole)


async def partitions_of(settings: Settings, names: Iterable[str]) -> dict[str, int]:
    """Return the numbers of partitions of those of the topics that exist.

    Raises:
        KafkaError: Kafka does not answer, or refuses.
    """
    async with clients.administration(settings, client_id="moorage-snapshot") as admin:
        described = await admin.describe_topics(list(names))
    return {one["topic"]: len(one["partitions"]) for one in described if not one["error_code"]}


def topics_of(services: Iterable[Service[Any] | type[Service[Any]]]) -> Iterable[Topic]:
    """Yield the topics that services read."""
    for one in services:
        yield from (*one.sources, *one.changelogs, *one.follows, *one.globals)


@dataclass(slots=True)
class _Part:
    """The records that are read from one partition."""

    topic: Topic
    hold: int
    """The offset from which every record is kept."""

    last: dict[bytes | None, Any] = field(default_factory=dict)
    rest: list[Any] = field(default_factory=list)

    def take(self, record: Any) -> None:
        if record.offset >= self.hold:
            self.rest.append(record)
        else:
            self.last[record.key] = record


class _Loading:
    """One reading of the topics."""

    def __init__(
        self,
        settings: Settings,
        services: Sequence[Service[Any] | type[Service[Any]]],
        topics: Sequence[Topic],
        progress: Progress | None,
    ) -> None:
        self._settings = settings
        self._services = services
        self._topics = {topic.name(settings.topic_prefix): topic for topic in topics}
        self._progress = progress
        self._positions: dict[tuple[str, str, int], int] = {}
        self._states = {
            topic.short: [(one.name, source_name(one.name)) for one in services if topic in one.changelogs]
            for topic in topics
        }

    async def run(self) -> Snapshot:
        consumer = clients.table_consumer(self._settings, client_id="moorage-snapshot")
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                await consumer.start()
                partitions, committed = await self._ask()
            tps = [TopicPartition(name, part) for name in self._topics for part in range(partitions)]
            # The consumer is read-committed, so no transaction is open below these ends.
            ends: dict[TopicPartition, int] = await consumer.end_offsets(tps)
            taken = datetime.now(UTC)  # after the ends, so that nothing in the copy is from its future
            begins: dict[TopicPartition, int] = await consumer.beginning_offsets(tps)
            parts = {tp: _Part(self._topics[tp.topic], self._hold(tp, committed)) for tp in tps}
            starts = {tp: self._start(tp, begins[tp], ends[tp], parts[tp].hold) for tp in tps}
            async for tp, records in read_to(consumer, starts, ends, self._progress):
                part = parts[tp]
                for record in records:
                    self._note(part, record)
                    part.take(record)
        finally:
            await consumer.stop()
        return await self._made(parts, ends, partitions, taken)

    async def _ask(self) -> tuple[int, dict[tuple[str, TopicPartition], int]]:
        """Return the number of partitions, and the offsets that the services' groups have committed."""
        found = await partitions_of(self._settings, self._topics)
        missing = sorted(name for name in self._topics if not found.get(name))
        if missing:
            raise SnapshotError(f"no such topic: {missing[0]}")
        if len(set(found.values())) > 1:
            raise SnapshotError(f"the topics have different numbers of partitions: {found}")
        committed = {}
        async with clients.administration(self._settings, client_id="moorage-snapshot") as admin:
            for one in self._services:
                group = f"{self._settings.topic_prefix}.{one.name}"
                for tp, place in (await admin.list_consumer_group_offsets(group)).items():
                    if place.offset >= 0:
                        committed[one.name, tp] = int(place.offset)
        return next(iter(found.values())), committed

    def _hold(self, tp: TopicPartition, committed: Mapping[tuple[str, TopicPartition], int]) -> int:
        """Return the offset from which every record is kept: the position of the slowest service."""
        topic = self._topics[tp.topic]
        stand = [2**63]
        for one in self._services:
            if topic in one.sources:
                offset = committed.get((one.name, tp), 0)
                self._positions[one.name, topic.short, tp.partition] = offset
                stand.append(offset)
        return min(stand)

    def _start(self, tp: TopicPartition, begin: int, end: int, hold: int) -> int:
        """Return where to start reading. A topic without state is only read from what is waiting."""
        topic = self._topics[tp.topic]
        restored = topic.cleanup is Cleanup.COMPACT or bool(self._states[topic.short])
        return begin if restored else min(max(begin, hold), end)

    def _note(self, part: _Part, record: Any) -> None:
        """Note the offsets that a state record rests on. Committed offsets may be behind them, or be lost."""
        for name, source in self._states[part.topic.short]:
            for short, offset in (codec.state_positions(record.headers, source) or {}).items():
                place = (name, short, record.partition)
                if offset > self._positions.get(place, 0):
                    self._positions[place] = offset

    async def _made(
        self,
        parts: Mapping[TopicPartition, _Part],
        ends: Mapping[TopicPartition, int],
        partitions: int,
        taken: datetime,
    ) -> Snapshot:
        kept: list[Kept] = []
        unreadable = 0
        for part in parts.values():
            for record in (*part.last.values(), *part.rest):
                found = codec.decode(part.topic, record, third_party=part.topic is CONDITION_REPORTS)
                if isinstance(found, Malformed):
                    unreadable += 1
                else:
                    kept.append(Kept.of(found, datetime.fromtimestamp(record.timestamp / 1000, UTC)))
            part.last.clear()
            part.rest.clear()
            await asyncio.sleep(0)  # so that the command can be interrupted
        return Snapshot.of(
            kept,
            partitions=partitions,
            positions=self._positions,
            ends={(self._topics[tp.topic].short, tp.partition): end for tp, end in ends.items()},
            taken=taken,
            unreadable=unreadable,
        )
