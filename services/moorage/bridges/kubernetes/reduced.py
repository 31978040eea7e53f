"""Objects of a cluster as they are mirrored: what decisions and people need, without what only changes or is large.

An object may have 1.5 MB in etcd. A record of Kafka has 1 MB, and a fleet of 5,000 pods is kept in memory by several
processes, so specs of containers, volumes and image lists are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from moorage.bridges.engine.seen_state import fields_of, reduced_object
from moorage.bridges.engine.seen_target import foreign_taints
from moorage.bridges.kubernetes.seen_pod import SCHEDULER, scheduler_of

JsonObject = dict[str, Any]

_DROPPED: Final = frozenset({"kubectl.kubernetes.io/last-applied-configuration", "moorage.io/taints"})
_POD_SPEC: Final = (
    "affinity",
    "hostNetwork",
    "nodeName",
    "nodeSelector",
    "overhead",
    "preemptionPolicy",
    "priority",
    "priorityClassName",
    "resourceClaims",
    "restartPolicy",
    "schedulerName",
    "schedulingGates",
    "terminationGracePeriodSeconds",
    "tolerations",
    "topologySpreadConstraints",
)
_TYING: Final = ("persistentVolumeClaim", "ephemeral")
_CONTAINER: Final = ("name", "image", "resources", "ports", "restartPolicy")
_CONTAINERS: Final = ("containers", "initContainers")
_NODE_STATUS: Final = ("addresses", "allocatable", "capacity", "nodeInfo")
_COUNTS: Final = (
    "active",
    "availableReplicas",
    "completionTime",
    "currentNumberScheduled",
    "currentReplicas",
    "desiredNumberScheduled",
    "failed",
    "numberAvailable",
    "numberMisscheduled",
    "numberReady",
    "numberUnavailable",
    "observedGeneration",
    "readyReplicas",
    "replicas",
    "startTime",
    "succeeded",
    "unavailableReplicas",
    "updatedNumberScheduled",
    "updatedReplicas",
)
_TEMPLATE: Final = "template"
_FINISHED: Final = frozenset({"Succeeded", "Failed"})


def reduced(found: Mapping[str, Any], scheduler: str = SCHEDULER) -> JsonObject:
    """Return an object as it is mirrored, with its `metadata.resourceVersion`.

    Args:
        found: the object.
        scheduler: the `spec.schedulerName` of the pods that Moorage places, beside those that name it.
    """
    kind = str(found["kind"])
    body = _pod(found, scheduler) if kind == "Pod" else _KINDS.get(kind, _controller)(found)
    whole = reduced_object(found, body, _DROPPED, also=("deletionGracePeriodSeconds",))
    return {**whole, "metadata": {name: value for name, value in whole["metadata"].items() if value}}


def _pod(found: Mapping[str, Any], scheduler: str) -> JsonObject:
    """A pod, which says by its scheduler's name whether Moorage places it."""
    status: Mapping[str, Any] = found.get("status") or {}
    # That a pod runs well is reported as a condition. Only that it has ended changes what is decided.
    phase = status.get("phase")
    ended = {"phase": phase, **fields_of(status, ("reason", "message"))} if phase in _FINISHED else {}
    spec = _pod_spec(found.get("spec") or {})
    if "schedulerName" in spec:
        spec["schedulerName"] = scheduler_of(spec, scheduler)
    return {"spec": spec, **({"status": ended} if ended else {})}


def _pod_spec(spec: Mapping[str, Any]) -> JsonObject:
    kept = fields_of(spec, _POD_SPEC)
    for name in _CONTAINERS:
        if containers := spec.get(name):
            kept[name] = [fields_of(one, _CONTAINER) for one in containers]
    # Of other volumes the choice of a node does not depend.
    if volumes := [_tied(one) for one in spec.get("volumes") or () if any(kind in one for kind in _TYING)]:
        kept["volumes"] = volumes
    return kept


def _tied(volume: Mapping[str, Any]) -> JsonObject:
    """A volume that may tie a pod to some nodes."""
    return {
        "name": volume.get("name"),
        **({"persistentVolumeClaim": volume["persistentVolumeClaim"]} if "persistentVolumeClaim" in volume else {}),
        **({"ephemeral": {}} if "ephemeral" in volume else {}),
    }


def _node(found: Mapping[str, Any]) -> JsonObject:
    spec: Mapping[str, Any] = found.get("spec") or {}
    kept = fields_of(spec, ("unschedulable", "providerID", "podCIDR", "podCIDRs"))
    if taints := foreign_taints(found):
        kept["taints"] = taints
    return {"spec": kept, "status": fields_of(found.get("status") or {}, _NODE_STATUS)}


def _controller(found: Mapping[str, Any]) -> JsonObject:
    """A Deployment, StatefulSet, Job or the like: what it demands, and how far it is."""
    spec: Mapping[str, Any] = found.get("spec") or {}
    kept = {name: value for name, value in spec.items() if name not in {_TEMPLATE, "volumeClaimTemplates"}}
    if template := spec.get(_TEMPLATE):
        kept[_TEMPLATE] = {
            "metadata": fields_of(template.get("metadata") or {}, ("labels",)),
            "spec": _pod_spec(template.get("spec") or {}),
        }
    return {"spec": kept, "status": fields_of(found.get("status") or {}, _COUNTS)}


def _spec_alone(found: Mapping[str, Any]) -> JsonObject:
    """A PodDisruptionBudget, whose status Moorage computes itself."""
    return {"spec": dict(found.get("spec") or {})}


_KINDS: Final[Mapping[str, Callable[[Mapping[str, Any]], JsonObject]]] = {
    "Node": _node,
    "PodDisruptionBudget": _spec_alone,
}
