"""Durations and rates as people, flags and annotations write them."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Final

from moorage_schemas.times import parse_time

LONGEST_DURATION: Final = 36_500 * 86_400.0
"""The longest duration in seconds, so that sums with a time stay within the calendar."""

_MINUTE, _HOUR, _DAY, _YEAR = 60, 3600, 86400, 365 * 86400
_UNITS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_WHOLE_UNITS: Final = ((_DAY, "d"), (_HOUR, "h"), (_MINUTE, "m"), (1, "s"))
_PART: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|s|m|h|d)")
_BARE: Final = re.compile(r"[0-9]+(?:\.[0-9]+)?")


def seconds_of(text: str, *, bare: bool = False) -> float | None:
    """Parse a duration such as `40s`, `5m`, `1m30s` or `250ms` to seconds. None if the text is not a duration.

    Args:
        text: the duration, without surrounding space.
        bare: whether a number without a unit is a number of seconds.
    """
    if bare and _BARE.fullmatch(text):
        return float(text)
    parts = _PART.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        return None
    return sum(float(number) * _UNITS[unit] for number, unit in parts)


def duration_text(seconds: float) -> str:
    """Return a duration as people write it: `40s`, `5m`, `1m30s`, `0.25s`. The longest one is 36500 days."""
    seconds = min(seconds, LONGEST_DURATION)
    whole = int(seconds)
    if whole != seconds:
        return f"{seconds:.6f}".rstrip("0").rstrip(".") + "s"
    parts = []
    for size, unit in _WHOLE_UNITS:
        count, whole = divmod(whole, size)
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts) or "0s"


def rate_text(rate: float | str) -> str:
    """Return a rate per second as people read it: `1 every 10s`, `2/s`, `no limit` for `inf`, `0`."""
    if rate == "inf" or float(rate) == float("inf"):
        return "no limit"
    if float(rate) <= 0:
        return "0"
    return f"{float(rate):g}/s" if float(rate) >= 1 else f"1 every {1 / float(rate):g}s"


def age(since: str | datetime | None, now: datetime) -> str:
    """Return the age of a time in kubectl's form: `12s`, `5m3s`, `4h12m`, `3d4h`. `<unknown>` without a time."""
    if isinstance(since, str):
        try:
            since = parse_time(since) if since else None
        except ValueError:
            since = None
    return "<unknown>" if since is None else human((now - since).total_seconds())


def human(seconds: float) -> str:  # noqa: PLR0911 - one return for each step of a rule
    """Return a duration in one or two units. Longer ones are less precise, as in kubectl's AGE column."""
    total = max(0, int(seconds))
    if total < 2 * _MINUTE:
        return f"{total}s"
    if total < 10 * _MINUTE:
        return _two(total, _MINUTE, "m", 1, "s")
    if total < 3 * _HOUR:
        return f"{total // _MINUTE}m"
    if total < 8 * _HOUR:
        return _two(total, _HOUR, "h", _MINUTE, "m")
    if total < 2 * _DAY:
        return f"{total // _HOUR}h"
    if total < 8 * _DAY:
        return _two(total, _DAY, "d", _HOUR, "h")
    if total < 2 * _YEAR:
        return f"{total // _DAY}d"
    return _two(total, _YEAR, "y", _DAY, "d")


def _two(total: int, large: int, large_name: str, small: int, small_name: str) -> str:
    rest = total % large // small
    return f"{total // large}{large_name}" + (f"{rest}{small_name}" if rest else "")
