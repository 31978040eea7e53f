"""Which workloads an owner has. How many pods a controller has, and how many are bound and reported healthy."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from moorage.kinds.status import reported
from moorage.kinds.status.index import Groups, Index
from moorage.kinds.status.records import ObjectId, Records
from moorage_schemas.condition import ConditionStatus
from moorage_schemas.placement import PlacementState, WorkloadPlaced
from moorage_schemas.refs import TargetRef
from moorage_schemas.resource import ResourceDeclared
from moorage_schemas.resources.workload_kinds import POD


class OwnerIndex(Index):
    """The workloads of each owner: pods of a controller, the binding of a resource, the decisions of a placement.

    An owner counts its workloads, and they are shown from its template.
    """

    topics = ("resources", "placements")

    def __init__(self) -> None:
        self.made_by = Groups()
        """The keys of the placements of each owner, by its key. Workloads that are their own owner are left out."""

    def changed(self, topic: str, key: str, before: Any, after: Any, records: Records) -> Iterable[ObjectId]:
        """See `Index`."""
        if topic == "resources":
            return map(ObjectId.of, self.made_by.get(key, ()))
        return self._placed(key, before, after)

    def _placed(self, key: str, before: WorkloadPlaced | None, after: WorkloadPlaced | None) -> Iterable[ObjectId]:
        old, new = (
            {placed.owner.key} if placed is not None and placed.owner != placed.workload else set[str]()
            for placed in (before, after)
        )
        self.made_by.move(key, old, new)
        return map(ObjectId.of, old | new)


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
    for key in records.index(OwnerIndex).made_by.get(resource.key, ()):
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
