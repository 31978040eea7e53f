"""Deadlines that have not come yet: a heap with lazy deletion, where generations decide what counts.

Nothing here asks for the time; `now` is an argument, and a timer is due at or after its deadline, never before.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from moorage_schemas.timer import SetTimer, TimerFired

_SLACK: Final = 64
"""Superseded entries that the heap may always hold before it is built anew."""


@dataclass(frozen=True, slots=True)
class DueTimer:
    """A timer whose deadline has passed."""

    timer: SetTimer
    deadline: datetime


class TimerTable:
    """The timers of one partition, and which generation of each has fired.

    It may be filled in any order and as often as one likes: a lower generation is ignored, the same one
    changes nothing. Superseded entries stay in the heap until they surface, or until they outnumber the live ones.
    """

    __slots__ = ("_fired", "_heap", "_timers")

    def __init__(self) -> None:
        self._timers: dict[str, SetTimer] = {}
        self._fired: dict[str, int] = {}
        self._heap: list[tuple[datetime, str, int]] = []

    def __len__(self) -> int:
        """How many timers are known, cancelled and fired ones included."""
        return len(self._timers)

    def set(self, timer: SetTimer) -> bool:
        """Set, move or cancel a timer; False when its generation is not newer than what is known."""
        known = self._timers.get(timer.id)
        if known is not None and known.generation >= timer.generation:
            return False
        self._timers[timer.id] = timer
        if timer.deadline is not None and self._fired.get(timer.id, 0) < timer.generation:
            heapq.heappush(self._heap, (timer.deadline, timer.id, timer.generation))
        self._shrink()
        return True

    def remove(self, timer_id: str) -> None:
        """Forget a timer: its owner has no more use for it."""
        self._timers.pop(timer_id, None)
        self._fired.pop(timer_id, None)
        self._shrink()

    def fired(self, event: TimerFired) -> None:
        """Note that a generation has fired, so that it and those below never fire again."""
        if self._fired.get(event.id, 0) < event.generation:
            self._fired[event.id] = event.generation

    def due(self, now: datetime) -> list[DueTimer]:
        """The timers whose deadline is not after `now`, earliest first, then by id.

        They stay due until `fired` is told.
        """
        found: list[DueTimer] = []
        kept: list[tuple[datetime, str, int]] = []
        while self._heap and self._heap[0][0] <= now:
            entry = heapq.heappop(self._heap)
            timer = self._live(entry)
            if timer is not None and entry not in kept[-1:]:
                kept.append(entry)
                found.append(DueTimer(timer=timer, deadline=entry[0]))
        for entry in kept:
            heapq.heappush(self._heap, entry)
        return found

    def next_deadline(self) -> datetime | None:
        """The earliest deadline that is still to fire; None when there is none."""
        while self._heap:
            if self._live(self._heap[0]) is not None:
                return self._heap[0][0]
            heapq.heappop(self._heap)
        return None

    def forget_orphans(self) -> None:
        """Drop what is known of fired timers that no longer exist; only when the timers are wholly restored.

        A timer is set before it fires, so one that has fired and is unknown was taken away by its owner.
        """
        for timer_id in [known for known in self._fired if known not in self._timers]:
            del self._fired[timer_id]

    def _live(self, entry: tuple[datetime, str, int]) -> SetTimer | None:
        deadline, timer_id, generation = entry
        timer = self._timers.get(timer_id)
        if timer is None or timer.generation != generation or self._fired.get(timer_id, 0) >= generation:
            return None
        # A timer that was removed and set anew may bear a generation that it had before.
        return timer if timer.deadline == deadline else None

    def _shrink(self) -> None:
        if len(self._heap) > 2 * len(self._timers) + _SLACK:
            self._heap = [entry for entry in self._heap if self._live(entry) is not None]
            heapq.heapify(self._heap)
