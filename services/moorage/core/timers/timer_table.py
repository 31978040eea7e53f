"""Timers that have not fired yet. Their generations decide which records count.

The code never reads the clock: `now` is an argument. A timer is due at or after its deadline, never before.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Generic, NamedTuple, Protocol, TypeVar

from moorage.core.timers.deadline_index import DeadlineIndex


class Generation(Protocol):
    """A change of a timer. `TimerFired` names one, and each `SetTimer` is one."""

    @property
    def id(self) -> str:
        """The timer's key."""

    @property
    def generation(self) -> int:
        """The number of the change."""


class Timer(Generation, Protocol):
    """What the table uses of a timer. `SetTimer` has it, too."""

    @property
    def deadline(self) -> datetime | None:
        """When it is due; None when it is cancelled."""


T = TypeVar("T", bound=Timer)


class DueTimer(NamedTuple, Generic[T]):
    """A timer whose deadline has passed."""

    timer: T
    deadline: datetime


class TimerTable(Generic[T]):
    """The timers of one partition, and the generation of each that has fired.

    Records may arrive in any order and any number of times: a lower generation is ignored, and an equal one changes
    nothing.
    """

    __slots__ = ("_deadlines", "_fired", "_timers")

    def __init__(self) -> None:
        self._timers: dict[str, T] = {}
        self._fired: dict[str, int] = {}
        self._deadlines: DeadlineIndex[str] = DeadlineIndex()
        """The deadlines that have not fired yet, by timer id."""

    def __len__(self) -> int:
        """The number of known timers, including cancelled and fired ones."""
        return len(self._timers)

    def set(self, timer: T) -> bool:
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

    def fired(self, which: Generation) -> None:
        """Record that a generation has fired, so that it and all lower ones never fire again."""
        timer_id, generation, fired = which.id, which.generation, self._fired
        known = fired.get(timer_id, 0)
        if known < generation:
            fired[timer_id] = generation
        else:
            generation = known
        timer = self._timers.get(timer_id)
        if timer is not None and timer.generation <= generation:
            self._deadlines.remove(timer_id)

    def take_due(self, now: datetime) -> Iterator[DueTimer[T]]:
        """Take the timers whose deadline is not after `now`, earliest first, then by id. None is due a second time.

        `fired` must be called for each of them.
        """
        timers = self._timers
        return (DueTimer(timers[timer_id], deadline) for timer_id, deadline in self._deadlines.take_due(now))

    def next_deadline(self) -> datetime | None:
        """The earliest deadline that has not fired yet. None if there is none."""
        return self._deadlines.next()

    def forget_orphans(self) -> None:
        """Drop fired timers that no longer exist. Call this only when all timers have been restored.

        A timer is set before it fires. So a timer that has fired and is unknown was removed by its owner.
        """
        for timer_id in [known for known in self._fired if known not in self._timers]:
            del self._fired[timer_id]
