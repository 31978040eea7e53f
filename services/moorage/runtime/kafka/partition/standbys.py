"""The standbys of one worker: which exist, how far they have read, and when they are warm."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final

import structlog
from aiokafka import TopicPartition
from aiokafka.errors import KafkaError

from moorage.runtime.engine.partition_tables import PartitionTables, Standby
from moorage.runtime.engine.requests import Bounded, Steps
from moorage.runtime.kafka.clients.refusals import describe
from moorage.runtime.kafka.partition.context import WorkerContext
from moorage.runtime.kafka.partition.table_restore import Restorer
from moorage.runtime.process import metrics
from moorage.runtime.process.failures import StartAfresh, end_task, restarted
from moorage.runtime.wire.record_format import KafkaFormat
from moorage_schemas.topics import Topic

log = structlog.get_logger(__name__)

_CHECK_EVERY: Final = 0.5  # seconds between two requests for the committed offsets of the tasks

_HELD: Final = 10_000
"""The maximum number of records of one source that are kept in memory until the task has processed them."""

_WORN: Final = 8
"""How many times as many records as at its start a standby reads before it starts anew. A service removes old state
while it decides, which a standby does not do, so some of that stays in memory.
"""

_WORN_LEAST: Final = 1_000_000
"""Records that a standby reads at least before it starts anew."""

_BACKOFF: Final = 1.0  # seconds before it starts again after an error


class StandbyTask:
    """Keeps the tables of one partition ready."""

    def __init__(self, context: WorkerContext[Any], partition: int) -> None:
        self.partition = partition
        self.warm = False
        """Whether the tables have been read to the ends that they had at the start."""

        service = context.service
        self.sources = {topic: context.tp(topic, partition) for topic in service.sources}
        """The sources, by their names in Kafka."""

        self._context = context
        self._tables = self._empty()
        self._standby: Standby[Any] | None = None
        self._restorer: Restorer | None = None
        self._full: set[Topic] = set()
        self._limit = 0
        self._worn = asyncio.Event()
        self._folded = asyncio.Event()
        """Set whenever records that were held back may have been folded in."""

        self._task: asyncio.Task[None] | None = None

    @property
    def started(self) -> bool:
        """Whether it has begun to read."""
        return self._task is not None

    def start(self) -> None:
        """Begin to read."""
        name = f"{self._context.service.name}-{self.partition}-standby"
        self._task = asyncio.create_task(restarted(name, self._run), name=name)

    def processed(self, committed: Mapping[TopicPartition, int]) -> None:
        """Note the committed offsets of the task. Topics without one are left out."""
        standby, restorer = self._standby, self._restorer
        if standby is None or restorer is None:
            return
        standby.processed({topic: committed[tp] for topic, tp in self.sources.items() if tp in committed})
        self._folded.set()
        for topic in [topic for topic in self._full if standby.has_room(topic)]:
            self._full.discard(topic)
            restorer.let_go(topic)

    def hand_over(self) -> PartitionTables[Any] | None:
        """Stop, and return the read tables for the task that this worker starts; None for none."""
        task, self._task = self._task, None
        if task is None:
            return None
        task.cancel()
        self._close()
        return self._tables

    async def stop(self) -> None:
        """Stop."""
        task, self._task = self._task, None
        await end_task(task)
        self._close()

    async def read_to_ends(self) -> bool:
        """Return True when the tables contain everything that is committed now; False when that is uncertain.

        What is held back is not handed over: the new task reads it again, and by then the tombstones in it may be gone.
        So this waits until the present task has processed it. A standby that has not begun, or is reading everything,
        will read it.

        Raises:
            KafkaError: Kafka does not answer.
            StartAfresh: a table is no longer read.
        """
        if self._full:
            return False
        standby, restorer = self._standby, self._restorer
        if standby is None or restorer is None:
            return True
        await restorer.catch_up()
        held = standby.last_held()
        while self._standby is standby and standby.holds(held):
            self._folded.clear()
            await self._folded.wait()
        return self._standby is standby

    # Reading.

    async def _run(self) -> None:
        while True:
            try:
                await self._read()
                await self._worn.wait()
                log.info("standby.reads_anew", service=self._context.service.name, partition=self.partition)
            except (StartAfresh, KafkaError, TimeoutError, OSError) as error:
                why = describe(error, self._context.settings)
                log.warning("standby.failed", service=self._context.service.name, partition=self.partition, error=why)
                await asyncio.sleep(_BACKOFF)
            finally:
                self._close()

    async def _read(self) -> None:
        context, service = self._context, self._context.service
        await context.globals_ready()
        async with context.standing_by:
            committed = await context.offsets.committed(context.group, self.sources.values())
            self._tables = tables = self._empty()
            self._restorer = restorer = Restorer(
                partition=self.partition,
                prefix=context.settings.topic_prefix,
                reader=context.reader,
                offsets=context.offsets,
                fold=self._take,
            )
            await restorer.run(
                _read(tables, {topic: committed.get(tp) for topic, tp in self.sources.items()}), tables.every
            )
        records = sum(tables.folded.values())
        self._standby = Standby(tables, most=_HELD)
        self._limit = max(_WORN * records, _WORN_LEAST)
        self.warm = True
        log.info("standby.warm", service=service.name, partition=self.partition, records=records)

    def _take(self, topic: Topic, records: Sequence[Any]) -> None:
        standby, restorer = self._standby, self._restorer
        try:
            if standby is None or restorer is None:
                self._tables.fold(topic, records)
                return
            standby.offer(topic, records)
            self._folded.set()
        except Exception:
            # The reader logs it, and no longer reads this table. Some of the records may be in the state.
            self.warm, self._tables = False, self._empty()
            self._worn.set()
            raise
        if standby.is_full(topic):
            self._full.add(topic)
            restorer.hold(topic)
        if standby.taken > self._limit:
            self._worn.set()

    def _empty(self) -> PartitionTables[Any]:
        return PartitionTables(
            self._context.service, self.partition, KafkaFormat(), partitions=self._context.partitions
        )

    def _close(self) -> None:
        self.warm = False
        self._standby = None
        self._full.clear()
        self._worn.clear()
        self._folded.set()
        restorer, self._restorer = self._restorer, None
        if restorer is not None:
            restorer.close()


def _read(tables: PartitionTables[Any], committed: Mapping[Topic, int | None]) -> Steps[None]:
    """Read tables as a restore does."""
    bounds: Bounded = yield tables.bounds()
    yield from tables.read(bounds, committed)


class Standbys:
    """The standbys of one session of a worker.

    Args:
        calm: returns whether the worker's own partitions are all restored. Standbys begin to read after that.
        on_warm: called when the set of warm standbys has grown.
    """

    def __init__(self, context: WorkerContext[Any], *, calm: Callable[[], bool], on_warm: Callable[[], None]) -> None:
        self._context = context
        self._calm = calm
        self._on_warm = on_warm
        self._tasks: dict[int, StandbyTask] = {}
        self._warm: frozenset[int] = frozenset()
        self._held = asyncio.Event()

    @property
    def warm(self) -> frozenset[int]:
        """The partitions that this worker can take at once."""
        return frozenset(partition for partition, task in self._tasks.items() if task.warm)

    @property
    def partitions(self) -> frozenset[int]:
        """The partitions of which this worker is a standby."""
        return frozenset(self._tasks)

    def hand_over(self, partition: int) -> PartitionTables[Any] | None:
        """Return the read tables of a partition for its task in this worker; None for none."""
        task = self._tasks.pop(partition, None)
        return None if task is None else task.hand_over()

    async def hold(self, partitions: Collection[int]) -> None:
        """Be the standby of exactly these partitions from now on."""
        leaving = [self._tasks.pop(partition) for partition in list(self._tasks) if partition not in partitions]
        for partition in partitions:
            if partition not in self._tasks:
                self._tasks[partition] = StandbyTask(self._context, partition)
                self._held.set()
        await asyncio.gather(*(task.stop() for task in leaving))

    async def mind(self) -> None:
        """Start due standbys, and pass them the positions of their tasks, until cancelled."""
        while True:
            await asyncio.sleep(_CHECK_EVERY)
            try:
                await self._check()
            except (KafkaError, TimeoutError, OSError) as error:
                log.debug("standbys.offsets_unknown", service=self._context.service.name, error=repr(error))
            if not self._tasks:
                self._held.clear()
                await self._held.wait()

    async def _check(self) -> None:
        context = self._context
        if self._calm():
            for task in self._tasks.values():
                if not task.started:
                    task.start()
        warm = self.warm
        name = context.service.name
        metrics.STANDBYS.labels(name).set(len(self._tasks))
        metrics.WARM_STANDBYS.labels(name).set(len(warm))
        if warm - self._warm:
            self._on_warm()
        self._warm = warm
        sources = [tp for partition in warm for tp in self._tasks[partition].sources.values()]
        if sources:
            committed = await context.offsets.committed(context.group, sources)
            for task in self._tasks.values():
                task.processed(committed)

    async def read_to_ends(self) -> bool:
        """Return True when everything that is committed now has been read; False when that is uncertain.

        Raises:
            KafkaError: Kafka does not answer.
            StartAfresh: a table is no longer read.
        """
        return all(await asyncio.gather(*(task.read_to_ends() for task in list(self._tasks.values()))))

    async def stop(self) -> None:
        """Stop all of them."""
        await self.hold(())
