"""Flap damping: how long a condition must hold before it adds or removes a taint.

It is off by default: with a hold of zero, the condition acts at once and the time is not considered.

A hold counts from the last change of a condition's status, because only that is stored. So it also starts again when a
condition changes between two statuses that a policy treats alike. The exception is a node's not-ready and unreachable,
which count as one state.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from moorage.decide.kubernetes.durations import seconds_of
from moorage_schemas.condition import ConditionChanged

NO_HOLD: Final = timedelta()
_LATEST: Final = datetime.max.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Holds:
    """How long a condition must hold before it adds a taint, and before it removes one."""

    add: timedelta = NO_HOLD
    remove: timedelta = NO_HOLD


def parse_hold(text: str) -> timedelta | None:
    """Parse a duration such as `30s` or `1m30s`, or `0`. None if the text is not a duration."""
    text = text.strip()
    if text == "0":
        return NO_HOLD
    seconds = seconds_of(text)
    try:
        return None if seconds is None else timedelta(seconds=seconds)
    except OverflowError:
        return None


def holds_since(condition: ConditionChanged) -> datetime:
    """Since when a condition has its status, by Moorage's clock. Records without that time have the probe's."""
    return condition.status_since or condition.last_transition_time


def hold_end(since: datetime, hold: timedelta) -> datetime | None:
    """When a state that began at `since` may act. None if it does not have to wait at all."""
    if hold <= NO_HOLD:
        return None
    try:
        return since + hold
    except OverflowError:
        return _LATEST
