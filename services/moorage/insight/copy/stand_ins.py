"""The parts of a copy that stand in for reporters, deployers and the gateway, because a copy receives no reports.

Probes repeat their reports every few seconds, add-ons renew their leases, and scores are renewed. None of this happens
in the copy, so within minutes of its time everything would expire and become Unknown. Therefore:

- A heartbeat timer with a deadline after the time of the copy never fires in it: its source never falls silent. A timer
  with an earlier deadline fires, because its source was already silent. A source that is first watched in the copy is
  also treated so.
- Ended evictions stay. Their removal follows from their age alone, and decides nothing.
- A lease that is valid when the copy is taken never expires, and a valid score stays valid.

Only a change makes a source silent: an outage reports at once what silence leads to after its grace period.

Deployers acknowledge at once, or every binding whose deployer acknowledges would stay in the copy forever. Work that a
deployer has failed or refused to remove stays. The gateway's garbage collection deletes the resources of bare pods
that were evicted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, ClassVar

from typing_extensions import override

from moorage.decide.disruption.budgets import is_pod
from moorage.decide.taints.desired.addons import AVAILABLE, LEASE, AddOnLease
from moorage.insight.copy.snapshot import Kept, Snapshot
from moorage.runtime.service import Emit, Input, Service
from moorage.workers.condition_ingest.state import ISSUER as HEARTBEATS
from moorage.workers.eviction.service import Eviction
from moorage.workers.eviction.state import EvictionPartition
from moorage.workers.timer.service import TimerPartition, TimerService
from moorage_schemas.base import Model
from moorage_schemas.condition import EVICTED, ConditionStatus, WorkloadConditionChanged
from moorage_schemas.envelope import Meta, event_id
from moorage_schemas.eviction import EvictionDecided, EvictionState
from moorage_schemas.keys import workload_condition_key
from moorage_schemas.placement import PlacementState, WorkloadPlaced
from moorage_schemas.resource import ResourceDeclared, resource_partition_key
from moorage_schemas.timer import SetTimer
from moorage_schemas.times import format_time, parse_time
from moorage_schemas.topics import EVICTIONS, PLACEMENTS, RESOURCES, TIMERS, WORKLOAD_CONDITIONS, Topic

_SCORES = "AddOnPlacementScore"
FOR_EVER = timedelta(days=36_500)
"""The time after which what is kept alive would expire."""


class StillTimer(TimerService):
    """A timer service in which the timers of heartbeats that were not overdue never fire."""

    def __init__(self, since: datetime) -> None:
        self._since = since

    @override
    def apply(self, state: TimerPartition, topic: Topic, key: str, event: Model | None) -> None:
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
    """An eviction service that removes no ended eviction."""

    @override
    def next_removal(self, state: EvictionPartition) -> datetime | None:
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


@dataclass(slots=True)
class Pods:
    """The uids of the declared pods of one partition that no finalizer holds."""

    uids: dict[str, str] = field(default_factory=dict)


class Sweep(Service[Pods]):
    """Does the same as `gateway.controllers.pod_gc`, without HTTP and locks.

    It also deletes mirrored pods, as their clusters would.

    A bare pod is its own owner, so the record of its placement and that of its resource are in the same partition.
    """

    name: ClassVar[str] = "gateway"
    sources: ClassVar[tuple[Topic, ...]] = (PLACEMENTS,)
    outputs: ClassVar[tuple[Topic, ...]] = (RESOURCES,)
    follows: ClassVar[tuple[Topic, ...]] = (RESOURCES,)

    @override
    def new_state(self, partition: int) -> Pods:
        return Pods()

    @override
    def apply(self, state: Pods, topic: Topic, key: str, event: Model | None) -> None:
        if topic is RESOURCES and is_pod(key):
            if isinstance(event, ResourceDeclared) and not event.object["metadata"].get("finalizers"):
                state.uids[key] = event.uid
            else:
                state.uids.pop(key, None)

    @override
    def process(self, state: Pods, batch: Sequence[Input], now: datetime, *, fresh: bool = False) -> list[Emit]:
        # deletes the resource of each bare pod that was evicted, if it is still the same pod
        emits = []
        for record in batch:
            placed = record.event
            if (
                isinstance(placed, WorkloadPlaced)
                and placed.state is PlacementState.EVICTED
                and state.uids.get(record.key) == placed.uid
            ):
                del state.uids[record.key]
                meta = Meta(
                    id=event_id(record.key, placed.uid, "deleted"),
                    source=f"moorage/{self.name}",
                    type=RESOURCES.event_type,
                    time=now,
                    subject=record.key,
                )
                emits.append(Emit(RESOURCES, record.key, resource_partition_key(record.key), None, record.meta, meta))
        return emits


class Deployers(Service[None]):
    """Writes what condition-ingest would write of the reports of deployers."""

    name: ClassVar[str] = "deployers"
    sources: ClassVar[tuple[Topic, ...]] = (EVICTIONS,)
    outputs: ClassVar[tuple[Topic, ...]] = (WORKLOAD_CONDITIONS,)

    def new_state(self, partition: int) -> None:
        """Return nothing: it keeps nothing."""

    def apply(self, state: None, topic: Topic, key: str, event: Model | None) -> None:
        """Keep nothing."""

    @override
    def process(self, state: None, batch: Sequence[Input], now: datetime, *, fresh: bool = False) -> list[Emit]:
        # acknowledges each eviction that waits for its deployer
        return [
            Emit(
                WORKLOAD_CONDITIONS,
                workload_condition_key(event.workload, event.target, EVICTED),
                event.target.key,
                _acknowledgement(event, now),
                record.meta,
            )
            for record in batch
            if isinstance(event := record.event, EvictionDecided) and _waits(event)
        ]


def _waits(event: EvictionDecided) -> bool:
    is_open = event.state is EvictionState.REQUESTED and event.acknowledged is None
    return is_open and bool(event.deployer) and event.escalated is None


def _acknowledgement(event: EvictionDecided, now: datetime) -> WorkloadConditionChanged:
    return WorkloadConditionChanged(
        target=event.target,
        type=EVICTED,
        status=ConditionStatus.TRUE,
        reason="Simulated",
        source=event.deployer,
        last_transition_time=now,
        last_heartbeat_time=now,
        generation=1,
        workload=event.workload,
        workload_uid=event.workload_uid,
        binding_generation=event.generation,
    )
