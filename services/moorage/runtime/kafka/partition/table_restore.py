"""Reads the tables of a partition, for its task or for a standby, and then keeps reading some of them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

from aiokafka import TopicPartition

from moorage.runtime.engine.requests import Announce, Bounded, Bounds, Read, Request, Span, Steps
from moorage.runtime.kafka.tables.offsets import Offsets
from moorage.runtime.kafka.tables.table_reader import TableReader, Tail
from moorage_schemas.topics import Topic


@dataclass
class Progress:
    """How far a restore has come."""

    wanted: int = 0
    """The total number of offsets to read."""

    tails: tuple[tuple[Tail, int], ...] = ()
    """The partitions that are read, each with the position at which the read began."""

    finished: bool = False

    @property
    def fraction(self) -> float:
        """The progress, between 0 and 1."""
        if self.finished:
            return 1.0
        if not self.wanted:
            return 0.0
        return min(0.999, sum(tail.position - begin for tail, begin in self.tails) / self.wanted)


Fold = Callable[[Topic, Sequence[Any]], None]
"""Takes records of a table."""


class Restorer:
    """Reads tables of one partition.

    Args:
        partition: the partition of all topics.
        offsets: returns where the topics end.
    """

    def __init__(self, *, partition: int, prefix: str, reader: TableReader, offsets: Offsets, fold: Fold) -> None:
        self._partition = partition
        self._prefix = prefix
        self._reader = reader
        self._offsets = offsets
        self._fold = fold
        self._tails: dict[Topic, Tail] = {}
        self.progress = Progress()

    async def run(self, steps: Steps[None], follows: Collection[Topic]) -> None:
        """Carry out the requests of a restore, and then keep reading some of the tables.

        Raises:
            KafkaError: Kafka does not answer.
            StartAfresh: a table is no longer read.
        """
        answer: Bounded | None = None
        while True:
            try:
                request = steps.send(answer)
            except StopIteration:
                break
            answer = await self._answer(request, follows)
        self._reader.remove([tail for topic, tail in self._tails.items() if topic not in follows])
        self._tails = {topic: tail for topic, tail in self._tails.items() if topic in follows}
        for tail in self._tails.values():
            self._reader.extend(tail, None)
        self.progress.finished = True

    async def catch_up(self) -> None:
        """Read the followed tables to their committed end, without waiting for open transactions.

        Raises:
            KafkaError: Kafka does not answer.
            StartAfresh: a table is no longer read.
        """
        follows = {self._tp(topic): tail for topic, tail in self._tails.items()}
        if follows:
            ends = await self._offsets.stable(follows)
            await self._reader.reached_all({follows[tp]: end for tp, end in ends.items()})

    def hold(self, topic: Topic) -> None:
        """Read no more of a table until `let_go`. Called by `fold`, with the last record that it wants."""
        self._reader.extend(self._tails[topic], 0)

    def let_go(self, topic: Topic) -> None:
        """Continue to read a table."""
        self._reader.extend(self._tails[topic], None)

    def close(self) -> None:
        """Stop reading."""
        self._reader.remove(self._tails.values())
        self._tails.clear()

    async def _answer(self, request: Request, follows: Collection[Topic]) -> Bounded | None:
        match request:
            case Bounds():
                return await self._bounds(request)
            case Announce(spans):
                self._announce(spans, follows)
            case Read(spans):
                await self._read(spans)
            case _:
                raise RuntimeError(f"the engine may not make this request during a restore: {request!r}")
        return None

    async def _bounds(self, wanted: Bounds) -> Bounded:
        begins = await self._offsets.begin([self._tp(topic) for topic in wanted.begin]) if wanted.begin else {}
        ends = await self._offsets.end([self._tp(topic) for topic in wanted.end]) if wanted.end else {}
        stable = await self._offsets.stable([self._tp(topic) for topic in wanted.committed]) if wanted.committed else {}
        return Bounded(
            {topic: begins[self._tp(topic)] for topic in wanted.begin},
            {topic: ends[self._tp(topic)] for topic in wanted.end}
            | {topic: stable[self._tp(topic)] for topic in wanted.committed},
        )

    def _announce(self, spans: Sequence[Span], follows: Collection[Topic]) -> None:
        """Add all partitions to read, paused, so that the reader is interrupted once."""
        for span in spans:
            if span.end > span.begin or span.topic in follows:
                self._add(span)
        wanted = {span.topic: span for span in spans}
        self.progress.tails = tuple((tail, tail.position) for tail in self._tails.values())
        self.progress.wanted = sum(wanted[topic].end - tail.position for topic, tail in self._tails.items())

    async def _read(self, spans: Sequence[Span]) -> None:
        spans = [span for span in spans if span.end > span.begin]
        for span in spans:
            self._reader.extend(self._tails.get(span.topic) or self._add(span), span.end)
        await self._reader.reached_all({self._tails[span.topic]: span.end for span in spans})

    def _add(self, span: Span) -> Tail:
        tp = self._tp(span.topic)
        tail = self._tails[span.topic] = self._reader.add(
            tp, span.begin, functools.partial(self._fold, span.topic), limit=span.begin
        )
        return tail

    def _tp(self, topic: Topic) -> TopicPartition:
        return TopicPartition(topic.name(self._prefix), self._partition)
