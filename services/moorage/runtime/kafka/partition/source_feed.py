"""The fetched records of the sources of one partition."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from typing import Any, Final

from aiokafka import TopicPartition
from aiokafka.errors import IllegalStateError

from moorage.runtime.engine.chain import PartitionChain
from moorage.runtime.kafka.clients import fetch_connections
from moorage.runtime.kafka.partition.context import WorkerContext
from moorage_schemas.topics import Topic

_HIGH: Final = 16
_LOW: Final = 8
"""Queued batches at which fetching is paused, and resumed."""


class SourceFeed:
    """Fetches the sources that the chain wants, and nothing while too many records are waiting."""

    def __init__(self, context: WorkerContext[Any], partition: int, chain: PartitionChain) -> None:
        self.tps = {topic: context.tp(topic, partition) for topic in chain.sources}
        """The partition of each source."""

        self.throttled = False
        """Whether nothing is fetched because too many records are waiting."""

        self._consumer = context.consumer
        self._chain = chain
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
        positions = self._chain.positions
        for topic, tp in self.tps.items():
            self._consumer.seek(tp, positions[topic])
        self.resume()

    def resume(self) -> None:
        """Resume fetching the sources that are wanted now.

        Raises:
            IllegalStateError: the partition is no longer assigned to the consumer.
        """
        before, self._resumed = self._resumed, self._wanted()
        if unwanted := set(before).difference(self._resumed):
            self._consumer.pause(*unwanted)
        if self._resumed:
            self._consumer.resume(*self._resumed)

    def pause(self) -> None:
        """Fetch nothing."""
        with contextlib.suppress(IllegalStateError, AssertionError):  # not assigned, or never was
            self._consumer.pause(*self.tps.values())

    def throttle(self) -> None:
        """Fetch nothing more if too many records are waiting."""
        if not self.throttled and self._chain.waiting > _HIGH * self._batch:
            self.throttled = True
            self.pause()

    def ease(self) -> None:
        """Fetch again if few records are waiting, and fetch exactly the sources that are wanted now."""
        if self.throttled and self._chain.waiting < _LOW * self._batch:
            self.reset()
        if not self.throttled and self._resumed != self._wanted():
            with contextlib.suppress(IllegalStateError):
                self.resume()

    @contextlib.contextmanager
    def fetching(self, topics: Iterable[Topic]) -> Iterator[None]:
        """Fetch some sources at once, even while too many records are waiting. After an error this continues."""
        fetch_connections.hurry(self._consumer, [self.tps[topic] for topic in topics])
        if self.throttled:
            with contextlib.suppress(IllegalStateError):
                self._consumer.resume(*(self.tps[topic] for topic in topics))
        yield
        if self.throttled:
            self.pause()

    def _wanted(self) -> tuple[TopicPartition, ...]:
        return tuple(self.tps[topic] for topic in self._chain.wanted)

    async def note_passed(self, topics: Iterable[Topic]) -> None:
        """Pass the positions of the consumer to the chain."""
        for topic in topics:
            with contextlib.suppress(IllegalStateError):  # a rebalance is taking it away; the worker will report it
                self._chain.passed(topic, await self._consumer.position(self.tps[topic]))
