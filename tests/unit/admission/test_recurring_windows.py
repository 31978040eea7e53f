"""Windows that recur: instants of cron in a time zone, also where clocks change, and windows that overlap."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

import pytest
from tests.support.tables import table

from moorage.decide.kubernetes.recurring_windows import RecurringWindows, cron_problem, duration_problem, zone_problem
from moorage_schemas.resources.budgets import Schedule
from moorage_schemas.times import format_time, parse_time

BERLIN = "Europe/Berlin"


def windows(cron: str, duration: str, zone: str = BERLIN) -> RecurringWindows:
    return RecurringWindows(Schedule(cron=cron, time_zone=zone, duration=duration))


def window_at(cron: str, duration: str, now: str, zone: str = BERLIN) -> str:
    found = windows(cron, duration, zone).at(parse_time(now))
    return "" if found is None else f"{short(found.begin)} {short(found.end)}"


def short(time: datetime) -> str:
    return format_time(time)[:16]


@table(
    ("cron", "duration", "now", "expected"),
    [
        # Friday night in Berlin: 22:00 to 06:00, which is 21:00 to 05:00 UTC in winter
        ("0 22 * * 5", "8h", "2026-12-04T20:59:59Z", ""),
        ("0 22 * * 5", "8h", "2026-12-04T21:00:00Z", "2026-12-04T21:00 2026-12-05T05:00"),
        ("0 22 * * 5", "8h", "2026-12-05T04:59:59Z", "2026-12-04T21:00 2026-12-05T05:00"),
        ("0 22 * * 5", "8h", "2026-12-05T05:00:00Z", ""),
        ("0 22 * * FRI", "8h", "2026-07-03T20:00:00Z", "2026-07-03T20:00 2026-07-04T04:00"),
        # clocks go forward on 29 March: 02:30 does not exist, so the window begins at the end of the gap
        ("30 2 * * *", "1h", "2026-03-29T00:59:59Z", ""),
        ("30 2 * * *", "1h", "2026-03-29T01:00:00Z", "2026-03-29T01:00 2026-03-29T02:00"),
        # clocks go back on 25 October: 02:30 comes twice, and the first one counts
        ("30 2 * * *", "1h", "2026-10-25T00:30:00Z", "2026-10-25T00:30 2026-10-25T01:30"),
        ("30 2 * * *", "1h", "2026-10-25T01:29:59Z", "2026-10-25T00:30 2026-10-25T01:30"),
        ("30 2 * * *", "1h", "2026-10-25T01:30:00Z", ""),
        # a duration is elapsed time: eight hours over the change end an hour earlier by the clock
        ("0 22 * * *", "8h", "2026-10-24T20:00:00Z", "2026-10-24T20:00 2026-10-25T04:00"),
        # windows that overlap, or touch, are one
        ("0 8,10 * * *", "3h", "2026-12-01T07:30:00Z", "2026-12-01T07:00 2026-12-01T12:00"),
        ("0 8,10 * * *", "2h", "2026-12-01T07:30:00Z", "2026-12-01T07:00 2026-12-01T11:00"),
        ("@daily", "1h", "2026-12-01T23:30:00Z", "2026-12-01T23:00 2026-12-02T00:00"),
    ],
)
def test_window_at_a_time(cron: str, duration: str, now: str, expected: str) -> None:
    assert window_at(cron, duration, now) == expected


@table(
    ("cron", "after", "expected"),
    [
        ("0 22 * * 5", "2026-12-04T21:00:00Z", "2026-12-11T21:00"),
        ("0 22 * * 5", "2026-12-04T20:59:59Z", "2026-12-04T21:00"),
        ("30 2 * * *", "2026-10-25T00:30:00Z", "2026-10-26T01:30"),
        ("30 2 * * *", "2026-10-25T01:15:00Z", "2026-10-26T01:30"),  # it is 02:15 for the second time
        ("0 * * * *", "2026-10-25T00:10:00Z", "2026-10-25T01:00"),
        ("0 0 29 2 *", "2026-12-01T00:00:00Z", "2028-02-28T23:00"),
    ],
)
def test_next_begin(cron: str, after: str, expected: str) -> None:
    begin = windows(cron, "1h").next_begin(parse_time(after))
    assert begin is not None
    assert short(begin) == expected


def test_a_window_without_end_is_looked_at_in_parts() -> None:
    """A minute's cron with a long duration has no end, and costs no more than a few steps."""
    found = windows("* * * * *", "1h").at(parse_time("2026-12-01T12:00:00Z"))
    assert found is not None
    assert found.end > parse_time("2026-12-01T13:00:00Z")
    assert windows("* * * * *", "1h").at(found.end - timedelta(seconds=1)) is not None


@table(
    ("check", "text", "problem"),
    [
        (cron_problem, "0 22 * * 5", ""),
        (cron_problem, "@weekly", ""),
        (cron_problem, "0 22 * *", "must have 5 fields"),
        (cron_problem, "* 0 22 * * 5", "must have 5 fields"),
        (cron_problem, "@every 1h", "must have 5 fields"),
        (cron_problem, "0 24 * * *", "must be a cron expression: invalid hour"),
        (cron_problem, "0 0 30 2 *", "must be a cron expression: invalid day-of-month"),
        (duration_problem, "1h30m", ""),
        (duration_problem, "an hour", "must be a duration"),
        (duration_problem, "0s", "must be at least 1s"),
        (zone_problem, "America/New_York", ""),
        (zone_problem, "CEST", "must be an IANA time zone"),
        (zone_problem, "../etc/passwd", "must be an IANA time zone"),
    ],
)
def test_problems(check: Callable[[str], str], text: str, problem: str) -> None:
    found = check(text)
    assert found.startswith(problem)
    assert bool(found) == bool(problem)


def test_an_invalid_schedule_is_refused() -> None:
    with pytest.raises(ValueError, match=r"schedule\.timeZone"):
        windows("@daily", "1h", "Mars/Olympus")
