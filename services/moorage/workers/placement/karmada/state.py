"""What one partition knows of resources that may be claimed, and what was decided on those that are."""

from __future__ import annotations

import heapq
import sys
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from moorage.core.scheduling.karmada.policy_match import Claimable, Policy, claim
from moorage.core.scheduling.nodes.workloads import text_labels
from moorage.workers.placement.karmada.view import Bound, ClusterView
from moorage_schemas.envelope import Meta, event_id
from moorage_schemas.placement import LeavingTarget, PlacedTarget, PlacementState, WorkloadPlaced
from moorage_schemas.refs import WorkloadRef
from moorage_schemas.resource import ResourceDeclared
from moorage_schemas.resources.workloads import CONTROLLERS, POD

RESOURCE_BINDING: Final = "ResourceBinding"
"""The kind of the workload that a claimed resource is."""

CLAIMED_KINDS: Final = (POD, *CONTROLLERS, "ConfigMap", "Service")
"""Kinds that a policy can claim."""

CLAIMABLE: Final = tuple(f"{kind}/" for kind in CLAIMED_KINDS)
PLACED: Final = f"{RESOURCE_BINDING}/"

SCHEDULED: Final = "Scheduled"
UNSCHEDULABLE: Final = "Unschedulable"
NO_REPLACEMENT: Final = "NoReplacement"
INVALID: Final = "Invalid"
"""Reasons of decisions, in one word each."""


@dataclass(slots=True, eq=False)
class Resource:
    """A declared resource of a kind that policies can claim."""

    ref: WorkloadRef
    uid: str
    version: int
    claimable: Claimable


def resource_of(event: ResourceDeclared) -> Resource:
    """What the state keeps of a resource."""
    metadata = event.object.get("metadata") or {}
    api_version, kind = sys.intern(str(event.object.get("apiVersion", ""))), sys.intern(event.kind)
    namespace, name = sys.intern(event.namespace), event.name
    return Resource(
        ref=WorkloadRef(kind=kind, namespace=namespace, name=name),
        uid=event.uid,
        version=event.version,
        claimable=Claimable(api_version, kind, namespace, name, text_labels(metadata.get("labels"))),
    )


@dataclass(slots=True, eq=False)
class Placed:
    """The last decision on a claimed resource, without all of its grounds."""

    workload: str
    uid: str
    owner: str
    owner_uid: str
    generation: int
    state: PlacementState
    targets: dict[str, PlacedTarget]
    leaving: dict[str, LeavingTarget]
    policy: str
    placement_key: str
    affinity_name: str
    reason: str
    grounds: tuple[tuple[str, str], ...]
    message: str
    decided_time: datetime
    report_time: datetime | None

    @property
    def waiting(self) -> bool:
        """Whether it is to be tried again when something opens."""
        return self.reason != SCHEDULED


def placed_of(event: WorkloadPlaced) -> Placed:
    """What the state keeps of a decision."""
    return Placed(
        workload=event.workload.key,
        uid=event.uid,
        owner=event.owner.key,
        owner_uid=event.owner_uid,
        generation=event.generation,
        state=event.state,
        targets={one.target.name: one for one in event.targets},
        leaving={one.target.name: one for one in event.leaving},
        policy=event.policy,
        placement_key=event.template_hash,
        affinity_name=event.affinity_name,
        reason=event.reason,
        grounds=tuple((result.filter, result.reason) for result in event.filters),
        message=event.message,
        decided_time=event.decided_time,
        report_time=event.report_time,
    )


@dataclass(frozen=True, slots=True)
class ClusterWork:
    """A resource to look at."""

    owner: str
    cause: Meta | None
    """None when a restore or the time, not an event, led here."""

    gone: str = ""
    """A cluster that was deleted, or made again under its name."""

    repair: bool = False
    """Whether to write again what should be there and is not."""


@dataclass(slots=True, eq=False)
class ClusterState:
    """One partition, as far as clusters are concerned."""

    view: ClusterView = field(default_factory=ClusterView)
    resources: dict[str, Resource] = field(default_factory=dict)
    placed: dict[str, Placed] = field(default_factory=dict)
    """By the key of the resource."""

    written: dict[str, Bound | None] = field(default_factory=dict)
    """Bindings that are written and perhaps not yet in the view; None for one that was ended."""

    work: deque[ClusterWork] = field(default_factory=deque)
    begun: bool = False
    waiting: dict[str, None] = field(default_factory=dict)
    openings: int = 0
    rooms: int = 0
    policy_version: int = 0
    kind_versions: dict[tuple[str, str, str], int] = field(default_factory=dict)
    _of_kind: dict[tuple[str, str], dict[str, None]] = field(default_factory=dict)
    _owner_of: dict[str, str] = field(default_factory=dict)
    _at: dict[str, dict[str, None]] = field(default_factory=dict)
    """Cluster → the resources that are on it, or are about to leave it."""

    _noticed: dict[str, None] = field(default_factory=dict)
    """Resources on the list of work because of a notice; what else is noticed of them is seen along with it."""

    _ends: list[tuple[datetime, str]] = field(default_factory=list)
    """A heap of the ends of grace periods; entries that hold no longer are skipped."""

    def put_resource(self, event: ResourceDeclared) -> None:
        """A resource is declared."""
        self.drop_resource(event.key)
        resource = self.resources[event.key] = resource_of(event)
        about = resource.claimable
        self._of_kind.setdefault((about.api_version, about.kind), {})[event.key] = None

    def drop_resource(self, key: str) -> None:
        """A resource is deleted."""
        known = self.resources.pop(key, None)
        if known is not None:
            del self._of_kind[known.claimable.api_version, known.claimable.kind][key]

    def put_placed(self, event: WorkloadPlaced) -> None:
        """A decision was made."""
        known = self.placed.get(event.owner.key)
        if known is not None:
            if known.uid == event.uid and event.generation < known.generation:
                return
            self._forget(known)
        one = self.placed[event.owner.key] = placed_of(event)
        self._owner_of[one.workload] = one.owner
        for name in one.targets.keys() | one.leaving.keys():
            self._at.setdefault(name, {})[one.owner] = None
        for leaving in one.leaving.values():
            heapq.heappush(self._ends, (leaving.until, one.owner))
        if one.waiting:
            self.waiting[one.owner] = None

    def drop_placed(self, workload: str) -> None:
        """A resource is placed no more."""
        owner = self._owner_of.get(workload)
        if owner is not None:
            self._forget(self.placed.pop(owner))

    def _forget(self, one: Placed) -> None:
        del self._owner_of[one.workload]
        self.waiting.pop(one.owner, None)
        for name in one.targets.keys() | one.leaving.keys():
            mine = self._at[name]
            mine.pop(one.owner, None)
            if not mine:
                del self._at[name]

    def take(self) -> ClusterWork:
        """The next resource to look at."""
        work = self.work.popleft()
        self._noticed.pop(work.owner, None)
        return work

    # What happens in the view.

    def notice(self, workload: str, meta: Meta) -> None:
        """See `view.ClusterListener`."""
        owner = self._owner_of.get(workload)
        if owner is not None and owner not in self._noticed:
            self._noticed[owner] = None
            self.work.append(ClusterWork(owner, meta))

    def healthy(self, workload: str, meta: Meta) -> None:
        """See `view.ClusterListener`."""
        owner = self._owner_of.get(workload)
        if owner is not None and self.placed[owner].leaving:
            self.notice(workload, meta)

    def cluster_gone(self, name: str, meta: Meta) -> None:
        """See `view.ClusterListener`."""
        self.work.extend(ClusterWork(owner, meta, gone=name) for owner in sorted(self._at.get(name, ())))

    def binding_seen(self, key: str, bound: Bound | None) -> None:
        """See `view.ClusterListener`."""
        if key in self.written:
            written = self.written[key]
            if bound is None if written is None else bound is not None and bound.age >= written.age:
                del self.written[key]

    # Questions.

    def policy_for(self, key: str) -> Policy | None:
        """The policy that places a resource; None when none does."""
        resource = self.resources.get(key)
        if resource is None:
            return None
        about = resource.claimable
        policies = self.view.policies_for(about.api_version, about.kind, about.namespace)
        if not policies:
            return None
        known = self.placed.get(key)
        held = known.policy if known is not None and known.owner_uid == resource.uid else ""
        return claim(about, policies, held)

    def claims(self, key: str) -> bool:
        """Whether a resource is placed on clusters, so that it makes no pods on nodes."""
        return self.policy_for(key) is not None

    def is_unclaimed(self, event: ResourceDeclared) -> bool:
        """Whether no policy that is known places a declared resource."""
        about = resource_of(event).claimable
        return claim(about, self.view.policies_for(about.api_version, about.kind, about.namespace)) is None

    def concerned(self, key: str) -> bool:
        """Whether a resource is, or was until now, placed on clusters."""
        return key in self.placed or self.claims(key)

    def binding(self, key: str) -> Bound | None:
        """The binding that holds now, written or about to be; None when there is none."""
        return self.written[key] if key in self.written else self.view.bindings.get(key)

    def due(self) -> bool:
        """Whether there is something to do, whatever the time."""
        view = self.view
        return (
            not self.begun
            or bool(self.work)
            or self.policy_version != view.policy_version
            or (bool(self.placed) and self.openings != view.openings)
            or (bool(self.waiting) and self.rooms != view.rooms)
        )

    def next_end(self) -> datetime | None:
        """When the next grace period ends; None when none runs."""
        ends = self._ends
        while ends and not self._runs(*ends[0]):
            heapq.heappop(ends)
        return ends[0][0] if ends else None

    def _runs(self, until: datetime, owner: str) -> bool:
        known = self.placed.get(owner)
        return known is not None and any(one.until == until for one in known.leaving.values())

    def gather(self, now: datetime) -> None:
        """Put what has become due on the list of work."""
        view = self.view
        if not self.begun:
            self.begun = True
            keys = [key for key in sorted(self.resources.keys() | self.placed.keys()) if self.concerned(key)]
            self.work.extend(ClusterWork(key, None) for key in keys)
            self.kind_versions = dict(view.kind_versions)
        else:
            if self.policy_version != view.policy_version:
                keys = [key for key in self._of_changed_policies() if self.concerned(key)]
                self.work.extend(ClusterWork(key, view.policy_by) for key in keys)
            if self.openings != view.openings:
                self.work.extend(ClusterWork(key, view.opened_by) for key in sorted(self.placed))
            elif self.rooms != view.rooms:
                self.work.extend(ClusterWork(key, view.opened_by) for key in sorted(self.waiting))
        self.policy_version, self.openings, self.rooms = view.policy_version, view.openings, view.rooms
        while (end := self.next_end()) is not None and end <= now:
            _, owner = heapq.heappop(self._ends)
            told = event_id("moorage/placement", owner, end.isoformat())
            meta = Meta(id=told, source="moorage/placement", type=WorkloadPlaced.event_type, time=end)
            self.work.append(ClusterWork(owner, meta))

    def repair(self) -> None:
        """Put everything on the list of work, to be repaired where need be."""
        keys = [key for key in sorted(self.resources.keys() | self.placed.keys()) if self.concerned(key)]
        self.work.extend(ClusterWork(key, None, repair=True) for key in keys)

    def _of_changed_policies(self) -> Iterable[str]:
        """The resources that a policy which has changed may claim, or did, sorted."""
        found: set[str] = set()
        for scope, version in self.view.kind_versions.items():
            if self.kind_versions.get(scope) != version:
                api_version, kind, namespace = scope
                keys = self._of_kind.get((api_version, kind), {})
                found.update(key for key in keys if not namespace or key.split("/")[1] == namespace)
                self.kind_versions[scope] = version
        return sorted(found)
