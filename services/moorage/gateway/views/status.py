"""What is counted of objects, as their `status` shows it: budgets, zones, machine sets."""

from __future__ import annotations

import math
from typing import Any

from moorage.core.admission.machine_sets import Machine, marked
from moorage.core.disruption.budgets import disruption_of, disruptions
from moorage.gateway.tables import Tables
from moorage_schemas.budget import BudgetCounted
from moorage_schemas.resource import ResourceDeclared
from moorage_schemas.times import format_time
from moorage_schemas.zone import ZoneChanged

Document = dict[str, Any]


def disruption_budget_status(resource: ResourceDeclared, counted: BudgetCounted | None) -> Document:
    """`status` of a `PodDisruptionBudget` (policy/v1); `held` is Moorage's own: evictions that it holds now."""
    expected, healthy = (counted.expected, counted.healthy) if counted is not None else (0, 0)
    try:
        guard = disruption_of(resource.object)
        desired = disruptions(guard, pods=expected, healthy=healthy, scale=expected).desired
    except ValueError:  # it was checked when it was declared
        desired = 0
    status = {
        "observedGeneration": resource.object["metadata"].get("generation", 1),
        "currentHealthy": healthy,
        "desiredHealthy": desired,
        "disruptionsAllowed": max(0, counted.allowed) if counted is not None else 0,
        "expectedPods": expected,
    }
    return {**status, "held": counted.held} if counted is not None else status


def eviction_budget_status(counted: BudgetCounted) -> Document:
    """`status` of an `EvictionBudget`."""
    return {
        "allowed": counted.allowed,
        "inProgress": counted.in_progress,
        "inWindow": counted.in_window,
        "held": counted.held,
        "countedTime": format_time(counted.counted_time),
    }


def machine_set_status(resource: ResourceDeclared, tables: Tables) -> Document:
    """`status` of a machine set: its nodes, and those of them that are ready."""
    present = len(tables.machines.get(resource.uid, ()))
    ready = len(tables.ready_machines.get(resource.uid, ()))
    return {
        "observedGeneration": resource.object["metadata"].get("generation", 1),
        "replicas": present,
        "fullyLabeledReplicas": present,
        "readyReplicas": ready,
        "availableReplicas": ready,
    }


def machines_of(uid: str, tables: Tables) -> list[Machine]:
    """The nodes of a machine set, by name."""
    nodes = [tables.resources[key] for key in sorted(tables.machines.get(uid, ()))]
    return [
        Machine(
            name=node.name,
            uid=node.uid,
            created=str(node.object["metadata"].get("creationTimestamp", "")),
            ready=tables.node_ready(node.name),
            marked=marked(node.object),
        )
        for node in nodes
    ]


def zone_status(zone: ZoneChanged) -> Document:
    """`status` of a zone; a rate without limit is the text `inf`, for JSON has no such number."""
    shown = zone.model_dump(mode="json")
    return {name: "inf" if isinstance(value, float) and math.isinf(value) else value for name, value in shown.items()}


def zone_spec(zone: str) -> Document:
    """`spec` of a zone: where it is."""
    region, _, own = zone.partition("/")
    return {"region": region, "zone": own}
