"""Timers that have not fired yet. Their generations decide which records count.

The code never reads the clock: `now` is an argument. A timer is due at or after its deadline, never before.
"""

from __future__ import annotations

from datetime import datetime
from heapq import heapify, heappop, heappush
from typing import Final

from msgspec import Raw, Struct

_SLACK: Final = 64
"""The number of outdated entries of the heap that are always tolerated."""


class Timer(Struct, gc=False):
    """A timer. There may be a million of them, all due within a second, so this is as small as it can be."""

    id: str
    target: Raw
    """The target, as it is written in the record that the timer has fired."""

    target_key: str
    owner: str
    generation: int
    deadline: datetime | None
    """When it is due; None when it is cancelled."""

    subject: str
    correlation_id: str
    fired: int = 0
    """The highest generation that has fired."""

    waits: bool = False
    """Whether it is in its table, and is still to fire. The table sets it."""

    def __lt__(self, other: Timer) -> bool:
        """Compare two entries of one timer with the same deadline. At most one of them counts, so any order will do."""
        return False


class TimerTable:
    """The timers of one partition, and the generation of each that has fired.

    Records may arrive in any order and any number of times: a lower generation is ignored, and an equal one changes
    nothing.

    The deadlines are a heap with lazy deletion. A timer itself shows whether its entry still counts, so that taking a
    timer out searches no table. Seconds as floats distinguish microseconds until the year 2242.
    """

    __slots__ = ("_deadlines", "_fired", "_timers", "_waiting")

    def __init__(self) -> None:
        self._timers: dict[str, Timer] = {}
        self._fired: dict[str, int] = {}
        """The fired generations of timers without a record."""

        self._deadlines: list[tuple[float, str, Timer]] = []
        """A heap of seconds since the epoch, id and timer. Numbers are compared in half the time of instants."""

        self._waiting = 0

    def __len__(self) -> int:
        """Return the number of timers, including cancelled and fired ones."""
        return len(self._timers)

    def set(self, timer: Timer) -> bool:
        """Set, move or cancel a timer. Return False if its generation is not newer than the last one."""
        known = self._timers.get(timer.id)
        if known is None:
            timer.fired = self._fired.pop(timer.id, 0) if self._fired else 0
        elif known.generation >= timer.generation:
            return False
        else:
            timer.fired = known.fired
            self._rest(known)
        self._timers[timer.id] = timer
        if timer.deadline is not None and timer.fired < timer.generation:
            timer.waits = True
            self._waiting += 1
            heappush(self._deadlines, (timer.deadline.timestamp(), timer.id, timer))
            if len(self._deadlines) > 2 * self._waiting + _SLACK:
                self._deadlines = [entry for entry in self._deadlines if entry[2].waits]
                heapify(self._deadlines)
        return True

    def remove(self, timer_id: str) -> None:
        """Remove a timer that its owner no longer needs."""
        known = self._timers.pop(timer_id, None)
        if known is not None:
            self._rest(known)
        self._fired.pop(timer_id, None)

    def fired(self, timer_id: str, generation: int) -> None:
        """Record that a generation has fired, so that it and all lower ones never fire again."""
        timer = self._timers.get(timer_id)
        if timer is None:
            self._fired[timer_id] = max(generation, self._fired.get(timer_id, 0))
            return
        timer.fired = max(generation, timer.fired)
        if timer.generation <= timer.fired:
            self._rest(timer)

    def take_due(self, now: datetime, limit: int) -> list[Timer]:
        """Take timers whose deadline is not after `now`, earliest first, then by id. They count as fired."""
        taken: list[Timer] = []
        heap, until = self._deadlines, now.timestamp()
        while heap and len(taken) < limit and heap[0][0] <= until:
            timer = heappop(heap)[2]
            if timer.waits:
                timer.waits = False
                timer.fired = timer.generation
                taken.append(timer)
        self._waiting -= len(taken)
        return taken

    def next_deadline(self) -> datetime | None:
        """Return the earliest deadline that has not fired yet. None if there is none."""
        heap = self._deadlines
        while heap and not heap[0][2].waits:
            heappop(heap)
        return heap[0][2].deadline if heap else None

    def forget_orphans(self) -> None:
        """Drop fired timers that no longer exist. Call this only when all timers have been restored.

        A timer is set before it fires. So a timer that has fired and is unknown was removed by its owner.
        """
        self._fired.clear()

    def _rest(self, timer: Timer) -> None:
        if timer.waits:
            timer.waits = False
            self._waiting -= 1
