"""Instants as whole microseconds since 1970, as columns hold them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

FOREVER: Final = 2**63 - 1
"""An end that never comes."""

NEVER: Final = -(2**63)
"""An end that was before everything."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)


def microseconds(instant: datetime) -> int:
    """An instant in microseconds since 1970."""
    return (instant - _EPOCH) // _MICROSECOND


def instant(us: int) -> datetime | None:
    """The instant of so many microseconds since 1970; None for one that no calendar has."""
    try:
        return _EPOCH + timedelta(microseconds=us)
    except OverflowError:
        return None
