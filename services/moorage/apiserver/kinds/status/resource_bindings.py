"""`ResourceBinding` (work.karmada.io/v1alpha2): where a resource that a propagation policy has claimed belongs.

It is made of the placement, the policy and the reports of deployers. It is never declared.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from typing_extensions import override

from moorage.apiserver.kinds.status import reported
from moorage.apiserver.kinds.status.index import Groups, Index
from moorage.apiserver.kinds.status.records import ObjectId, Records
from moorage.decide.kubernetes.unstructured import part
from moorage.decide.scheduling.karmada.mirrored_bindings import task_reason
from moorage_schemas.condition import ConditionStatus
from moorage_schemas.keys import ResourceKey
from moorage_schemas.placement import LeavingTarget, PlacementState, WorkloadPlaced
from moorage_schemas.resource import ResourceDeclared
from moorage_schemas.times import format_time

Document = dict[str, Any]

KIND: Final = "ResourceBinding"
API_VERSION: Final = "work.karmada.io/v1alpha2"
_HEALTH: Final = {ConditionStatus.TRUE: "Healthy", ConditionStatus.FALSE: "Unhealthy"}
_PRODUCER: Final = "TaintManager"
_OF_ITS_POLICY: Final = (
    "placement",
    "failover",
    "suspension",
    "preserveResourcesOnDeletion",
    "schedulerName",
    "conflictResolution",
    "propagateDeps",
)
"""The fields that a binding has from its policy."""

_SUCCESS: Final = "Success"
_SCHEDULED: Final = "Scheduled"


class PolicyIndex(Index):
    """The placements that each propagation policy has made. A `ResourceBinding` shows fields of its policy."""

    topics = ("resources", "placements")

    def __init__(self) -> None:
        self.placements = Groups()
        """The keys of the placements of each policy, by its key."""

    @override
    def changed(self, topic: str, key: str, before: Any, after: Any, records: Records) -> Iterable[ObjectId]:
        if topic == "resources":
            return map(ObjectId.of, self.placements.get(key, ()))
        old, new = (
            {placed.policy} if placed is not None and placed.policy else set[str]() for placed in (before, after)
        )
        self.placements.move(key, old, new)
        return ()


def resource_binding(placed: WorkloadPlaced, records: Records) -> Document | None:
    """Return the object of a placement on clusters; None if the resource was deleted or was made again."""
    owner = records.resources.get(placed.owner.key)
    if owner is None or owner.uid != placed.owner_uid or placed.state is PlacementState.EVICTED:
        return None
    policy = records.resources.get(placed.policy)
    metadata: Document = {"name": placed.workload.name}
    if placed.workload.namespace:
        metadata["namespace"] = placed.workload.namespace
    metadata["uid"] = placed.uid
    # Nothing records when it was first placed. It is as old as the younger of the two that it follows from.
    if created := max(map(created_time, (owner, policy) if policy is not None else (owner,))):
        metadata["creationTimestamp"] = created
    if annotations := _annotations(placed.policy):
        metadata["annotations"] = annotations
    about = _reference(owner)
    metadata["ownerReferences"] = [
        {**{name: about[name] for name in ("apiVersion", "kind", "name", "uid")}, "controller": True}
    ]
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": metadata,
        "spec": _spec(placed, owner, policy),
        "status": _status(placed, records),
    }


def created_time(resource: ResourceDeclared) -> str:
    """Return when a resource was declared, as it is shown. Empty if that is unknown."""
    return str(part(resource.object, "metadata").get("creationTimestamp") or "")


def _reference(owner: ResourceDeclared) -> Document:
    found = {"apiVersion": str(owner.object.get("apiVersion", "")), "kind": owner.kind}
    if owner.namespace:
        found["namespace"] = owner.namespace
    return {**found, "name": owner.name, "uid": owner.uid}


def _annotations(policy: str) -> dict[str, str]:
    kind, namespace, name, _ = ResourceKey.parse(policy)
    if not name:
        return {}
    prefix = f"{kind.lower()}.karmada.io"
    return {**({f"{prefix}/namespace": namespace} if namespace else {}), f"{prefix}/name": name}


def _spec(placed: WorkloadPlaced, owner: ResourceDeclared, policy: ResourceDeclared | None) -> Document:
    spec: Document = {"resource": _reference(owner)}
    replicas = part(owner.object, "spec").get("replicas")
    if isinstance(replicas, int) and not isinstance(replicas, bool):
        spec["replicas"] = replicas
    spec["clusters"] = [
        {"name": target.target.name, **({"replicas": target.replicas} if target.replicas else {})}
        for target in placed.targets
    ]
    if placed.leaving:
        spec["gracefulEvictionTasks"] = [_task(leaving) for leaving in placed.leaving]
    wanted = part(policy.object, "spec") if policy is not None else {}
    for name in _OF_ITS_POLICY:
        if wanted.get(name):
            spec[name] = wanted[name]
    return spec


def _task(leaving: LeavingTarget) -> Document:
    return {
        "fromCluster": leaving.target.name,
        "purgeMode": leaving.purge_mode,
        **({"replicas": leaving.replicas} if leaving.replicas else {}),
        "reason": task_reason(leaving.reason),
        **({"message": leaving.reason} if leaving.reason else {}),
        "producer": _PRODUCER,
        "gracePeriodSeconds": max(0, round((leaving.until - leaving.since).total_seconds())),
        "creationTimestamp": format_time(leaving.since),
    }


def _status(placed: WorkloadPlaced, records: Records) -> Document:
    # It may be on clusters and yet not be placed as it should: what it is on is in `spec` all the same.
    done = placed.state is PlacementState.PLACED and placed.reason in {"", _SCHEDULED}
    condition = {
        "type": "Scheduled",
        "status": "True" if done else "False",
        "reason": _SUCCESS if done else placed.reason or "NoClusterFit",
        "message": placed.message or ("Binding has been scheduled successfully." if done else ""),
        "lastTransitionTime": format_time(placed.decided_time),
    }
    status: Document = {"schedulerObservedGeneration": placed.generation, "conditions": [condition]}
    if done:
        status["lastScheduledTime"] = format_time(placed.decided_time)
    if placed.affinity_name:
        status["schedulerObservingAffinityName"] = placed.affinity_name
    held = {target.target.name: target.target.key for target in placed.targets}
    held |= {leaving.target.name: leaving.target.key for leaving in placed.leaving}
    if held:
        status["aggregatedStatus"] = [
            {"clusterName": name, "applied": True, "health": _health(records, placed.workload.key, key)}
            for name, key in sorted(held.items())
        ]
    return status


def _health(records: Records, workload: str, target: str) -> str:
    found = reported.health(records, workload, target)
    return _HEALTH.get(found, "Unknown") if found is not None else "Unknown"
