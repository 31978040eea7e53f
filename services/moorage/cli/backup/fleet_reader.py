"""Reads a fleet from Kafka as it is at one moment, without changing anything.

The moment is one at which nothing was being written: no transaction was open, and no topic grew while its end was read.
Heartbeats do not disturb it, because reports that are not processed yet are exported as such. Where a fleet is never
quiet, the copy is as after a crash of all services: each record that a decision rests on is in it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, Self

from aiokafka import AIOKafkaConsumer, TopicPartition

from moorage.cli.backup.saved_record import SavedRecord
from moorage.cli.backup.saved_topics import READERS, SAVED, SERVICES, WHOLE, PartOfTopic, PositionTable, hold_of
from moorage.insight.copy.snapshot import SnapshotError, partitions_of
from moorage.runtime.kafka.clients import clients
from moorage.runtime.kafka.tables.read_to_end import CONNECT_SECONDS, read_to
from moorage.runtime.settings.process_settings import Settings
from moorage_schemas.topics import CONDITION_REPORTS, Topic

Progress = Callable[[str], None]
"""Called with the present step, in words."""

_QUIET_WITHIN: Final = 10.0  # seconds in which a quiet moment is looked for
_MAX_WAIT_MS: Final = 50
_NEXT_TRY: Final = 0.05  # seconds
_TOGETHER: Final = 50_000  # positions of whole partitions that are in memory at a time


@dataclass(frozen=True, slots=True)
class Cut:
    """The moment of an export."""

    taken: datetime
    partitions: int
    begins: Mapping[TopicPartition, int]
    ends: Mapping[TopicPartition, int]
    positions: PositionTable
    quiet: bool
    """Whether nothing was being written."""


class ExportReader:
    """Reads the topics of a fleet. An async context manager.

    Raises:
        SnapshotError: a topic does not exist, or the topics have different numbers of partitions.
        KafkaError: Kafka does not answer, or refuses.
        TimeoutError: Kafka does not answer.
        OSError: Kafka cannot be reached.
    """

    def __init__(self, settings: Settings, progress: Progress = lambda _step: None) -> None:
        self._settings = settings
        self._progress = progress
        self._names = {topic: topic.name(settings.topic_prefix) for topic in SAVED}
        self._committed = clients.table_consumer(settings, client_id="moorage-export", max_wait_ms=_MAX_WAIT_MS)
        self._open = clients.table_consumer(settings, client_id="moorage-export", committed_only=False)

    async def __aenter__(self) -> Self:
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                await asyncio.gather(self._committed.start(), self._open.start())
        except BaseException:
            await self.__aexit__()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await asyncio.gather(self._committed.stop(), self._open.stop())

    async def cut(self) -> Cut:
        """Return the moment to export."""
        self._progress("looking for a moment at which nothing is written")
        counts = await partitions_of(self._settings, self._names.values())
        if missing := sorted(name for name in self._names.values() if not counts.get(name)):
            raise SnapshotError(f"no such topic: {missing[0]}")
        if len(set(counts.values())) > 1:
            raise SnapshotError(f"the topics have different numbers of partitions: {counts}")
        partitions = next(iter(counts.values()))
        tps = [TopicPartition(name, part) for name in self._names.values() for part in range(partitions)]
        for consumer in (self._committed, self._open):
            learn_topics(consumer, tps)
        positions = await positions_of(self._settings, SERVICES)
        loop = asyncio.get_running_loop()
        until = loop.time() + _QUIET_WITHIN
        while True:
            ends = await self._committed.end_offsets(tps)
            taken = datetime.now(UTC)
            quiet = self._is_quiet(ends, await self._open.end_offsets(tps))
            if quiet or loop.time() >= until:
                break
            await asyncio.sleep(_NEXT_TRY)
        begins = await self._committed.beginning_offsets(tps)
        return Cut(taken, partitions, begins, ends, positions, quiet)

    def _is_quiet(self, committed: Mapping[TopicPartition, int], written: Mapping[TopicPartition, int]) -> bool:
        reports = self._names[CONDITION_REPORTS]
        return all(written[tp] == end for tp, end in committed.items() if tp.topic != reports)

    async def records(
        self, cut: Cut, topics: Sequence[Topic] = SAVED
    ) -> AsyncIterator[tuple[Topic, list[SavedRecord]]]:
        """Yield what is exported of each partition, topic by topic, in the order of its log."""
        places = [
            (topic, TopicPartition(self._names[topic], part)) for topic in topics for part in range(cut.partitions)
        ]
        starts = {tp: self._start(cut, topic, tp) for topic, tp in places}
        total, done = sum(cut.ends[tp] - start for tp, start in starts.items()), 0

        def progress(read: int, _wanted: int) -> None:
            self._progress(f"{(done + read) / max(total, 1):.0%} of {total} positions read")

        while places:
            chosen: list[tuple[Topic, TopicPartition]] = []
            size = 0
            while places and (not chosen or size < _TOGETHER):
                chosen.append(places.pop(0))
                size += cut.ends[chosen[-1][1]] - starts[chosen[-1][1]]
            parts = {tp: PartOfTopic(topic, tp.partition, cut.positions) for topic, tp in chosen}
            async for tp, found in read_to(self._committed, {tp: starts[tp] for tp in parts}, cut.ends, progress):
                parts[tp].take(found)
            done += size
            for topic, tp in chosen:
                yield topic, list(parts.pop(tp).records())

    def _start(self, cut: Cut, topic: Topic, tp: TopicPartition) -> int:
        begin, end = cut.begins[tp], cut.ends[tp]
        if topic in WHOLE:
            return begin
        return min(max(begin, hold_of(topic, tp.partition, cut.positions) or 0), end)

    async def rest(self, cut: Cut) -> AsyncIterator[list[SavedRecord]]:
        """Yield records after the ends on which exported decisions rest. Call it after `records` of all topics.

        There are none if the moment was quiet. What these records rest on is among them.
        """
        ends = dict(cut.ends)
        while True:
            beyond = {
                tp: offset
                for topic in SAVED
                for name in READERS[topic]
                for part, offset in cut.positions.get(name, {}).get(topic.short, {}).items()
                if offset > ends[tp := TopicPartition(self._names[topic], part)]
            }
            if not beyond:
                return
            parts: dict[TopicPartition, list[Any]] = {tp: [] for tp in beyond}
            async for tp, found in read_to(self._committed, {tp: ends[tp] for tp in beyond}, beyond):
                parts[tp] += found
            ends.update(beyond)
            topics = {name: topic for topic, name in self._names.items()}
            for tp, found in parts.items():
                part = PartOfTopic(topics[tp.topic], tp.partition, cut.positions)
                part.take(found)
                yield list(part.records())


def learn_topics(consumer: AIOKafkaConsumer, tps: Sequence[TopicPartition]) -> None:
    """Let a consumer request the metadata of many topics at once. For its offsets, aiokafka requests one at a time."""
    consumer.assign(tps)
    consumer.pause(*tps)


async def positions_of(settings: Settings, services: Iterable[str]) -> PositionTable:
    """Return the committed offsets of the groups of a fleet in the topics that are exported.

    Raises:
        KafkaError: Kafka does not answer, or refuses.
    """
    beginning = f"{settings.topic_prefix}."
    topics = {topic.name(settings.topic_prefix): topic.short for topic in SAVED}
    found: PositionTable = {name: {} for name in services}
    async with clients.administration(settings, client_id="moorage-export") as admin:
        groups = {name.removeprefix(beginning) for name in await groups_of(admin, settings)}
        for group in sorted({*groups, *found}):
            offsets = await admin.list_consumer_group_offsets(beginning + group)
            for tp, place in offsets.items():
                if place.offset >= 0 and tp.topic in topics:
                    found.setdefault(group, {}).setdefault(topics[tp.topic], {})[tp.partition] = int(place.offset)
    return found


async def groups_of(admin: Any, settings: Settings) -> Sequence[str]:
    """Return the names of the consumer groups of a fleet."""
    return sorted(
        {group for group, *_ in await admin.list_consumer_groups() if group.startswith(f"{settings.topic_prefix}.")}
    )


async def first_used(settings: Settings, topics: Iterable[Topic]) -> str:
    """Return the short name of a topic that has a committed record. Empty if none of those that exist has any.

    Raises:
        KafkaError: Kafka does not answer, or refuses.
        TimeoutError: Kafka does not answer.
    """
    names = {topic.name(settings.topic_prefix): topic.short for topic in topics}
    consumer: AIOKafkaConsumer = clients.table_consumer(settings, client_id="moorage-restore", max_wait_ms=_MAX_WAIT_MS)
    try:
        async with asyncio.timeout(CONNECT_SECONDS):
            await consumer.start()
            counts = await partitions_of(settings, names)
        tps = [TopicPartition(name, part) for name, count in counts.items() for part in range(count)]
        learn_topics(consumer, tps)
        begins, ends = await consumer.beginning_offsets(tps), await consumer.end_offsets(tps)
        async for tp, records in read_to(consumer, begins, ends):
            if records:
                return names[tp.topic]
    finally:
        await consumer.stop()
    return ""
