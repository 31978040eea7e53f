"""Pods as the API shows them: declared ones with their placement, and those that controllers make."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from pydantic import ValidationError
from typing_extensions import override

from moorage.apiserver.kinds.status import reported
from moorage.apiserver.kinds.status.built_in import PRIORITY_CLASS, SYSTEM_PRIORITIES
from moorage.apiserver.kinds.status.index import Index
from moorage.apiserver.kinds.status.records import Document, ObjectId, Records
from moorage.apiserver.kinds.status.rollouts import keeper_of, plain_template
from moorage.decide.conditions.node_readiness import ready_on
from moorage.decide.kubernetes.pod_resources import qos_class
from moorage.decide.kubernetes.quantities import QuantityError
from moorage.decide.kubernetes.unstructured import at
from moorage.decide.scheduling.nodes.workloads import WorkloadError, controller_of, make_pod
from moorage_schemas.condition import HEALTHY, ConditionChanged, ConditionStatus, WorkloadConditionChanged
from moorage_schemas.eviction import EvictionDecided
from moorage_schemas.placement import PlacementState, WorkloadPlaced
from moorage_schemas.refs import TargetKind
from moorage_schemas.resource import PodMetadata, ResourceDeclared
from moorage_schemas.resources.dedicated import DedicatedNodes
from moorage_schemas.resources.workload_kinds import POD
from moorage_schemas.times import format_time

READY: Final = "Ready"
NOT_REPORTED: Final = "NotReported"
"""The reason of a condition of a bound pod of which no deployer has reported anything."""

_PHASES: Final = {ConditionStatus.TRUE: "Running", ConditionStatus.FALSE: "Running", ConditionStatus.UNKNOWN: "Unknown"}


def shown(object_id: ObjectId, records: Records) -> Document | None:
    """Return a pod as it is now. None if it does not exist, or was evicted."""
    resource = records.resources.get(object_id.key)
    if resource is not None and resource.mirrored is not None:
        return _mirrored(resource, records)
    pod = _bare_or_made(object_id, records)
    node = (pod.get("spec") or {}).get("nodeName") if pod is not None else None
    if pod is None or not node:
        return pod
    pod = _terminating(pod, reported.stopped_by(records, object_id.key, f"{TargetKind.NODE.value}/{node}"))
    if not at(pod, "status", "conditions"):
        return pod  # it is being deleted, and its binding has ended
    return _with_reports_on(pod, object_id.key, node, records)


def _with_reports_on(pod: Document, key: str, node: str, records: Records) -> Document:
    """Return a pod with what is reported of it on a node."""
    target = f"{TargetKind.NODE.value}/{node}"
    return with_reports(pod, reported.reports(records, key, target), reported.lost_node(records, target))


def _mirrored(resource: ResourceDeclared, records: Records) -> Document:
    """Return a pod of a real cluster: as it is there, completed by Moorage's decisions.

    An eviction does not mark it as one that is being deleted. Its cluster does, when its bridge acts.
    """
    placed, document = records.placements.get(resource.key), resource.object
    pod = {**document, "status": {"phase": "Pending", "qosClass": _qos(document)}}
    if placed is not None and placed.uid == resource.uid and placed.state is not PlacementState.EVICTED:
        pod = with_placement(pod, placed)
    if node := (document.get("spec") or {}).get("nodeName"):
        pod["spec"] = {**pod["spec"], "nodeName": node}
    if (node := (pod.get("spec") or {}).get("nodeName")) and at(pod, "status", "conditions"):
        pod = _with_reports_on(pod, resource.key, node, records)
    return {**pod, "status": {**pod["status"], **(document.get("status") or {})}}


def is_stopping(object_id: ObjectId, records: Records) -> bool:
    """Return whether the deployer of a pod is to stop it, and the pod stays bound until it has."""
    placed = records.placements.get(object_id.key)
    if placed is None or placed.target is None:
        return False
    return reported.stopped_by(records, object_id.key, placed.target.key) is not None


def _terminating(pod: Document, eviction: EvictionDecided | None) -> Document:
    """Return the pod, marked as one that is being deleted if its deployer is stopping it, as in Kubernetes."""
    if eviction is None or pod["metadata"].get("deletionTimestamp"):
        return pod
    requested = eviction.requested_time or eviction.decided_time  # earlier versions have written only this
    mark = {"deletionTimestamp": format_time(requested.replace(microsecond=0))}
    return {**pod, "metadata": {**pod["metadata"], **mark, "deletionGracePeriodSeconds": 0}}


def evicted_uid(object_id: ObjectId, records: Records) -> str:
    """Return the uid of the bare pod of that name if its placement shows that it was evicted. Empty otherwise."""
    if object_id.kind != POD:
        return ""
    resource, placed = records.resources.get(object_id.key), records.placements.get(object_id.key)
    if resource is None or placed is None or resource.mirrored is not None:
        return ""  # the state in its cluster counts for a mirrored pod
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
    return _made(placed, records.resources.get(placed.owner.key), records)


def _declared(resource: ResourceDeclared, placed: WorkloadPlaced | None) -> Document | None:
    """Return a bare pod with its placement. None if it was evicted, unless finalizers hold it."""
    pod = {**resource.object, "status": {"phase": "Pending", "qosClass": _qos(resource.object)}}
    if placed is None or placed.uid != resource.uid:
        return pod
    if placed.state is PlacementState.EVICTED:
        return pod if _is_marked(resource) else None
    return with_placement(pod, placed)


def _qos(pod: Mapping[str, Any]) -> str:
    try:
        return qos_class(pod.get("spec") or {})
    except QuantityError:  # a record that another program has written
        return "BestEffort"


def _made(placed: WorkloadPlaced, owner: ResourceDeclared | None, records: Records) -> Document | None:
    """Return a pod of a controller. None if it was evicted, or its controller is a newer one of the same name."""
    if owner is None or placed.state is PlacementState.EVICTED or placed.owner_uid != owner.uid:
        return None
    rules = list(records.index(DedicatedIndex).rules.values())
    pod = _from_template(placed, owner, rules, records)
    if pod is None:
        return None
    order = next((order for order in owner.pods if order.uid == placed.uid and not order.node), None)
    if order is not None:
        mark = {"deletionTimestamp": format_time(order.time), "deletionGracePeriodSeconds": 0}
        pod = {**pod, "metadata": {**pod["metadata"], **mark}}
    return with_placement(pod, placed)


def with_placement(pod: Mapping[str, Any], placed: WorkloadPlaced) -> Document:
    """Return the pod with the node and the status of its placement.

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


def _from_template(
    placed: WorkloadPlaced, owner: ResourceDeclared, rules: Sequence[DedicatedNodes], records: Records
) -> Document | None:
    """Return the pod of a placement, from the template that it was made from, or else the present one.

    None if the template is wrong.
    """
    kept = keeper_of(placed, records)
    document = owner.object
    if kept is not None:
        document = {**document, "spec": {**document["spec"], "template": plain_template(kept.object)}}
    try:
        controller = controller_of(document)
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
    if kept is not None:
        (reference,) = metadata["ownerReferences"]
        metadata["ownerReferences"] = [{**reference, "kind": kept.kind, "name": kept.name, "uid": kept.uid}]
    metadata["generateName"] = f"{metadata['ownerReferences'][0]['name']}-"
    if (changed := owner.metadata_of(placed.uid)) is not None:
        metadata = _with_changes(metadata, changed)
    return {**_with_identity(pod, owner), "metadata": metadata}


def _with_changes(metadata: Document, changed: PodMetadata) -> Document:
    """Return the metadata of a pod with its changes by users."""
    fields = {
        "labels": changed.labels,
        "annotations": changed.annotations,
        "managedFields": list(changed.managed_fields),
    }
    return {
        **{key: value for key, value in metadata.items() if key not in fields},
        **{key: value for key, value in fields.items() if value},
    }


def _with_identity(pod: Document, owner: ResourceDeclared) -> Document:
    """Return a pod of a StatefulSet with the host name under which others of the set find it."""
    if owner.kind != "StatefulSet":
        return pod
    spec = {**pod["spec"], "hostname": pod["metadata"]["name"]}
    if service := (owner.object.get("spec") or {}).get("serviceName"):
        spec["subdomain"] = service
    return {**pod, "spec": spec}


def with_reports(
    pod: Document, reports: Sequence[WorkloadConditionChanged], lost: ConditionChanged | None = None
) -> Document:
    """Return a bound pod with what deployers report of it where it is bound.

    `Healthy` decides the phase and the condition `Ready`, unless a deployer reports `Ready` itself. A pod without
    reports is not ready, and neither is one whose node is not: `lost` is then the condition `Ready` of the node.
    """
    told = {condition.type: _condition(condition) for condition in reports}
    health = next((condition for condition in reports if condition.type == HEALTHY), None)
    status, spec = pod["status"], pod.get("spec") or {}
    scheduled = status["conditions"][0]
    since = scheduled["lastTransitionTime"]
    unreported = {"status": "False", "reason": NOT_REPORTED, "lastTransitionTime": since}
    ready = told.pop(READY, None) or {**(told[HEALTHY] if health is not None else unreported), "type": READY}
    reported_ready = ConditionStatus(ready["status"])
    if (known := ready_on(reported_ready, lost=lost is not None)) is not reported_ready and lost is not None:
        turned = max(ready["lastTransitionTime"], format_time(lost.last_transition_time))
        why = {"reason": reported.NOT_READY, "message": "Node is not ready"}
        ready = {"type": READY, "status": known.value, **why, "lastTransitionTime": turned}
    begun = "True" if health is not None or not spec.get("initContainers") else "False"
    derived = {
        "Initialized": {"type": "Initialized", "status": begun, "lastTransitionTime": since},
        "ContainersReady": {**ready, "type": "ContainersReady"},
    }
    conditions = [scheduled, *(told.pop(name, one) for name, one in derived.items()), ready, *told.values()]
    shown = {**status, "conditions": conditions}
    if health is not None:
        is_ready = ready["status"] == ConditionStatus.TRUE.value
        shown |= {"phase": _PHASES[health.status], "startTime": since}
        shown["containerStatuses"] = [
            _container(one, health, is_ready=is_ready)
            for one in spec.get("containers") or ()
            if isinstance(one, Mapping)
        ]
    return {**pod, "status": shown}


def _container(container: Mapping[str, Any], health: WorkloadConditionChanged, *, is_ready: bool) -> Document:
    """Return the status of a container. Deployers report whole pods, so all containers of a pod are alike."""
    running = health.status is not ConditionStatus.UNKNOWN
    since = format_time(health.last_transition_time.replace(microsecond=0))
    return {
        "name": str(container.get("name", "")),
        "image": str(container.get("image", "")),
        "imageID": "",
        "ready": is_ready,
        "restartCount": 0,
        "started": running,
        "state": {"running": {"startedAt": since}} if running else {},
    }


def _condition(condition: WorkloadConditionChanged) -> Document:
    return {
        "type": condition.type,
        "status": condition.status.value,
        **({"reason": condition.reason} if condition.reason else {}),
        **({"message": condition.message} if condition.message else {}),
        "lastTransitionTime": format_time(condition.last_transition_time),
    }


class DedicatedIndex(Index):
    """The rules for dedicated nodes, as pods are given defaults by them."""

    topics = ("resources",)

    def __init__(self) -> None:
        self.rules: dict[str, DedicatedNodes] = {}
        """By record key."""

    @override
    def changed(self, topic: str, key: str, before: Any, after: Any, records: Records) -> Iterable[ObjectId]:
        if key.startswith("DedicatedNodes/"):
            self.rules.pop(key, None)
            with contextlib.suppress(ValidationError):  # it was checked when it was declared
                if after is not None:
                    self.rules[key] = DedicatedNodes.model_validate(after.object)
        return ()


class PriorityIndex(Index):
    """The priority classes, as new pods get their priority by them."""

    topics = ("resources",)

    def __init__(self) -> None:
        self.classes: dict[str, Mapping[str, Any]] = {
            name: {"value": value} for name, value in SYSTEM_PRIORITIES.items()
        }
        """By name, with those of the system."""

    @override
    def changed(self, topic: str, key: str, before: Any, after: Any, records: Records) -> Iterable[ObjectId]:
        if key.startswith(f"{PRIORITY_CLASS}/") and (name := ObjectId.of(key).name) not in SYSTEM_PRIORITIES:
            self.classes.pop(name, None)
            if after is not None:
                self.classes[name] = after.object
        return ()
