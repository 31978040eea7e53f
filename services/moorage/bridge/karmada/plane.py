"""What a bridge has seen of its control plane: each object as it is mirrored, and what it acts on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from pydantic import ValidationError

from moorage.bridge.karmada.bindings import SeenBinding
from moorage.bridge.karmada.members import SeenMember
from moorage.bridge.karmada.reduced import reduced
from moorage_schemas.keys import ResourceKey
from moorage_schemas.resources.workload_kinds import BINDING_KINDS, CLUSTER_RESOURCE_BINDING, RESOURCE_BINDING

JsonObject = dict[str, Any]

CLUSTER: Final = "Cluster"
LEASE: Final = "Lease"

_POLICIES: Final = "/apis/policy.karmada.io/v1alpha1"

CLUSTERS: Final = "/apis/cluster.karmada.io/v1alpha1/clusters"
_WORK: Final = "/apis/work.karmada.io/v1alpha2"
LEASES: Final = "/apis/coordination.k8s.io/v1/namespaces/karmada-cluster/leases"
"""The Leases that the agents in clusters renew, by the clusters' names."""

Seen = Callable[[str, str], None]
"""Called with the kind and the key of an object that was seen, changed or gone."""


class PlaneKind(NamedTuple):
    """A kind of objects on a control plane that a bridge follows."""

    kind: str
    path: str
    """Of the list of all of them."""


FOLLOWED: Final = (
    PlaneKind(CLUSTER, CLUSTERS),
    PlaneKind("ClusterTaintPolicy", f"{_POLICIES}/clustertaintpolicies"),
    PlaneKind("PropagationPolicy", f"{_POLICIES}/propagationpolicies"),
    PlaneKind("ClusterPropagationPolicy", f"{_POLICIES}/clusterpropagationpolicies"),
    PlaneKind(LEASE, LEASES),
    PlaneKind(RESOURCE_BINDING, f"{_WORK}/resourcebindings"),
    PlaneKind(CLUSTER_RESOURCE_BINDING, f"{_WORK}/clusterresourcebindings"),
)
MIRRORED: Final = frozenset(one.kind for one in FOLLOWED) - {LEASE}


class PlaneState:
    """The objects of one control plane.

    Args:
        scheduler: the `spec.schedulerName` of the bindings that Moorage places, beside those that name it.
        seen: called for each change.
    """

    def __init__(self, scheduler: str, seen: Seen) -> None:
        self._scheduler = scheduler
        self._seen = seen
        self._objects: dict[str, JsonObject] = {}
        self.clusters: dict[str, SeenMember] = {}
        """By name."""

        self.bindings: dict[str, SeenBinding] = {}
        """By key. One that cannot be read is not among them."""

        self.renewals: dict[str, str] = {}
        """The time of the last renewal of a cluster's Lease, by the cluster's name."""

    @property
    def keys(self) -> frozenset[str]:
        """The keys of all objects that are to be mirrored."""
        return frozenset(self._objects)

    def object(self, key: str) -> JsonObject | None:
        """Return an object as it is to be mirrored. None if it is not there."""
        return self._objects.get(key)

    def put(self, kind: str, found: JsonObject) -> None:
        """Note an object as it was seen, unless a newer version of it is known."""
        key, metadata = key_of(kind, found), found["metadata"]
        if kind == LEASE:
            self.renewals[metadata["name"]] = str((found.get("spec") or {}).get("renewTime") or "")
            self._seen(kind, key)
            return
        if _is_older(found, self._objects.get(key)):
            return  # the answer to a write was faster than the watch
        found = {**found, "kind": kind}
        mirrored = self._objects[key] = reduced(found, self._scheduler)
        if kind == CLUSTER:
            self.clusters[metadata["name"]] = SeenMember.of(found)
        elif kind in BINDING_KINDS:
            try:
                self.bindings[key] = SeenBinding.of(found, mirrored)
            except ValidationError:  # the gateway refuses it, too, and says why
                self.bindings.pop(key, None)
        self._seen(kind, key)

    def drop(self, kind: str, key: str) -> None:
        """Note that an object is gone. A Lease stays known: one that is gone is not renewed, either."""
        if kind == LEASE or self._objects.pop(key, None) is None:
            return
        if kind == CLUSTER:
            self.clusters.pop(ResourceKey.parse(key).name, None)
        elif kind in BINDING_KINDS:
            self.bindings.pop(key, None)
        self._seen(kind, key)

    def of_kind(self, kind: str) -> list[str]:
        """Return the keys of the objects of a kind."""
        return [key for key in self._objects if ResourceKey.parse(key).kind == kind]


class PlaneSink:
    """Takes the objects of one kind from a reflector."""

    def __init__(self, state: PlaneState, kind: str) -> None:
        self._state = state
        self._kind = kind

    def replaced(self, objects: Sequence[JsonObject]) -> None:
        """See `Sink`."""
        there = {key_of(self._kind, one) for one in objects}
        for key in self._state.of_kind(self._kind):
            if key not in there:
                self._state.drop(self._kind, key)
        for one in objects:
            self._state.put(self._kind, one)

    def changed(self, found: JsonObject) -> None:
        """See `Sink`."""
        self._state.put(self._kind, found)

    def deleted(self, found: JsonObject) -> None:
        """See `Sink`."""
        self._state.drop(self._kind, key_of(self._kind, found))


def binding_path(namespace: str, name: str) -> str:
    """Return the path of a binding. One without a namespace is a ClusterResourceBinding."""
    if namespace:
        return f"{_WORK}/namespaces/{namespace}/resourcebindings/{name}"
    return f"{_WORK}/clusterresourcebindings/{name}"


def is_binding(key: str) -> bool:
    """Return whether a key is that of a binding."""
    return ResourceKey.parse(key).kind in BINDING_KINDS


def key_of(kind: str, found: JsonObject) -> str:
    """Return the key of an object."""
    metadata = found["metadata"]
    return str(ResourceKey(kind, metadata.get("namespace") or "", metadata["name"]))


def _is_older(found: JsonObject, known: JsonObject | None) -> bool:
    """Whether an object was seen in a newer version before."""
    if known is None or known["metadata"].get("uid") != found["metadata"].get("uid"):
        return False
    old, new = (str(one["metadata"].get("resourceVersion") or "") for one in (known, found))
    return old.isdecimal() and new.isdecimal() and int(new) < int(old)
