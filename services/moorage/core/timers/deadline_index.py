"""The deadlines of many things, at most one of each: which comes next, and which have come.

A heap with lazy deletion: an entry that was set anew or removed stays until it is met, or until such entries are many.
Nothing here asks for the time; `now` is an argument.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from datetime import datetime
from typing import Any, Final, Generic, TypeVar

K = TypeVar("K", bound=Any)
"""What has a deadline; keys of one index can be compared, for they order deadlines of the same instant."""

_SLACK: Final = 64
"""So many entries that hold no longer are kept in any case."""


class DeadlineIndex(Generic[K]):
    """Deadlines by key."""

    def __init__(self) -> None:
        self._at: dict[K, datetime] = {}
        self._heap: list[tuple[datetime, K]] = []

    def __len__(self) -> int:
        """How many deadlines there are."""
        return len(self._at)

    def get(self, key: K) -> datetime | None:
        """The deadline of a key; None when it has none."""
        return self._at.get(key)

    def set(self, key: K, at: datetime) -> None:
        """Give a key a deadline, in place of the one that it had."""
        if self._at.get(key) == at:
            return
        self._at[key] = at
        heapq.heappush(self._heap, (at, key))
        if len(self._heap) > 2 * len(self._at) + _SLACK:
            self._heap = [(at, key) for key, at in self._at.items()]
            heapq.heapify(self._heap)

    def remove(self, key: K) -> None:
        """Take the deadline of a key away; nothing when it has none."""
        self._at.pop(key, None)

    def next(self) -> datetime | None:
        """The first deadline; None when there is none."""
        heap = self._heap
        while heap and self._at.get(heap[0][1]) != heap[0][0]:
            heapq.heappop(heap)
        return heap[0][0] if heap else None

    def first(self) -> tuple[K, datetime] | None:
        """What has the first deadline, and the deadline; None when nothing has one."""
        at = self.next()
        return None if at is None else (self._heap[0][1], at)

    def due(self, now: datetime) -> list[tuple[K, datetime]]:
        """The deadlines that have come, the first one first; they stay.

        Args:
            now: the present; a deadline has come at its instant.
        """
        found = list(self.take_due(now))
        for key, at in found:
            self.set(key, at)
        return found

    def take_due(self, now: datetime) -> Iterator[tuple[K, datetime]]:
        """Take away the deadlines that have come, the first one first.

        Args:
            now: the present; a deadline has come at its instant.
        """
        while (at := self.next()) is not None and at <= now:
            _, key = heapq.heappop(self._heap)
            del self._at[key]
            yield key, at
