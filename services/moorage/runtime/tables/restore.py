"""Restores the state of one partition from its topics, in the order that the tables demand."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import structlog
from aiokafka import TopicPartition

from moorage.runtime import codec, metrics
from moorage.runtime.offsets import Offsets
from moorage.runtime.service import Service
from moorage.runtime.tables.reader import TableReader, Tail
from moorage_schemas.topics import Topic

log = structlog.get_logger(__name__)

S = TypeVar("S")


@dataclass
class Progress:
    """How far a restore is."""

    wanted: int = 0
    """Offsets to go through, in all."""

    tails: tuple[tuple[Tail, int], ...] = ()
    """What is read, each with the position at which it began."""

    finished: bool = False

    @property
    def fraction(self) -> float:
        """Between 0 and 1."""
        if self.finished:
            return 1.0
        if not self.wanted:
            return 0.0
        return min(0.999, sum(tail.position - begin for tail, begin in self.tails) / self.wanted)


class Restorer(Generic[S]):
    """Reads source tables up to the committed offsets, changelogs and followed topics to their ends.

    Args:
        service: whose state it is.
        state: the empty state.
        partition: the partition of all topics.
        prefix: the topics' prefix.
        reader: the reader of this worker's tables.
        offsets: where the topics end.
        on_followed: called after records of a followed topic came in later on.
    """

    def __init__(
        self,
        *,
        service: Service[S],
        state: S,
        partition: int,
        prefix: str,
        reader: TableReader,
        offsets: Offsets,
        on_followed: Callable[[], None],
    ) -> None:
        self._service = service
        self._state = state
        self._partition = partition
        self._prefix = prefix
        self._reader = reader
        self._offsets = offsets
        self._on_followed = on_followed
        self._live = False
        self._follows: dict[TopicPartition, Tail] = {}
        self._all: list[TopicPartition] = []
        self._positions: dict[str, int] = {}
        self.progress = Progress()

    async def run(self, committed: Mapping[Topic, int | None]) -> dict[Topic, int]:
        """Restore, and return the position from which each source goes on.

        Args:
            committed: the committed offset of each source, None where none was ever committed.
        """
        service = self._service
        tables = [topic for topic in service.sources if topic in service.source_tables]
        every = [*service.sources, *service.changelogs, *service.follows]
        begins = await self._offsets.begin([self._tp(topic) for topic in every])
        ends = await self._offsets.end([self._tp(topic) for topic in (*service.changelogs, *service.follows)])
        starts = {topic: max(committed[topic] or 0, begins[self._tp(topic)]) for topic in service.sources}
        limits = {topic: starts[topic] for topic in tables}
        limits |= {topic: ends[self._tp(topic)] for topic in (*service.changelogs, *service.follows)}
        tails = self._announce(limits, begins)

        for phase in (tables, service.changelogs, service.follows):
            await self._phase([tails[topic] for topic in phase if topic in tails], limits)
        for topic in service.sources:
            # The state may rest on more than was committed: an offset that was lost or reset.
            starts[topic] = max(starts[topic], self._positions.get(topic.short, 0))
        for topic in tables:
            if topic in tails or starts[topic] > limits[topic]:
                tail = tails.get(topic) or self._add(topic, limits[topic], self._sink(topic))
                self._reader.extend(tail, starts[topic])
                await self._reader.reached(tail, starts[topic])
        self._reader.remove([self._tp(topic) for topic in (*tables, *service.changelogs)])
        for topic in service.follows:
            tail = tails.get(topic) or self._add(topic, limits[topic], self._sink(topic))
            self._follows[self._tp(topic)] = tail
            self._reader.extend(tail, None)
        self._live = True
        self.progress.finished = True
        return starts

    async def catch_up(self) -> None:
        """Read the followed topics up to their present end."""
        if self._follows:
            for tp, end in (await self._offsets.end(self._follows)).items():
                await self._reader.reached(self._follows[tp], end)

    def close(self) -> None:
        """Stop reading for this state."""
        self._reader.remove(self._all)
        self._all.clear()
        self._follows.clear()

    def _announce(self, limits: Mapping[Topic, int], begins: Mapping[TopicPartition, int]) -> dict[Topic, Tail]:
        """Add all that there is to read, at rest, so that the reader is interrupted once."""
        tails = {}
        for topic, limit in limits.items():
            begin = begins[self._tp(topic)]
            if limit > begin:
                tails[topic] = self._add(topic, begin, self._sink(topic))
        self.progress.tails = tuple((tail, tail.position) for tail in tails.values())
        self.progress.wanted = sum(limits[topic] - tail.position for topic, tail in tails.items())
        return tails

    async def _phase(self, tails: Sequence[Tail], limits: Mapping[Topic, int]) -> None:
        wanted = {self._tp(topic): limit for topic, limit in limits.items()}
        for tail in tails:
            self._reader.extend(tail, wanted[tail.tp])
        for tail in tails:
            await self._reader.reached(tail, wanted[tail.tp])

    def _add(self, topic: Topic, position: int, sink: Callable[[Sequence[Any]], None]) -> Tail:
        tp = self._tp(topic)
        self._all.append(tp)
        return self._reader.add(tp, position, sink, limit=position)

    def _sink(self, topic: Topic) -> Callable[[Sequence[Any]], None]:
        service, state = self._service, self._state
        is_changelog = topic in service.changelogs
        source = source_name(service.name)

        def take(records: Sequence[Any]) -> None:
            for record in records:
                if is_changelog and (found := codec.state_positions(record.headers, source)):
                    for short, position in found.items():
                        if position > self._positions.get(short, 0):
                            self._positions[short] = position
                fold(service, state, topic, record)
            if self._live:
                self._on_followed()

        return take

    def _tp(self, topic: Topic) -> TopicPartition:
        return TopicPartition(topic.name(self._prefix), self._partition)


def source_name(service: str) -> str:
    """The CloudEvents source of a service's events."""
    return f"moorage/{service}"


def fold(service: Service[S], state: S, topic: Topic, record: Any) -> None:
    """Fold one record of a table into a state; one that cannot be is logged, counted and left out.

    Leaving it out is the lesser evil: its owner would otherwise never start again.
    """
    try:
        key, event = codec.decode_table(topic, record)
        service.apply(state, topic, key, event)
    except Exception:
        metrics.TABLE_RECORDS_SKIPPED.labels(service.name).inc()
        log.exception(
            "tables.record_not_applied",
            service=service.name,
            topic=topic.short,
            partition=record.partition,
            offset=record.offset,
            key=record.key,
        )
