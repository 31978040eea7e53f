"""Durations and points in time: reading and writing them."""

from __future__ import annotations

import re
from datetime import datetime, timedelta

from moorage.cli.errors import UsageError
from moorage.decide.kubernetes.durations import seconds_of
from moorage_schemas.times import parse_time

_FRACTION = re.compile(r"(?<=T\d\d:\d\d:\d\d)\.\d+(?=Z|[+-]\d\d:\d\d)")
_DAY = 86400
_LONGEST = 1000 * 365 * _DAY


def parse_duration(text: str, option: str = "") -> timedelta:
    """Return the duration of `90s`, `5m`, `1h30m`, `250ms`, `2d`, or plain seconds.

    An error names the `option` of the command line.

    Raises:
        UsageError: it is none of these, or longer than any time that can be represented.
    """
    where = f"{option}: " if option else ""
    seconds = seconds_of(text.strip(), bare=True)
    if seconds is None:
        raise UsageError(f"{where}invalid duration {text!r}: must be like 90s, 5m, 1h30m, 250ms or 2d")
    if seconds > _LONGEST:
        raise UsageError(f"{where}invalid duration {text!r}: must be at most {_LONGEST // _DAY}d")
    return timedelta(seconds=seconds)


LONGEST_WAIT = 30.0
"""The longest time in seconds for which the gateway waits."""


def parse_wait(text: str, least: str = "") -> float:
    """Return the seconds of `--timeout` for which the gateway may wait. `least` is the rule if 0 is not allowed.

    Raises:
        UsageError: it is no duration, or too long.
    """
    seconds = 0.0 if text == "0" else parse_duration(text, "--timeout").total_seconds()
    if not 0 <= seconds <= LONGEST_WAIT or (least and not seconds):
        raise UsageError(f"--timeout: invalid value {text!r}: must be {least}at most {LONGEST_WAIT:g}s")
    return seconds


def parse_instant(text: str, now: datetime) -> datetime:
    """Return an RFC 3339 time, or a duration before `now`. Raises UsageError if it is neither."""
    if "T" in text or text.count("-") > 1:
        try:
            parsed = parse_time(text)
        except ValueError as error:
            raise UsageError(f"invalid time: {error}") from None
        if isinstance(parsed, datetime):
            return parsed
    try:
        return now - parse_duration(text)
    except UsageError:
        raise UsageError(
            f"invalid time {text!r}: must be RFC 3339 such as 2026-01-01T00:00:00Z, or a duration ago such as 5m"
        ) from None


def to_the_second(text: str) -> str:
    """Return a text with its RFC 3339 times cut to the second, as kubectl shows them."""
    return _FRACTION.sub("", text) if "T" in text else text
