"""Objects of a cluster as they are mirrored: what decisions and people need, without what only changes or is large.

An object may have 1.5 MB in etcd. A record of Kafka has 1 MB, and a fleet of 5,000 pods is kept in memory by several
processes, so specs of containers, volumes and image lists are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from moorage.bridges.engine.seen_state import fields_of, reduced_object
from moorage.bridges.engine.seen_target import mirrored_taints

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
    "resources",
    "restartPolicy",
    "schedulerName",
    "schedulingGates",
    "terminationGracePeriodSeconds",
    "tolerations",
    "topologySpreadConstraints",
)
_VOLUME: Final = (
    "accessModes",
    "capacity",
    "claimRef",
    "nodeAffinity",
    "persistentVolumeReclaimPolicy",
    "resources",
    "storageClassName",
    "volumeMode",
    "volumeName",
)
_TYING: Final = ("persistentVolumeClaim", "ephemeral")
_CONTAINER: Final = ("name", "image", "resources", "ports", "restartPolicy")
_CONTAINERS: Final = ("containers", "initContainers")
_CONTAINER_STATUSES: Final = ("containerStatuses", "initContainerStatuses")
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


SCHEDULER: Final = "moorage"
"""The `spec.schedulerName` of the pods that Moorage places."""


@dataclass(frozen=True, slots=True)
class SeenPod:
    """A pod as it was last seen.

    Attributes:
        node: the node that it is bound to. Empty if it has none.
        scheduler: `spec.schedulerName` as it is mirrored: `moorage` for the pods that Moorage places.
        leaving: whether it is being deleted.
        finished: whether it has ended, so that it neither runs nor will.
        ready: whether it is ready.
        reason: why it is not ready, if its condition has a reason.
        unscheduled: the message of `PodScheduled` False. Empty if it has none.
    """

    namespace: str
    name: str
    uid: str
    node: str
    scheduler: str
    leaving: bool
    finished: bool
    ready: bool
    reason: str
    unscheduled: str

    @classmethod
    def of(cls, found: Mapping[str, Any], scheduler: str = SCHEDULER) -> SeenPod:
        """Read a pod."""
        metadata, spec, status = found["metadata"], found.get("spec") or {}, found.get("status") or {}
        conditions = {str(one.get("type")): one for one in status.get("conditions") or ()}
        ready, scheduled = conditions.get("Ready", {}), conditions.get("PodScheduled", {})
        return cls(
            namespace=str(metadata.get("namespace") or ""),
            name=str(metadata["name"]),
            uid=str(metadata.get("uid") or ""),
            node=str(spec.get("nodeName") or ""),
            scheduler=scheduler_of(spec, scheduler),
            leaving=bool(metadata.get("deletionTimestamp")),
            finished=status.get("phase") in _FINISHED,
            ready=ready.get("status") == "True",
            reason=str(ready.get("reason") or ""),
            unscheduled=str(scheduled.get("message") or "") if scheduled.get("status") == "False" else "",
        )


def scheduler_of(spec: Mapping[str, Any], scheduler: str) -> str:
    """Return the `schedulerName` of a pod as it is mirrored.

    Args:
        spec: of the pod.
        scheduler: the `schedulerName` of the pods that Moorage places, beside those that name it.
    """
    named = str(spec.get("schedulerName") or "")
    return SCHEDULER if named == scheduler else named


def reduced(found: Mapping[str, Any], scheduler: str = SCHEDULER, *, keeps_taints: bool = False) -> JsonObject:
    """Return an object as it is mirrored, with its `metadata.resourceVersion`.

    Args:
        found: the object.
        scheduler: the `spec.schedulerName` of the pods that Moorage places, beside those that name it.
        keeps_taints: whether the cluster decides on the taints of its nodes.
    """
    kind = str(found["kind"])
    if kind == "Node":
        body = _node(found, keeps_taints=keeps_taints)
    elif kind == "Pod":
        body = _pod(found, scheduler)
    else:
        body = _KINDS.get(kind, _controller)(found)
    whole = reduced_object(found, body, _DROPPED, also=("deletionGracePeriodSeconds",))
    return {**whole, "metadata": {name: value for name, value in whole["metadata"].items() if value}}


def _pod(found: Mapping[str, Any], scheduler: str) -> JsonObject:
    """Return a pod. Its scheduler's name states whether Moorage places it."""
    status: Mapping[str, Any] = found.get("status") or {}
    # That a pod runs well is reported as a condition. Only that it has ended changes what is decided.
    phase = status.get("phase")
    ended = {"phase": phase, **fields_of(status, ("reason", "message"))} if phase in _FINISHED else {}
    spec = _pod_spec(found.get("spec") or {})
    if "schedulerName" in spec:
        spec["schedulerName"] = scheduler_of(spec, scheduler)
    kept = ended or _resized(found)
    return {"spec": spec, **({"status": kept} if kept else {})}


def _resized(found: Mapping[str, Any]) -> JsonObject:
    """Return the resources that a pod has at present, if they are not those of its spec: it is resized in place."""
    spec: Mapping[str, Any] = found.get("spec") or {}
    status: Mapping[str, Any] = found.get("status") or {}
    wanted = {
        one.get("name"): (one.get("resources") or {}).get("requests") or {}
        for name in _CONTAINERS
        for one in spec.get(name) or ()
    }
    statuses = [one for name in _CONTAINER_STATUSES for one in status.get(name) or ()]
    own: Mapping[str, Any] = spec.get("resources") or {}
    is_steady = all(
        amounts is None or amounts == wanted.get(one.get("name"), {})
        for one in statuses
        for amounts in (one.get("allocatedResources"), (one.get("resources") or {}).get("requests"))
    ) and all(
        amounts is None or not own or amounts == (own.get("requests") or {})
        for amounts in (status.get("allocatedResources"), (status.get("resources") or {}).get("requests"))
    )
    if is_steady:
        return {}
    pending = [one for one in status.get("conditions") or () if one.get("type") == "PodResizePending"]
    return {
        **fields_of(status, ("allocatedResources", "resources")),
        **{
            name: [fields_of(one, ("name", "allocatedResources", "resources")) for one in status[name]]
            for name in _CONTAINER_STATUSES
            if status.get(name)
        },
        **({"conditions": [fields_of(one, ("type", "status", "reason")) for one in pending]} if pending else {}),
    }


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
    """Return a volume that may tie a pod to some nodes."""
    return {
        "name": volume.get("name"),
        **({"persistentVolumeClaim": volume["persistentVolumeClaim"]} if "persistentVolumeClaim" in volume else {}),
        **({"ephemeral": {}} if "ephemeral" in volume else {}),
    }


def _node(found: Mapping[str, Any], *, keeps_taints: bool) -> JsonObject:
    spec: Mapping[str, Any] = found.get("spec") or {}
    kept = fields_of(spec, ("unschedulable", "providerID", "podCIDR", "podCIDRs"))
    kept |= mirrored_taints(found, keeps=keeps_taints)
    return {"spec": kept, "status": fields_of(found.get("status") or {}, _NODE_STATUS)}


def _controller(found: Mapping[str, Any]) -> JsonObject:
    """Return a Deployment, StatefulSet, Job or the like: what it demands, and how far it is."""
    spec: Mapping[str, Any] = found.get("spec") or {}
    kept = {name: value for name, value in spec.items() if name not in {_TEMPLATE, "volumeClaimTemplates"}}
    if template := spec.get(_TEMPLATE):
        kept[_TEMPLATE] = {
            "metadata": fields_of(template.get("metadata") or {}, ("labels",)),
            "spec": _pod_spec(template.get("spec") or {}),
        }
    return {"spec": kept, "status": fields_of(found.get("status") or {}, _COUNTS)}


def _volume(found: Mapping[str, Any]) -> JsonObject:
    """Return a PersistentVolume or a claim to one: what ties pods to nodes, and what people look for."""
    return {
        "spec": fields_of(found.get("spec") or {}, _VOLUME),
        "status": fields_of(found.get("status") or {}, ("phase", "capacity", "accessModes")),
    }


def _budget(found: Mapping[str, Any]) -> JsonObject:
    """Return a PodDisruptionBudget, whose status Moorage computes itself.

    It keeps the sum of its owners' scales as the cluster's disruption controller has counted it: an owner may be of any
    kind with the subresource `scale`.
    """
    spec, status = found.get("spec") or {}, found.get("status") or {}
    whole = {"spec": dict(spec)}
    has_failed = any(
        one.get("type") == "DisruptionAllowed" and one.get("reason") == "SyncFailed"
        for one in status.get("conditions") or ()
    )
    is_sum = "maxUnavailable" in spec or isinstance(spec.get("minAvailable"), str)
    is_current = status.get("observedGeneration") == (found.get("metadata") or {}).get("generation")
    if is_sum and is_current and not has_failed and "expectedPods" in status:
        whole["status"] = {"expectedPods": status["expectedPods"]}
    return whole


_KINDS: Final[Mapping[str, Callable[[Mapping[str, Any]], JsonObject]]] = {
    "PersistentVolume": _volume,
    "PersistentVolumeClaim": _volume,
    "PodDisruptionBudget": _budget,
}
