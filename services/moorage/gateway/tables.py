"""The gateway's memory of what is in the topics: the latest record of each key, and which objects a record touches."""

from __future__ import annotations

import contextlib
from typing import NamedTuple

from pydantic import ValidationError

from moorage_schemas.base import Model
from moorage_schemas.condition import ConditionChanged
from moorage_schemas.eviction import EvictionDecided
from moorage_schemas.placement import PlacementState, WorkloadBound, WorkloadPlaced
from moorage_schemas.resource import ResourceDeclared
from moorage_schemas.resources.dedicated import DedicatedNodes
from moorage_schemas.taint import TargetTainted
from moorage_schemas.timer import SetTimer
from moorage_schemas.topics import BINDINGS, CONDITIONS, EVICTIONS, PLACEMENTS, RESOURCES, TAINTS, TIMERS, Topic

READ: tuple[Topic, ...] = (RESOURCES, TAINTS, CONDITIONS, PLACEMENTS, BINDINGS, EVICTIONS, TIMERS)
"""The topics that the gateway reads whole."""


class ObjectId(NamedTuple):
    """Names one object that the API shows."""

    kind: str
    namespace: str
    name: str

    @property
    def key(self) -> str:
        """`Kind/namespace/name`, as in the topic `resources`."""
        return f"{self.kind}/{self.namespace}/{self.name}"

    @classmethod
    def of(cls, key: str) -> ObjectId:
        """The object that a record key of `resources` or `placements` names."""
        kind, _, rest = key.partition("/")
        namespace, _, name = rest.partition("/")
        return cls(kind, namespace, name)


class Tables:
    """The latest record of each key of the topics in `READ`; changed by `apply` alone."""

    topics = READ

    def __init__(self) -> None:
        self.resources: dict[str, ResourceDeclared] = {}
        self.taints: dict[str, TargetTainted] = {}
        self.conditions: dict[str, dict[str, ConditionChanged]] = {}
        """By target key, then by type."""
        self.placements: dict[str, WorkloadPlaced] = {}
        self.bindings: dict[str, WorkloadBound] = {}
        self.evictions: dict[str, EvictionDecided] = {}
        self.timers: dict[str, SetTimer] = {}
        self.made_by: dict[str, set[str]] = {}
        """The keys of the placements of each controller, by the controller's key."""

        self.rules: dict[str, DedicatedNodes] = {}
        """The rules for dedicated nodes, by record key."""

        self.origins: dict[ObjectId, str] = {}
        """The record key behind each read-only object."""

    def apply(self, topic: Topic, key: str, event: Model | None) -> set[ObjectId]:
        """Fold one record in (None is a tombstone) and return the objects that may look different now."""
        return {
            RESOURCES: self._resource,
            TAINTS: self._taints,
            CONDITIONS: self._condition,
            PLACEMENTS: self._placement,
            BINDINGS: self._binding,
            EVICTIONS: self._eviction,
            TIMERS: self._timer,
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
        }

    def evicted_uid(self, object_id: ObjectId) -> str:
        """The uid of the bare pod of that name whose placement says that it was evicted; empty when none was."""
        resource, placed = self.resources.get(object_id.key), self.placements.get(object_id.key)
        if object_id.kind != "Pod" or resource is None or placed is None:
            return ""
        gone = placed.state is PlacementState.EVICTED and placed.uid == resource.uid
        return resource.uid if gone else ""

    def _resource(self, key: str, event: Model | None) -> set[ObjectId]:
        if isinstance(event, ResourceDeclared):
            self.resources[key] = event
        else:
            self.resources.pop(key, None)
        if key.startswith("DedicatedNodes/"):
            self.rules.pop(key, None)
            with contextlib.suppress(ValidationError):  # it was checked when it was declared
                if isinstance(event, ResourceDeclared):
                    self.rules[key] = DedicatedNodes.model_validate(event.object)
        touched = {ObjectId.of(key)}
        touched.update(map(ObjectId.of, self.made_by.get(key, ())))
        return touched

    def _taints(self, key: str, event: Model | None) -> set[ObjectId]:
        before = self.taints.pop(key, None)
        now = event if isinstance(event, TargetTainted) else None
        if now is not None:
            self.taints[key] = now
        touched = {_target_id(key)}
        for tainted in (before, now):
            if tainted is not None:
                touched.update(self._named(taint_id(key, *taint.identity), key) for taint in tainted.taints)
        return touched

    def _named(self, object_id: ObjectId, key: str) -> ObjectId:
        self.origins[object_id] = key
        return object_id

    def _condition(self, key: str, event: Model | None) -> set[ObjectId]:
        target, _, condition_type = key.rpartition("|")
        known = self.conditions.setdefault(target, {})
        if isinstance(event, ConditionChanged):
            known[condition_type] = event
        else:
            known.pop(condition_type, None)
        if not known:
            del self.conditions[target]
        return {_target_id(target), self._named(condition_id(target, condition_type), key)}

    def _placement(self, key: str, event: Model | None) -> set[ObjectId]:
        before = self.placements.pop(key, None)
        now = event if isinstance(event, WorkloadPlaced) else None
        if now is not None:
            self.placements[key] = now
        pod = ObjectId.of(key)
        touched = {pod, self._named(ObjectId("Placement", pod.namespace, placement_name(pod)), key)}
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
        return {self._named(pair_id("Binding", key), key)}

    def _eviction(self, key: str, event: Model | None) -> set[ObjectId]:
        if isinstance(event, EvictionDecided):
            self.evictions[key] = event
        else:
            self.evictions.pop(key, None)
        return {self._named(pair_id("Eviction", key), key)}

    def _timer(self, key: str, event: Model | None) -> set[ObjectId]:
        if isinstance(event, SetTimer):
            self.timers[key] = event
        else:
            self.timers.pop(key, None)
        return {self._named(ObjectId("Timer", "", key.replace("/", "~")), key)}


def _target_id(key: str) -> ObjectId:
    kind, _, name = key.partition("/")
    return ObjectId(kind, "", name)


def target_prefix(target: str) -> str:
    """The first part of the name of an object about a target: `node.n1`."""
    kind, _, name = target.partition("/")
    return f"{kind.lower()}.{name}"


def taint_id(target: str, key: str, effect: str) -> ObjectId:
    """The read-only object of one taint, such as `node.n1:NoExecute:key1`; a `/` becomes `~`."""
    return ObjectId("Taint", "", f"{target_prefix(target)}:{effect}:{key}".replace("/", "~"))


def condition_id(target: str, condition_type: str) -> ObjectId:
    """The read-only object of one condition, such as `node.n1:Ready`; a `/` becomes `~`."""
    return ObjectId("Condition", "", f"{target_prefix(target)}:{condition_type}".replace("/", "~"))


def placement_name(workload: ObjectId) -> str:
    """The name of a placement: the pod's; of another kind of workload with the kind before it."""
    return workload.name if workload.kind == "Pod" else f"{workload.kind.lower()}:{workload.name}"


def pair_id(kind: str, key: str) -> ObjectId:
    """The read-only object of a binding or an eviction, by its record key.

    `Pod/default/web-0|Node/n1|3` is `web-0:node.n1:3` in the namespace `default`.
    """
    workload, target, *rest = key.split("|")
    pod = ObjectId.of(workload)
    return ObjectId(kind, pod.namespace, ":".join([placement_name(pod), target_prefix(target), *rest]))
