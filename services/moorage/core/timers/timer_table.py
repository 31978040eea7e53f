"""Timers that have not fired yet. Their generations decide which records count.

The code never reads the clock: `now` is an argument. A timer is due at or after its deadline, never before.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from moorage.core.timers.deadline_index import DeadlineIndex
from moorage_schemas.timer import SetTimer, TimerFired


@dataclass(frozen=True, slots=True)
class DueTimer:
    """A timer whose deadline has passed."""

    timer: SetTimer
    deadline: datetime


class TimerTable:
    """The timers of one partition, and the generation of each that has fired.

    Records may arrive in any order and any number of times: a lower generation is ignored, and an equal one changes
    nothing.
    """

    __slots__ = ("_deadlines", "_fired", "_timers")

    def __init__(self) -> None:
        self._timers: dict[str, SetTimer] = {}
        self._fired: dict[str, int] = {}
        self._deadlines: DeadlineIndex[str] = DeadlineIndex()
        """The deadlines that have not fired yet, by timer id."""

    def __len__(self) -> int:
        """The number of known timers, including cancelled and fired ones."""
        return len(self._timers)

    def set(self, timer: SetTimer) -> bool:
        """Set, move or cancel a timer. Returns False if its generation is not newer than the known one."""
        known = self._timers.get(timer.id)
        if known is not None and known.generation >= timer.generation:
            return False
        self._timers[timer.id] = timer
        if timer.deadline is not None and self._fired.get(timer.id, 0) < timer.generation:
            self._deadlines.set(timer.id, timer.deadline)
        else:
            self._deadlines.remove(timer.id)
        return True

    def remove(self, timer_id: str) -> None:
        """Remove a timer that its owner no longer needs."""
        self._timers.pop(timer_id, None)
        self._fired.pop(timer_id, None)
        self._deadlines.remove(timer_id)

    def fired(self, event: TimerFired) -> None:
        """Record that a generation has fired, so that it and all lower ones never fire again."""
        if self._fired.get(event.id, 0) < event.generation:
            self._fired[event.id] = event.generation
        timer = self._timers.get(event.id)
        if timer is not None and timer.generation <= self._fired[event.id]:
            self._deadlines.remove(event.id)

    def take_due(self, now: datetime) -> Iterator[DueTimer]:
        """Take the timers whose deadline is not after `now`, earliest first, then by id. None is due a second time.

        `fired` must be called for each of them.
        """
        for timer_id, deadline in self._deadlines.take_due(now):
            yield DueTimer(self._timers[timer_id], deadline)

    def next_deadline(self) -> datetime | None:
        """The earliest deadline that has not fired yet. None if there is none."""
        return self._deadlines.next()

    def forget_orphans(self) -> None:
        """Drop fired timers that no longer exist. Call this only when all timers have been restored.

        A timer is set before it fires. So a timer that has fired and is unknown was removed by its owner.
        """
        for timer_id in [known for known in self._fired if known not in self._timers]:
            del self._fired[timer_id]
