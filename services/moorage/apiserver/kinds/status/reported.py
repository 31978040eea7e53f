"""Deployers' reports of a workload on a target, as far as they are about the binding that stands.

A report that was accepted before the workload was bound is about an earlier time there, and does not count for the
present one. The same holds for a report that names another binding. Budgets count by the time (docs/domain.md,
"PodDisruptionBudget").
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from typing_extensions import override

from moorage.apiserver.kinds.status.index import Groups, Index
from moorage.apiserver.kinds.status.records import ObjectId, Records
from moorage.decide.conditions.node_readiness import is_lost
from moorage.runtime.wire.row_reader import with_fields
from moorage_schemas.condition import HEALTHY, ConditionChanged, ConditionStatus, WorkloadConditionChanged
from moorage_schemas.eviction import EvictionDecided, EvictionState
from moorage_schemas.keys import BindingKey, binding_key, eviction_key, workload_condition_key
from moorage_schemas.refs import TargetKind
from moorage_schemas.resource import resource_key
from moorage_schemas.resources.workload_kinds import POD


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
        return _showing(workload, records)


class NodeIndex(Index):
    """The pods that are bound to each node. All of them look different when it is no longer ready, or is again."""

    topics = ("bindings", "conditions", "resources")

    def __init__(self) -> None:
        self.pods = Groups()
        """The keys of the pods, by the key of the node's target."""

    @override
    def changed(self, topic: str, key: str, before: Any, after: Any, records: Records) -> Iterable[ObjectId]:
        if topic == "bindings":
            workload, target = BindingKey.parse(key)
            if workload.startswith(_POD):
                self.pods.keep(target, workload, there=after is not None)
            return ()
        target = turned_node(topic, key, before, after)
        return {shown for pod in self.pods.get(target, ()) for shown in _showing(pod, records)}


def _showing(workload: str, records: Records) -> Iterable[ObjectId]:
    """Return the objects that show what is reported of a workload."""
    shown, placed = ObjectId.of(workload), records.placements.get(workload)
    if placed is None:
        return (shown,)
    owner = ObjectId.of(placed.owner.key)
    return (shown, owner, ObjectId("ReplicaSet", owner.namespace, f"{owner.name}-{placed.template_hash}"))


_POD: Final = f"{POD}/"
_NODE: Final = f"{TargetKind.NODE.value}/"
_READY: Final = "|Ready"
NOT_READY: Final = "NodeNotReady"
"""The reason why a pod is not ready on a node that is not."""


def turned_node(topic: str, key: str, before: Any, after: Any) -> str:
    """Return the node that may no longer be ready, or be so again, by a change of a record. Empty for other changes."""
    if not key.startswith(_NODE):
        return ""
    if topic == "conditions":
        is_turned = key.endswith(_READY) and _identity(before) != _identity(after)
        return key.removesuffix(_READY) if is_turned else ""
    if topic == "resources" and getattr(before, "uid", "") != getattr(after, "uid", ""):  # another one of its name
        return f"{_NODE}{key.rpartition('/')[2]}"
    return ""


def _identity(ready: ConditionChanged | None) -> tuple[bool, str]:
    return (True, ready.target_uid) if ready is not None and _is_lost(ready) else (False, "")


def _is_lost(ready: ConditionChanged | None) -> bool:
    return is_lost(ready.status if ready is not None else None)


def lost_node(records: Records, target: str) -> ConditionChanged | None:
    """Return the condition `Ready` of a node that is not ready. None if it is, if nothing is known, or for clusters."""
    if not target.startswith(_NODE):
        return None
    ready = records.conditions.one(target, "Ready")
    if ready is None or not _is_lost(ready):
        return None
    node = records.resources.get(resource_key(TargetKind.NODE.value, "", target.removeprefix(_NODE)))
    return ready if node is not None and ready.target_uid in {"", node.uid} else None


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
    """Return the condition `Healthy` of a workload since it was bound to a target. None if it is unreported.

    A pod is not healthy on a node that is not ready, whatever was reported of it.
    """
    condition = records.workload_conditions.one(workload, workload_condition_key(workload, target, HEALTHY))
    if condition is None or not _counts(records, workload, target, condition):
        return None
    can_be_lost = workload.startswith(_POD) and condition.status is ConditionStatus.TRUE
    lost = lost_node(records, target) if can_be_lost else None
    if lost is None:
        return condition
    since = max(condition.last_transition_time, lost.last_transition_time)
    return with_fields(
        condition, status=ConditionStatus.FALSE, reason=NOT_READY, message="", last_transition_time=since
    )


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
