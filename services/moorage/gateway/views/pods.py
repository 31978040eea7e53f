"""Pods as the API shows them: declared ones with their placement, and those that controllers make."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from moorage.core.apimachinery.quantities import QuantityError
from moorage.core.scheduling.nodes.workloads import WorkloadError, controller_of, make_pod
from moorage_schemas.condition import HEALTHY, ConditionStatus, WorkloadConditionChanged
from moorage_schemas.placement import PlacementState, WorkloadPlaced
from moorage_schemas.refs import TargetRef
from moorage_schemas.resource import ResourceDeclared
from moorage_schemas.resources.dedicated import DedicatedNodes
from moorage_schemas.times import format_time

Document = dict[str, Any]
Expand = Callable[[WorkloadPlaced, ResourceDeclared, Sequence[DedicatedNodes]], Document | None]
"""Makes the pod object of a placement from its controller and the fleet's rules; None when it cannot."""

Healthy = Callable[[WorkloadPlaced, TargetRef], bool]
"""Whether a workload is reported healthy on a target."""

READY: Final = "Ready"
_POD: Final = "Pod"
_PHASES: Final = {
    ConditionStatus.TRUE: "Running",
    ConditionStatus.FALSE: "Running",
    ConditionStatus.UNKNOWN: "Unknown",
}


def declared_pod(resource: ResourceDeclared, placed: WorkloadPlaced | None) -> Document | None:
    """A bare pod with where it was placed; None when it was evicted, for it is gone then."""
    if placed is None or placed.uid != resource.uid:
        return {**resource.object, "status": {"phase": "Pending"}}
    if placed.state is PlacementState.EVICTED:
        return None
    return with_placement(resource.object, placed)


def made_pod(
    placed: WorkloadPlaced, owner: ResourceDeclared | None, rules: Sequence[DedicatedNodes], make: Expand
) -> Document | None:
    """A pod that a controller makes; None when it was evicted, or its controller is another one by now."""
    if owner is None or placed.state is PlacementState.EVICTED or placed.owner_uid != owner.uid:
        return None
    pod = make(placed, owner, rules)
    return None if pod is None else with_placement(pod, placed)


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


def expand(placed: WorkloadPlaced, owner: ResourceDeclared, rules: Sequence[DedicatedNodes]) -> Document | None:
    """The pod of a placement from its controller's template as it is declared now; None when that is wrong."""
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


def controller_status(resource: ResourceDeclared, placements: list[WorkloadPlaced], healthy: Healthy) -> Document:
    """`status` of a controller: how many pods it has, how many of them are bound, and how many are reported healthy.

    Of one that a policy has spread over clusters these are its replicas there. `scheduledReplicas` is Moorage's own:
    until a deployer reports, it is all that is known.
    """
    uid, replicas, scheduled, ready = resource.uid, 0, 0, 0
    for placed in placements:
        if placed.owner_uid != uid or placed.state is PlacementState.EVICTED:
            continue
        if placed.workload.kind == _POD:
            replicas += 1
            if placed.state is PlacementState.PLACED and placed.target is not None:
                scheduled += 1
                ready += healthy(placed, placed.target)
            continue
        for target in placed.targets:
            replicas += target.replicas
            scheduled += target.replicas
            ready += target.replicas if healthy(placed, target.target) else 0
    observed = {"observedGeneration": resource.object["metadata"].get("generation", 1)}
    if resource.kind == "DaemonSet":
        return {
            **observed,
            "desiredNumberScheduled": replicas,
            "currentNumberScheduled": scheduled,
            "numberReady": ready,
            "numberAvailable": ready,
            "numberUnavailable": replicas - ready,
            "updatedNumberScheduled": scheduled,
            "numberMisscheduled": 0,
        }
    if resource.kind == "Job":
        return {"active": replicas, "ready": ready, "scheduledReplicas": scheduled}
    status = {
        **observed,
        "replicas": replicas,
        "scheduledReplicas": scheduled,
        "readyReplicas": ready,
        "availableReplicas": ready,
    }
    if resource.kind == "Deployment":
        return {**status, "updatedReplicas": replicas, "unavailableReplicas": replicas - ready}
    return status
