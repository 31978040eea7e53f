"""Deployers' reports of a workload on a target, as far as they are about the binding that stands.

A report that was accepted before the workload was bound is about an earlier time there, and does not count for the
present one. The same holds for a report that names another binding. Budgets count by the time (docs/domain.md,
"PodDisruptionBudget").
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from typing_extensions import override

from moorage.apiserver.kinds.status.index import Index
from moorage.apiserver.kinds.status.records import ObjectId, Records
from moorage_schemas.condition import HEALTHY, ConditionStatus, WorkloadConditionChanged
from moorage_schemas.eviction import EvictionDecided, EvictionState
from moorage_schemas.keys import BindingKey, binding_key, eviction_key, workload_condition_key


class ReportIndex(Index):
    """Which objects show what deployers report. What counts of the reports depends on the binding."""

    topics = ("workload-conditions", "bindings", "evictions")

    @override
    def changed(self, topic: str, key: str, before: Any, after: Any, records: Records) -> Iterable[ObjectId]:
        workload = BindingKey.parse(key).workload
        if topic == "evictions":
            is_shown = any(one is not None and _stops(one) for one in (before, after))
            return (ObjectId.of(workload),) if is_shown else ()
        if topic == "bindings" and workload not in records.workload_conditions:
            return ()
        shown, placed = ObjectId.of(workload), records.placements.get(workload)
        if placed is None:
            return (shown,)
        owner = ObjectId.of(placed.owner.key)
        return (shown, owner, ObjectId("ReplicaSet", owner.namespace, f"{owner.name}-{placed.template_hash}"))


def reports(records: Records, workload: str, target: str) -> list[WorkloadConditionChanged]:
    """Return the conditions of a workload on a target since it was bound there, by type. None while it is not bound."""
    return [
        condition
        for _, condition in sorted(records.workload_conditions.group(workload).items())
        if condition.target.key == target and _counts(records, workload, target, condition)
    ]


def health(records: Records, workload: str, target: str) -> ConditionStatus | None:
    """Return the status of `health_report`."""
    condition = health_report(records, workload, target)
    return condition.status if condition is not None else None


def health_report(records: Records, workload: str, target: str) -> WorkloadConditionChanged | None:
    """Return the condition `Healthy` of a workload since it was bound to a target. None if it is unreported."""
    condition = records.workload_conditions.one(workload, workload_condition_key(workload, target, HEALTHY))
    return condition if condition is not None and _counts(records, workload, target, condition) else None


def stopped_by(records: Records, workload: str, target: str) -> EvictionDecided | None:
    """Return the eviction because of which a workload is being stopped, while its binding waits for its deployer."""
    bound = records.bindings.get(binding_key(workload, target))
    if bound is None:
        return None
    eviction = records.evictions.get(eviction_key(workload, target, bound.generation))
    same = eviction is not None and eviction.workload_uid == bound.uid
    return eviction if eviction is not None and same and _stops(eviction) else None


def _stops(eviction: EvictionDecided) -> bool:
    return eviction.state is EvictionState.REQUESTED and bool(eviction.deployer)


def _counts(records: Records, workload: str, target: str, condition: WorkloadConditionChanged) -> bool:
    bound = records.bindings.get(binding_key(workload, target))
    if bound is None or (condition.accepted_time or condition.last_heartbeat_time) < bound.bound_time:
        return False
    named = (condition.workload_uid, condition.binding_generation)
    return not condition.binding_generation or named == (bound.uid, bound.generation)
