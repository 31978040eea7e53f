"""Instants as whole microseconds since 1970, as stored in columns."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Final

FOREVER: Final = 2**63 - 1
"""An end that never comes."""

NEVER: Final = -(2**63)
"""An end before all times."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)


def microseconds(instant: datetime) -> int:
    """Convert an instant to microseconds since 1970."""
    return (instant - _EPOCH) // _MICROSECOND


@lru_cache(maxsize=4096)
def instant(us: int) -> datetime | None:
    """Convert microseconds since 1970 to an instant. None if it is outside the calendar."""
    try:
        return _EPOCH + timedelta(microseconds=us)
    except OverflowError:
        return None
