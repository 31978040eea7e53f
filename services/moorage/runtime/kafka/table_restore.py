"""Reads the records from which an engine restores its partition, and then keeps reading the topics that it follows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from aiokafka import TopicPartition

from moorage.runtime.engine.engine import PartitionEngine
from moorage.runtime.engine.requests import Announce, Bounded, Bounds, Read, Request, Span
from moorage.runtime.kafka.offsets import Offsets
from moorage.runtime.kafka.table_reader import TableReader, Tail
from moorage.runtime.service import GlobalView
from moorage_schemas.topics import Topic

S = TypeVar("S")


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


class Restorer(Generic[S]):
    """Reads for one partition's engine.

    Args:
        engine: the engine that makes the requests.
        partition: the partition of all topics.
        prefix: the topics' prefix.
        reader: the reader of this worker's tables.
        offsets: returns where the topics end.
        on_followed: called when records of a followed topic were read after the restore.
    """

    def __init__(
        self,
        *,
        engine: PartitionEngine[S],
        partition: int,
        prefix: str,
        reader: TableReader,
        offsets: Offsets,
        on_followed: Callable[[], None],
    ) -> None:
        self._engine = engine
        self._partition = partition
        self._prefix = prefix
        self._reader = reader
        self._offsets = offsets
        self._on_followed = on_followed
        self._live = False
        self._tails: dict[Topic, Tail] = {}
        self._all: list[TopicPartition] = []
        self.progress = Progress()

    async def run(
        self, committed: Mapping[Topic, int | None], view: GlobalView | None, no_later: Mapping[Topic, int]
    ) -> None:
        """Restore the engine, and keep the topics that it follows up to date.

        Args:
            committed: the committed offset of each source; None where none was ever committed.
            view: the service's global view.
            no_later: positions after which the engine must not begin.

        Raises:
            KafkaError: Kafka does not answer.
            StartAfresh: a table is no longer read.
        """
        steps = self._engine.restore(committed, view, no_later)
        answer: Bounded | None = None
        while True:
            try:
                request = steps.send(answer)
            except StopIteration:
                break
            answer = await self._answer(request)
        service = self._engine.service
        self._reader.remove([self._tp(topic) for topic in self._tails if topic not in service.follows])
        for topic in service.follows:
            self._reader.extend(self._tails[topic], None)
        self._live = True
        self.progress.finished = True

    async def catch_up(self) -> None:
        """Read the followed topics to what is committed now, without waiting for open transactions."""
        follows = {self._tp(topic): self._tails[topic] for topic in self._engine.service.follows}
        if follows:
            ends = await self._offsets.stable(follows)
            await self._reader.reached_all({follows[tp]: end for tp, end in ends.items()})

    def close(self) -> None:
        """Stop reading for this engine."""
        self._reader.remove(self._all)
        self._all.clear()
        self._tails.clear()

    async def _answer(self, request: Request) -> Bounded | None:
        match request:
            case Bounds():
                return await self._bounds(request)
            case Announce(spans):
                self._announce(spans)
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

    def _announce(self, spans: Sequence[Span]) -> None:
        """Add all partitions to read, paused, so that the reader is interrupted once."""
        for span in spans:
            if span.end > span.begin or span.topic in self._engine.service.follows:
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
        self._all.append(tp)
        tail = self._tails[span.topic] = self._reader.add(tp, span.begin, self._sink(span.topic), limit=span.begin)
        return tail

    def _sink(self, topic: Topic) -> Callable[[Sequence[Any]], None]:
        engine = self._engine

        def take(records: Sequence[Any]) -> None:
            engine.fold(topic, records)
            if self._live:
                self._on_followed()

        return take

    def _tp(self, topic: Topic) -> TopicPartition:
        return TopicPartition(topic.name(self._prefix), self._partition)
