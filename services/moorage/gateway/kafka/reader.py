"""Reads the gateway's topics into the store: all of them at the start, and then each new record."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import structlog
from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import KafkaError

from moorage.gateway.durable_log import Place
from moorage.gateway.metrics import Metrics
from moorage.gateway.store import Store
from moorage.gateway.tables import READ
from moorage.runtime.codec import decode
from moorage.runtime.errors import StartAfresh
from moorage.runtime.kafka import clients
from moorage.runtime.kafka.offsets import Offsets
from moorage.runtime.kafka.table_reader import has_ended
from moorage.runtime.service import Input, Malformed
from moorage.runtime.settings import Settings
from moorage_schemas.dead_letter import Audited
from moorage_schemas.topics import AUDIT, RESOURCES, Topic, partition_of

_log = structlog.get_logger(__name__)

TAKEOVER = "gateway"
"""The `resource` of the audit records about a gateway that has taken over the writes."""

_AT_ONCE = 500  # records that are read before other tasks may run
_WAIT_MS = 500
_LOOKS = 12  # checks for a stalled partition, within the time after which the gateway starts again
_ASKING = 5.0  # seconds in which Kafka returns the ends of partitions
_WAIT_BEHIND_MS = 20  # while a caller waits for the end, which may be a transaction marker


@dataclass(slots=True, eq=False)
class _Goal:
    ends: dict[TopicPartition, int]
    total: int
    reached: asyncio.Future[None]


class Reader:
    """Reads records into the store.

    Args:
        settings: Kafka's addresses.
        store: gets the records.
        metrics: progress and unreadable records are counted here.
    """

    def __init__(self, settings: Settings, store: Store, metrics: Metrics) -> None:
        self._settings = settings
        self._store = store
        self._metrics = metrics
        self._consumers: dict[TopicPartition, AIOKafkaConsumer] = {}
        self._topics: dict[str, Topic] = {topic.name(settings.topic_prefix): topic for topic in READ}
        self._tps: list[TopicPartition] = []
        self._goals: list[_Goal] = []
        self._takeover_tp: TopicPartition | None = None
        self._takeovers: list[tuple[int, str]] = []
        self._told: tuple[int, Callable[[str], None]] | None = None
        self._progress = "connecting to Kafka"
        self._behind: dict[TopicPartition, int] = {}
        self._standing: tuple[str, ...] = ()

    def progress(self) -> str:
        """The progress of the first read, as text."""
        return self._progress

    def obstacle(self) -> str:
        """Why the objects shown may be out of date. Empty while all records in Kafka are being read."""
        return f"makes no progress in reading {', '.join(self._standing)}" if self._standing else ""

    async def start(self, partitions: int) -> None:
        """Connect, and go to the beginning of every partition.

        Raises:
            KafkaError: Kafka does not answer.
        """
        takeover = TopicPartition(AUDIT.name(self._settings.topic_prefix), partition_of(TAKEOVER, partitions))
        self._takeover_tp = takeover
        self._tps = [TopicPartition(name, number) for name in self._topics for number in range(partitions)]
        own = RESOURCES.name(self._settings.topic_prefix)
        # Every fetch names all partitions of its consumer, so the topic that answers wait for has its own consumer.
        await self._connect([tp for tp in self._tps if tp.topic == own], takeover)
        await self._connect([tp for tp in self._tps if tp.topic != own])

    async def _connect(self, tps: list[TopicPartition], takeover: TopicPartition | None = None) -> None:
        consumer = clients.table_consumer(self._settings, client_id=f"{self._settings.topic_prefix}.gateway-reader")
        self._consumers.update(dict.fromkeys(tps, consumer))
        await consumer.start()
        consumer.assign(tps if takeover is None else [*tps, takeover])
        for tp in tps:
            consumer.seek(tp, 0)  # if offset 0 has been deleted, the reset policy chooses the earliest
        if takeover is not None:
            await consumer.seek_to_end(takeover)

    async def close(self) -> None:
        """Disconnect."""
        await asyncio.gather(*(consumer.stop() for consumer in set(self._consumers.values())), return_exceptions=True)

    async def run(self) -> None:
        """Read until cancelled.

        Raises:
            ExceptionGroup: of KafkaError if reading has failed for good, or of StartAfresh if it makes no progress.
        """
        async with asyncio.TaskGroup() as tasks:
            for consumer in set(self._consumers.values()):
                tasks.create_task(self._feed(consumer))
            tasks.create_task(self._mind())

    async def _mind(self) -> None:
        """Check regularly that all records in Kafka are being read. A consumer can stop without an error.

        Raises:
            StartAfresh: a partition has made no progress for as long as the watchdog allows services.
        """
        limit = self._settings.watchdog_timeout
        offsets = Offsets(self._settings, name=f"{self._settings.topic_prefix}.gateway-ends")
        stood = 0.0
        try:
            await offsets.start()
            while True:
                await asyncio.sleep(limit / _LOOKS)
                await self.look(offsets)
                stood = stood + limit / _LOOKS if self._standing else 0.0
                if stood >= limit:
                    raise StartAfresh(self.obstacle())
        finally:
            await offsets.stop()

    async def look(self, offsets: Offsets) -> None:
        """Find the partitions that have made no progress since the last check although Kafka has more records.

        Args:
            offsets: requests the ends from Kafka, over connections that reads cannot block.
        """
        try:
            async with asyncio.timeout(_ASKING):
                ends = await offsets.stable(self._tps)
                positions = {tp: await self._consumers[tp].position(tp) for tp in ends}
        except (KafkaError, TimeoutError, OSError):  # while Kafka does not answer, no record can be read
            self._behind, self._standing = {}, ()
            return
        behind = {tp: positions[tp] for tp, end in ends.items() if positions[tp] < end}
        standing = sorted(tp for tp, position in behind.items() if self._behind.get(tp) == position)
        self._behind, self._standing = behind, tuple(f"{tp.topic}/{tp.partition}" for tp in standing)

    async def _feed(self, consumer: AIOKafkaConsumer) -> None:
        while True:
            if has_ended(consumer):
                raise StartAfresh("the consumer of its tables has stopped fetching")
            wait = _WAIT_BEHIND_MS if self._goals else _WAIT_MS
            batches = await consumer.getmany(timeout_ms=wait, max_records=_AT_ONCE)
            for tp, records in batches.items():
                self._take(tp, records)
            if self._goals:
                await self._check_goals()

    async def catch_up(self) -> None:
        """Return when all records that were in the topics at the time of the call have been applied to the store.

        The first call makes the store ready.
        """
        ends: dict[TopicPartition, int] = await self._consumers[self._tps[0]].end_offsets(self._tps)
        goal = _Goal(dict(ends), 0, asyncio.get_running_loop().create_future())
        goal.total = await self._left(goal)
        self._goals.append(goal)
        await goal.reached
        if not self._store.ready:
            self._store.skip({(self._topics[tp.topic], tp.partition): end for tp, end in ends.items()})
            self._store.begin()
            self._progress = "ready"
            self._metrics.restored.set(1)

    async def read_to_ends(self) -> bool:
        """Return when everything that is committed now has been read. For `TableAge.mind`.

        Raises:
            KafkaError: Kafka does not answer.
        """
        await self.catch_up()
        return True

    def watch_takeovers(self, place: Place, tell: Callable[[str], None]) -> None:
        """Call `tell` for every gateway that takes over after the record at `place`."""
        self._told = (place.offset, tell)
        self._tell()

    def _tell(self) -> None:
        if self._told is None:
            return  # this gateway's takeover is not written yet
        own, tell = self._told
        later, self._takeovers = self._takeovers, []
        for offset, instance in later:
            if offset > own:
                tell(instance)

    def _take(self, tp: TopicPartition, records: Iterable[Any]) -> None:
        if tp == self._takeover_tp:
            self._take_takeovers(records)
            return
        topic = self._topics[tp.topic]
        inputs: list[Input] = []
        for record in records:
            found = decode(topic, record)
            if isinstance(found, Malformed):
                self._metrics.unreadable.labels(topic.short).inc()
                _log.error(
                    "gateway.record_skipped", topic=tp.topic, place=f"{tp.partition}@{record.offset}", why=found.message
                )
                self._store.apply(inputs)
                inputs = []
                self._store.skip({(topic, tp.partition): record.offset + 1})
            else:
                inputs.append(found)
        self._store.apply(inputs)

    def _take_takeovers(self, records: Iterable[Any]) -> None:
        for record in records:
            found = decode(AUDIT, record)
            event = found.event if isinstance(found, Input) else None
            if isinstance(event, Audited) and event.verb == "start" and event.resource == TAKEOVER:
                self._takeovers.append((record.offset, event.uid))
        self._tell()

    async def _check_goals(self) -> None:
        for goal in list(self._goals):
            left = await self._left(goal)
            if not self._store.ready:
                read = goal.total - left
                fraction = read / goal.total if goal.total else 1.0
                self._metrics.restored.set(fraction)
                self._progress = f"reading its tables: {read} of {goal.total} positions ({fraction:.0%})"
            if not left and goal in self._goals:
                self._goals.remove(goal)
                if not goal.reached.done():
                    goal.reached.set_result(None)

    async def _left(self, goal: _Goal) -> int:
        """The number of positions that are still to be read."""
        left = 0
        for tp, end in goal.ends.items():
            left += max(0, end - await self._consumers[tp].position(tp))
        return left
