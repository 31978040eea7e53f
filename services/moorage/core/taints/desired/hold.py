"""Flap damping: for how long a condition must hold before it adds or removes a taint.

Off by default: a hold of zero acts at once and looks at no clock.

A hold counts from the last change of a condition's status, for that is what is durable of it. So it begins anew
when a condition changes between two statuses that a policy treats alike, too. Only of a node are not ready and
unreachable one.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from moorage.core.apimachinery.durations import seconds_of
from moorage_schemas.condition import ConditionChanged

NO_HOLD: Final = timedelta()
_LATEST: Final = datetime.max.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Holds:
    """For how long a condition must hold before it adds, and before it removes, a taint."""

    add: timedelta = NO_HOLD
    remove: timedelta = NO_HOLD


def parse_hold(text: str) -> timedelta | None:
    """A duration such as `30s` or `1m30s`, or `0`; None when the text is none."""
    text = text.strip()
    if text == "0":
        return NO_HOLD
    seconds = seconds_of(text)
    try:
        return None if seconds is None else timedelta(seconds=seconds)
    except OverflowError:
        return None


def holds_since(condition: ConditionChanged) -> datetime:
    """Since when a condition has its status: by Moorage's own clock, or by the probe's in records that lack that."""
    return condition.status_since or condition.last_transition_time


def hold_end(since: datetime, hold: timedelta) -> datetime | None:
    """When something that has held since then may act; None when it need not wait at all."""
    if hold <= NO_HOLD:
        return None
    try:
        return since + hold
    except OverflowError:
        return _LATEST
