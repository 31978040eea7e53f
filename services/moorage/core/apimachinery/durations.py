"""Durations as people, flags and annotations write them."""

from __future__ import annotations

import re
from typing import Final

_UNITS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
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
