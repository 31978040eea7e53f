"""Orders about pods that controllers make. Such a pod has no record, so the order is in that of its controller."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from moorage.core.apimachinery.unstructured import at
from moorage.gateway import errors
from moorage.gateway.admission.deletion import is_marked
from moorage.gateway.tables import Tables
from moorage.kinds.status.records import ObjectId
from moorage_schemas.placement import PlacementState
from moorage_schemas.resource import PodOrder
from moorage_schemas.resources.workload_kinds import POD


def is_made(object_id: ObjectId, tables: Tables) -> bool:
    """Whether an object is a pod that a controller makes."""
    if object_id.kind != POD or object_id.key in tables.resources:
        return False
    placed = tables.placements.get(object_id.key)
    return placed is not None and placed.owner != placed.workload


def standing(orders: Iterable[PodOrder], tables: Tables) -> tuple[PodOrder, ...]:
    """The orders that may not be carried out yet: their pods are still there, or still wait for their node."""
    found = []
    for order in orders:
        placed = tables.placements.get(order.pod)
        if placed is None or placed.uid != order.uid:
            continue
        if not order.node or placed.state is PlacementState.PENDING:
            found.append(order)
    return tuple(found)


def check_unbound(pod: Mapping[str, Any], uid: str) -> None:
    """Check that a pod may be bound to a node.

    Args:
        pod: the pod as it is shown.
        uid: of the pod that is meant; empty for any of that name.

    Raises:
        StatusError: 409 if it has a node, is being deleted, or is another pod.
    """
    name, node = str(pod["metadata"]["name"]), at(pod, "spec", "nodeName")
    if uid and uid != pod["metadata"].get("uid"):
        why = f"Precondition failed: UID in precondition: {uid}, UID in object meta: {pod['metadata'].get('uid')}"
    elif is_marked(pod):
        why = f"pod {name} is being deleted, cannot be assigned to a host"
    elif node:
        why = f'pod {name} is already assigned to node "{node}"'
    else:
        return
    raise errors.conflict("", "pods/binding", name, why)
