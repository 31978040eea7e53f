"""Targets: their taints, the bindings on them, and what the taints demand of each binding."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from sys import intern
from typing import Any, Final

from msgspec import Struct

from moorage.decide.disruption.eviction_transitions import Occasion, Urgency
from moorage.decide.disruption.leave_verdict import (
    Demand,
    LeaveRequest,
    counting,
    deadline_of_demand,
    demanded,
    is_at_once,
    requesters_of,
    taints_of,
)
from moorage.decide.taints.dialects.karmada import KARMADA
from moorage.decide.taints.dialects.kubernetes import KUBERNETES, EffectRules, is_out_of_service
from moorage.decide.taints.eviction_verdict import Keep, Verdict, verdict
from moorage.workers.eviction.check import EvictionCheck
from moorage.workers.eviction.eviction_task import (
    PLAIN,
    Binding,
    BoundTarget,
    DeployerReport,
    Task,
    Tolerations,
    Traits,
)
from moorage.workers.eviction.state import EvictionPartition
from moorage_schemas.eviction import EvictionState
from moorage_schemas.keys import LeaveKey, TargetKey
from moorage_schemas.leave_request import LeaveRequested
from moorage_schemas.placement import WorkloadBound
from moorage_schemas.refs import TargetKind
from moorage_schemas.taint import TargetTainted

_NODES_ONLY: Final[Mapping[str, EffectRules]] = {TargetKind.NODE.value: KUBERNETES}
"""The dialects whose taints evict, by the target's kind, when evictions from clusters are switched off."""

_WITH_CLUSTERS: Final[Mapping[str, EffectRules]] = {**_NODES_ONLY, TargetKind.CLUSTER.value: KARMADA}
"""The same when they are switched on."""


def fold_taints(state: EvictionPartition, key: str, event: TargetTainted | None) -> None:
    """Fold in the taints of a target."""
    if event is None:
        if (target := state.targets.get(key)) is not None:
            target.uid, target.generation, target.taints, target.zone = "", 0, (), ""
            target.settles_at, target.is_out_of_service = None, False
            state.tidy(key, target)
        return
    target = state.targets.setdefault(key, BoundTarget())
    if not newer_taints(event, target):
        return
    target.uid = event.target_uid
    target.generation = event.generation
    target.zone = intern(event.zone)
    target.settles_at = event.settles_at
    dialect = _WITH_CLUSTERS.get(event.target.kind.value)  # the switch may be turned on later
    evicting = dialect.evicting if dialect is not None else frozenset()
    target.taints = tuple(record.as_taint() for record in event.taints if record.effect in evicting)
    target.is_out_of_service = event.target.kind is TargetKind.NODE and is_out_of_service(
        record.key for record in event.taints
    )


def fold_leave(state: EvictionPartition, key: str, event: LeaveRequested | None) -> tuple[str, str]:
    """Fold in a request to leave. Return the keys of its target and its workload.

    A request about a binding that has not been read yet is kept: the topics have no order.
    """
    workload, target, requester = LeaveKey.parse(key)
    if event is not None:
        request = LeaveRequest(event.workload_uid, event.generation, event.requester, event.message, event.deadline)
        state.leaves.setdefault(target, {}).setdefault(workload, {})[requester] = request
        return target, workload
    if (found := state.leaves.get(target)) is not None and (requests := found.get(workload)) is not None:
        requests.pop(requester, None)
        if not requests:
            del found[workload]
        if not found:
            del state.leaves[target]
    return target, workload


def fold_binding(state: EvictionPartition, key: str, event: Any) -> None:
    """Fold in a binding.

    Args:
        state: the state of the partition.
        key: the key of the record.
        event: the event or its row, which has the same fields; None for a tombstone.
    """
    if event is not None:
        found = event.tolerations  # rows with equal tolerations share them already
        _bind(state, key, event, found if isinstance(event, Struct) else _pooled(state, found))
        return
    workload, _, target_key = key.partition("|")
    if (target := state.targets.get(target_key)) is not None:
        known = target.bindings.pop(workload, None)
        if known is not None and known.deployer and not known.traits.deployer:
            # The same binding may be written again to repair it. The binding of a mirrored workload names its deployer
            # itself.
            target.early[workload] = DeployerReport(known.uid, known.generation, known.deployer)
        state.tidy(target_key, target)


def _bind(state: EvictionPartition, key: str, event: WorkloadBound, tolerations: Tolerations) -> None:
    """Fold in a binding that has not ended. This runs for every binding of a restore."""
    workload, _, target_key = key.partition("|")
    target = state.targets.get(target_key)
    if target is None:
        target = state.targets[target_key] = BoundTarget()
    known = target.bindings.get(workload)
    if known is None or newer_binding(event, known):
        owner = event.owner.key
        deployer = known.deployer if known is not None and _is_same(event, known) else ""
        if target.early and (early := target.early.get(workload)) is not None:
            deployer = early.source if _is_same(event, early) else ""
            if event.uid == early.uid and event.generation >= early.generation:
                del target.early[workload]  # it is about this or an earlier binding
        traits = _traits(state, event) if event.labels or event.purge_mode or event.deployer else PLAIN
        target.bindings[workload] = Binding(
            event.uid,
            "" if owner == workload else intern(owner),
            event.generation,
            event.revision,
            tolerations,
            traits,
            traits.deployer or deployer,
            event.kept_time,
        )


def _pooled(state: EvictionPartition, tolerations: Tolerations) -> Tolerations:
    key = tuple([(t.key, t.operator, t.value, t.effect, t.toleration_seconds) for t in tolerations])
    return state.pool.shared(key, tolerations)


def _traits(state: EvictionPartition, event: WorkloadBound) -> Traits:
    traits = Traits(event.labels, event.purge_mode, event.deployer)
    return state.traits.shared((event.purge_mode, event.deployer, *event.labels.items()), traits)


def newer_taints(event: TargetTainted, known: BoundTarget) -> bool:
    """Return whether a set of taints supersedes the kept one."""
    return known.generation == 0 or known.uid != event.target_uid or event.generation > known.generation


def newer_binding(event: WorkloadBound, known: Binding | None) -> bool:
    """Return whether a binding supersedes the kept one.

    A workload that was created again under its name begins with new generations. The tombstone in between may have been
    compacted away.
    """
    if known is None or known.uid != event.uid:
        return True
    return (event.generation, event.revision) > (known.generation, known.revision)


def _is_same(event: WorkloadBound, known: Binding | DeployerReport) -> bool:
    """Return whether both concern the same binding."""
    return (event.uid, event.generation) == (known.uid, known.generation)


def urgency_of(it: EvictionCheck) -> Urgency:
    """Return what taints and requests demand of the binding at the time of the check."""
    by_taints = _judged(it)
    found: Demand = by_taints
    if it.state.leaves and it.binding is not None and (leaves := _leaves_of(it.state, it.place)):
        found = demanded(by_taints, counting(leaves.values(), it.binding.uid, it.binding.generation))
    it.verdict = found
    task = it.task
    if task is not None and task.state is EvictionState.REQUESTED:
        return _urgency_again(found, task)
    if is_due(found, task, it.due):
        return Urgency.DUE
    deadline = deadline_of_demand(found)
    if deadline is None:
        return Urgency.KEEP
    if it.occasion is Occasion.SWEEP and deadline <= it.time:
        return Urgency.GRACE
    is_scheduled = (
        task is not None
        and task.state is EvictionState.SCHEDULED
        and task.deadline == deadline
        and [one.identity for one in task.taints] == [one.identity for one in taints_of(found)]
        and task.requesters == requesters_of(found)
    )
    return Urgency.AS_SCHEDULED if is_scheduled else Urgency.LATER


def _judged(it: EvictionCheck) -> Verdict:
    """Return the verdict of the target's taints on the binding's tolerations."""
    tolerations = it.binding.tolerations if it.binding is not None else ()
    key = (it.target, id(tolerations))
    if (known := it.verdicts.get(key)) is None:
        dialect = (_WITH_CLUSTERS if it.state.rules.value.clusters else _NODES_ONLY).get(
            TargetKey.parse(it.target).kind
        )
        known = it.verdicts[key] = (
            Keep((), "nothing leaves targets of this kind")
            if dialect is None
            else verdict(it.bound.taints, tolerations, seen_at=it.time, dialect=dialect)
        )
    return known


def _leaves_of(state: EvictionPartition, place: tuple[str, str]) -> Mapping[str, LeaveRequest] | None:
    """Return the requests that a workload leaves a target, by their requesters; None if there are none."""
    found = state.leaves.get(place[0])
    return found.get(place[1]) if found is not None else None


def _urgency_again(found: Demand, task: Task) -> Urgency:
    """Return what is demanded of work whose eviction is requested. That its time has passed ends no demand."""
    if isinstance(found, Keep):
        return Urgency.KEEP
    if is_at_once(found):
        return Urgency.DUE
    demands = {(one.identity, one.time_added) for one in task.taints}
    is_same = any((one.identity, one.time_added) in demands for one in taints_of(found))
    return Urgency.DUE if is_same or set(task.requesters) & set(requesters_of(found)) else Urgency.LATER


def is_due(found: Demand, task: Task | None, time: datetime) -> bool:
    """Return whether an eviction has come due. A held one has, unless its deadline has been moved since."""
    deadline = deadline_of_demand(found)
    if deadline is None:
        return is_at_once(found)
    held_at = task.deadline if task is not None and task.state is EvictionState.HELD else None
    return deadline <= (time if held_at is None else max(time, held_at))
