"""Keeps alive in a copy what was alive when it was taken, because nobody reports to a copy.

Probes repeat their reports every few seconds, add-ons renew their leases, and scores are renewed. None of this happens
in the copy, so within minutes of its time everything would expire and become Unknown. Therefore:

- A heartbeat timer with a deadline after the time of the copy never fires in it: its source is heard forever. A timer
  with an earlier deadline fires, because its source was already silent. A source that is first watched in the copy is
  heard forever, too.
- Evictions that are over stay. Their removal follows from their age alone, and decides nothing.
- A lease that is valid when the copy is taken never expires, and a valid score stays valid.

Only a change makes a source silent: an outage reports at once what silence leads to after its grace period.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from moorage.decide.taints.desired.addons import AVAILABLE, LEASE, AddOnLease
from moorage.insight.copy.snapshot import Kept, Snapshot
from moorage.runtime.service import Emit
from moorage.workers.condition_ingest.state import OWNER as HEARTBEATS
from moorage.workers.eviction.service import Eviction
from moorage.workers.eviction.state import EvictionPartition
from moorage.workers.timer.service import TimerPartition, TimerService
from moorage_schemas.base import Model
from moorage_schemas.resource import ResourceDeclared
from moorage_schemas.timer import SetTimer
from moorage_schemas.times import format_time, parse_time
from moorage_schemas.topics import RESOURCES, TIMERS, Topic

_SCORES = "AddOnPlacementScore"
FOR_EVER = timedelta(days=36_500)
"""The time after which what is kept alive would expire."""


class StillTimer(TimerService):
    """A timer service in which the timers of heartbeats that were not overdue never fire.

    Args:
        since: the time of the copy.
    """

    def __init__(self, since: datetime) -> None:
        self._since = since

    def apply(self, state: TimerPartition, topic: Topic, key: str, event: Model | None) -> None:
        """Apply a timer, or the firing of one. A heartbeat's timer that is not overdue waits forever."""
        if (
            topic is TIMERS
            and isinstance(event, SetTimer)
            and event.owner == HEARTBEATS
            and event.deadline is not None
            and event.deadline > self._since
        ):
            event = event.model_copy(update={"deadline": None})
        super().apply(state, topic, key, event)


class StillEviction(Eviction):
    """An eviction service that removes no eviction that is over."""

    def next_removal(self, state: EvictionPartition) -> datetime | None:  # noqa: ARG002 - it is the same for all states
        """Return None: nothing is removed."""
        return None

    def remove_old(self, state: EvictionPartition, now: datetime, emits: list[Emit]) -> None:
        """Leave everything as it is."""


def lives_on(snapshot: Snapshot) -> Snapshot:
    """Return the copy with leases and scores that stay valid if they were valid when it was taken."""
    changed = {
        (one.partition, one.offset): later
        for one in snapshot.records(RESOURCES)
        if isinstance(one.event, ResourceDeclared) and (later := _renewed(one, one.event, snapshot.taken)) is not None
    }
    if not changed:
        return snapshot
    records = [
        changed.get((one.partition, one.offset), one) if one.topic is RESOURCES else one for one in snapshot.all()
    ]
    return Snapshot.of(
        records,
        partitions=snapshot.partitions,
        positions=snapshot.positions,
        ends=snapshot.ends,
        taken=snapshot.taken,
        unreadable=snapshot.unreadable,
    )


def _renewed(kept: Kept, declared: ResourceDeclared, now: datetime) -> Kept | None:
    """Return the record with a time in the far future. None if there is nothing to renew."""
    later = format_time(now + FOR_EVER)
    if declared.kind == LEASE and AddOnLease.of(declared).state(now) == AVAILABLE:
        changed = _with(declared, "spec", "renewTime", later)
    elif declared.kind == _SCORES and _valid(declared, now):
        changed = _with(declared, "status", "validUntil", later)
    else:
        return None
    return replace(kept, event=changed)


def _valid(declared: ResourceDeclared, now: datetime) -> bool:
    status: Mapping[str, Any] = declared.object.get("status") or {}
    try:
        until = parse_time(status.get("validUntil"))
    except ValueError:
        return False
    return isinstance(until, datetime) and until > now


def _with(declared: ResourceDeclared, section: str, field: str, value: str) -> ResourceDeclared:
    part = {**(declared.object.get(section) or {}), field: value}
    return declared.model_copy(update={"object": {**declared.object, section: part}})
