"""The gateway's tables: the latest record of each key of the topics, and which objects a record changes."""

from __future__ import annotations

import contextlib

from pydantic import ValidationError

from moorage.core.admission import machine_sets
from moorage.kinds.kind import View, discovered
from moorage.kinds.status.managed_index import CLUSTER
from moorage.kinds.status.records import ObjectId, Records
from moorage_schemas.base import Model
from moorage_schemas.budget import BudgetCounted
from moorage_schemas.condition import ConditionChanged, ConditionStatus, WorkloadConditionChanged
from moorage_schemas.eviction import EvictionDecided, EvictionState
from moorage_schemas.keys import BindingKey, ConditionKey, TargetKey
from moorage_schemas.placement import PlacementState, WorkloadBound, WorkloadPlaced
from moorage_schemas.resource import ResourceDeclared
from moorage_schemas.resources.dedicated import DedicatedNodes
from moorage_schemas.taint import TargetTainted
from moorage_schemas.timer import SetTimer
from moorage_schemas.topics import (
    BINDINGS,
    BUDGETS,
    CONDITIONS,
    EVICTIONS,
    PLACEMENTS,
    RESOURCES,
    TAINTS,
    TIMERS,
    WORKLOAD_CONDITIONS,
    ZONES,
    Topic,
)
from moorage_schemas.zone import ZoneChanged

READ: tuple[Topic, ...] = (
    RESOURCES,
    TAINTS,
    CONDITIONS,
    PLACEMENTS,
    BINDINGS,
    EVICTIONS,
    TIMERS,
    WORKLOAD_CONDITIONS,
    ZONES,
    BUDGETS,
)
"""The topics that the gateway reads whole."""


_PAUSE = "EvictionPause"
_POLICIES = ("PropagationPolicy/", "ClusterPropagationPolicy/")


class Tables(Records):
    """The latest record of each key of the topics in `READ`. Only `apply` changes it."""

    topics = READ

    def __init__(self) -> None:
        super().__init__()
        self.unsettled: set[str] = set()
        """The uids of machine sets that something has changed about. Whoever settles them clears it."""

        self._made_from: dict[str, list[View]] = {}
        for kind in discovered():
            if isinstance(kind, View) and kind.made_from:
                self._made_from.setdefault(kind.made_from, []).append(kind)

    def apply(self, topic: Topic, key: str, event: Model | None) -> set[ObjectId]:
        """Fold one record in, and return the objects that may look different now. An event of None is a tombstone."""
        views = self._made_from.get(topic.short, ())
        before = self.latest(topic.short, key) if views else None
        touched = self._folded(topic, key, event)
        for view in views:
            for record in (event,) if before is None else (before, event):
                for object_id in view.objects(key, record):
                    self.origins[object_id] = key
                    touched.add(object_id)
        return touched

    def _folded(self, topic: Topic, key: str, event: Model | None) -> set[ObjectId]:
        return {
            RESOURCES: self._resource,
            TAINTS: self._taints,
            CONDITIONS: self._condition,
            PLACEMENTS: self._placement,
            BINDINGS: self._binding,
            EVICTIONS: self._eviction,
            TIMERS: self._timer,
            WORKLOAD_CONDITIONS: self._workload_condition,
            ZONES: self._zone,
            BUDGETS: self._budget,
        }[topic](key, event)

    def sizes(self) -> dict[str, int]:
        """Records of each table, by the topic's short name."""
        return {
            RESOURCES.short: len(self.resources),
            TAINTS.short: len(self.taints),
            CONDITIONS.short: sum(map(len, self.conditions.values())),
            PLACEMENTS.short: len(self.placements),
            BINDINGS.short: len(self.bindings),
            EVICTIONS.short: len(self.evictions),
            TIMERS.short: len(self.timers),
            WORKLOAD_CONDITIONS.short: sum(map(len, self.workload_conditions.values())),
            ZONES.short: len(self.zones),
            BUDGETS.short: len(self.budgets),
        }

    def evicted_uid(self, object_id: ObjectId) -> str:
        """The uid of the bare pod of that name if its placement says that it was evicted. Empty otherwise."""
        resource, placed = self.resources.get(object_id.key), self.placements.get(object_id.key)
        if object_id.kind != "Pod" or resource is None or placed is None:
            return ""
        gone = placed.state is PlacementState.EVICTED and placed.uid == resource.uid
        return resource.uid if gone else ""

    def _resource(self, key: str, event: Model | None) -> set[ObjectId]:
        before = self.resources.get(key)
        if isinstance(event, ResourceDeclared):
            self.resources[key] = event
        else:
            self.resources.pop(key, None)
        owners = self._machine(key, before, self.resources.get(key))
        if key.startswith("DedicatedNodes/"):
            self.rules.pop(key, None)
            with contextlib.suppress(ValidationError):  # it was checked when it was declared
                if isinstance(event, ResourceDeclared):
                    self.rules[key] = DedicatedNodes.model_validate(event.object)
        # Only of a target has its record of taints a key like this.
        managed = self.managed.resource(key, self.resources.get(key), self.taints.get(key.replace("//", "/", 1)))
        touched = {ObjectId.of(key), *owners, *(ObjectId(*name) for name in managed)}
        if key.startswith(_POLICIES):
            touched.update(ObjectId.of(name) for name, placed in self.placements.items() if placed.policy == key)
        touched.update(map(ObjectId.of, self.made_by.get(key, ())))
        return touched

    def _machine(self, key: str, before: ResourceDeclared | None, now: ResourceDeclared | None) -> set[ObjectId]:
        """Record which machine set made which node, and return the machine sets that look different now."""
        if key.startswith(f"{machine_sets.KIND}/"):
            for declared in (before, now):
                if declared is not None:
                    self.machine_sets.pop(declared.uid, None)
                    self.unsettled.add(declared.uid)
            if now is not None:
                self.machine_sets[now.uid] = key
            return set()
        if not key.startswith("Node/"):
            return set()
        touched = set()
        old, new = (
            machine_sets.owner_uid(declared.object) if declared is not None else "" for declared in (before, now)
        )
        if old and old != new:
            _drop(self.machines, old, key)
            _drop(self.ready_machines, old, key)
        if new:
            self.machines.setdefault(new, set()).add(key)
            self._count_ready(new, key)
        for uid in {old, new} - {""}:
            self.unsettled.add(uid)
            touched.update(self.machine_set(uid))
        return touched

    def _count_ready(self, uid: str, key: str) -> bool:
        """Record whether a node of a machine set is ready, and return whether that has changed."""
        before = key in self.ready_machines.get(uid, ())
        now = self.node_ready(ObjectId.of(key).name) == ConditionStatus.TRUE
        if now:
            self.ready_machines.setdefault(uid, set()).add(key)
        else:
            _drop(self.ready_machines, uid, key)
        return now != before

    def machine_set(self, uid: str) -> set[ObjectId]:
        """The machine set of a uid, in a set that is empty if there is none."""
        key = self.machine_sets.get(uid)
        return {ObjectId.of(key)} if key is not None else set()

    def _taints(self, key: str, event: Model | None) -> set[ObjectId]:
        self.taints.pop(key, None)
        now = event if isinstance(event, TargetTainted) else None
        if now is not None:
            self.taints[key] = now
        touched = {_target_id(key)}
        if key.startswith(f"{CLUSTER}/"):
            cluster = key.removeprefix(f"{CLUSTER}/")
            found = self.managed.cluster(cluster, self.resources.get(f"{CLUSTER}//{cluster}"), now)
            touched.update(ObjectId(*name) for name in found)
        return touched

    def _condition(self, key: str, event: Model | None) -> set[ObjectId]:
        target, condition_type = ConditionKey.parse(key)
        known = self.conditions.setdefault(target, {})
        if isinstance(event, ConditionChanged):
            known[condition_type] = event
        else:
            known.pop(condition_type, None)
        if not known:
            del self.conditions[target]
        touched = {_target_id(target)}
        node = self.resources.get(_target_id(target).key) if condition_type == "Ready" else None
        if node is not None and (uid := machine_sets.owner_uid(node.object)) and self._count_ready(uid, node.key):
            touched |= self.machine_set(uid)
        return touched

    def _placement(self, key: str, event: Model | None) -> set[ObjectId]:
        before = self.placements.pop(key, None)
        now = event if isinstance(event, WorkloadPlaced) else None
        if now is not None:
            self.placements[key] = now
        touched = {ObjectId.of(key)}
        if before is not None and before.owner != before.workload:
            made = self.made_by.get(before.owner.key, set())
            made.discard(key)
            if not made:
                self.made_by.pop(before.owner.key, None)
            touched.add(ObjectId.of(before.owner.key))
        if now is not None and now.owner != now.workload:
            self.made_by.setdefault(now.owner.key, set()).add(key)
            touched.add(ObjectId.of(now.owner.key))
        return touched

    def _binding(self, key: str, event: Model | None) -> set[ObjectId]:
        if isinstance(event, WorkloadBound):
            self.bindings[key] = event
        else:
            self.bindings.pop(key, None)
        return self._with_reports(BindingKey.parse(key).workload)

    def _with_reports(self, workload: str) -> set[ObjectId]:
        """A workload that deployers have reported, and its owner: what counts of the reports depends on its binding."""
        if workload not in self.workload_conditions:
            return set()
        placed = self.placements.get(workload)
        return {ObjectId.of(workload), *({ObjectId.of(placed.owner.key)} if placed is not None else ())}

    def _eviction(self, key: str, event: Model | None) -> set[ObjectId]:
        before = self.evictions.pop(key, None)
        now = event if isinstance(event, EvictionDecided) else None
        if now is not None:
            self.evictions[key] = now
        old, new = (
            frozenset(one.held_by) if one is not None and one.state is EvictionState.HELD else frozenset()
            for one in (before, now)
        )
        for pause in old - new:
            _drop(self.held, pause, key)
        for pause in new - old:
            self.held.setdefault(pause, set()).add(key)
        return {ObjectId(_PAUSE, "", TargetKey.parse(by).name) for by in old ^ new if by.startswith(f"{_PAUSE}/")}

    def _workload_condition(self, key: str, event: Model | None) -> set[ObjectId]:
        workload = BindingKey.parse(key).workload
        known = self.workload_conditions.setdefault(workload, {})
        if isinstance(event, WorkloadConditionChanged):
            known[key] = event
        else:
            known.pop(key, None)
        touched = self._with_reports(workload)
        if not known:
            del self.workload_conditions[workload]
        return touched

    def _zone(self, key: str, event: Model | None) -> set[ObjectId]:
        if isinstance(event, ZoneChanged):
            self.zones[key] = event
        else:
            self.zones.pop(key, None)
        return set()

    def _budget(self, key: str, event: Model | None) -> set[ObjectId]:
        if isinstance(event, BudgetCounted):
            self.budgets[key] = event
        else:
            self.budgets.pop(key, None)
        return {ObjectId.of(key)} if "/" in key else set()

    def _timer(self, key: str, event: Model | None) -> set[ObjectId]:
        if isinstance(event, SetTimer):
            self.timers[key] = event
        else:
            self.timers.pop(key, None)
        return set()


def _drop(sets: dict[str, set[str]], name: str, item: str) -> None:
    """Take an item out of a set of sets, and the set with its last one."""
    found = sets.get(name, set())
    found.discard(item)
    if not found:
        sets.pop(name, None)


def _target_id(key: str) -> ObjectId:
    return ObjectId(TargetKey.parse(key).kind, "", TargetKey.parse(key).name)
