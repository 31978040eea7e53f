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

_SORTED: Final = 100_000
"""The number of entries of the heap up to which those that are due are sorted. Sorting more would take too long."""

_Entry = tuple[float, str, "Timer"]


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
    traceparent: str = ""
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

    When more are due than one call takes, the rest is sorted. Then each takes a small part of the time that the heap
    takes to find the next one.
    """

    __slots__ = ("_deadlines", "_due", "_fired", "_is_storm", "_timers", "_waiting")

    def __init__(self) -> None:
        self._timers: dict[str, Timer] = {}
        self._fired: dict[str, int] = {}
        """The fired generations of timers without a record."""

        self._deadlines: list[_Entry] = []
        """A heap of seconds since the epoch, id and timer. Numbers are compared in half the time of instants."""

        self._due: list[_Entry] = []
        """Entries that were due when they were taken out of the heap, latest first."""

        self._is_storm = False
        """Whether the last call has taken as many timers as it may."""

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
        until = now.timestamp()
        if self._due and (self._due[0][0] > until or (self._deadlines and self._deadlines[0] < self._due[0])):
            self._deadlines += self._due  # the clock was set back, or an earlier timer was set meanwhile
            self._due = []
            heapify(self._deadlines)
        while len(taken) < limit and (self._due or (self._deadlines and self._deadlines[0][0] <= until)):
            if not self._due and self._is_storm and len(self._deadlines) <= _SORTED:
                self._sort_due(until)
            if not self._due:
                entries = [heappop(self._deadlines)]
            else:
                entries = self._due[len(taken) - limit :]
                del self._due[len(taken) - limit :]
                entries.reverse()
            for _, _, timer in entries:
                if timer.waits:
                    timer.waits = False
                    timer.fired = timer.generation
                    taken.append(timer)
        self._waiting -= len(taken)
        self._is_storm = len(taken) == limit
        return taken

    def _sort_due(self, until: float) -> None:
        heap = self._deadlines
        self._due = [entry for entry in heap if entry[0] <= until]
        self._due.sort(reverse=True)
        self._deadlines = [entry for entry in heap if entry[0] > until]
        heapify(self._deadlines)

    def next_deadline(self) -> datetime | None:
        """Return the earliest deadline that has not fired yet. None if there is none."""
        heap, due = self._deadlines, self._due
        while heap and not heap[0][2].waits:
            heappop(heap)
        while due and not due[-1][2].waits:
            due.pop()
        first = min((entries[place] for entries, place in ((heap, 0), (due, -1)) if entries), default=None)
        return first[2].deadline if first is not None else None

    def forget_orphans(self) -> None:
        """Drop fired timers that no longer exist. Call this only when all timers have been restored.

        A timer is set before it fires. So a timer that has fired and is unknown was removed by its owner.
        """
        self._fired.clear()

    def _rest(self, timer: Timer) -> None:
        if timer.waits:
            timer.waits = False
            self._waiting -= 1
