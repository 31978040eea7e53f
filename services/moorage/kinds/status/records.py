"""The latest records of the topics, as kinds read them to show an object."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from moorage.kinds.status.managed_index import ManagedIndex
from moorage_schemas.base import Model
from moorage_schemas.budget import BudgetCounted
from moorage_schemas.condition import ConditionChanged, WorkloadConditionChanged
from moorage_schemas.eviction import EvictionDecided
from moorage_schemas.keys import ConditionKey, ResourceKey
from moorage_schemas.placement import WorkloadBound, WorkloadPlaced
from moorage_schemas.resource import ResourceDeclared
from moorage_schemas.resources.dedicated import DedicatedNodes
from moorage_schemas.taint import TargetTainted
from moorage_schemas.timer import SetTimer
from moorage_schemas.topics import BINDINGS, BUDGETS, CONDITIONS, EVICTIONS, PLACEMENTS, TAINTS, TIMERS, ZONES
from moorage_schemas.zone import ZoneChanged

Document = dict[str, Any]


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
        return cls(*ResourceKey.parse(key)[:3])


class Records:
    """The latest record of each key, and what is counted of them."""

    def __init__(self) -> None:
        self.resources: dict[str, ResourceDeclared] = {}
        self.taints: dict[str, TargetTainted] = {}
        self.conditions: dict[str, dict[str, ConditionChanged]] = {}
        """By target key, then by type."""
        self.placements: dict[str, WorkloadPlaced] = {}
        self.bindings: dict[str, WorkloadBound] = {}
        self.evictions: dict[str, EvictionDecided] = {}
        self.held: dict[str, set[str]] = {}
        """The keys of the evictions that are held, by the budget or pause that holds them (`EvictionPause/all`)."""

        self.timers: dict[str, SetTimer] = {}
        self.workload_conditions: dict[str, dict[str, WorkloadConditionChanged]] = {}
        """By workload key, then by record key."""

        self.zones: dict[str, ZoneChanged] = {}
        self.budgets: dict[str, BudgetCounted] = {}
        self.machine_sets: dict[str, str] = {}
        """The record key of each machine set, by its uid."""

        self.machines: dict[str, set[str]] = {}
        """The record keys of the nodes of each machine set, by its uid. Sets that are gone are included."""

        self.ready_machines: dict[str, set[str]] = {}
        """The nodes among them that are ready."""

        self.made_by: dict[str, set[str]] = {}
        """The keys of the placements of each controller, by the controller's key."""

        self.managed = ManagedIndex()
        self.rules: dict[str, DedicatedNodes] = {}
        """The rules for dedicated nodes, by record key."""

        self.origins: dict[ObjectId, str] = {}
        """The record key behind each read-only object."""

        self._views: dict[str, Mapping[str, Model]] = {
            PLACEMENTS.short: self.placements,
            BINDINGS.short: self.bindings,
            EVICTIONS.short: self.evictions,
            TAINTS.short: self.taints,
            TIMERS.short: self.timers,
            ZONES.short: self.zones,
            BUDGETS.short: self.budgets,
        }

    def latest(self, topic: str, key: str) -> Model | None:
        """The latest record of a key, of a topic that views are made of. None if there is none.

        Args:
            topic: the short name of the topic.
            key: of the record.
        """
        if topic == CONDITIONS.short:
            target, condition_type = ConditionKey.parse(key)
            return self.conditions.get(target, {}).get(condition_type)
        return self._views[topic].get(key)

    def node_ready(self, name: str) -> str:
        """The status of the condition `Ready` of a declared node. Empty if nobody has reported it."""
        condition, node = self.conditions.get(f"Node/{name}", {}).get("Ready"), self.resources.get(f"Node//{name}")
        own = condition is not None and node is not None and condition.target_uid in {"", node.uid}
        return condition.status.value if condition is not None and own else ""
