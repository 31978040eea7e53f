"""The tables of a partition that another worker owns, kept as its owner has them, so that they can be handed over."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, Generic, TypeVar

from moorage.runtime.engine.tables import PartitionTables
from moorage_schemas.topics import Topic

S = TypeVar("S")


class Standby(Generic[S]):
    """Follows the owner of a partition. It does no I/O, and decides nothing.

    A record of a source counts for the owner once it is processed: until then decisions rest on the state without it,
    and a new owner must process it. So records of sources are held back until the owner has committed offsets beyond
    them, or has written a state record that rests on them. Records of all other tables are folded in at once.

    Args:
        tables: the tables, read to their ends.
        most: the number of held records of a source from which on no more should be read.
    """

    def __init__(self, tables: PartitionTables[S], *, most: int) -> None:
        self.tables = tables
        self.taken = 0
        """The number of records that were offered."""

        self._most = most
        self._sources = frozenset(tables.sources)
        self._processed: dict[str, int] = {}
        self._held: dict[Topic, deque[Any]] = {topic: deque() for topic in tables.sources}

    def offer(self, topic: Topic, records: Sequence[Any]) -> None:
        """Take records of a table, in their order."""
        self.taken += len(records)
        if topic in self._sources:
            self._held[topic].extend(records)
        else:
            self.tables.fold(topic, records)
        self._settle()

    def processed(self, committed: Mapping[Topic, int]) -> None:
        """Note the committed offsets of the sources, as far as there are any."""
        for topic, offset in committed.items():
            self._processed[topic.short] = max(offset, self._processed.get(topic.short, 0))
        self._settle()

    def is_full(self, topic: Topic) -> bool:
        """Return whether so many records of a source are held back that no more should be read."""
        return len(self._held.get(topic, ())) >= self._most

    def has_room(self, topic: Topic) -> bool:
        """Return whether reading a source that was full may continue."""
        return len(self._held[topic]) <= self._most // 2

    def _settle(self) -> None:
        """Fold in the held records that the owner has processed."""
        carried = self.tables.carried
        for topic, held in self._held.items():
            end = max(self._processed.get(topic.short, 0), carried.get(topic.short, 0))
            if held and held[0].offset < end:
                ready = []
                while held and held[0].offset < end:
                    ready.append(held.popleft())
                self.tables.fold(topic, ready)
