"""The fetched records of the sources of one partition."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from typing import Any, Final

from aiokafka import TopicPartition
from aiokafka.errors import IllegalStateError

from moorage.runtime.engine.engine import PartitionEngine
from moorage.runtime.kafka.partition.context import WorkerContext
from moorage_schemas.topics import Topic

_HIGH: Final = 16
_LOW: Final = 8
"""Queued batches at which fetching is paused, and resumed."""


class SourceFeed:
    """Fetches the sources that the engine wants, and nothing while too many records are waiting."""

    def __init__(self, context: WorkerContext[Any], partition: int, engine: PartitionEngine[Any]) -> None:
        self.tps = {topic: context.tp(topic, partition) for topic in context.service.sources}
        """The partition of each source."""

        self.throttled = False
        """Whether nothing is fetched because too many records are waiting."""

        self._consumer = context.consumer
        self._engine = engine
        self._batch = context.settings.batch_max_records
        self._resumed: tuple[TopicPartition, ...] = ()

    def reset(self) -> None:
        """Drop the fetched records."""
        self.throttled = False
        self._resumed = ()

    def seek(self) -> None:
        """Fetch from the positions of the state.

        Raises:
            IllegalStateError: the partition is no longer assigned to the consumer.
        """
        for topic, tp in self.tps.items():
            self._consumer.seek(tp, self._engine.positions[topic])
        self.resume()

    def resume(self) -> None:
        """Resume fetching the sources that are wanted now.

        Raises:
            IllegalStateError: the partition is no longer assigned to the consumer.
        """
        self._resumed = tuple(self.tps[topic] for topic in self._engine.wanted)
        if self._resumed:
            self._consumer.resume(*self._resumed)

    def pause(self) -> None:
        """Fetch nothing."""
        with contextlib.suppress(IllegalStateError, AssertionError):  # not assigned, or never was
            self._consumer.pause(*self.tps.values())

    def throttle(self) -> None:
        """Fetch nothing more if too many records are waiting."""
        if not self.throttled and self._engine.waiting > _HIGH * self._batch:
            self.throttled = True
            self.pause()

    def ease(self) -> None:
        """Fetch again if few records are waiting, and fetch the sources that have come to be wanted."""
        if self.throttled and self._engine.waiting < _LOW * self._batch:
            self.reset()
        if not self.throttled and len(self._resumed) < len(self._engine.wanted):
            with contextlib.suppress(IllegalStateError):
                self.resume()

    @contextlib.contextmanager
    def fetching(self, topics: Iterable[Topic]) -> Iterator[None]:
        """Fetch some sources even while too many records are waiting. After an error this continues."""
        if self.throttled:
            with contextlib.suppress(IllegalStateError):
                self._consumer.resume(*(self.tps[topic] for topic in topics))
        yield
        if self.throttled:
            self.pause()

    async def note_passed(self, topics: Iterable[Topic]) -> None:
        """Pass the positions of the consumer to the engine."""
        for topic in topics:
            with contextlib.suppress(IllegalStateError):  # a rebalance is taking it away; the worker will report it
                self._engine.passed(topic, await self._consumer.position(self.tps[topic]))
