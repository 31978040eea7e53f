"""Older records of the chains behind a decision. Reading them from the topics changes nothing in Kafka.

A copy has only the last record of each key, and a chain contains earlier ones. Every event of a chain has the id of the
chain's first event, so records are selected by their headers, and only those are decoded. Most topics are searched in
every partition. Conditions, of which there are many, are searched only in the partitions of the chain's targets.
Reports, which are the most numerous, are read only if they were written shortly before a record whose cause is missing.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Protocol, Self

from aiokafka import AIOKafkaConsumer, TopicPartition
from typing_extensions import override

from moorage.insight.copy.snapshot import Kept
from moorage.insight.explain.chain import Chain, Chained, EventRecord, Listed, Trail, target_of
from moorage.insight.explain.explanation import Explanation
from moorage.insight.explain.target_reasons import TargetExplanation, trace_taints
from moorage.runtime.kafka.clients import clients
from moorage.runtime.kafka.tables.read_to_end import CONNECT_SECONDS, read_to
from moorage.runtime.service import Input
from moorage.runtime.settings.process_settings import Settings
from moorage.runtime.wire import codec
from moorage_schemas.topics import (
    BUDGETS,
    CONDITION_REPORTS,
    CONDITIONS,
    EVICTION_ANSWERS,
    EVICTION_ASKS,
    EVICTION_REQUESTS,
    EVICTION_SLOTS,
    EVICTIONS,
    FLEET,
    MAINTENANCES,
    RESOURCES,
    TAINTS,
    TIMER_FIRED,
    TIMERS,
    WORKLOAD_CONDITIONS,
    ZONE_GRANTS,
    ZONE_MEMBERS,
    ZONES,
    Topic,
    partition_of,
)

WHOLE: Final = (TAINTS, EVICTION_REQUESTS, EVICTIONS, TIMERS, TIMER_FIRED, EVICTION_ANSWERS, ZONE_GRANTS, RESOURCES)
"""The topics that are searched in every partition."""

OF_FLEET: Final = (ZONE_MEMBERS, ZONES, EVICTION_ASKS, EVICTION_SLOTS, BUDGETS, MAINTENANCES)
"""The topics that are searched in the partition of the fleet: those that the governor reads and writes."""

OF_TARGETS: Final = (CONDITIONS, WORKLOAD_CONDITIONS)
"""The topics that are searched in the partitions of the targets of a chain."""

BY_KEY: Final = (TAINTS,)
"""The topics that are searched for earlier records of a key."""

BEFORE: Final = timedelta(minutes=15)
"""How long before a record its report is searched for."""

AFTER: Final = timedelta(minutes=1)
"""How long after a record its report is searched for, because clocks differ."""

_FEWEST: Final = 2_000
"""The number of reports of a partition that are searched in any case, because writers set their own times."""

_MOST: Final = 50_000
"""The largest number of reports of a partition that are searched. The latest are searched."""

_ROUNDS: Final = 4
"""How many times the search is repeated because a report that was found shows that others are missing."""

_IDS: Final = frozenset({"ce_id", "ce_correlationid"})

Places = Mapping[Topic, Iterable[int]]
"""Partitions of topics."""


@dataclass(frozen=True, slots=True)
class Window:
    """The time in which a report was written to a partition."""

    partition: int
    since: datetime
    until: datetime


class OlderRecords(Protocol):
    """A source of older records."""

    async def of_chains(self, places: Places, wanted: frozenset[bytes]) -> Sequence[EventRecord]:
        """Return the records of chains in some partitions."""

    async def reports(self, windows: Iterable[Window], wanted: frozenset[bytes]) -> Sequence[EventRecord]:
        """Return the reports of chains that were written at some time."""

    async def of_key(self, topic: Topic, partition: int, key: str) -> Sequence[EventRecord]:
        """Return the records of a key that still exist.

        Args:
            topic: one of `BY_KEY`.
            partition: the partition of the key.
            key: the key.
        """


async def complete(
    told: Explanation | TargetExplanation, present: Chained, older: OlderRecords, partitions: int
) -> None:
    """Search for the missing records in the chains of an explanation.

    The taints of a target may have begun with earlier records of its taints. So these are searched for first.

    Raises:
        KafkaError: Kafka does not answer, or an answer is an error.
        TimeoutError: Kafka does not answer.
        OSError: Kafka cannot be reached.
    """
    if isinstance(told, TargetExplanation):
        await _trace(told, present, older)
    if all(chain.whole for chain in told.chains):
        return
    known = [step.record for chain in told.chains for step in chain.steps if step.record is not None]
    lasts = [(chain.about, last) for chain in told.chains if (last := chain.steps[-1].record) is not None]
    wanted = frozenset(record.meta.correlation.encode() for record in known)
    fleet = partition_of(FLEET, partitions)
    every: dict[Topic, Iterable[int]] = dict.fromkeys(WHOLE, range(partitions)) | dict.fromkeys(OF_FLEET, (fleet,))
    found = list(await older.of_chains(every, wanted))
    targets = {target for record in (*known, *found) if (target := target_of(record))}
    parts = sorted({partition_of(target, partitions) for target in targets})
    found += await older.of_chains(dict.fromkeys(OF_TARGETS, parts), wanted)
    oldest = min((*known, *found), key=lambda record: record.timestamp)
    looked: set[Window] = set()
    for _ in range(_ROUNDS):
        told.chains = tuple(Trail(present, Listed(found)).chains(lasts))
        windows = {_window(one, partitions) for one in _missing_causes(told.chains, oldest)} - looked
        if not windows:
            return
        looked |= windows
        reports = await older.reports(windows, wanted)
        if not reports:
            return
        found += reports


async def _trace(told: TargetExplanation, present: Chained, older: OlderRecords) -> None:
    last = told.tainted
    if last is None or not (told.taints or told.waits):
        return
    earlier = await older.of_key(TAINTS, last.partition, last.key)
    trace_taints(told, earlier)
    told.chains = tuple(Trail(present, Listed(earlier)).chains(told.behind()))


def _missing_causes(chains: Iterable[Chain], oldest: EventRecord) -> Iterator[EventRecord]:
    """Yield the records whose causes may be missing reports."""
    missing = False
    for chain in chains:
        for cause, effect in zip(chain.steps, chain.steps[1:], strict=False):
            if cause.lost and effect.record is not None and target_of(effect.record):
                missing = True
                yield effect.record
    if missing and target_of(oldest):
        yield oldest


def _window(effect: EventRecord, partitions: int) -> Window:
    return Window(partition_of(target_of(effect), partitions), effect.timestamp - BEFORE, effect.timestamp + AFTER)


class TopicScan(OlderRecords):
    """Searches the topics. An async context manager.

    Args:
        settings: the address of Kafka, and the topics' prefix.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._consumer: AIOKafkaConsumer | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Disconnect."""
        consumer, self._consumer = self._consumer, None
        if consumer is not None:
            await consumer.stop()

    @override
    async def of_chains(self, places: Places, wanted: frozenset[bytes]) -> list[EventRecord]:
        consumer = await self._connected()
        tps = {self._tp(topic, partition): topic for topic, partitions in places.items() for partition in partitions}
        starts: dict[TopicPartition, int] = await consumer.beginning_offsets(list(tps)) if tps else {}
        ends: dict[TopicPartition, int] = await consumer.end_offsets(list(tps)) if tps else {}
        return [kept async for kept in self._scan(tps, starts, ends, _OfChains(wanted))]

    @override
    async def of_key(
        self, topic: Topic, partition: int, key: str, offsets: range | None = None
    ) -> Sequence[EventRecord]:
        # Without offsets, all are searched.
        consumer, tp = await self._connected(), self._tp(topic, partition)
        if offsets is None:
            offsets = range((await consumer.beginning_offsets([tp]))[tp], (await consumer.end_offsets([tp]))[tp])
        span = ({tp: offsets.start}, {tp: offsets.stop})
        return [kept async for kept in self._scan({tp: topic}, *span, _OfKey(key.encode()))]

    @override
    async def reports(self, windows: Iterable[Window], wanted: frozenset[bytes]) -> list[EventRecord]:
        consumer = await self._connected()
        found = []
        for window in sorted(windows, key=lambda one: (one.partition, one.since)):
            tp = self._tp(CONDITION_REPORTS, window.partition)
            begin, end = (await consumer.beginning_offsets([tp]))[tp], (await consumer.end_offsets([tp]))[tp]
            first = max(begin, await self._at(consumer, tp, window.since, end))
            last = min(end, max(await self._at(consumer, tp, window.until, end), first + _FEWEST))
            span = ({tp: max(first, last - _MOST)}, {tp: last})
            found += [kept async for kept in self._scan({tp: CONDITION_REPORTS}, *span, _OfChains(wanted))]
        return found

    async def between(
        self, spans: Mapping[tuple[Topic, int], range], wanted: frozenset[bytes]
    ) -> Sequence[EventRecord]:
        """Return the records of chains at some offsets."""
        tps = {self._tp(topic, partition): topic for topic, partition in spans}
        starts = {self._tp(*place): span.start for place, span in spans.items()}
        ends = {self._tp(*place): span.stop for place, span in spans.items()}
        return [kept async for kept in self._scan(tps, starts, ends, _OfChains(wanted))]

    async def _connected(self) -> AIOKafkaConsumer:
        if self._consumer is None:
            consumer = clients.table_consumer(self._settings, client_id="moorage-explain")
            try:
                async with asyncio.timeout(CONNECT_SECONDS):
                    await consumer.start()
            except BaseException:
                await consumer.stop()
                raise
            self._consumer = consumer
        return self._consumer

    async def _scan(
        self,
        tps: Mapping[TopicPartition, Topic],
        starts: Mapping[TopicPartition, int],
        ends: Mapping[TopicPartition, int],
        wanted: _Wanted,
    ) -> AsyncIterator[EventRecord]:
        """Yield the wanted records between the given starts and ends of partitions."""
        async for tp, records in read_to(await self._connected(), starts, ends):
            for record in records:
                kept = wanted.picked(tps[tp], record)
                if kept is not None:
                    yield kept

    def _tp(self, topic: Topic, partition: int) -> TopicPartition:
        return TopicPartition(topic.name(self._settings.topic_prefix), partition)

    @staticmethod
    async def _at(consumer: AIOKafkaConsumer, tp: TopicPartition, when: datetime, end: int) -> int:
        """Return the first offset that was written at a time or later. The end if there is none."""
        place = (await consumer.offsets_for_times({tp: max(0, int(when.timestamp() * 1000))}))[tp]
        return end if place is None else int(place.offset)


@dataclass(frozen=True, slots=True)
class _OfChains:
    """Picks the records of some chains, by their ids."""

    ids: frozenset[bytes]

    def picked(self, topic: Topic, record: Any) -> Kept | None:
        """Return a record if it belongs to one of the chains."""
        ids = [value for name, value in record.headers if name in _IDS]
        if ids and self.ids.isdisjoint(ids):
            return None  # a record without ids in its headers may be in structured mode
        found = codec.decode(topic, record, third_party=topic is CONDITION_REPORTS)
        if not isinstance(found, Input):
            return None
        if self.ids.isdisjoint({found.meta.id.encode(), found.meta.correlation.encode()}):
            return None
        return _kept(found, record)


@dataclass(frozen=True, slots=True)
class _OfKey:
    """Picks the records of a key."""

    key: bytes

    def picked(self, topic: Topic, record: Any) -> Kept | None:
        """Return a record if it has the key."""
        if record.key != self.key:
            return None
        found = codec.decode(topic, record)
        return _kept(found, record) if isinstance(found, Input) else None


_Wanted = _OfChains | _OfKey


def _kept(found: Input, record: Any) -> Kept:
    return Kept.of(found, datetime.fromtimestamp(record.timestamp / 1000, UTC))
