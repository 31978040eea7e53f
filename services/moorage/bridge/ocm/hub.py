"""What a bridge has seen of its hub: each object as it is mirrored, and what it acts on."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from moorage.bridge.ocm.clusters import SeenCluster
from moorage.bridge.ocm.reduced import reduced
from moorage_schemas.keys import ResourceKey
from moorage_schemas.resources.names import PLACEMENT_LABEL

JsonObject = dict[str, Any]

CLUSTER: Final = "ManagedCluster"
SET: Final = "ManagedClusterSet"
SET_BINDING: Final = "ManagedClusterSetBinding"
PLACEMENT: Final = "Placement"
DECISION: Final = "PlacementDecision"
SCORE: Final = "AddOnPlacementScore"
ADD_ON: Final = "ManagedClusterAddOn"
LEASE: Final = "Lease"

CLUSTER_LEASE: Final = "managed-cluster-lease"
"""The Lease that a cluster's agent renews, in the namespace of the cluster's name."""

_API: Final = "/apis/cluster.open-cluster-management.io"

CLUSTERS: Final = f"{_API}/v1/managedclusters"
LEASES: Final = "/apis/coordination.k8s.io/v1"

Seen = Callable[[str, str], None]
"""Called with the kind and the key of an object that was seen, changed or gone."""


class FollowedKind(NamedTuple):
    """A kind of objects on a hub that a bridge follows."""

    kind: str
    path: str
    """Of the list of all of them."""

    params: Mapping[str, str] = {}
    """Selectors of the list."""


FOLLOWED: Final = (
    FollowedKind(CLUSTER, CLUSTERS),
    FollowedKind(SET, f"{_API}/v1beta2/managedclustersets"),
    FollowedKind(SET_BINDING, f"{_API}/v1beta2/managedclustersetbindings"),
    FollowedKind(SCORE, f"{_API}/v1alpha1/addonplacementscores"),
    FollowedKind(ADD_ON, "/apis/addon.open-cluster-management.io/v1alpha1/managedclusteraddons"),
    # A hub is a Kubernetes cluster with nodes of its own, whose Leases are none of the bridge's business.
    FollowedKind(LEASE, f"{LEASES}/leases", {"fieldSelector": "metadata.namespace!=kube-node-lease"}),
    FollowedKind(DECISION, f"{_API}/v1beta1/placementdecisions"),
    FollowedKind(PLACEMENT, f"{_API}/v1beta1/placements"),
)
MIRRORED: Final = frozenset({CLUSTER, SET, SET_BINDING, SCORE, ADD_ON, LEASE, DECISION, PLACEMENT})


class HubState:
    """The objects of one hub.

    Args:
        seen: called for each change.
        is_decided: returns whether Moorage has decided on a placement, by its key and uid. What is on the hub is then
            what it has written there, or is about to be.
    """

    def __init__(self, seen: Seen, is_decided: Callable[[str, str], bool]) -> None:
        self._seen = seen
        self._is_decided = is_decided
        self._objects: dict[str, JsonObject] = {}
        self._leases: dict[str, JsonObject] = {}
        """The Leases of add-ons, and of all else on the hub, by key."""

        self._reporting: set[str] = set()
        """The keys of add-ons whose agent says itself on the hub how they are."""

        self.clusters: dict[str, SeenCluster] = {}
        """By name."""

        self.placements: dict[str, JsonObject] = {}
        """By key, whole."""

        self.decisions: dict[str, dict[str, JsonObject]] = {}
        """By the key of the placement, by their own, whole."""

        self._placements: dict[str, str] = {}
        """The key of the placement of each PlacementDecision, by its own."""

        self.renewals: dict[str, str] = {}
        """The time of the last renewal of a cluster's Lease, by the cluster's name."""

    @property
    def keys(self) -> frozenset[str]:
        """The keys of all objects that are to be mirrored."""
        leases = (key for key in self._leases if self._is_used(key))
        decisions = (key for key in self._placements if self._foreign(key) is not None)
        return frozenset([*self._objects, *leases, *decisions])

    def object(self, key: str) -> JsonObject | None:
        """Return an object as it is to be mirrored. None if it is not there."""
        if (found := self._objects.get(key)) is not None:
            return found
        if (decision := self._foreign(key)) is not None:
            return reduced(decision)
        return self._leases.get(key) if self._is_used(key) else None

    def put(self, kind: str, found: JsonObject) -> None:
        """Note an object as it was seen, unless a newer version of it is known."""
        key = key_of(kind, found)
        found = {**found, "kind": kind}
        if kind == DECISION:
            self._put_decision(found)
            return
        if kind == LEASE:
            if found["metadata"]["name"] == CLUSTER_LEASE:
                renewed = str((found.get("spec") or {}).get("renewTime") or "")
                self.renewals[str(found["metadata"]["namespace"])] = renewed
            else:
                self._leases[key] = reduced(found)
            self._seen(kind, key)
            return
        if kind == PLACEMENT:
            if _is_older(found, self.placements.get(key)):
                return
            self.placements[key] = found
        self._objects[key] = reduced(found)
        if kind == CLUSTER:
            self.clusters[found["metadata"]["name"]] = SeenCluster.of(found)
        elif kind == ADD_ON:
            conditions = (found.get("status") or {}).get("conditions") or ()
            reports = any(one.get("type") == "Available" for one in conditions)
            (self._reporting.add if reports else self._reporting.discard)(key)
            self._add_on_changed(key)
        self._seen(kind, key)

    def drop(self, kind: str, found: JsonObject) -> None:
        """Note that an object is gone."""
        key = key_of(kind, found)
        if kind == DECISION:
            self._drop_decision(found)
            return
        self._objects.pop(key, None)
        if kind == LEASE:
            # That of a cluster stays known: one that is gone is not renewed, either.
            self._leases.pop(key, None)
        elif kind == PLACEMENT:
            self.placements.pop(key, None)
        elif kind == CLUSTER:
            self.clusters.pop(found["metadata"]["name"], None)
            self.renewals.pop(found["metadata"]["name"], None)
        elif kind == ADD_ON:
            self._reporting.discard(key)
            self._add_on_changed(key)
        self._seen(kind, key)

    def of_kind(self, kind: str) -> list[JsonObject]:
        """Return the objects of a kind, at least with their names."""
        if kind == DECISION:
            return [page for pages in self.decisions.values() for page in pages.values()]
        if kind == LEASE:
            return list(self._leases.values())
        return [one for key, one in self._objects.items() if ResourceKey.parse(key).kind == kind]

    def add_ons(self, cluster: str) -> list[str]:
        """Return the names of the add-ons of a cluster."""
        keys = (ResourceKey.parse(key) for key in self._objects if key.startswith(f"{ADD_ON}/{cluster}/"))
        return [key.name for key in keys]

    def _foreign(self, key: str) -> JsonObject | None:
        """A PlacementDecision that somebody else has taken, and that counts because Moorage has not decided itself.

        One whose owner is gone is about to be deleted by the hub.
        """
        if (placement := self._placements.get(key)) is None:
            return None
        found, there = self.decisions[placement][key], self.placements.get(placement)
        uid = str(there["metadata"].get("uid") or "") if there is not None else ""
        owner = next((one for one in found["metadata"].get("ownerReferences") or () if one.get("controller")), None)
        if owner is not None and owner.get("uid") != uid:
            return None
        return None if uid and self._is_decided(placement, uid) else found

    def _is_used(self, lease: str) -> bool:
        """Whether a Lease is one of an add-on whose state follows from it."""
        _, namespace, name, _ = ResourceKey.parse(lease)
        add_on = str(ResourceKey(ADD_ON, namespace, name))
        return add_on in self._objects and add_on not in self._reporting

    def _add_on_changed(self, key: str) -> None:
        """Whether the Lease of an add-on counts depends on the add-on."""
        _, namespace, name, _ = ResourceKey.parse(key)
        if (lease := str(ResourceKey(LEASE, namespace, name))) in self._leases:
            self._seen(LEASE, lease)

    def _put_decision(self, found: JsonObject) -> None:
        key, placement = key_of(DECISION, found), _placement_of(found)
        before = self._placements.get(key)
        if before is not None:
            if _is_older(found, self.decisions[before].get(key)):
                return
            if before != placement:  # its label was changed
                self._drop_decision(found)
        self._placements[key] = placement
        self.decisions.setdefault(placement, {})[key] = found
        self._seen(DECISION, key)
        self._seen(PLACEMENT, placement)

    def _drop_decision(self, found: JsonObject) -> None:
        key = key_of(DECISION, found)
        if (placement := self._placements.pop(key, None)) is None:
            return
        del self.decisions[placement][key]
        if not self.decisions[placement]:
            del self.decisions[placement]
        self._seen(DECISION, key)
        self._seen(PLACEMENT, placement)


class HubSink:
    """Takes the objects of one kind from a reflector."""

    def __init__(self, state: HubState, kind: str) -> None:
        self._state = state
        self._kind = kind

    def replaced(self, objects: Sequence[JsonObject]) -> None:
        """See `Sink`."""
        there = {key_of(self._kind, one) for one in objects}
        for one in self._state.of_kind(self._kind):
            if key_of(self._kind, one) not in there:
                self._state.drop(self._kind, one)
        for one in objects:
            self._state.put(self._kind, one)

    def changed(self, found: JsonObject) -> None:
        """See `Sink`."""
        self._state.put(self._kind, found)

    def deleted(self, found: JsonObject) -> None:
        """See `Sink`."""
        self._state.drop(self._kind, found)


def key_of(kind: str, found: JsonObject) -> str:
    """Return the key of an object."""
    metadata = found["metadata"]
    return str(ResourceKey(kind, metadata.get("namespace") or "", metadata["name"]))


def _placement_of(decision: JsonObject) -> str:
    """The key of the placement of a PlacementDecision."""
    metadata = decision["metadata"]
    return str(ResourceKey(PLACEMENT, metadata["namespace"], (metadata.get("labels") or {}).get(PLACEMENT_LABEL, "")))


def _is_older(found: JsonObject, known: JsonObject | None) -> bool:
    """Whether a newer version of the same object is known: the answer to a write may be faster than the watch."""
    if known is None or known["metadata"].get("uid") != found["metadata"].get("uid"):
        return False
    version, other = (str(one["metadata"].get("resourceVersion") or "") for one in (found, known))
    return version.isdecimal() and other.isdecimal() and int(version) < int(other)
