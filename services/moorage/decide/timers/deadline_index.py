"""Deadlines by key, at most one for each key. Returns the next one, and those that are due.

The index is a heap with lazy deletion: the entry of a deadline that was moved or removed stays in the heap until it
reaches the top, or until there are too many such entries. The code never reads the clock: `now` is an argument.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from datetime import datetime
from typing import Any, Final, Generic, TypeVar

K = TypeVar("K", bound=Any)
"""The type of the keys. The keys of one index must be comparable, because they order deadlines of the same instant."""

_SLACK: Final = 64
"""The number of outdated entries that are always tolerated."""


class DeadlineIndex(Generic[K]):
    """Deadlines by key."""

    def __init__(self) -> None:
        self._at: dict[K, datetime] = {}
        self._heap: list[tuple[datetime, K]] = []

    def __len__(self) -> int:
        """Return the number of deadlines."""
        return len(self._at)

    def set(self, key: K, at: datetime) -> None:
        """Set or replace the deadline of a key."""
        if self._at.get(key) == at:
            return
        self._at[key] = at
        heapq.heappush(self._heap, (at, key))
        if len(self._heap) > 2 * len(self._at) + _SLACK:
            self._heap = [(at, key) for key, at in self._at.items()]
            heapq.heapify(self._heap)

    def remove(self, key: K) -> None:
        """Remove the deadline of a key. Does nothing if it has none."""
        self._at.pop(key, None)

    def next(self) -> datetime | None:
        """Return the earliest deadline. None if there is none."""
        heap = self._heap
        while heap and self._at.get(heap[0][1]) != heap[0][0]:
            heapq.heappop(heap)
        return heap[0][0] if heap else None

    def first(self) -> tuple[K, datetime] | None:
        """Return the key with the earliest deadline, and the deadline. None if there is none."""
        at = self.next()
        return None if at is None else (self._heap[0][1], at)

    def take_due(self, now: datetime) -> Iterator[tuple[K, datetime]]:
        """Remove the deadlines that are due and yield them, earliest first.

        Args:
            now: the present time. A deadline is due from its own instant on.
        """
        deadlines = self._at
        while (heap := self._heap) and heap[0][0] <= now:  # the caller may set deadlines between two of them
            at, key = heapq.heappop(heap)
            if deadlines.get(key) == at:
                del deadlines[key]
                yield key, at
