"""Which workloads an owner has. How many pods a controller has, and how many are bound and reported healthy."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from typing_extensions import override

from moorage.apiserver.kinds.status import reported
from moorage.apiserver.kinds.status.index import Index
from moorage.apiserver.kinds.status.records import ObjectId, Records
from moorage_schemas.condition import ConditionStatus, WorkloadConditionChanged
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

    template: str = ""
    """The hash of the template of a pod. Empty for a sum."""

    ready_since: float = 0.0
    """When a pod became ready, or for a sum the last of its ready pods. Seconds since the epoch."""

    waiting_since: float = 0.0
    """Since when a pod is not ready, or for a sum the last of those."""

    place: int = 0
    """The place of a pod among those of its controller. 0 for a sum."""


_NOTHING: Final = Counts(0, 0, 0)


class OwnerIndex(Index):
    """The workloads of each owner: pods of a controller, the binding of a resource, the decisions of a placement.

    An owner counts its workloads, and they are shown from its template. What each workload counts for is computed once
    and kept until a record changes it, because an owner may have thousands and is counted again with each change.
    """

    topics = ("resources", "placements", "bindings", "workload-conditions", "conditions")

    def __init__(self) -> None:
        self.made_by: dict[str, dict[str, Counts | None]] = {}
        """The keys of the placements of each owner, by its key, with what each counts for. None is not computed yet.

        Workloads that are their own owner are left out.
        """

    @override
    def changed(self, topic: str, key: str, before: Any, after: Any, records: Records) -> Iterable[ObjectId]:
        if node := reported.turned_node(topic, key, before, after):
            for workload in records.index(reported.NodeIndex).pods.get(node, ()):
                self._reported(workload, records)
        elif topic == "resources":
            return self._declared(key, before, after)
        elif topic == "placements":
            return self._placed(key, before, after)
        elif topic != "conditions":
            self._reported(BindingKey.parse(key).workload, records)
        return ()

    def counts(self, resource: ResourceDeclared, records: Records, template: str = "") -> Counts:
        """Count the pods of a controller, or its replicas on clusters.

        With the hash of a template, only those of that template count.
        """
        found = [one for one in self.each(resource, records) if template in {"", one.template}]
        if not found:
            return _NOTHING
        return Counts(
            replicas=sum(one.replicas for one in found),
            scheduled=sum(one.scheduled for one in found),
            ready=sum(one.ready for one in found),
            ready_since=max(one.ready_since for one in found),
            waiting_since=max(one.waiting_since for one in found),
        )

    def each(self, resource: ResourceDeclared, records: Records) -> list[Counts]:
        """Return the numbers of each pod of a controller, or of its replicas on clusters."""
        made = self.made_by.get(resource.key, {})
        for key, known in made.items():
            if known is None:
                made[key] = _counts(records.placements[key], resource, records)
        return [one for one in made.values() if one is not None]

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
        told = (before.pods, before.pod_metadata) != (after.pods, after.pod_metadata)
        if told and before.object == after.object:  # a write about some pods, so no others look different
            return map(ObjectId.of, ordered | (_with_other_metadata(before, after) & made.keys()))
        return map(ObjectId.of, made)

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
        """Take a change of a binding or a report in, by which a workload may become healthy or unhealthy."""
        placed = records.placements.get(workload)
        made = self.made_by.get(placed.owner.key, {}) if placed is not None else {}
        if workload in made:
            made[workload] = None


def _with_other_metadata(before: ResourceDeclared, after: ResourceDeclared) -> set[str]:
    """Return the keys of the pods whose changed metadata is not the same in two records of their controller."""
    earlier, later = ({one.uid: one for one in record.pod_metadata} for record in (before, after))
    return {
        one.pod
        for known, other in ((earlier, later), (later, earlier))
        for uid, one in known.items()
        if other.get(uid) != one
    }


def counts(resource: ResourceDeclared, records: Records) -> Counts:
    """Count the pods of a controller, or its replicas on clusters."""
    return records.index(OwnerIndex).counts(resource, records)


def _counts(placed: WorkloadPlaced, owner: ResourceDeclared, records: Records) -> Counts:
    """Return the numbers that a workload adds."""
    ended = any(order.uid == placed.uid and not order.node for order in owner.pods)
    if placed.owner_uid != owner.uid or placed.state is PlacementState.EVICTED or ended:
        return _NOTHING
    decided = placed.decided_time.timestamp()
    if placed.workload.kind == POD:
        bound = placed.state is PlacementState.PLACED and placed.target is not None
        said = _health(records, placed, placed.target) if bound and placed.target is not None else None
        since = max(decided, said.last_transition_time.timestamp()) if said is not None else decided
        ready = said is not None and said.status is ConditionStatus.TRUE
        template = sys.intern(placed.template_hash)
        times = (since, 0.0) if ready else (0.0, since)
        return Counts(1, int(bound), int(ready), template, *times, place=placed.index)
    replicas = sum(target.replicas for target in placed.targets)
    found = [(target.replicas, _health(records, placed, target.target)) for target in placed.targets]
    well = [(count, said) for count, said in found if said is not None and said.status is ConditionStatus.TRUE]
    since = max((said.last_transition_time.timestamp() for _, said in well), default=0.0)
    return Counts(replicas, replicas, sum(count for count, _ in well), "", since, decided)


def _health(records: Records, placed: WorkloadPlaced, target: TargetRef) -> WorkloadConditionChanged | None:
    return reported.health_report(records, placed.workload.key, target.key)
