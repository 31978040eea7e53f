"""Drafts decisions on claimed resources, and writes those that are new."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from moorage.decide.scheduling.karmada.policy_match import Policy
from moorage.decide.scheduling.karmada.scheduler import ClusterDecision
from moorage.workers.placement.engine.outbox import Outbox
from moorage.workers.placement.engine.work_queue import Work
from moorage.workers.placement.karmada.binding_state import SCHEDULED, BindingDecision, BindingState
from moorage.workers.placement.karmada.cluster_view import Terms, bound_of
from moorage.workers.placement.karmada.resource import ClaimedResource, Demand
from moorage.workers.placement.karmada.terms import Rules, binding_uid, terms_of
from moorage_schemas.envelope import Meta
from moorage_schemas.keys import BindingKey, TargetKey, binding_key
from moorage_schemas.placement import LeavingTarget, PlacedTarget, PlacementState, WorkloadBound, WorkloadPlaced
from moorage_schemas.refs import TargetKind, TargetRef, WorkloadRef
from moorage_schemas.topics import BINDINGS, PLACEMENTS


@dataclass(slots=True)
class BindingDraft:
    """A decision that is being made."""

    resource: ClaimedResource
    policy: Policy
    demand: Demand
    workload: WorkloadRef
    known: BindingDecision | None
    """The previous decision on the same resource."""

    generation: int
    """The generation of the new decision, if there is one."""

    kept: dict[str, PlacedTarget] = field(default_factory=dict)
    leaving: dict[str, LeavingTarget] = field(default_factory=dict)
    ended: set[str] = field(default_factory=set)
    """Clusters whose binding has ended."""

    stays: dict[str, datetime] = field(default_factory=dict)
    """Clusters that it could not leave and need not leave any longer, with the time of the request to evict it."""

    reason: str = SCHEDULED
    message: str = ""
    left: str = ""
    """A cluster that was left, for the message."""

    placement_key: str = ""
    owner_version: int = 0
    keeps_terms: bool = False
    """Whether the present bindings keep their terms, because a lazy policy has changed and its resource has not."""

    affinity_name: str = ""
    decision: ClusterDecision | None = None
    report_time: datetime | None = None

    @property
    def uid(self) -> str:
        """The uid of the workload."""
        return binding_uid(self.resource)


REFRESH: Final = timedelta(seconds=30)
"""The minimum time between two updates of the counts in a waiting resource's message."""


def cluster_ref(name: str) -> TargetRef:
    """Return the reference of a cluster."""
    return TargetRef(kind=TargetKind.CLUSTER, name=name)


class BindingWriter:
    """Writes the decision on one claimed resource, and its bindings.

    Args:
        partition: the partition that assumes the bindings in the view.
        rules: the settings by which resources leave clusters.
    """

    def __init__(self, partition: object, state: BindingState, rules: Rules, outbox: Outbox) -> None:
        self.state = state
        self.view = state.view
        self.rules = rules
        self.outbox = outbox
        self.owner = ""
        self.at = outbox.now
        """The time of the decision, which is that of its cause."""

        self.flipped = False
        """Whether the resource has started, or stopped, being placed on clusters."""

        self.again: Meta | None = None
        """The cause of checking the resource again; None when that is not necessary."""

        self._partition = partition

    @property
    def now(self) -> datetime:
        """The time of the call."""
        return self.outbox.now

    def begin(self, work: Work) -> None:
        """Begin a piece of work. Its results have its cause."""
        self.owner = work.key
        known, resource = self.state.last.get(work.key), self.state.resources.get(work.key)
        version = resource.version if resource is not None else 0
        self.outbox.begin(work.cause, work.key, version, known.generation if known is not None else 0)
        self.at = self.outbox.cause.time or self.now
        if known is not None:  # causes may arrive out of order, but the times of decisions must not decrease
            self.at = max(self.at, known.decided_time)

    def caused_by(self, meta: Meta) -> None:
        """Set another cause for the records that are written from now on."""
        self.outbox.cause = meta

    def check_again(self) -> None:
        """Request another check of the resource."""
        self.again = self.outbox.cause

    def is_healthy(self, draft: BindingDraft, cluster: str) -> bool:
        """Return whether the workload was reported healthy on a cluster since its binding last changed."""
        bound = self.state.binding(binding_key(draft.workload, cluster_ref(cluster)))
        generation = draft.kept[cluster].binding_generation
        if bound is None or bound.generation != generation:
            return False
        return self.view.healthy_since(draft.workload.key, cluster, bound.bound_time)

    def end(self, known: BindingDecision) -> None:
        """End the placement of a resource that was deleted, or that no policy selects."""
        for name in sorted(known.targets.keys() | known.leaving.keys()):
            self._unbind(WorkloadRef.parse(known.workload), name)
        self._emit_placed(known.workload, None)
        self.flipped = True

    def end_orphans(self, draft: BindingDraft) -> None:
        """End the bindings that belong to no decision. Only the reconciler calls this."""
        wanted = {binding_key(draft.workload, cluster_ref(name)) for name in draft.kept.keys() | draft.leaving.keys()}
        for key in self.view.bindings_of(draft.workload.key):
            if key not in wanted and self.state.binding(key) is not None:
                self._unbind(draft.workload, TargetKey.parse(BindingKey.parse(key).target).name)

    def write(self, draft: BindingDraft, *, repair: bool) -> None:
        """Write a decision and its bindings if they differ from the present ones."""
        changed = self._bindings(draft, repair=repair)
        if not changed and not draft.ended and not self._has_changed(draft, repair=repair):
            return
        first = draft.known is None and self.owner not in self.state.last
        self._emit_placed(draft.workload.key, self._event(draft))
        step = str(draft.generation)
        for event in changed:
            key = binding_key(event.workload, event.target)
            self.view.bindings.assume(key, bound_of(event), by=self._partition)
            self.outbox.put(BINDINGS, key, event.target.key, event, step=step)
        for name in sorted(draft.ended - draft.kept.keys() - draft.leaving.keys()):
            self._unbind(draft.workload, name)
        if first:
            self.flipped = True

    def _bindings(self, draft: BindingDraft, *, repair: bool) -> list[WorkloadBound]:
        """Return the bindings that are new or have changed."""
        found = []
        was = draft.known.targets if draft.known is not None else {}
        for name, one in sorted(draft.kept.items()):
            terms = terms_of(draft.policy, draft.resource, draft.demand, self.rules, one)
            key = binding_key(draft.workload, one.target)
            bound = self.state.binding(key)
            if bound is not None and bound.generation != one.binding_generation:
                bound = None
            new = one.binding_generation == draft.generation
            other = name in was and was[name].replicas != one.replicas
            is_stale = bound is not None and bound.terms != terms and not draft.keeps_terms
            known = bound.kept_time if bound is not None else None
            kept = draft.stays.get(name, known)
            if new or other or kept != known or (repair if bound is None else is_stale):
                more = new or (name in was and was[name].replicas < one.replicas)
                time = self.at if more or bound is None else bound.bound_time
                made = self._bound(draft, one.target, one.binding_generation, terms, time)
                found.append(made if kept is None else made.model_copy(update={"kept_time": kept}))
        for name, leaving in sorted(draft.leaving.items()):
            # One that was being left when it was first seen has no binding yet, from which its eviction follows.
            new = leaving.binding_generation == draft.generation
            if (new or repair) and self.state.binding(binding_key(draft.workload, leaving.target)) is None:
                terms = terms_of(draft.policy, draft.resource, draft.demand, self.rules, leaving)
                found.append(self._bound(draft, cluster_ref(name), leaving.binding_generation, terms, leaving.since))
        return found

    def _bound(
        self, draft: BindingDraft, target: TargetRef, generation: int, terms: Terms, time: datetime
    ) -> WorkloadBound:
        return WorkloadBound(
            workload=draft.workload,
            uid=draft.uid,
            owner=draft.resource.ref,
            target=target,
            generation=generation,
            # The revision grows with the decision's generation, so it need not be stored separately.
            revision=draft.generation - generation + 1,
            tolerations=terms.tolerations,
            requests=dict(terms.requests),
            bound_time=time,
            labels=dict(terms.labels),
            replicas=terms.replicas,
            purge_mode=terms.purge_mode,
            deployer=terms.deployer,
            suspended=terms.suspended,
            preserved=terms.preserved,
        )

    def _has_changed(self, draft: BindingDraft, *, repair: bool) -> bool:
        """Return whether a decision differs from the previous one in a reported value."""
        known = draft.known
        if known is None:
            return True
        before = (known.reason, known.targets, known.leaving, known.policy, known.placement_key, known.affinity_name)
        after = (
            draft.reason,
            draft.kept,
            draft.leaving,
            draft.policy.key,
            draft.placement_key,
            draft.affinity_name,
        )
        if known.owner_version != draft.owner_version:
            return True
        if before != after:
            return True
        if not known.waiting or repair or known.message == draft.message:
            return False
        return known.grounds != _grounds(draft) or self.at - known.decided_time >= REFRESH

    def _event(self, draft: BindingDraft) -> WorkloadPlaced:
        decision, known = draft.decision, draft.known
        waiting = known is not None and known.state is PlacementState.PENDING
        return WorkloadPlaced(
            workload=draft.workload,
            uid=draft.uid,
            owner=draft.resource.ref,
            owner_uid=draft.resource.uid,
            owner_version=draft.owner_version,
            template_hash=draft.placement_key,
            generation=draft.generation,
            state=PlacementState.PLACED if draft.kept else PlacementState.PENDING,
            previous_target=cluster_ref(draft.left) if draft.left else None,
            reason=draft.reason,
            message=draft.message,
            targets_considered=decision.considered if decision is not None else len(self.view.fleet),
            filters=decision.filters if decision is not None else (),
            scores=decision.scores if decision is not None else (),
            decided_time=self.at,
            report_time=draft.report_time or (known.report_time if known is not None and waiting else None),
            targets=tuple(draft.kept[name] for name in sorted(draft.kept)),
            leaving=tuple(draft.leaving[name] for name in sorted(draft.leaving)),
            policy=draft.policy.key,
            affinity_name=draft.affinity_name,
        )

    def _unbind(self, workload: WorkloadRef, cluster: str) -> None:
        target = cluster_ref(cluster)
        key = binding_key(workload, target)
        self.view.bindings.assume(key, None, by=self._partition)
        self.outbox.put(BINDINGS, key, target.key, None)

    def _emit_placed(self, workload: str, event: WorkloadPlaced | None) -> None:
        # One request to leave may cause several decisions: the first one finds no replacement, but a later one does.
        step = str(event.generation) if event is not None else ""
        self.outbox.put(PLACEMENTS, workload, self.owner, event, step=step)


def _grounds(draft: BindingDraft) -> tuple[tuple[str, str], ...]:
    return tuple((one.filter, one.reason) for one in draft.decision.filters) if draft.decision is not None else ()
