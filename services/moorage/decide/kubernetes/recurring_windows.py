"""Windows of time that recur by a cron expression in a time zone.

Instants follow Debian's cron when clocks change, by the library cronsim: a fixed time that is skipped counts at the end
of the gap, and one that comes twice counts the first time. Durations are elapsed time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from cronsim import CronSim, CronSimError

from moorage.decide.kubernetes.durations import LONGEST_DURATION, seconds_of
from moorage.decide.kubernetes.time_zones import time_zone
from moorage_schemas.resources.budgets import Schedule

_NAMED: Final = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_FIELDS: Final = 5
_ONE_SECOND: Final = timedelta(seconds=1)
_LONGEST_CHANGE: Final = timedelta(hours=3)
"""More than clocks change by."""

_ANY_TIME: Final = datetime(2000, 1, 1, tzinfo=UTC)
_MAX_MERGED: Final = 64
"""The maximum number of windows that count as one. At its end, the next ones are looked at."""


@dataclass(frozen=True, slots=True)
class TimeWindow:
    """A window, from `begin` up to `end`, which is not part of it."""

    begin: datetime
    end: datetime


def cron_problem(cron: str) -> str:
    """Return why a text is no cron expression. Empty if it is one."""
    expression = _NAMED.get(cron, cron)
    if len(expression.split()) != _FIELDS:
        return f"must have {_FIELDS} fields (minute, hour, day of month, month, day of week), or be @hourly or the like"
    try:
        CronSim(expression, _ANY_TIME)
    except CronSimError as error:
        return f"must be a cron expression: {str(error).replace('Bad ', 'invalid ')}"
    return ""


def duration_problem(duration: str) -> str:
    """Return why a text is no length of a window. Empty if it is one."""
    seconds = seconds_of(duration)
    if seconds is None:
        return "must be a duration, such as 8h or 1h30m"
    if seconds < 1 or seconds > LONGEST_DURATION:
        return "must be at least 1s, and at most 36500d"
    return ""


def zone_problem(zone: str) -> str:
    """Return why a text is no time zone. Empty if it is one."""
    return "" if time_zone(zone) is not None else "must be an IANA time zone, such as UTC or Europe/Berlin"


class RecurringWindows:
    """The windows of a schedule.

    Raises:
        ValueError: the schedule is invalid.
    """

    __slots__ = ("_cron", "_length", "_zone")

    def __init__(self, schedule: Schedule) -> None:
        checks = (
            ("cron", cron_problem(schedule.cron)),
            ("timeZone", zone_problem(schedule.time_zone)),
            ("duration", duration_problem(schedule.duration)),
        )
        for field, problem in checks:
            if problem:
                raise ValueError(f"schedule.{field}: Invalid value: {problem}")
        self._cron = _NAMED.get(schedule.cron, schedule.cron)
        self._zone = time_zone(schedule.time_zone)
        self._length = timedelta(seconds=seconds_of(schedule.duration) or 0)

    def at(self, now: datetime) -> TimeWindow | None:
        """Return the window that a time is in. None if it is in none."""
        near = self._zone_changes_near(now)
        start = now + (_LONGEST_CHANGE if near else _ONE_SECOND)
        begin = next((instant for instant in self._instants(start, back=True) if instant <= now), None)
        if begin is None or (end := begin + self._length) <= now:
            return None
        for number, later in enumerate(self._instants(begin)):
            if later > end or number == _MAX_MERGED:
                break
            end = later + self._length
        return TimeWindow(begin, end)

    def next_begin(self, after: datetime) -> datetime | None:
        """Return when the next window begins, strictly after a time. None if none does."""
        return next(self._instants(after), None)

    def next_after(self, after: datetime) -> TimeWindow | None:
        """Return the next window that begins strictly after a time."""
        begin = self.next_begin(after)
        return None if begin is None else self.at(begin)

    def _zone_changes_near(self, now: datetime) -> bool:
        """Return whether clocks change around a time. Then an instant may be later than its local time looks."""
        before, after = (
            (now + change).astimezone(self._zone).utcoffset() for change in (-_LONGEST_CHANGE, _LONGEST_CHANGE)
        )
        return before != after

    def _instants(self, start: datetime, *, back: bool = False) -> Iterator[datetime]:
        """Yield the instants of the cron expression strictly after a time, or strictly before it."""
        for local in CronSim(self._cron, start.astimezone(self._zone), reverse=back):
            instant = local.astimezone(UTC)
            # A local time that comes twice, or never, may be on the other side.
            if instant < start if back else instant > start:
                yield instant
