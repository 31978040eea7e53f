"""Orders about pods that controllers make, and changes of their metadata.

Such a pod has no record, so they are in that of its controller.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from moorage.apiserver.admission.deletion import is_marked
from moorage.apiserver.kinds.pod import KIND
from moorage.apiserver.kinds.status.records import ObjectId
from moorage.apiserver.machinery import api_errors
from moorage.apiserver.rules.field_defaults import with_field_defaults
from moorage.apiserver.storage.tables import Tables
from moorage.decide.kubernetes.field_errors import invalid
from moorage.decide.kubernetes.selectors import matches_labels
from moorage.decide.kubernetes.unstructured import as_label_selector, at
from moorage.decide.scheduling.nodes.workloads import TEMPLATE_HASH_LABEL
from moorage_schemas.placement import PlacementState
from moorage_schemas.resource import PodMetadata, PodOrder, ResourceDeclared
from moorage_schemas.resources.meta import LabelSelector
from moorage_schemas.resources.workload_kinds import POD


def is_made(object_id: ObjectId, tables: Tables) -> bool:
    """Return whether an object is a pod that a controller makes."""
    if object_id.kind != POD or object_id.key in tables.resources:
        return False
    placed = tables.placements.get(object_id.key)
    return placed is not None and placed.owner != placed.workload


def standing(orders: Iterable[PodOrder], tables: Tables) -> tuple[PodOrder, ...]:
    """Return the orders that may not be carried out yet: their pods are still there, or still wait for their node."""
    found = []
    for order in orders:
        placed = tables.placements.get(order.pod)
        if placed is None or placed.uid != order.uid:
            continue
        if not order.node or placed.state is PlacementState.PENDING:
            found.append(order)
    return tuple(found)


def standing_metadata(changed: Iterable[PodMetadata], tables: Tables) -> tuple[PodMetadata, ...]:
    """Return the changed metadata of the pods that have not ended."""
    placed = ((one, tables.placements.get(one.pod)) for one in changed)
    return tuple(one for one, there in placed if there is not None and there.uid == one.uid)


def check_metadata_alone(pod: Mapping[str, Any], wanted: Mapping[str, Any], owner: str) -> None:
    """Check that a write changes nothing of a controller's pod but what may be changed.

    Raises:
        StatusError: 405 if it changes something else.
    """
    if _template_part(pod) != _template_part(wanted):
        name = pod["metadata"]["name"]
        why = f"is made from the template of {owner}: change that instead. Only its labels and annotations may differ"
        raise api_errors.StatusError(405, f'{KIND.plural} "{name}" {why}')


def changed_metadata(pod: str, uid: str, wanted: Mapping[str, Any]) -> PodMetadata:
    """Return what is kept of a pod's metadata."""
    metadata = wanted["metadata"]
    return PodMetadata(
        pod=pod,
        uid=uid,
        labels=metadata.get("labels") or {},
        annotations=metadata.get("annotations") or {},
        managed_fields=tuple(metadata.get("managedFields") or ()),
    )


def check_selected(wanted: Mapping[str, Any], pod: Mapping[str, Any], owner: ResourceDeclared) -> None:
    """Check that a pod with other labels is still selected by its controller. Raises StatusError: 422 if it is not."""
    labels, before = (one["metadata"].get("labels") or {} for one in (wanted, pod))
    selector = at(owner.object, "spec", "selector")
    selected = selector is None or matches_labels(LabelSelector.model_validate(as_label_selector(selector)), labels)
    if not selected or labels.get(TEMPLATE_HASH_LABEL) != before.get(TEMPLATE_HASH_LABEL):
        why = f"{owner.key} selects its pods by their labels and cannot release one of them"
        field = invalid("metadata.labels", labels, why)
        raise api_errors.invalid("", POD, str(pod["metadata"]["name"]), [field])


def _template_part(pod: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return what follows from its controller, with the defaults of fields."""
    metadata, whole = pod["metadata"], with_field_defaults({**pod})
    return whole.get("spec"), metadata.get("ownerReferences") or [], metadata.get("finalizers") or []


def check_unbound(pod: Mapping[str, Any], uid: str, ordered: str = "") -> None:
    """Check that a pod may be bound to a node.

    An empty `uid` stands for any pod of that name; `ordered` is the node that it was bound to a moment ago.

    Raises:
        StatusError: 409 if it has a node, is gated, is being deleted, or is another pod.
    """
    name, node = str(pod["metadata"]["name"]), at(pod, "spec", "nodeName") or ordered
    if uid and uid != pod["metadata"].get("uid"):
        why = f"Precondition failed: UID in precondition: {uid}, UID in object meta: {pod['metadata'].get('uid')}"
    elif is_marked(pod):
        why = f"pod {name} is being deleted, cannot be assigned to a host"
    elif node:
        why = f'pod {name} is already assigned to node "{node}"'
    elif at(pod, "spec", "schedulingGates"):
        why = f"pod {name} has non-empty .spec.schedulingGates"
    else:
        return
    raise api_errors.conflict("", "pods/binding", name, why)
