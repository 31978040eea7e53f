"""The objects that the API shows: declared ones merged with what the services decided, and read-only views."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from moorage.core.apimachinery.unstructured import part
from moorage.core.taints.desired.reconcile import next_taints
from moorage.gateway.kinds import BINDING_KIND, DECISION_KIND, PLACED_KIND, VIEW_API_VERSION, is_view
from moorage.gateway.ocm_index import CLUSTER, SET
from moorage.gateway.tables import ObjectId, Tables, taint_id
from moorage.gateway.views import ocm, pods, reported, resource_bindings, status
from moorage_schemas.base import Model
from moorage_schemas.condition import ConditionChanged, ConditionStatus
from moorage_schemas.keys import ConditionKey
from moorage_schemas.placement import WorkloadPlaced
from moorage_schemas.refs import TargetKind, TargetRef
from moorage_schemas.resource import ResourceDeclared
from moorage_schemas.resources.managed import BUILT_IN_SETS
from moorage_schemas.taint import TargetTainted
from moorage_schemas.times import format_time, parse_time

Document = dict[str, Any]

_TARGETS = frozenset(kind.value for kind in TargetKind)
_CONTROLLERS = frozenset({"Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "Job"})
COUNTED = _CONTROLLERS | {"MachineSet", "EvictionPause", SET}
"""Kinds whose status counts what they have made, or hold."""

DEFAULT_NAMESPACE = "default"
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
"""Stands for the time of what was written without one."""


class Views:
    """Builds objects from tables; holds nothing itself."""

    def __init__(self, tables: Tables, expand: pods.Expand = pods.expand) -> None:
        self._tables = tables
        self._expand = expand

    def build(self, object_id: ObjectId) -> Document | None:
        """The object as it is now, without a resource version; None when there is none."""
        if object_id.kind in {BINDING_KIND, DECISION_KIND}:
            return self._decided(object_id)
        if is_view(object_id.kind):
            return self._view(object_id)
        resource = self._tables.resources.get(object_id.key)
        if object_id.kind == "Pod":
            return self._pod(object_id, resource)
        if resource is not None:
            return self._declared(object_id, resource)
        return self._always(object_id)

    def _decided(self, object_id: ObjectId) -> Document | None:
        placed = self._tables.placements.get(object_id.key)
        if placed is None:
            return None
        if object_id.kind == DECISION_KIND:
            return ocm.placement_decision(placed)
        return resource_bindings.resource_binding(placed, self._tables)

    def _always(self, object_id: ObjectId) -> Document | None:
        """What is there though nobody has declared it."""
        if object_id in BUILT_IN_SET_IDS:
            status = ocm.set_status(object_id.name, self._tables.managed)
            return {**ocm.built_in_set(object_id.name), "status": status}
        return default_namespace() if object_id == DEFAULT_NAMESPACE_ID else None

    def _declared(self, object_id: ObjectId, resource: ResourceDeclared) -> Document:
        if object_id.kind in _TARGETS:
            return self._target(resource)
        status = self._status(object_id, resource)
        return {**resource.object, **({"status": status} if status is not None else {})}

    def _status(self, object_id: ObjectId, resource: ResourceDeclared) -> Document | None:
        """What is counted of an object; None where nothing is."""
        kind = object_id.kind
        if kind in _CONTROLLERS:
            made = [self._tables.placements[key] for key in self._tables.made_by.get(object_id.key, ())]
            return pods.controller_status(resource, made, self._healthy)
        if kind == "Namespace":
            return {"phase": "Active"}
        if kind == "MachineSet":
            return status.machine_set_status(resource, self._tables)
        if kind in {"EvictionPause", "EvictionBudget", "PodDisruptionBudget"}:
            return self._guard_status(object_id, resource)
        return ocm.status(object_id.key, resource, self._tables, self._tables.managed)

    def _guard_status(self, object_id: ObjectId, resource: ResourceDeclared) -> Document | None:
        kind = object_id.kind
        if kind == "EvictionPause":
            return {"held": len(self._tables.held.get(f"{kind}/{object_id.name}", ()))}
        counted = self._tables.budgets.get(object_id.key)
        if kind == "PodDisruptionBudget":
            return status.disruption_budget_status(resource, counted)
        return status.eviction_budget_status(counted) if counted is not None else None

    def _healthy(self, placed: WorkloadPlaced, target: TargetRef) -> bool:
        return reported.health(self._tables, placed.workload.key, target.key) is ConditionStatus.TRUE

    def taints(self, resource: ResourceDeclared) -> TargetTainted | None:
        """The taints of a target with the wishes that the taint-manager has not answered yet worked in.

        Of a managed cluster on which it has said nothing yet, those that placements go by meanwhile: it is unreachable.
        """
        key = f"{resource.kind}/{resource.name}"
        current = self._tables.taints.get(key)
        if current is not None and current.target_uid not in {"", resource.uid}:
            current = None
        applied = current.wishes_applied if current is not None else 0
        pending = [wish.time for wish in resource.wishes if wish.generation > applied]
        conditions = self._tables.conditions.get(key, {})
        if current is None and resource.kind == CLUSTER:
            conditions, pending = {}, [*pending, _created(resource)]
        if not pending:
            return current
        return next_taints(current, resource, conditions, max(pending)) or current

    def _pod(self, object_id: ObjectId, resource: ResourceDeclared | None) -> Document | None:
        pod = self._bare_or_made(object_id, resource)
        node = (pod.get("spec") or {}).get("nodeName") if pod is not None else None
        if pod is None or not node:
            return pod
        found = reported.reports(self._tables, object_id.key, f"{TargetKind.NODE.value}/{node}")
        return pods.with_reports(pod, found) if found else pod

    def _bare_or_made(self, object_id: ObjectId, resource: ResourceDeclared | None) -> Document | None:
        placed = self._tables.placements.get(object_id.key)
        if resource is not None:
            return pods.declared_pod(resource, placed)
        if placed is None or placed.owner == placed.workload:
            return None
        owner = self._tables.resources.get(placed.owner.key)
        return pods.made_pod(placed, owner, list(self._tables.rules.values()), self._expand)

    def _target(self, resource: ResourceDeclared) -> Document:
        spec = {key: value for key, value in (resource.object.get("spec") or {}).items() if key != "taints"}
        tainted = self.taints(resource)
        if tainted is not None and tainted.taints:
            spec["taints"] = [
                {
                    "key": taint.key,
                    **({"value": taint.value} if taint.value else {}),
                    "effect": taint.effect,
                    "timeAdded": format_time(taint.time_added),
                }
                for taint in tainted.taints
            ]
        found = resource.object
        if resource.kind == CLUSTER:
            found = ocm.with_labels(found, resource, self._tables.taints.get(f"{resource.kind}/{resource.name}"))
        status = dict(found.get("status") or {})
        known = self._tables.conditions.get(f"{resource.kind}/{resource.name}", {})
        shown = [
            _condition(condition)
            for _, condition in sorted(known.items())
            if condition.target_uid in {"", resource.uid}
        ]
        if shown:
            status["conditions"] = shown
        if tainted is not None and tainted.held:
            status["heldTaints"] = [held.model_dump(mode="json") for held in tainted.held]
        return {**found, "spec": spec, **({"status": status} if status else {})}

    def _view(self, object_id: ObjectId) -> Document | None:
        key = self._tables.origins.get(object_id)
        if key is None:
            return None
        if object_id.kind == "Taint":
            return self._taint(object_id, key)
        if object_id.kind == "Zone":
            zone = self._tables.zones.get(key)
            shown = None if zone is None else status.zone_status(zone)
            return None if shown is None else {**_read_only(object_id, shown), "spec": status.zone_spec(key)}
        event: Model | None
        if object_id.kind == "Condition":
            target, condition_type = ConditionKey.parse(key)
            event = self._tables.conditions.get(target, {}).get(condition_type)
        elif object_id.kind == PLACED_KIND:
            event = self._tables.placements.get(key)
        elif object_id.kind == "Binding":
            event = self._tables.bindings.get(key)
        elif object_id.kind == "Timer":
            event = self._tables.timers.get(key)
        elif object_id.kind == "Budget":
            event = self._tables.budgets.get(key)
        else:
            event = self._tables.evictions.get(key)
        return None if event is None else _read_only(object_id, event.model_dump(mode="json"))

    def _taint(self, object_id: ObjectId, target: str) -> Document | None:
        tainted = self._tables.taints.get(target)
        if tainted is None:
            return None
        whose = {"target": tainted.target.model_dump(mode="json"), "generation": tainted.generation}
        for taint in tainted.taints:
            if taint_id(target, *taint.identity) == object_id:
                return _read_only(object_id, {**whose, **taint.model_dump(mode="json"), "held": False})
        for waiting in tainted.held:
            if taint_id(target, waiting.key, waiting.effect) == object_id:
                return _read_only(object_id, {**whose, **waiting.model_dump(mode="json"), "held": True})
        return None


DEFAULT_NAMESPACE_ID = ObjectId("Namespace", "", DEFAULT_NAMESPACE)
BUILT_IN_SET_IDS = frozenset(ObjectId(SET, "", name) for name in BUILT_IN_SETS)
ALWAYS = BUILT_IN_SET_IDS | {DEFAULT_NAMESPACE_ID}
"""Objects that are shown though nobody has declared them."""


def default_namespace() -> Document:
    """The namespace that is always there."""
    return {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": DEFAULT_NAMESPACE, "labels": {"kubernetes.io/metadata.name": DEFAULT_NAMESPACE}},
        "spec": {"finalizers": ["kubernetes"]},
        "status": {"phase": "Active"},
    }


def _created(resource: ResourceDeclared) -> datetime:
    """When a target was declared."""
    said = part(resource.object, "metadata").get("creationTimestamp")
    try:
        time: datetime = parse_time(str(said))
    except ValueError:
        return EPOCH
    return time


def _condition(condition: ConditionChanged) -> Document:
    return {
        "type": condition.type,
        "status": condition.status.value,
        **({"reason": condition.reason} if condition.reason else {}),
        **({"message": condition.message} if condition.message else {}),
        "lastHeartbeatTime": format_time(condition.last_heartbeat_time),
        "lastTransitionTime": format_time(condition.last_transition_time),
    }


def _read_only(object_id: ObjectId, status: Mapping[str, Any]) -> Document:
    metadata = {"name": object_id.name}
    if object_id.namespace:
        metadata["namespace"] = object_id.namespace
    return {
        "apiVersion": VIEW_API_VERSION,
        "kind": object_id.kind,
        "metadata": metadata,
        "status": dict(status),
    }
