"""In a copy nobody speaks any more; what was alive when it was taken goes on living.

Probes renew what they said every few seconds, add-ons renew their leases, and scores their validity. None of them is in
the copy, so without more all of it would run out within minutes of its time, and everything would become Unknown. So:

- A heartbeat timer that ends after the copy was taken never ends there: its source is heard for ever. One that has
  ended already fires, for its source was silent before. A source that begins to be watched in the copy is heard for
  ever, too.
- A lease that has not run out when the copy is taken never runs out, and a score that is valid stays so.

Only a change silences somebody: an outage says at once what silence would have said after its grace period.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from moorage.core.taints.desired.addons import AVAILABLE, LEASE, AddOnLease
from moorage.simulation.copy.snapshot import Kept, Snapshot
from moorage.workers.condition_ingest.state import OWNER as HEARTBEATS
from moorage.workers.timer.service import TimerPartition, TimerService
from moorage_schemas.base import Model
from moorage_schemas.resource import ResourceDeclared
from moorage_schemas.timer import SetTimer
from moorage_schemas.times import format_time, parse_time
from moorage_schemas.topics import RESOURCES, TIMERS, Topic

_SCORES = "AddOnPlacementScore"
FOR_EVER = timedelta(days=36_500)
"""After which what is kept alive would run out."""


class StillTimer(TimerService):
    """The timer service, for which heartbeats that were not overdue go on.

    Args:
        since: when the copy was taken.
    """

    def __init__(self, since: datetime) -> None:
        self._since = since

    def apply(self, state: TimerPartition, topic: Topic, key: str, event: Model | None) -> None:
        """Fold in a timer, or that one has fired; a heartbeat's that is not overdue waits for ever."""
        if (
            topic is TIMERS
            and isinstance(event, SetTimer)
            and event.owner == HEARTBEATS
            and event.deadline is not None
            and event.deadline > self._since
        ):
            event = event.model_copy(update={"deadline": None})
        super().apply(state, topic, key, event)


def lives_on(snapshot: Snapshot) -> Snapshot:
    """The copy in which leases and scores that were good when it was taken stay good."""
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
    """The record with a time that does not come; None where there is none to move."""
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
