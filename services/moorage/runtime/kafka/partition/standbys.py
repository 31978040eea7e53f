"""The standbys of one worker: which there are, how far their owners have come, and when they are warm."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from typing import Final, Generic, TypeVar

import structlog
from aiokafka.errors import KafkaError

from moorage.runtime.engine.tables import PartitionTables
from moorage.runtime.kafka.partition.context import WorkerContext
from moorage.runtime.kafka.partition.standby_task import StandbyTask
from moorage.runtime.process import metrics

log = structlog.get_logger(__name__)

S = TypeVar("S")

_LOOK: Final = 0.5  # seconds between two requests for the committed offsets of the owners


class Standbys(Generic[S]):
    """The standbys of one session of a worker.

    Args:
        context: the context of the session.
        calm: returns whether the worker's own partitions are all restored. Standbys begin to read after that.
        on_warm: called when the set of warm standbys has grown.
    """

    def __init__(self, context: WorkerContext[S], *, calm: Callable[[], bool], on_warm: Callable[[], None]) -> None:
        self._context = context
        self._calm = calm
        self._on_warm = on_warm
        self._tasks: dict[int, StandbyTask[S]] = {}
        self._warm: frozenset[int] = frozenset()

    @property
    def warm(self) -> frozenset[int]:
        """The partitions that can be taken over at once."""
        return frozenset(partition for partition, task in self._tasks.items() if task.warm)

    def report(self) -> dict[str, str]:
        """Return `Warm` or `Reading` for each partition, for the readiness page."""
        return {str(partition): "Warm" if task.warm else "Reading" for partition, task in sorted(self._tasks.items())}

    def hand_over(self, partition: int) -> PartitionTables[S] | None:
        """Return what was read of a partition, for its owner in this worker; None when nothing was."""
        task = self._tasks.pop(partition, None)
        return None if task is None else task.hand_over()

    async def hold(self, partitions: Collection[int]) -> None:
        """Be the standby of exactly these partitions from now on."""
        leaving = [self._tasks.pop(partition) for partition in list(self._tasks) if partition not in partitions]
        for partition in partitions:
            if partition not in self._tasks:
                self._tasks[partition] = StandbyTask(self._context, partition)
        await asyncio.gather(*(task.stop() for task in leaving))

    async def mind(self) -> None:
        """Start the standbys when it is time, and tell them how far their owners have come, until cancelled."""
        while True:
            await asyncio.sleep(_LOOK)
            try:
                await self._look()
            except (KafkaError, TimeoutError, OSError) as error:
                log.debug("standbys.offsets_unknown", service=self._context.service.name, error=repr(error))

    async def _look(self) -> None:
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
        """Return True when everything that is committed now has been read; False when that is not known.

        Raises:
            KafkaError: Kafka does not answer.
            StartAfresh: a table is no longer read.
        """
        return all(await asyncio.gather(*(task.read_to_ends() for task in list(self._tasks.values()))))

    async def stop(self) -> None:
        """Stop all of them."""
        await self.hold(())
