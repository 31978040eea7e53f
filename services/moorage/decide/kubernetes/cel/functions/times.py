"""Timestamps and durations."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Final

from moorage.decide.kubernetes.cel.declarations import Overload, function, method
from moorage.decide.kubernetes.cel.functions.numbers import fixed_text
from moorage.decide.kubernetes.cel.types import DURATION, INT, STRING, TIMESTAMP
from moorage.decide.kubernetes.cel.values import (
    INT_MAX,
    INT_MIN,
    CelError,
    Duration,
    Timestamp,
    Value,
    kind_of,
    no_overload,
)
from moorage.decide.kubernetes.time_zones import time_zone

_SECOND: Final = 10**9
_EARLIEST: Final = -62_135_596_800
_LATEST: Final = 253_402_300_799
_DAY: Final = 86_400


def duration(ns: int) -> Duration:
    """Return a duration.

    Raises:
        CelError: it is too long.
    """
    if not INT_MIN <= ns <= INT_MAX:
        raise CelError("integer overflow")
    return Duration(ns)


def _timestamp(ns: int, offset: int = 0) -> Timestamp:
    if not _EARLIEST <= ns // _SECOND <= _LATEST:
        raise CelError("timestamp overflow")
    return Timestamp(ns, offset)


def add(one: Value, other: Value) -> Value:
    """Add a duration to a duration or a timestamp, or the reverse."""
    if isinstance(one, Duration) and isinstance(other, Duration):
        return duration(one.ns + other.ns)
    if isinstance(one, Duration) and isinstance(other, Timestamp):
        one, other = other, one
    if not (isinstance(one, Timestamp) and isinstance(other, Duration)):
        raise no_overload()
    return _timestamp(one.ns + other.ns, one.offset)


def subtract(one: Value, other: Value) -> Value:
    """Subtract a duration from a duration or a timestamp, or one timestamp from another."""
    if isinstance(other, Duration):
        if isinstance(one, Duration):
            return duration(one.ns - other.ns)
        return add(one, duration(-other.ns))
    if not (isinstance(one, Timestamp) and isinstance(other, Timestamp)):
        raise no_overload()
    return duration(one.ns - other.ns)


# --- texts

_TIME: Final = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})T([0-9]{1,2}):([0-9]{2}):([0-9]{2})(?:[.,]([0-9]+))?(?:Z|([+-])([0-9]{2}):([0-9]{2}))"
)
_PART: Final = re.compile(r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h)")
_UNITS: Final = {"ns": 1, "us": 1000, "µs": 1000, "μs": 1000, "ms": 10**6, "s": _SECOND, "m": 60 * _SECOND}
_HOUR: Final = 3600 * _SECOND
_LONGEST: Final = 100


def _parsed_time(text: str) -> Timestamp:
    problem = CelError("type conversion error from 'string' to 'google.protobuf.Timestamp'")
    found = _TIME.fullmatch(text) if len(text) <= _LONGEST else None
    if found is None:
        raise problem
    year, month, day, hour, minute, second = (int(found[place]) for place in range(1, 7))
    offset = (int(found[9]) * 3600 + int(found[10]) * 60) * (-1 if found[8] == "-" else 1) if found[8] else 0
    if found[8] and (int(found[9]) > 24 or int(found[10]) > 60):  # noqa: PLR2004 - as Go's parser
        raise problem
    if hour > 23 or minute > 59 or second > 59 or not 1 <= month <= 12 or not 1 <= day <= _length(year, month):  # noqa: PLR2004 - clock
        raise problem
    seconds = _days(year, month, day) * _DAY + hour * 3600 + minute * 60 + second - offset
    fraction = int((found[7] or "0")[:9].ljust(9, "0"))
    return _timestamp(seconds * _SECOND + fraction, offset)


def _length(year: int, month: int) -> int:
    leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    return 28 + leap if month == 2 else 30 + (month + month // 8) % 2  # noqa: PLR2004 - February


def _days(year: int, month: int, day: int) -> int:
    """Return the days since 1970."""
    year -= month <= 2  # noqa: PLR2004 - a year of 365.2425 days from March
    era, of_era = divmod(year, 400)
    of_year = (153 * ((month + 9) % 12) + 2) // 5 + day - 1
    return era * 146_097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719_468


def _date(days: int) -> tuple[int, int, int]:
    """Return the year, month and day of some days since 1970."""
    era, of_era = divmod(days + 719_468, 146_097)
    year = (of_era - of_era // 1460 + of_era // 36_524 - of_era // 146_096) // 365
    of_year = of_era - (365 * year + year // 4 - year // 100)
    place = (5 * of_year + 2) // 153
    month = place + 3 if place < 10 else place - 9  # noqa: PLR2004 - January is the tenth month from March
    return year + era * 400 + (month <= 2), month, of_year - (153 * place + 2) // 5 + 1  # noqa: PLR2004 - as above


def time_text(time: Timestamp, *, utc: bool = False) -> str:
    """Return a timestamp as text, with as many digits as it needs."""
    offset = 0 if utc else time.offset
    seconds, fraction = divmod(time.ns, _SECOND)
    days, rest = divmod(seconds + offset, _DAY)
    year, month, day = _date(days)
    digits = f".{fraction:09}".rstrip("0") if fraction else ""
    clock = f"{rest // 3600:02}:{rest // 60 % 60:02}:{rest % 60:02}{digits}"
    minutes = abs(offset) // 60
    zone = f"{'-' if offset < 0 else '+'}{minutes // 60:02}:{minutes % 60:02}" if offset else "Z"
    return f"{year:04}-{month:02}-{day:02}T{clock}{zone}"


def _parsed_duration(text: str) -> Duration:
    problem = CelError("type conversion error from 'string' to 'google.protobuf.Duration'")
    bare = text[1:] if text[:1] in {"+", "-"} else text
    if bare == "0":
        return Duration(0)
    place, total = 0, 0
    while place < len(bare):
        found = _PART.match(bare, place)
        if found is None or len(found[1]) > _LONGEST:
            raise problem
        whole, _, fraction = found[1].partition(".")
        unit = _UNITS.get(found[2], _HOUR)
        total += int(whole or "0") * unit
        if fraction:
            total += int(int(fraction) * (unit / 10 ** len(fraction)))
        if total > INT_MAX + 1:
            raise problem
        place = found.end()
    negative = text.startswith("-")
    if not bare or (total > INT_MAX and not negative):
        raise problem
    return Duration(-total if negative else total)


def seconds_of(value: Duration) -> float:
    """Return the seconds of a duration."""
    return _parts(value.ns, _SECOND)


def _parts(ns: int, unit: int) -> float:
    whole, rest = divmod(abs(ns), unit)
    found = float(whole) + float(rest) / float(unit)
    return -found if ns < 0 else found


def duration_text(value: Duration) -> str:
    """Return a duration as text, in seconds."""
    return fixed_text(seconds_of(value)) + "s"


# --- parts of a timestamp


_MINUTES: Final = re.compile(r"[+-]?[0-9]{1,9}")


def _offset(time: Timestamp, zone: str) -> int:
    hours, colon, minutes = zone.partition(":")
    if colon:
        if not (_MINUTES.fullmatch(hours) and _MINUTES.fullmatch(minutes)):
            raise CelError(f"strconv.Atoi: parsing {zone!r}: invalid syntax")
        more = -int(minutes) if zone[0] == "-" else int(minutes)
        return (int(hours) * 60 + more) * 60
    if zone in {"", "UTC", "Local"}:
        return 0
    found = time_zone(zone)
    if found is None:
        raise CelError(f"unknown time zone {zone}")
    seconds = min(max(time.ns // _SECOND, _EARLIEST + 2 * _DAY), _LATEST - 2 * _DAY)
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds)
    offset = moment.astimezone(found).utcoffset()
    return int(offset.total_seconds()) if offset else 0


def _local(time: Timestamp, zone: str) -> tuple[int, int]:
    return divmod(time.ns // _SECOND + _offset(time, zone), _DAY)


def _in_year(days: int) -> int:
    return days - _days(_date(days)[0], 1, 1)


_FIELDS: Final[dict[str, Callable[[int, int, Timestamp], int]]] = {
    "getFullYear": lambda days, _rest, _time: _date(days)[0],
    "getMonth": lambda days, _rest, _time: _date(days)[1] - 1,
    "getDayOfYear": lambda days, _rest, _time: _in_year(days),
    "getDayOfMonth": lambda days, _rest, _time: _date(days)[2] - 1,
    "getDate": lambda days, _rest, _time: _date(days)[2],
    "getDayOfWeek": lambda days, _rest, _time: (days + 4) % 7,
    "getHours": lambda _days, rest, _time: rest // 3600,
    "getMinutes": lambda _days, rest, _time: rest // 60 % 60,
    "getSeconds": lambda _days, rest, _time: rest % 60,
    "getMilliseconds": lambda _days, _rest, time: time.ns % _SECOND // 10**6,
}


def _field(name: str) -> Callable[..., int]:
    compute = _FIELDS[name]

    def run(time: Timestamp, zone: str = "") -> int:
        return compute(*_local(time, zone), time)

    return run


def _of_duration(unit: int) -> Callable[[Duration], int]:
    return lambda value: int(_parts(value.ns, unit))


def _milliseconds(value: Duration) -> int:
    whole = abs(value.ns) // 10**6
    return -whole if value.ns < 0 else whole


def _of_int(value: int) -> Timestamp:
    return _timestamp(value * _SECOND)


def _unconvertible(value: Value) -> Value:
    raise CelError(f"type conversion error from '{kind_of(value)}' to 'google.protobuf.Duration'")


def _identity(value: Value) -> Value:
    return value


OVERLOADS: Final[tuple[Overload, ...]] = (
    function("timestamp", (TIMESTAMP,), TIMESTAMP, _identity),
    function("timestamp", (INT,), TIMESTAMP, _of_int),
    function("timestamp", (STRING,), TIMESTAMP, _parsed_time),
    function("duration", (DURATION,), DURATION, _identity),
    function("duration", (INT,), DURATION, _unconvertible),
    function("duration", (STRING,), DURATION, _parsed_duration),
    function("string", (DURATION,), STRING, duration_text),
    function("string", (TIMESTAMP,), STRING, time_text),
    *(method(name, (TIMESTAMP,), INT, _field(name)) for name in _FIELDS),
    *(method(name, (TIMESTAMP, STRING), INT, _field(name)) for name in _FIELDS),
    method("getHours", (DURATION,), INT, _of_duration(_HOUR)),
    method("getMinutes", (DURATION,), INT, _of_duration(60 * _SECOND)),
    method("getSeconds", (DURATION,), INT, _of_duration(_SECOND)),
    method("getMilliseconds", (DURATION,), INT, _milliseconds),
)


_DATE: Final = re.compile(r"([0-9]{4})-([0-9]{2})-([0-9]{2})")
_CLOCK: Final = re.compile(
    r"([01][0-9]|2[0-3]):([0-5][0-9]):(60|[0-5][0-9])(\.[0-9]+)?(z|([+-]([01][0-9]|2[0-3]):([0-5][0-9])))"
)


def is_date(text: str) -> bool:
    """Return whether a text is a date of the calendar."""
    found = _DATE.fullmatch(text)
    if not found:
        return False
    year, month, day = (int(found[place]) for place in (1, 2, 3))
    return 1 <= month <= 12 and 1 <= day <= _length(year, month)  # noqa: PLR2004 - the months of a year


def is_date_time(text: str) -> bool:
    """Return whether a text is a date and a time of day with a zone."""
    date, _, clock = text.lower().partition("t")
    return is_date(date) and _CLOCK.fullmatch(clock) is not None
