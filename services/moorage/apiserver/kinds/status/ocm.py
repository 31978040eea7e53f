"""What the API shows of Open Cluster Management's kinds beside what people declare.

Placements with their decisions, the pages of decisions, managed clusters with the labels that the system keeps, sets
and bindings with their conditions, add-ons with what their leases say. Conditions that are derived here, and not
recorded by a service, carry no `lastTransitionTime`: no two gateways could agree on one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from moorage.apiserver.kinds.status.managed_index import SET, ManagedIndex, merged_labels
from moorage.apiserver.kinds.status.records import Document
from moorage.decide.kubernetes.unstructured import part
from moorage.decide.taints.desired.addons import AVAILABLE, LABEL_PREFIX, UNHEALTHY, UNREACHABLE
from moorage_schemas.placement import WorkloadPlaced
from moorage_schemas.resource import ResourceDeclared
from moorage_schemas.resources.managed import BUILT_IN_SETS, DEFAULT_SET, EXCLUSIVE, LABEL_SELECTOR
from moorage_schemas.resources.names import PLACEMENT_LABEL
from moorage_schemas.taint import TargetTainted
from moorage_schemas.times import format_time

API: Final = "cluster.open-cluster-management.io"
SET_API: Final = f"{API}/v1beta2"
PLACEMENT: Final = "Placement"
PLACEMENT_API: Final = f"{API}/v1beta1"

_BUILT_IN_SELECTORS: Final[Mapping[str, Document]] = {
    name: {"selectorType": EXCLUSIVE} if name == DEFAULT_SET else {"selectorType": LABEL_SELECTOR, "labelSelector": {}}
    for name in BUILT_IN_SETS
}

# State of an add-on → status, reason and message of its condition, as upstream's registration agent has them.
_ADD_ON_STATES: Final[Mapping[str, tuple[str, str, str]]] = {
    AVAILABLE: ("True", "ManagedClusterAddOnLeaseUpdated", "{} add-on is available."),
    UNHEALTHY: ("False", "ManagedClusterAddOnLeaseUpdateStopped", "{} add-on is not available."),
    UNREACHABLE: ("Unknown", "ManagedClusterAddOnLeaseNotFound", "The status of {} add-on is unknown."),
}


def built_in_set(name: str) -> Document:
    """One of the built-in sets. Nothing is stored of them, so that no gateway has to write them first."""
    spec = {"clusterSelector": dict(_BUILT_IN_SELECTORS[name])}
    return {"apiVersion": SET_API, "kind": SET, "metadata": {"name": name}, "spec": spec}


def set_status(name: str, index: ManagedIndex) -> Document:
    """`status` of a set: whether it is empty."""
    count = index.size(name)
    reason, message = (
        ("ClustersSelected", f"{count} ManagedClusters selected")
        if count
        else ("NoClusterMatched", "No ManagedCluster selected")
    )
    empty = {"type": "ClusterSetEmpty", "status": "False" if count else "True", "reason": reason, "message": message}
    return {"conditions": [empty]}


def binding_status(name: str, index: ManagedIndex) -> Document:
    """`status` of a binding of the set of its name: whether there is one."""
    bound = name in index.sets
    reason = "ClusterSetBound" if bound else "ClusterSetNotFound"
    return {"conditions": [{"type": "Bound", "status": str(bound), "reason": reason, "message": ""}]}


def add_on_status(name: str, tainted: TargetTainted | None) -> Document | None:
    """`status` of an add-on, by the label that the system keeps on its cluster. None while nothing is known."""
    state = _ADD_ON_STATES.get(tainted.labels.get(f"{LABEL_PREFIX}{name}", "") if tainted is not None else "")
    if state is None:
        return None
    status, reason, message = state
    return {"conditions": [{"type": "Available", "status": status, "reason": reason, "message": message.format(name)}]}


def placement_status(uid: str, placed: WorkloadPlaced | None) -> Document | None:
    """`status` of the placement with this uid, as its last decision says. None while there is none."""
    if placed is None or placed.uid != uid:
        return None
    return {
        "numberOfSelectedClusters": placed.selected,
        "decisionGroups": [
            {
                "decisionGroupIndex": group.index,
                "decisionGroupName": group.name,
                "decisions": list(group.decisions),
                "clusterCount": group.clusters,
            }
            for group in placed.decision_groups
        ],
        "conditions": [
            {
                "type": condition.type,
                "status": condition.status,
                "reason": condition.reason,
                "message": condition.message,
                "lastTransitionTime": format_time(condition.last_transition_time),
            }
            for condition in placed.conditions
        ],
    }


def placement_decision(placed: WorkloadPlaced, placement: ResourceDeclared | None) -> Document:
    """One page of the clusters that a placement has selected. Nobody declares it, and it is as old as the placement.

    Args:
        placed: the decision.
        placement: that it belongs to. None if it is gone.
    """
    owner = {
        "apiVersion": PLACEMENT_API,
        "kind": PLACEMENT,
        "name": placed.owner.name,
        "uid": placed.owner_uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }
    created = part(placement.object, "metadata").get("creationTimestamp") if placement is not None else None
    metadata: Document = {
        "name": placed.workload.name,
        "namespace": placed.workload.namespace,
        "uid": placed.uid,
        **({"creationTimestamp": created} if created else {}),
        "labels": {PLACEMENT_LABEL: placed.owner.name, **placed.labels},
        "ownerReferences": [owner],
    }
    return {
        "apiVersion": PLACEMENT_API,
        "kind": "PlacementDecision",
        "metadata": metadata,
        "status": {"decisions": [{"clusterName": name, "reason": ""} for name in placed.clusters]},
    }


def with_labels(document: Document, resource: ResourceDeclared, tainted: TargetTainted | None) -> Document:
    """A managed cluster with the labels that the system keeps on it."""
    labels = merged_labels(resource, tainted)
    return {**document, "metadata": {**document["metadata"], "labels": labels}} if labels else document
