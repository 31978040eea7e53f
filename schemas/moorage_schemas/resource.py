"""Declared resources: Kubernetes-style objects that people and programs write."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

from pydantic import Field

from moorage_schemas.base import Model, Timestamp
from moorage_schemas.keys import ResourceKey, TargetKey
from moorage_schemas.refs import Cluster, TargetKind, TargetRef
from moorage_schemas.taint import Taint


class TaintWish(Model):
    """A person's latest edit of one (key, effect) of a target's taints.

    The edits accumulate in the target's record, so that compaction loses none. The taint-manager applies the edits with
    a higher generation than the last one that it has applied.
    """

    key: str
    effect: str
    value: str = ""
    present: bool
    """True: the taint is to be present with this value. False: the taint was removed."""

    generation: int = Field(ge=1)
    time: Timestamp
    """When the edit was made. If the edit adds the taint, this is its `timeAdded`, unless the object itself gives
    one."""

    actor: str = ""


class PodOrder(Model):
    """An order about one of the pods that a controller's template makes. Such a pod has no record of its own.

    It is in the record of the controller, because that determines the partition in which its pods are decided on. It
    counts for the pod with this uid alone, and is left out of later records when that pod has ended or is bound.
    """

    pod: str
    """The key of the pod."""

    uid: str
    node: str = ""
    """The node that a scheduler has chosen for a pod that waits for one. Empty: the pod is to be ended, and made
    again."""

    time: Timestamp
    actor: str = ""


class PodMetadata(Model):
    """The metadata of one of the pods that a controller's template makes, as somebody has changed it.

    Like an order, it is in the record of the controller, counts for the pod with this uid alone, and is left out of
    later records when that pod has ended.
    """

    pod: str
    """The key of the pod."""

    uid: str
    labels: dict[str, str] = Field(default_factory=dict)
    """All of its labels, instead of those of the template. Budgets select by them too."""

    annotations: dict[str, str] = Field(default_factory=dict)
    """All of its annotations, instead of those of the template."""

    managed_fields: tuple[dict[str, Any], ...] = ()
    """Who has set which of them (`metadata.managedFields`)."""


class Mirrored(Model):
    """That an object lives in a real cluster, and what its bridge has seen there.

    Such an object is what the cluster says. The pods of a mirrored controller are made there and mirrored, too, so
    placement makes none. A mirrored pod is placed by Moorage only if its `spec.schedulerName` is `moorage`.
    """

    source: str = Field(min_length=1)
    """The bridge that mirrors it, such as `bridge/east`. It is the deployer of its pods."""

    resource_version: str = ""
    """The object's `metadata.resourceVersion` in its cluster."""

    cluster_uid: Annotated[str, Field(exclude_if=lambda uid: not uid)] = ""
    """The uid of the namespace `kube-system` there, which tells clusters apart. Empty: the bridge has not said."""

    taints: tuple[Taint, ...] = ()
    """For a target: the taints that others have set in the cluster, without those of Moorage, and without those that
    follow from the target's state. They are in `wishes`, too."""

    keeps_taints: Annotated[bool, Field(exclude_if=lambda keeps: not keeps)] = False
    """For a target: whether its cluster's own controllers decide on its taints. Then `taints` are all that it has
    there, and no others follow from its state or from policies."""


class ResourceDeclared(Model):
    """One resource as admitted. Topic `resources`, keyed by kind, namespace and name.

    The record of a target is partitioned by the target's key. A tombstone deletes the resource.
    """

    event_type: ClassVar[str] = "io.moorage.resource.declared.v1"

    object: dict[str, Any]
    """The whole object with defaults filled in. A target's `spec.taints` is not kept here; see `wishes`."""

    version: int = Field(ge=1)
    """Increases by one with each write of this object."""

    wishes: tuple[TaintWish, ...] = ()
    """For a target: the latest edit of each (key, effect) that still has an effect."""

    pods: tuple[PodOrder, ...] = ()
    """For a controller: the orders about its pods that may not be carried out yet."""

    pod_metadata: tuple[PodMetadata, ...] = ()
    """For a controller: the metadata of those of its pods for which somebody has changed it."""

    cluster: Cluster = ""
    """The cluster that the object is in; empty for the home fleet. It is part of the key."""

    mirrored: Annotated[Mirrored | None, Field(exclude_if=lambda mirrored: mirrored is None)] = None
    """For an object that lives in a real cluster. None for one that is declared here."""

    def metadata_of(self, uid: str) -> PodMetadata | None:
        """The changed metadata of one of its pods. None if nobody has changed it."""
        return next((one for one in self.pod_metadata if one.uid == uid), None)

    @property
    def kind(self) -> str:
        """The object's kind."""
        return str(self.object.get("kind", ""))

    @property
    def namespace(self) -> str:
        """The object's namespace. Empty if the object is cluster-scoped."""
        return str(self.object.get("metadata", {}).get("namespace") or "")

    @property
    def name(self) -> str:
        """The object's name."""
        return str(self.object.get("metadata", {}).get("name", ""))

    @property
    def uid(self) -> str:
        """The object's uid. It changes when the object is deleted and created again."""
        return str(self.object.get("metadata", {}).get("uid", ""))

    @property
    def key(self) -> str:
        """The record key."""
        return resource_key(self.kind, self.namespace, self.name, self.cluster)


def resource_key(kind: str, namespace: str, name: str, cluster: str = "") -> str:
    """The record key of a resource, `Kind/namespace/name`. The namespace is empty for cluster-scoped kinds.

    Outside the home fleet, the cluster and a colon precede it.
    """
    key = f"{kind}/{namespace}/{name}"
    return f"{cluster}:{key}" if cluster else key


_TARGET_KINDS = frozenset(kind.value for kind in TargetKind)

_LEASE = "Lease"
OF_MANAGED_CLUSTERS = frozenset({"ManagedClusterAddOn", _LEASE})
"""Kinds whose objects belong to a managed cluster: the one with the name of their namespace."""

_LEASE_NAMESPACES = {"kube-node-lease": TargetKind.NODE, "karmada-cluster": TargetKind.CLUSTER}
"""The namespaces whose Leases belong to nodes and to Karmada clusters: those with the names of the Leases."""

_CLUSTER_LEASE = "managed-cluster-lease"
"""The Lease of a managed cluster's own agent. Others in its namespace are those of its add-ons."""


def _owner_of_lease(key: ResourceKey) -> TargetKey | None:
    """The target to which a Lease belongs. None if the record is no Lease."""
    if key.kind != _LEASE:
        return None
    if (kind := _LEASE_NAMESPACES.get(key.namespace)) is not None:
        return TargetKey(kind.value, key.name, key.cluster)
    return TargetKey(TargetKind.MANAGED_CLUSTER.value, key.namespace, key.cluster)


def renewed_target(key: str) -> str | None:
    """The key of the target whose agent renews a Lease, by the Lease's record key. None for any other record."""
    if f"{_LEASE}/" not in key:
        return None  # nearly all records
    found = ResourceKey.parse(key)
    owner = _owner_of_lease(found)
    if owner is None or (owner.kind == TargetKind.MANAGED_CLUSTER and found.name != _CLUSTER_LEASE):
        return None
    return str(owner)


def resource_partition_key(key: str) -> str:
    """The text that determines the partition of a resource's record.

    For a target, and for objects that belong to a target, it is the target's key. Otherwise it is the record's own key.
    """
    found = kind, namespace, name, cluster = ResourceKey.parse(key)
    if (owner := _owner_of_lease(found)) is not None:
        return str(owner)
    if kind in OF_MANAGED_CLUSTERS:
        return str(TargetKey(TargetKind.MANAGED_CLUSTER.value, namespace, cluster))
    return str(TargetKey(kind, name, cluster)) if kind in _TARGET_KINDS else key


def target_of_resource(key: str) -> TargetRef | None:
    """The target that a resource's record key names. None if the resource is not a target."""
    kind, _, name, cluster = ResourceKey.parse(key)
    return TargetRef(kind=TargetKind(kind), name=name, cluster=cluster) if kind in _TARGET_KINDS else None
