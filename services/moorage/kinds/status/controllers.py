"""How many pods a controller has, and how many of them are bound and reported healthy."""

from __future__ import annotations

from typing import NamedTuple

from moorage.kinds.status import reported
from moorage.kinds.status.records import Records
from moorage_schemas.condition import ConditionStatus
from moorage_schemas.placement import PlacementState, WorkloadPlaced
from moorage_schemas.refs import TargetRef
from moorage_schemas.resource import ResourceDeclared
from moorage_schemas.resources.workload_kinds import POD


class Counts(NamedTuple):
    """Numbers of a controller's pods. If a policy has spread it over clusters, of its replicas there."""

    replicas: int
    scheduled: int
    """Bound to a target. Until a deployer reports, no more is known of a pod."""

    ready: int
    """Reported healthy."""


def counts(resource: ResourceDeclared, records: Records) -> Counts:
    """Count the pods of a controller, or its replicas on clusters."""
    replicas, scheduled, ready = 0, 0, 0
    for key in records.made_by.get(resource.key, ()):
        placed = records.placements[key]
        if placed.owner_uid != resource.uid or placed.state is PlacementState.EVICTED:
            continue
        if placed.workload.kind == POD:
            replicas += 1
            if placed.state is PlacementState.PLACED and placed.target is not None:
                scheduled += 1
                ready += _healthy(records, placed, placed.target)
            continue
        for target in placed.targets:
            replicas += target.replicas
            scheduled += target.replicas
            ready += target.replicas if _healthy(records, placed, target.target) else 0
    return Counts(replicas, scheduled, ready)


def _healthy(records: Records, placed: WorkloadPlaced, target: TargetRef) -> bool:
    return reported.health(records, placed.workload.key, target.key) is ConditionStatus.TRUE
