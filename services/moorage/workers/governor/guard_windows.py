"""The windows of pauses and budgets with a schedule: which of them hold evictions now, and when that changes.

Nothing is kept here that does not follow from the guards and the time, so nothing of it is durable. For a guard without
a schedule nothing is computed.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

from moorage.decide.disruption.budgets import LEAVE_LASTS, Budget, Pause, Subject
from moorage.decide.disruption.guard_index import Guards
from moorage.decide.kubernetes.recurring_windows import RecurringWindows, TimeWindow
from moorage.decide.timers.deadline_index import DeadlineIndex

_NEVER: Final = datetime.max.replace(tzinfo=UTC)
_LATEST: Final = timedelta(days=1)
"""The time after which a schedule without a next window is looked at again."""


class GuardWindows:
    """The windows of all guards with a schedule.

    A grant may be used for `LEAVE_LASTS`. So a guard holds from that time before its window on.
    """

    def __init__(self) -> None:
        self._windows: dict[str, RecurringWindows] = {}
        self._active: dict[str, TimeWindow] = {}
        self._changes: DeadlineIndex[str] = DeadlineIndex()
        self._next: dict[str, datetime] = {}
        """When the next window of each guard begins that is in none."""

        self._begins: dict[str, tuple[datetime, datetime]] = {}
        """The last next begin of each guard: a time, and the first begin after it."""

    def __bool__(self) -> bool:
        """Return whether any guard has a schedule."""
        return bool(self._windows)

    def use(self, guards: Guards, now: datetime) -> None:
        """Use these guards from now on."""
        found = {
            key: guard.windows
            for group in (guards.pauses, guards.budgets)
            for key, guard in group.items()
            if guard.windows is not None
        }
        for key in self._windows.keys() - found.keys():
            self._active.pop(key, None)
            self._next.pop(key, None)
            self._changes.remove(key)
        changed = [key for key, windows in found.items() if self._windows.get(key) is not windows]
        self._windows = found
        for key in changed:
            self._begins.pop(key, None)
            self._look(key, now)

    def pass_time(self, now: datetime) -> list[str]:
        """Return the guards that hold from now on, and those that do so no longer, by key."""
        changed = []
        for key, _ in list(self._changes.take_due(now)):
            before = key in self._active
            self._look(key, now)
            if before != (key in self._active):
                changed.append(key)
        return sorted(changed)

    def next_change(self) -> datetime | None:
        """Return when to call `pass_time` again."""
        return self._changes.next()

    def is_active(self, key: str) -> bool:
        """Return whether a guard holds evictions now. One without a schedule always does."""
        return key not in self._windows or key in self._active

    def end_of(self, key: str) -> datetime | None:
        """Return when the present window of a guard ends. None if it has no schedule, or is in none."""
        window = self._active.get(key)
        return None if window is None else window.end

    def state_of(self, key: str) -> tuple[bool | None, datetime | None]:
        """Return whether a guard with a schedule is active, and when that changes; None twice for any other."""
        if key not in self._windows:
            return None, None
        window = self._active.get(key)
        if window is not None:
            return True, window.end
        return False, self._next.get(key)

    def valid_until(self, guards: Guards, subject: Subject, granted: datetime) -> datetime | None:
        """Return when the first window begins, after the time of a grant, of the guards that apply to an eviction."""
        if not self._windows:
            return None
        found: tuple[Pause | Budget, ...] = (*guards.pauses_of(subject), *guards.budgets_of(subject))
        begins = (self._begin_after(guard.key, granted) for guard in found if guard.key in self._windows)
        return min((begin for begin in begins if begin != _NEVER), default=None)

    def _look(self, key: str, now: datetime) -> None:
        """Note the window in which a guard is now, and when that changes."""
        windows, begin = self._windows[key], self._begin_after(key, now)
        window = windows.at(now)
        if window is None and begin - now <= LEAVE_LASTS:
            window = windows.at(begin)
        self._next.pop(key, None)
        if window is not None:
            self._active[key] = window
            self._changes.set(key, window.end)
            return
        self._active.pop(key, None)
        if begin == _NEVER:
            self._changes.set(key, now + _LATEST)
        else:
            self._next[key] = begin
            self._changes.set(key, begin - LEAVE_LASTS)

    def _begin_after(self, key: str, time: datetime) -> datetime:
        known = self._begins.get(key)
        if known is None or not known[0] <= time < known[1]:
            known = self._begins[key] = (time, self._windows[key].next_begin(time) or _NEVER)
        return known[1]
