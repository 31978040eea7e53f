"""The resources of one partition that policies may claim, and the last decisions on claimed ones."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from moorage.decide.scheduling.karmada.policy_match import Policy, claim
from moorage.decide.timers.deadline_index import DeadlineIndex
from moorage.workers.placement.engine.outbox import LastDecision, supersedes
from moorage.workers.placement.karmada.cluster_view import ClusterBinding, ClusterView
from moorage.workers.placement.karmada.resource import ClaimedResource, resource_of
from moorage_schemas.placement import LeavingTarget, PlacedTarget, WorkloadPlaced
from moorage_schemas.resource import ResourceDeclared

SCHEDULED: Final = "Scheduled"
UNSCHEDULABLE: Final = "Unschedulable"
OTHER_SCHEDULER: Final = "OtherScheduler"
WAITS_FOR_CHANGE: Final = "Lazy"
NO_REPLACEMENT: Final = "NoReplacement"
INVALID: Final = "Invalid"
"""One-word reasons of decisions."""


@dataclass(slots=True, eq=False)
class BindingDecision(LastDecision):
    """The last decision on a claimed resource, without all of its reasons."""

    owner: str
    owner_uid: str
    owner_version: int
    targets: dict[str, PlacedTarget]
    leaving: dict[str, LeavingTarget]
    policy: str
    placement_key: str
    affinity_name: str
    grounds: tuple[tuple[str, str], ...]
    report_time: datetime | None

    @property
    def waiting(self) -> bool:
        """Whether to try again at the next opening."""
        return self.reason not in {SCHEDULED, OTHER_SCHEDULER, WAITS_FOR_CHANGE}


def binding_decision_of(event: WorkloadPlaced) -> BindingDecision:
    """Return the fields of a decision that the state keeps."""
    return BindingDecision(
        workload=event.workload.key,
        uid=event.uid,
        owner=event.owner.key,
        owner_uid=event.owner_uid,
        owner_version=event.owner_version,
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


@dataclass(slots=True, eq=False)
class BindingState:
    """The part of a partition's state that concerns claimed resources."""

    view: ClusterView = field(default_factory=ClusterView)
    resources: dict[str, ClaimedResource] = field(default_factory=dict)
    last: dict[str, BindingDecision] = field(default_factory=dict)
    """The last decisions, by the key of the resource."""

    waiting: dict[str, None] = field(default_factory=dict)
    """Resources to try again at the next opening."""

    ends: DeadlineIndex[tuple[str, str]] = field(default_factory=DeadlineIndex)
    """When grace periods end, by resource and cluster."""

    _of_kind: dict[tuple[str, str], dict[str, None]] = field(default_factory=dict)
    _owner_of: dict[str, str] = field(default_factory=dict)
    _at: dict[str, dict[str, None]] = field(default_factory=dict)
    """Cluster → the resources that are on it, or are about to leave it."""

    def declare(self, key: str, event: ResourceDeclared | None) -> None:
        """Fold in a resource that is declared, or deleted (None)."""
        known = self.resources.pop(key, None)
        if known is not None and known.mirrored is None:
            scope = (known.claimable.api_version, known.claimable.kind)
            del self._of_kind[scope][key]
            if not self._of_kind[scope]:
                del self._of_kind[scope]
        if event is None:
            return
        resource = self.resources[key] = resource_of(event)
        if resource.mirrored is None:
            about = resource.claimable
            self._of_kind.setdefault((about.api_version, about.kind), {})[key] = None

    def decided(self, workload: str, event: WorkloadPlaced | None) -> None:
        """Fold in a decision on a resource; None when the resource is no longer placed."""
        if event is None:
            owner = self._owner_of.get(workload)
            if owner is not None:
                self._forget(self.last.pop(owner))
            return
        known = self.last.get(event.owner.key)
        if not supersedes(event, known):
            return
        if known is not None:
            self._forget(known)
        one = self.last[event.owner.key] = binding_decision_of(event)
        self._owner_of[one.workload] = one.owner
        for name in one.targets.keys() | one.leaving.keys():
            self._at.setdefault(name, {})[one.owner] = None
        for name, leaving in one.leaving.items():
            self.ends.set((one.owner, name), leaving.until)
        if one.waiting:
            self.waiting[one.owner] = None

    def _forget(self, one: BindingDecision) -> None:
        del self._owner_of[one.workload]
        self.waiting.pop(one.owner, None)
        for name in one.leaving:
            self.ends.remove((one.owner, name))
        for name in one.targets.keys() | one.leaving.keys():
            mine = self._at[name]
            mine.pop(one.owner, None)
            if not mine:
                del self._at[name]

    # Queries.

    def owner_of(self, workload: str) -> str | None:
        """Return the resource of a workload; None when it belongs to another partition."""
        return self._owner_of.get(workload)

    def at(self, cluster: str) -> list[str]:
        """Return the resources that are on a cluster, or are about to leave it, sorted."""
        return sorted(self._at.get(cluster, ()))

    def of_kind(self, api_version: str, kind: str) -> Iterable[str]:
        """Return the keys of the resources of a kind."""
        return self._of_kind.get((api_version, kind), {})

    def policy_for(self, key: str) -> Policy | None:
        """Return the policy that places a resource; None when there is none."""
        resource = self.resources.get(key)
        if resource is None:
            return None
        if resource.mirrored is not None:
            return resource.mirrored.policy
        about = resource.claimable
        policies = self.view.policies_for(about.api_version, about.kind, about.namespace)
        if not policies:
            return None
        known = self.last.get(key)
        held = known.policy if known is not None and known.owner_uid == resource.uid else ""
        return claim(about, policies, held)

    def claims(self, key: str) -> bool:
        """Return whether a resource is placed on clusters, so that it creates no pods on nodes."""
        return self.policy_for(key) is not None

    def would_claim(self, event: ResourceDeclared) -> bool:
        """Return whether a policy places a declared resource."""
        policies = self.view.policies_for(str(event.object.get("apiVersion", "")), event.kind, event.namespace)
        return bool(policies) and claim(resource_of(event).claimable, policies) is not None

    def concerned(self, key: str) -> bool:
        """Return whether a resource is, or was until now, placed on clusters."""
        return key in self.last or self.claims(key)

    def binding(self, key: str) -> ClusterBinding | None:
        """Return the present binding, written or about to be written; None when there is none."""
        return self.view.bindings.get(key)
