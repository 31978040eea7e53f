"""Reconciles one claimed resource: its policy, its clusters, and the clusters that it leaves."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Final

from moorage.decide.scheduling.karmada.mirrored_bindings import CLUSTER_DELETED
from moorage.decide.scheduling.karmada.plugin import ClusterRequest
from moorage.decide.scheduling.karmada.policy_match import Policy
from moorage.decide.scheduling.karmada.scheduler import ClusterDecision, is_steady
from moorage.decide.taints.dialects.karmada import KARMADA
from moorage.decide.taints.eviction_verdict import EvictAt, EvictNow, verdict
from moorage.workers.placement.engine.view_tables import Requested
from moorage.workers.placement.engine.work_queue import Work
from moorage.workers.placement.karmada.binding_state import (
    INVALID,
    NO_REPLACEMENT,
    OTHER_SCHEDULER,
    SCHEDULED,
    UNSCHEDULABLE,
    WAITS_FOR_CHANGE,
    BindingDecision,
)
from moorage.workers.placement.karmada.binding_writer import BindingDraft, BindingWriter, cluster_ref
from moorage.workers.placement.karmada.departure import Departure, decide, depart
from moorage.workers.placement.karmada.resource import ClaimedResource, Demand, MirroredBinding
from moorage.workers.placement.karmada.terms import DIRECTLY, GRACEFULLY, binding_ref
from moorage_schemas.eviction import EvictionDecided
from moorage_schemas.placement import LeavingTarget, PlacedTarget
from moorage_schemas.times import parse_time

_TAKEN_OVER: Final = "TakenOver"
"""The reason of a target that was being left already when a mirrored binding was first seen."""

_REPLACED: Final = "Replaced"
"""The reason of a target that is left because other targets of the placement had to be left."""


def reconcile(writer: BindingWriter, work: Work, demand: Callable[[str], Demand]) -> None:
    """Reconcile the records of a resource with the present state.

    Args:
        writer: writes the decisions.
        work: names the resource.
        demand: returns the replicas and requests of a resource, by its key.
    """
    state = writer.state
    writer.begin(work)
    resource, policy = state.resources.get(work.key), state.policy_for(work.key)
    known = state.last.get(work.key)
    if resource is None or policy is None:
        if known is not None:
            writer.end(known)
        return
    draft = draft_of(writer, resource, policy, known, demand(work.key))
    if work.repair:
        writer.end_orphans(draft)
    _lose(writer, draft, work)
    if resource.mirrored is not None and resource.mirrored.elsewhere:
        _follow(writer, draft, resource.mirrored)
        writer.write(draft, repair=work.repair)
        return
    _finish_leaving(writer, draft)
    if policy.other_scheduler:
        draft.reason, draft.message = OTHER_SCHEDULER, f"it is placed by the scheduler {policy.other_scheduler}"
    elif _waits_for_change(writer, draft):
        _wait(draft)
    elif draft.demand.error:
        draft.reason, draft.message = INVALID, draft.demand.error
    else:
        _place(writer, draft)
    writer.write(draft, repair=work.repair)
    if draft.leaving.keys() - (draft.known.leaving.keys() if draft.known else ()) and _is_replaced(writer, draft):
        # The clusters that stay were reported healthy before, so no report will cause another check.
        writer.check_again()


def draft_of(
    writer: BindingWriter, resource: ClaimedResource, policy: Policy, known: BindingDecision | None, demand: Demand
) -> BindingDraft:
    """Return the present decision, as the beginning of the next one."""
    workload = binding_ref(resource)
    same = known if known is not None and known.owner_uid == resource.uid else None
    draft = BindingDraft(
        resource=resource,
        policy=policy,
        demand=demand,
        workload=workload,
        known=same,
        generation=writer.view.evictions.next_generation(workload.key, known.generation if known else None),
        placement_key=policy.placement_key,
        owner_version=resource.version if policy.lazy and resource.mirrored is None else 0,
    )
    if same is not None:
        draft.kept, draft.leaving = dict(same.targets), dict(same.leaving)
        draft.reason, draft.message, draft.affinity_name = same.reason, same.message, same.affinity_name
    elif known is not None:  # it was created again under its name, so all its bindings end
        draft.ended = set(known.targets) | set(known.leaving)
    if same is None and (mirrored := resource.mirrored) is not None:
        # It continues from its state in its control plane.
        draft.kept, draft.affinity_name = _present_targets(writer, draft, mirrored), mirrored.affinity_name
        if not mirrored.elsewhere:
            draft.leaving = _departing_targets(writer, draft, mirrored)
    return draft


def _present_targets(writer: BindingWriter, draft: BindingDraft, mirrored: MirroredBinding) -> dict[str, PlacedTarget]:
    """Return the clusters of the fleet on which a mirrored binding is placed."""
    clusters = {name: replicas for name, replicas in mirrored.clusters.items() if name in writer.view.fleet}
    return _placed(draft, clusters)


def _placed(draft: BindingDraft, clusters: Mapping[str, int]) -> dict[str, PlacedTarget]:
    """Return clusters with their replicas as targets. Those that the draft has already keep their bindings."""
    before = draft.kept
    return {
        name: PlacedTarget(
            target=cluster_ref(name),
            replicas=replicas,
            binding_generation=before[name].binding_generation if name in before else draft.generation,
        )
        for name, replicas in clusters.items()
    }


def _departing_targets(
    writer: BindingWriter, draft: BindingDraft, mirrored: MirroredBinding
) -> dict[str, LeavingTarget]:
    """Return the clusters of the fleet that a mirrored binding is leaving, for as long as its control plane allows.

    A task that purges directly only keeps the work from returning, and lasts as long as others.
    """
    found: dict[str, LeavingTarget] = {}
    for task in mirrored.tasks:
        name, since = task.from_cluster, task.creation_timestamp or writer.at
        seconds = task.grace_period_seconds
        until = since + (writer.rules.grace_of(draft.policy) if seconds is None else timedelta(seconds=seconds))
        is_ended = task.suppress_deletion is False or (until <= writer.now and bool(draft.kept))
        if is_ended or name in draft.kept or name not in writer.view.fleet:
            continue
        found[name] = LeavingTarget(
            target=cluster_ref(name),
            replicas=task.replicas or 0,
            binding_generation=draft.generation,
            since=since,
            until=until,
            purge_mode=GRACEFULLY,
            reason=_TAKEN_OVER,
        )
    return found


def _waits_for_change(writer: BindingWriter, draft: BindingDraft) -> bool:
    """Return whether a lazy policy is new or has changed, and the resource has not changed since.

    The resource does not wait if it has to leave a cluster, or has lost one. Then the present policy applies.
    """
    known, policy = draft.known, draft.policy
    if not draft.owner_version:
        return False
    if known is None:
        return _is_older(draft.resource, policy)
    draft.keeps_terms = known.owner_version == draft.owner_version
    if not draft.keeps_terms or known.reason == WAITS_FOR_CHANGE:
        return draft.keeps_terms
    has_changed = (known.policy, known.placement_key) != (policy.key, policy.placement_key)
    stays = draft.kept == known.targets and not any(_is_deleted(writer, name) for name in draft.kept)
    return has_changed and stays and not _requested(writer, draft)


def _is_older(resource: ClaimedResource, policy: Policy) -> bool:
    """Return whether a resource was declared before a policy."""
    created: datetime | None = parse_time(resource.created) if resource.created else None
    return created is not None and policy.created is not None and created < policy.created


def _wait(draft: BindingDraft) -> None:
    """Keep the last decision."""
    if draft.known is None or draft.known.reason == WAITS_FOR_CHANGE:
        draft.reason = WAITS_FOR_CHANGE
        draft.message = "the policy is lazy: it applies when the resource changes"
    if draft.known is not None:
        draft.placement_key = draft.known.placement_key


def _follow(writer: BindingWriter, draft: BindingDraft, mirrored: MirroredBinding) -> None:
    """Take over a binding that another scheduler places. It leaves a cluster when its control plane has decided so."""
    draft.ended |= draft.kept.keys() | draft.leaving.keys()
    draft.kept, draft.leaving = _present_targets(writer, draft, mirrored), {}
    draft.reason, draft.message = OTHER_SCHEDULER, mirrored.elsewhere
    draft.affinity_name = mirrored.affinity_name


def _lose(writer: BindingWriter, draft: BindingDraft, work: Work) -> None:
    """Drop the clusters that no longer exist."""
    for name in [
        name for name in (*draft.kept, *draft.leaving) if name not in writer.view.fleet or name == work.removed
    ]:
        draft.kept.pop(name, None)
        draft.leaving.pop(name, None)
        draft.ended.add(name)


def _finish_leaving(writer: BindingWriter, draft: BindingDraft) -> None:
    """End the bindings whose grace period has ended, or all of them when the replacement is healthy.

    While no replacement exists, they stay, unless they are forced to leave without one or the cluster is deleted. Work
    that leaves directly has no grace period: its binding ends when its deployer has acknowledged.
    """
    if not draft.leaving:
        return
    healthy = _is_replaced(writer, draft)
    may_end = _is_whole(draft) or writer.rules.forces(draft.policy)
    for name, one in list(draft.leaving.items()):
        task = writer.view.evictions.requested(draft.workload.key, draft.uid, name, one.binding_generation)
        if one.purge_mode == DIRECTLY:
            is_ended = task is None or not task.waits
        else:
            is_acknowledged = task is not None and task.event.acknowledged is not None
            may_go = may_end or _is_deleted(writer, name)
            is_ended = is_acknowledged or healthy or (may_go and one.until <= writer.now)
        if is_ended:
            del draft.leaving[name]
            draft.ended.add(name)


def _is_whole(draft: BindingDraft) -> bool:
    return draft.reason != UNSCHEDULABLE and bool(draft.kept)


def _is_replaced(writer: BindingWriter, draft: BindingDraft) -> bool:
    """Return whether a resource is placed completely, and healthy on each of its clusters."""
    return _is_whole(draft) and all(writer.is_healthy(draft, name) for name in draft.kept)


def _place(writer: BindingWriter, draft: BindingDraft) -> None:
    """Decide on the clusters of the resource, if a decision is necessary."""
    requested = _requested(writer, draft)
    for name in [name for name, task in requested.items() if not _evicts(writer, draft, task)]:
        # It could not leave, or the request was late. Now it no longer has to leave.
        _stay(draft, name, requested.pop(name).event)
    request = request_of(draft, writer.at if writer.rules.evicts else None)
    departure = (
        depart(writer.view.scheduler, request, requested, forced=writer.rules.forces(draft.policy))
        if requested
        else Departure()
    )
    decision = departure.decision
    if decision is None and _is_open(writer, draft, request, requested):
        decision = decide(writer.view.scheduler, request)
    if decision is not None:
        _take(writer, draft, decision, departure, requested)
    elif draft.reason != UNSCHEDULABLE:
        draft.reason, draft.message = SCHEDULED, ""
    stuck = departure.stuck & draft.kept.keys()
    if stuck:
        draft.decision = draft.decision or departure.failed
        names = ", ".join(cluster_ref(name).key for name in sorted(stuck))
        draft.reason, draft.message = NO_REPLACEMENT, f"stays on {names}, for nothing takes its place: {departure.why}"
        draft.report_time = max((t.event.report_time for t in requested.values() if t.event.report_time), default=None)


def request_of(draft: BindingDraft, now: datetime | None) -> ClusterRequest:
    """Return the request to the scheduler. Without an instant, no tolerated time counts as ended."""
    return ClusterRequest(
        placement=draft.policy.spec.placement,
        key=draft.placement_key,
        api_version=draft.resource.claimable.api_version,
        kind=draft.resource.claimable.kind,
        uid=draft.resource.uid,
        replicas=draft.demand.replicas,
        requests=draft.demand.requests,
        existing=_existing(draft),
        leaving=frozenset(draft.leaving),
        affinity_name=draft.affinity_name,
        now=now,
    )


def _existing(draft: BindingDraft) -> dict[str, int]:
    """Return the replicas of each cluster, in the order of the binding: that of its control plane, or by name."""
    mirrored = draft.resource.mirrored
    order = list(mirrored.clusters) if mirrored is not None else []
    ranks = {name: rank for rank, name in enumerate(order)}
    names = sorted(draft.kept, key=lambda name: (ranks.get(name, len(ranks)), name))
    return {name: draft.kept[name].replicas for name in names}


def _requested(writer: BindingWriter, draft: BindingDraft) -> dict[str, Requested]:
    """Return the clusters that the resource must leave.

    While evictions from clusters are switched off, these are the clusters that requests demand to leave.
    """
    found = {
        name: writer.view.evictions.requested(draft.workload.key, draft.uid, name, one.binding_generation)
        for name, one in draft.kept.items()
    }
    evicts = writer.rules.evicts
    return {
        name: task for name, task in sorted(found.items()) if task is not None and (evicts or task.event.requesters)
    }


def _evicts(writer: BindingWriter, draft: BindingDraft, task: Requested) -> bool:
    """Return whether a requested eviction is still required, by the taints of this view.

    One that requests to leave have caused is, until its record changes.
    """
    event, name = task.event, task.event.target.name
    if not event.taints or event.requesters or writer.view.targets.taint_generation(name) < event.taint_generation:
        return True
    tolerations = tuple(draft.policy.spec.placement.cluster_tolerations or ())
    at = max(writer.at, event.decided_time)  # the cause may be older than the request
    found = verdict(writer.view.fleet[name].taints, tolerations, seen_at=at, dialect=KARMADA)
    return isinstance(found, EvictNow) or (isinstance(found, EvictAt) and found.deadline <= at)


def _stay(draft: BindingDraft, name: str, eviction: EvictionDecided) -> None:
    """Keep a cluster whose eviction is requested.

    What leaves gracefully still runs there, so its eviction is withdrawn. Otherwise its deployer may have removed it:
    a new binding replaces the one that was to end, which ends the eviction.
    """
    if eviction.purge_mode == GRACEFULLY:
        draft.stays[name] = eviction.requested_time or eviction.decided_time
    else:
        draft.kept[name] = draft.kept[name].model_copy(update={"binding_generation": draft.generation})


def _is_open(
    writer: BindingWriter, draft: BindingDraft, request: ClusterRequest, requested: dict[str, Requested]
) -> bool:
    """Return whether a decision is necessary apart from the clusters that the resource must leave."""
    known = draft.known
    if known is None or known.placement_key != draft.placement_key or not is_steady(request):
        return True
    if any(_is_deleted(writer, name) for name in draft.kept):
        return True
    whole = sum(request.existing.values()) == request.replicas
    return not whole or (known.reason not in {SCHEDULED, NO_REPLACEMENT} and not requested)


def _take(
    writer: BindingWriter,
    draft: BindingDraft,
    decision: ClusterDecision,
    departure: Departure,
    requested: dict[str, Requested],
) -> None:
    """Apply a decision to the draft."""
    draft.decision = decision
    before = dict(draft.kept)
    if decision.targets is not None:
        draft.reason, draft.message, draft.affinity_name = SCHEDULED, "", decision.affinity_name
        draft.kept = _placed(draft, decision.targets)
        for name, leaving in list(draft.leaving.items()):
            if name in draft.kept:
                del draft.leaving[name]  # it returns
            elif (
                leaving.purge_mode != DIRECTLY and leaving.until <= writer.now
            ):  # it had no replacement; the new one gets a new grace period
                until = writer.at + writer.rules.grace_of(draft.policy)
                draft.leaving[name] = leaving.model_copy(update={"until": until})
    else:
        # If there is too little room, or there are too few clusters, it stays where it is. It may not stay on a cluster
        # that no longer fits at all.
        draft.reason, draft.message = UNSCHEDULABLE, decision.message
        stay = decision.fits or departure.left
        draft.kept = {
            name: one
            for name, one in before.items()
            if stay and name not in departure.left and not _is_deleted(writer, name)
        }
    dropped = [before[name] for name in sorted(before) if name not in draft.kept]
    leaves = departure.left or any(one.target.name in requested for one in dropped)
    gently = writer.rules.purge_mode_of(draft.policy) != DIRECTLY
    for one in dropped:
        name, task = one.target.name, requested.get(one.target.name)
        if (gently and (leaves or _is_deleted(writer, name))) or (task is not None and task.waits):
            draft.leaving[name] = _leaving(writer, draft, one, task)
        else:
            draft.ended.add(name)
        if task is not None:
            writer.caused_by(task.meta)
            draft.left = draft.left or name
            draft.report_time = task.event.report_time
            if decision.targets is not None:
                draft.message = f"{cluster_ref(name).key} is left: {task.event.message or task.event.reason}"


def _leaving(writer: BindingWriter, draft: BindingDraft, one: PlacedTarget, task: Requested | None) -> LeavingTarget:
    return LeavingTarget(
        target=one.target,
        replicas=one.replicas,
        binding_generation=one.binding_generation,
        since=writer.at,
        until=writer.at + writer.rules.grace_of(draft.policy),
        purge_mode=writer.rules.purge_mode_of(draft.policy),
        reason=task.event.reason if task is not None else _why_left(writer, one),
    )


def _why_left(writer: BindingWriter, one: PlacedTarget) -> str:
    return CLUSTER_DELETED if _is_deleted(writer, one.target.name) else _REPLACED


def _is_deleted(writer: BindingWriter, name: str) -> bool:
    """Return whether a cluster is being deleted, so that nothing may stay there."""
    return name in writer.view.fleet and writer.view.fleet[name].deleted
