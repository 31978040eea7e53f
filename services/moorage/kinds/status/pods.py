"""Pods as the API shows them: declared ones with their placement, and those that controllers make."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from moorage.core.apimachinery.quantities import QuantityError
from moorage.core.scheduling.nodes.workloads import WorkloadError, controller_of, make_pod
from moorage.kinds.status import reported
from moorage.kinds.status.dedicated import DedicatedIndex
from moorage.kinds.status.records import Document, ObjectId, Records
from moorage_schemas.condition import HEALTHY, ConditionStatus, WorkloadConditionChanged
from moorage_schemas.placement import PlacementState, WorkloadPlaced
from moorage_schemas.refs import TargetKind
from moorage_schemas.resource import ResourceDeclared
from moorage_schemas.resources.dedicated import DedicatedNodes
from moorage_schemas.resources.workload_kinds import POD
from moorage_schemas.times import format_time

READY: Final = "Ready"
_PHASES: Final = {
    ConditionStatus.TRUE: "Running",
    ConditionStatus.FALSE: "Running",
    ConditionStatus.UNKNOWN: "Unknown",
}


def shown(object_id: ObjectId, records: Records) -> Document | None:
    """A pod as it is now. None if it does not exist, or was evicted."""
    pod = _bare_or_made(object_id, records)
    node = (pod.get("spec") or {}).get("nodeName") if pod is not None else None
    if pod is None or not node:
        return pod
    found = reported.reports(records, object_id.key, f"{TargetKind.NODE.value}/{node}")
    return with_reports(pod, found) if found else pod


def evicted_uid(object_id: ObjectId, records: Records) -> str:
    """The uid of the bare pod of that name if its placement says that it was evicted. Empty otherwise."""
    if object_id.kind != POD:
        return ""
    resource, placed = records.resources.get(object_id.key), records.placements.get(object_id.key)
    if resource is None or placed is None:
        return ""
    gone = placed.state is PlacementState.EVICTED and placed.uid == resource.uid
    return resource.uid if gone and not _is_marked(resource) else ""


def _is_marked(resource: ResourceDeclared) -> bool:
    return bool(resource.object["metadata"].get("deletionTimestamp"))


def _bare_or_made(object_id: ObjectId, records: Records) -> Document | None:
    placed, resource = records.placements.get(object_id.key), records.resources.get(object_id.key)
    if resource is not None:
        return _declared(resource, placed)
    if placed is None or placed.owner == placed.workload:
        return None
    return _made(placed, records.resources.get(placed.owner.key), list(records.index(DedicatedIndex).rules.values()))


def _declared(resource: ResourceDeclared, placed: WorkloadPlaced | None) -> Document | None:
    """A bare pod with its placement. None if it was evicted, because it is gone then, unless finalizers hold it."""
    if placed is None or placed.uid != resource.uid:
        return {**resource.object, "status": {"phase": "Pending"}}
    if placed.state is PlacementState.EVICTED:
        return {**resource.object, "status": {"phase": "Pending"}} if _is_marked(resource) else None
    return with_placement(resource.object, placed)


def _made(placed: WorkloadPlaced, owner: ResourceDeclared | None, rules: Sequence[DedicatedNodes]) -> Document | None:
    """A pod that a controller makes. None if it was evicted, or its controller is a newer one of the same name."""
    if owner is None or placed.state is PlacementState.EVICTED or placed.owner_uid != owner.uid:
        return None
    pod = _from_template(placed, owner, rules)
    if pod is None:
        return None
    order = next((order for order in owner.pods if order.uid == placed.uid and not order.node), None)
    if order is not None:
        mark = {"deletionTimestamp": format_time(order.time), "deletionGracePeriodSeconds": 0}
        pod = {**pod, "metadata": {**pod["metadata"], **mark}}
    return with_placement(pod, placed)


def with_placement(pod: Mapping[str, Any], placed: WorkloadPlaced) -> Document:
    """The pod with the node and the status that its placement says.

    A bound pod is Pending as in Kubernetes, where a pod stays so until the kubelet reports that it runs.
    """
    spec = {key: value for key, value in (pod.get("spec") or {}).items() if key != "nodeName"}
    bound = placed.state is PlacementState.PLACED and placed.target is not None
    condition = {
        "type": "PodScheduled",
        "status": "True" if bound else "False",
        "lastTransitionTime": format_time(placed.decided_time),
    }
    # A pod whose node the person named was never asked about, so Kubernetes shows no reason when all went well.
    if placed.reason:
        condition["reason"] = placed.reason
    if placed.message:
        condition["message"] = placed.message
    if placed.target is not None and bound:
        spec["nodeName"] = placed.target.name
    status = {**(pod.get("status") or {}), "phase": "Pending", "conditions": [condition]}
    return {**pod, "spec": spec, "status": status}


def _from_template(placed: WorkloadPlaced, owner: ResourceDeclared, rules: Sequence[DedicatedNodes]) -> Document | None:
    """The pod of a placement, from its controller's template as it is declared now. None if the template is wrong."""
    try:
        controller = controller_of(owner.object)
        pod = make_pod(
            controller,
            name=placed.workload.name,
            uid=placed.uid,
            index=placed.index,
            made_from=placed.template_hash,
            rules=rules,
        )
    except (WorkloadError, QuantityError):
        return None
    metadata = {**pod["metadata"], "creationTimestamp": format_time(placed.decided_time.replace(microsecond=0))}
    return {**pod, "metadata": metadata}


def with_reports(pod: Document, reports: Sequence[WorkloadConditionChanged]) -> Document:
    """The pod with what deployers report of it where it is bound.

    `Healthy` decides the phase and the condition `Ready`, unless a deployer reports `Ready` itself.
    """
    conditions = {condition.type: _condition(condition) for condition in reports}
    phase = pod["status"]["phase"]
    health = next((condition for condition in reports if condition.type == HEALTHY), None)
    if health is not None:
        phase = _PHASES[health.status]
        conditions.setdefault(READY, {**conditions[HEALTHY], "type": READY})
    status = {**pod["status"], "phase": phase}
    return {**pod, "status": {**status, "conditions": [*status.get("conditions", ()), *conditions.values()]}}


def _condition(condition: WorkloadConditionChanged) -> Document:
    return {
        "type": condition.type,
        "status": condition.status.value,
        **({"reason": condition.reason} if condition.reason else {}),
        **({"message": condition.message} if condition.message else {}),
        "lastTransitionTime": format_time(condition.last_transition_time),
    }
