"""Follows the records that upstream services have not processed yet, once for all tasks of a worker."""

from __future__ import annotations

import asyncio
import sys
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from aiokafka import TopicPartition

from moorage.runtime.kafka.tables.table_reader import TableReader, Tail
from moorage.runtime.service import EVERYTHING, Upstream
from moorage_schemas.topics import Topic

_TOO_FAR: Final = 20_000
"""The number of records above which a backlog is not searched. Every key then counts as concerned."""

_MANY: Final = 1_000
"""The number of stored keys from which those that are no longer needed are dropped."""

Offsets = Mapping[TopicPartition, int]


class Place(NamedTuple):
    """A partition that an upstream service reads."""

    service: str
    topic: Topic
    partition: int


@dataclass(eq=False)
class _Followed:
    """An upstream topic that is followed."""

    tp: TopicPartition
    begin: int
    """The offset from which `keys` is complete."""

    sink: Callable[[Sequence[Any]], None]
    """Takes its records."""

    next: int
    """The offset of the next record to take."""

    tail: Tail = field(init=False)
    """Reads the partition for all upstream services that read it."""

    keys: deque[tuple[int, str]] = field(default_factory=deque)
    """The offsets of records that upstream may not have processed, each with the key that it concerns."""

    floors: dict[int, int] = field(default_factory=dict)
    """How far upstream has read, according to the task of each partition."""

    stated: dict[object, object] = field(default_factory=dict)
    """The last statement about each subject."""

    def take(self, records: Sequence[Any]) -> None:
        """Take those records that were not taken before."""
        wanted = [record for record in records if record.offset >= self.next]
        if wanted:
            self.next = wanted[-1].offset + 1
            self.sink(wanted)

    def repeats(self, one: Upstream, record: Any) -> bool:
        """Return whether a record states the same about its subject as the one before, such as a heartbeat."""
        if one.states is None:
            return False
        found = one.states((record.key or b"").decode(errors="replace"), record.value or b"")
        if found is None:
            return False
        subject, statement = found
        same = self.stated.get(subject) == statement
        self.stated[subject] = statement
        return same

    def tidy(self) -> None:
        """Drop the keys that no task needs."""
        floor = min(self.floors.values(), default=0)
        while self.keys and self.keys[0][0] < floor:
            self.keys.popleft()
        self.begin = max(self.begin, floor)


class UpstreamFollower:
    """Follows what upstream services read, once for all tasks of a worker.

    Args:
        reader: the worker's reader of tables.
        begin: returns the first offsets of partitions.
    """

    def __init__(self, reader: TableReader, begin: Callable[[Iterable[TopicPartition]], Awaitable[Offsets]]) -> None:
        self._reader = reader
        self._begin = begin
        self._followed: dict[Place, _Followed] = {}
        self._lock = asyncio.Lock()

    async def keys(
        self, one: Upstream, places: Mapping[Place, tuple[TopicPartition, int, int]], *, task: int
    ) -> dict[str, str]:
        """Return the keys that records of some partitions concern, each with the name of the upstream service.

        Args:
            one: the upstream service.
            places: for each partition, its name in Kafka, and the offsets from which and before which records count.
            task: the partition of the task that asks.

        Returns:
            The keys; `EVERYTHING` when there is too much to search.

        Raises:
            KafkaError: Kafka does not answer.
            StartAfresh: a topic is no longer read.
        """
        if not places:
            return {}
        async with self._lock:  # so that no task waits for a tail that is replaced
            for place, (tp, floor, end) in places.items():
                if not await self._follow(one, place, tp, floor, end):
                    return {EVERYTHING: one.service}
                self._followed[place].floors[task] = floor
            await self._reader.reached_all({self._followed[place].tail: end for place, (_, _, end) in places.items()})
            return {
                key: one.service
                for place, (_, floor, end) in places.items()
                for offset, key in self._followed[place].keys
                if floor <= offset < end
            }

    def is_long(self, place: Place) -> bool:
        """Return whether so many keys are stored that it is worth asking how far upstream has read."""
        return (found := self._followed.get(place)) is not None and len(found.keys) > _MANY

    def forget(self, task: int) -> None:
        """Stop following what no other task needs."""
        for place, followed in list(self._followed.items()):
            followed.floors.pop(task, None)
            if not followed.floors:
                del self._followed[place]
                if not any(other.tail is followed.tail for other in self._followed.values()):
                    self._reader.remove([followed.tail])

    def _read(self, tp: TopicPartition) -> None:
        """Read a partition for everything that follows it, because a reader has one tail of each partition."""
        sharing = [followed for followed in self._followed.values() if followed.tp == tp]
        tail = self._reader.add(tp, min(one.next for one in sharing), lambda records: self._take(tp, records))
        for one in sharing:
            one.tail = tail

    def _take(self, tp: TopicPartition, records: Sequence[Any]) -> None:
        for followed in self._followed.values():
            if followed.tp == tp:
                followed.take(records)

    async def _follow(self, one: Upstream, place: Place, tp: TopicPartition, floor: int, end: int) -> bool:
        """Follow a topic from the position of the upstream service. Return False when that is too far back."""
        known = self._followed.get(place)
        if known is not None and known.begin <= floor:
            return True
        begin = floor or (await self._begin([tp]))[tp]
        if end - begin > _TOO_FAR:
            return False

        def take(records: Sequence[Any]) -> None:
            for record in records:
                key = one.concerns(place.topic, (record.key or b"").decode(errors="replace"), record.value or b"")
                if key is not None and not made.repeats(one, record):
                    made.keys.append((record.offset, sys.intern(key)))
            if len(made.keys) > _MANY:
                made.tidy()
            while len(made.keys) > _TOO_FAR:
                made.begin = made.keys.popleft()[0] + 1

        made = self._followed[place] = _Followed(tp, begin, take, begin)
        if known is not None:
            made.floors.update(known.floors)
        self._read(tp)
        return True
