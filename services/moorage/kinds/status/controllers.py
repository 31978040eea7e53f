"""Which workloads an owner has. How many pods a controller has, and how many are bound and reported healthy."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Any, NamedTuple

from moorage.kinds.status import reported
from moorage.kinds.status.index import Index
from moorage.kinds.status.records import ObjectId, Records
from moorage_schemas.condition import ConditionStatus
from moorage_schemas.keys import BindingKey
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


@lru_cache(maxsize=1_000)
def _equal(replicas: int, scheduled: int, ready: int) -> Counts:
    """Counts that are one object when they are equal. Nearly all workloads count for one of a few."""
    return Counts(replicas, scheduled, ready)


class OwnerIndex(Index):
    """The workloads of each owner: pods of a controller, the binding of a resource, the decisions of a placement.

    An owner counts its workloads, and they are shown from its template. What each workload counts for is computed once
    and kept until a record changes it, because an owner may have thousands and is counted again with each change.
    """

    topics = ("resources", "placements", "bindings", "workload-conditions")

    def __init__(self) -> None:
        self.made_by: dict[str, dict[str, Counts | None]] = {}
        """The keys of the placements of each owner, by its key, with what each counts for. None is not computed yet.

        Workloads that are their own owner are left out.
        """

    def changed(self, topic: str, key: str, before: Any, after: Any, records: Records) -> Iterable[ObjectId]:
        """See `Index`."""
        if topic == "resources":
            return self._declared(key, before, after)
        if topic == "placements":
            return self._placed(key, before, after)
        self._reported(BindingKey.parse(key).workload, records)
        return ()

    def counts(self, resource: ResourceDeclared, records: Records) -> Counts:
        """Count the pods of a controller, or its replicas on clusters."""
        made = self.made_by.get(resource.key, {})
        for key, known in made.items():
            if known is None:
                made[key] = _counts(records.placements[key], resource, records)
        return Counts(*map(sum, zip(_equal(0, 0, 0), *filter(None, made.values()), strict=True)))

    def _declared(
        self, key: str, before: ResourceDeclared | None, after: ResourceDeclared | None
    ) -> Iterable[ObjectId]:
        """Take a change of an owner in. Workloads count for the owner that they were made for."""
        made = self.made_by.get(key, {})
        if before is None or after is None or before.uid != after.uid:
            made.update(dict.fromkeys(made))
            return map(ObjectId.of, made)
        ordered = {order.pod for order in {*before.pods} ^ {*after.pods}} & made.keys()
        made.update(dict.fromkeys(ordered))
        same = before.object == after.object and before.pods != after.pods
        return map(ObjectId.of, ordered if same else made)

    def _placed(self, key: str, before: WorkloadPlaced | None, after: WorkloadPlaced | None) -> Iterable[ObjectId]:
        old, new = (
            placed.owner.key if placed is not None and placed.owner != placed.workload else ""
            for placed in (before, after)
        )
        if old and old != new:
            made = self.made_by[old]
            del made[key]
            if not made:
                del self.made_by[old]
        if new:
            self.made_by.setdefault(new, {})[key] = None
        return map(ObjectId.of, {old, new} - {""})

    def _reported(self, workload: str, records: Records) -> None:
        """Take a change of a binding or a report in, by which a workload may count as healthy or not any more."""
        placed = records.placements.get(workload)
        made = self.made_by.get(placed.owner.key, {}) if placed is not None else {}
        if workload in made:
            made[workload] = None


def counts(resource: ResourceDeclared, records: Records) -> Counts:
    """Count the pods of a controller, or its replicas on clusters."""
    return records.index(OwnerIndex).counts(resource, records)


def _counts(placed: WorkloadPlaced, owner: ResourceDeclared, records: Records) -> Counts:
    """What a workload counts for."""
    ended = any(order.uid == placed.uid and not order.node for order in owner.pods)
    if placed.owner_uid != owner.uid or placed.state is PlacementState.EVICTED or ended:
        return _equal(0, 0, 0)
    if placed.workload.kind == POD:
        bound = placed.state is PlacementState.PLACED and placed.target is not None
        ready = placed.target is not None and bound and _healthy(records, placed, placed.target)
        return _equal(1, int(bound), int(ready))
    replicas = sum(target.replicas for target in placed.targets)
    ready_there = (target.replicas for target in placed.targets if _healthy(records, placed, target.target))
    return _equal(replicas, replicas, sum(ready_there))


def _healthy(records: Records, placed: WorkloadPlaced, target: TargetRef) -> bool:
    return reported.health(records, placed.workload.key, target.key) is ConditionStatus.TRUE
