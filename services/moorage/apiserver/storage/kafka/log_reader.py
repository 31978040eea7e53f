"""Reads partitions to their ends and on, and the topics that objects are built from. It never stops silently."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import structlog
from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import KafkaError

from moorage.apiserver.metrics import Metrics
from moorage.apiserver.storage.derivation import Derivation
from moorage.apiserver.storage.tables import READ
from moorage.runtime.kafka.clients import clients
from moorage.runtime.kafka.tables.offsets import Offsets
from moorage.runtime.kafka.tables.table_reader import has_ended
from moorage.runtime.process.failures import StartAfresh
from moorage.runtime.service import Input, Malformed
from moorage.runtime.settings.process_settings import Settings
from moorage.runtime.wire.codec import decode
from moorage_schemas.topics import RESOURCES, Topic

Take = Callable[[TopicPartition, Sequence[Any]], None]
"""Takes records of one partition, in order."""

_AT_ONCE: Final = 500  # records that are read before other tasks may run
_POLL_MS: Final = 500  # a poll returns earlier when a position moves, with or without records
_LOOKS: Final = 12  # checks for a stalled partition, within the time after which the gateway starts again
_ASKING: Final = 5.0  # seconds in which Kafka returns the ends of partitions


@dataclass(slots=True, eq=False)
class _Goal:
    ends: Mapping[TopicPartition, int]
    total: int
    reached: asyncio.Future[None]


class LogReader:
    """Reads committed records of partitions from their beginnings.

    Args:
        settings: Kafka's addresses.
        name: the name of its clients.
        what: what it reads, for messages: `its tables`.
        tps: the partitions.
        take: gets the records.
        progress: called with the part that has been read, 0 to 1, and with positions read and in all, while a caller
            waits for the end.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        name: str,
        what: str,
        tps: Iterable[TopicPartition],
        take: Take,
        progress: Callable[[int, int], None] = lambda _, __: None,
    ) -> None:
        self._settings = settings
        self._name = name
        self._what = what
        self._take = take
        self._tell_progress = progress
        self._goals: list[_Goal] = []
        self._behind: dict[TopicPartition, int] = {}
        self._standing: tuple[str, ...] = ()
        self._consumer: AIOKafkaConsumer | None = None
        self.tps: Sequence[TopicPartition] = tuple(tps)
        """The partitions that it reads."""

    def obstacle(self) -> str:
        """Return why what was read may be out of date. Empty while all records in Kafka are being read."""
        return f"makes no progress in reading {', '.join(self._standing)}" if self._standing else ""

    @property
    def consumer(self) -> AIOKafkaConsumer:
        """The consumer, after the start."""
        if self._consumer is None:
            raise RuntimeError("the reader was not started")
        return self._consumer

    async def start(self) -> None:
        """Connect, and go to the beginning of every partition. Raises KafkaError if Kafka does not answer."""
        self._consumer = consumer = clients.table_consumer(self._settings, client_id=self._name)
        await consumer.start()
        consumer.assign(self.tps)
        for tp in self.tps:
            consumer.seek(tp, 0)  # if offset 0 has been deleted, the reset policy chooses the earliest

    async def close(self) -> None:
        """Disconnect."""
        if self._consumer is not None:
            await asyncio.gather(self._consumer.stop(), return_exceptions=True)

    async def run(self) -> None:
        """Read until cancelled.

        Raises:
            ExceptionGroup: of KafkaError if reading has failed for good, or of StartAfresh if it makes no progress.
        """
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._feed(self.consumer))
            tasks.create_task(self._mind())

    async def _mind(self) -> None:
        """Check regularly that all records in Kafka are being read. A consumer can stop without an error."""
        limit = self._settings.watchdog_timeout
        offsets = Offsets(self._settings, name=f"{self._name}-ends")
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

        `offsets` requests the ends over connections that reads cannot block.
        """
        try:
            async with asyncio.timeout(_ASKING):
                ends = await offsets.stable(self.tps)
                positions = {tp: await self.consumer.position(tp) for tp in ends}
        except (KafkaError, TimeoutError, OSError):  # while Kafka does not answer, no record can be read
            self._behind, self._standing = {}, ()
            return
        behind = {tp: positions[tp] for tp, end in ends.items() if positions[tp] < end}
        standing = sorted(tp for tp, position in behind.items() if self._behind.get(tp) == position)
        self._behind, self._standing = behind, tuple(f"{tp.topic}/{tp.partition}" for tp in standing)

    async def _feed(self, consumer: AIOKafkaConsumer) -> None:
        while True:
            if has_ended(consumer):
                raise StartAfresh(f"the consumer of {self._what} has stopped fetching")
            batches = await consumer.getmany(timeout_ms=_POLL_MS, max_records=_AT_ONCE)
            for tp, records in batches.items():
                self._take(tp, records)
            if self._goals:
                await self._check_goals()

    async def catch_up(self) -> None:
        """Return when all records that were there at the time of the call have been taken.

        Raises:
            KafkaError: Kafka does not answer.
        """
        await self.reach(await self.consumer.end_offsets(self.tps))

    async def reach(self, ends: Mapping[TopicPartition, int]) -> None:
        """Return when all records before given offsets have been taken.

        A transaction that is open before one of them delays this.
        """
        goal = _Goal(dict(ends), 0, asyncio.get_running_loop().create_future())
        goal.total = await self._left(goal)
        if not goal.total:
            return
        self._goals.append(goal)
        await goal.reached

    async def read_to_ends(self) -> bool:
        """Return when everything that is committed now has been read. For `TableAge.mind`.

        Raises:
            KafkaError: Kafka does not answer.
        """
        await self.catch_up()
        return True

    async def _check_goals(self) -> None:
        for goal in list(self._goals):
            left = await self._left(goal)
            self._tell_progress(goal.total - left, goal.total)
            if not left and goal in self._goals:
                self._goals.remove(goal)
                if not goal.reached.done():
                    goal.reached.set_result(None)

    async def _left(self, goal: _Goal) -> int:
        """Return the number of positions that are still to be read."""
        left = 0
        for tp, end in goal.ends.items():
            left += max(0, end - await self.consumer.position(tp))
        return left


_log = structlog.get_logger(__name__)


class SourceReader:
    """Folds the records of the topics in `READ` into the tables of a derivation."""

    def __init__(
        self,
        settings: Settings,
        partitions: int,
        derivation: Derivation,
        metrics: Metrics,
        *,
        folded: Callable[[], None],
        progress: Callable[[int, int], None],
    ) -> None:
        self._derivation = derivation
        self._metrics = metrics
        self._folded = folded
        self._topics: dict[str, Topic] = {topic.name(settings.topic_prefix): topic for topic in READ}
        self._own: set[tuple[int, int]] = set()
        self.reader = LogReader(
            settings,
            name=f"{settings.topic_prefix}.gateway-reader",
            what="its tables",
            tps=[TopicPartition(name, number) for name in self._topics for number in range(partitions)],
            take=self._take,
            progress=progress,
        )

    def written(self, partition: int, offset: int) -> None:
        """Note that a record of `resources` is this gateway's own. The tables contain it already, or a later one."""
        self._own.add((partition, offset))

    async def passed(self, ends: Mapping[TopicPartition, int]) -> None:
        """Return when records have been read that end before given offsets. Partitions of other topics are left out.

        Args:
            ends: the offset after the last record of each partition.
        """
        await self.reader.reach({tp: end for tp, end in ends.items() if tp.topic in self._topics})

    def _take(self, tp: TopicPartition, records: Sequence[Any]) -> None:
        topic = self._topics[tp.topic]
        inputs: list[Input] = []
        for record in records:
            if topic is RESOURCES and (tp.partition, record.offset) in self._own:
                self._own.discard((tp.partition, record.offset))
                continue
            found = decode(topic, record)
            if isinstance(found, Malformed):
                self._metrics.unreadable.labels(topic.short).inc()
                _log.error(
                    "gateway.record_skipped", topic=tp.topic, place=f"{tp.partition}@{record.offset}", why=found.message
                )
            else:
                inputs.append(found)
        if inputs:
            self._derivation.fold(inputs)
            self._folded()
