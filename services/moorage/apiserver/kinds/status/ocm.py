"""The parts of Open Cluster Management's kinds that the API shows beside what people declare.

Placements with their decisions, the pages of decisions, managed clusters with the labels that the system keeps, sets
and bindings with their conditions, add-ons by their leases. Conditions that are derived here, and not
recorded by a service, carry no `lastTransitionTime`: no two gateways could agree on one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from pydantic import ValidationError
from typing_extensions import override

from moorage.apiserver.kinds.status.index import Groups, Index
from moorage.apiserver.kinds.status.records import Document, ObjectId, Records
from moorage.decide.kubernetes.unstructured import part
from moorage.decide.scheduling.ocm.cluster_sets import ManagedSets, named_set
from moorage.decide.taints.desired.addons import AVAILABLE, LABEL_PREFIX, UNHEALTHY, UNREACHABLE
from moorage_schemas.keys import ResourceKey
from moorage_schemas.placement import WorkloadPlaced
from moorage_schemas.refs import TargetKind
from moorage_schemas.resource import ResourceDeclared
from moorage_schemas.resources.managed import BUILT_IN_SETS, DEFAULT_SET, EXCLUSIVE, LABEL_SELECTOR, ManagedClusterSet
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
    """Return one of the built-in sets. Nothing is stored of them, so that no gateway has to write them first."""
    spec = {"clusterSelector": dict(_BUILT_IN_SELECTORS[name])}
    return {"apiVersion": SET_API, "kind": SET, "metadata": {"name": name}, "spec": spec}


def set_status(name: str, index: ManagedIndex) -> Document:
    """`status` of a set: whether it is empty. The time is when the set, or else its first cluster, was created."""
    count = index.size(name)
    reason, message = (
        ("ClustersSelected", f"{count} ManagedClusters selected")
        if count
        else ("NoClusterMatched", "No ManagedCluster selected")
    )
    empty = {"type": "ClusterSetEmpty", "status": "False" if count else "True", "reason": reason, "message": message}
    since = index.set_since(name)
    return {"conditions": [{**empty, "lastTransitionTime": since} if since else empty]}


def binding_status(name: str, created: str, index: ManagedIndex) -> Document:
    """`status` of a binding of the set of its name: whether there is one. The time is when the later was created.

    Args:
        name: of the binding and of the set.
        created: the `creationTimestamp` of the binding.
        index: the sets.
    """
    bound = name in index.sets
    reason = "ClusterSetBound" if bound else "ClusterSetNotFound"
    since = max(created, index.created(name)) if bound else created
    found = {"type": "Bound", "status": str(bound), "reason": reason, "message": "", "lastTransitionTime": since}
    return {"conditions": [found]}


def add_on_status(name: str, tainted: TargetTainted | None) -> Document | None:
    """`status` of an add-on, by the label that the system keeps on its cluster. None while nothing is known."""
    state = _ADD_ON_STATES.get(tainted.labels.get(f"{LABEL_PREFIX}{name}", "") if tainted is not None else "")
    if state is None:
        return None
    status, reason, message = state
    return {"conditions": [{"type": "Available", "status": status, "reason": reason, "message": message.format(name)}]}


def placement_status(uid: str, placed: WorkloadPlaced | None) -> Document | None:
    """`status` of the placement with this uid, from its last decision. None before that."""
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
    """Return one page of the clusters that a placement has selected. It is as old as the placement.

    `placement` is None if it was deleted.
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
    """Return a managed cluster with the labels that the system keeps on it."""
    labels = merged_labels(resource, tainted)
    return {**document, "metadata": {**document["metadata"], "labels": labels}} if labels else document


SET = "ManagedClusterSet"
SET_BINDING = "ManagedClusterSetBinding"
ADD_ON = "ManagedClusterAddOn"
CLUSTER = TargetKind.MANAGED_CLUSTER.value

_MANAGED = "Managed"
"""How the keys of these kinds begin."""


class ManagedIndex(Index):
    """The clusters in each set, the namespaces that sets are bound to, and the add-ons of each cluster."""

    topics = ("resources", "taints")

    def __init__(self) -> None:
        self.sets = ManagedSets()
        self._labels: dict[str, Mapping[str, str]] = {}
        """The labels of each cluster, including those that the system maintains."""

        self._since: dict[str, str] = {}
        """When each cluster was created."""

        self._created: dict[str, str] = {}
        """When each set was created."""

        self._naming = Groups()
        """The clusters that name each set, whether or not the set exists."""

        self._members: dict[str, set[str]] = {name: set() for name in self.sets.names}
        self._bound = Groups()
        """The namespaces to which each set is bound, whether or not the set exists."""

        self._add_ons = Groups()

    def created(self, name: str) -> str:
        """Return when a set was created. Empty if it is built in."""
        return self._created.get(name, "")

    def set_since(self, name: str) -> str:
        """Return when a set was created, or its first cluster if that came later. Empty if neither is known."""
        first = min((self._since.get(one, "") for one in self._members.get(name, ())), default="")
        return max(self.created(name), first)

    def size(self, name: str) -> int:
        """Return the number of clusters in a set."""
        return len(self._members.get(name, ()))

    @override
    def changed(self, topic: str, key: str, before: Any, after: Any, records: Records) -> Iterable[ObjectId]:
        if topic == "taints":
            cluster = key.removeprefix(f"{CLUSTER}/")
            if cluster == key:
                return ()
            return self._cluster(cluster, records.resources.get(f"{CLUSTER}//{cluster}"), after)
        if not key.startswith(_MANAGED):
            return ()
        kind, namespace, name, _ = ResourceKey.parse(key)
        if kind == CLUSTER:
            return self._cluster(name, after, records.taints.get(f"{CLUSTER}/{name}"))
        if kind == SET:
            return self._set(name, after)
        if kind == SET_BINDING:
            self._bound.keep(name, namespace, there=after is not None)
        elif kind == ADD_ON:
            self._add_ons.keep(namespace, name, there=after is not None)
        return ()

    def _cluster(
        self, name: str, declared: ResourceDeclared | None, tainted: TargetTainted | None
    ) -> Iterable[ObjectId]:
        """Take a change of a cluster or of its system labels in. Sets and add-ons look different then."""
        before = self._labels.pop(name, None)
        after = None if declared is None else merged_labels(declared, tainted)
        if declared is None:
            self._since.pop(name, None)
        else:
            self._since[name] = str(declared.object["metadata"].get("creationTimestamp") or "")
        if after is not None:
            self._labels[name] = after
        touched = {ObjectId(ADD_ON, name, add_on) for add_on in self._add_ons.get(name, ())}
        if before == after:
            return touched
        old, new = (frozenset[str]() if labels is None else self.sets.of(labels) for labels in (before, after))
        for labels, there in ((before, False), (after, True)):
            if labels is not None:
                self._naming.keep(named_set(labels), name, there=there)
        for group in old - new:
            self._members[group].discard(name)
        for group in new - old:
            self._members[group].add(name)
        return touched | {ObjectId(SET, "", group) for group in old ^ new}

    def _set(self, name: str, declared: ResourceDeclared | None) -> Iterable[ObjectId]:
        """Take a change of a set in. Its bindings look different then."""
        if declared is None:
            self._created.pop(name, None)
            changed = self.sets.remove(name)
            if changed:
                del self._members[name]
        else:
            self._created[name] = str(declared.object["metadata"].get("creationTimestamp") or "")
            try:
                changed = self.sets.put(name, ManagedClusterSet.model_validate(declared.object).spec)
            except ValidationError:  # it was validated when it was declared
                changed = False
            made = self.sets.get(name)
            if changed and made is not None:
                asked = self._naming.get(name, set()) if made.exclusive else self._labels
                self._members[name] = {cluster for cluster in asked if made.has(self._labels[cluster])}
        bound = self._bound.get(name, ()) if changed else ()
        return {ObjectId(SET_BINDING, namespace, name) for namespace in bound}


def merged_labels(declared: ResourceDeclared, tainted: TargetTainted | None) -> Mapping[str, str]:
    """Return the labels of a cluster: those that people declare, and those that the system maintains."""
    own: Mapping[str, Any] = declared.object["metadata"].get("labels") or {}
    if tainted is None or not tainted.labels or tainted.target_uid not in {"", declared.uid}:
        return own
    return {**own, **tainted.labels}
