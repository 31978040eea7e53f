"""The state of a hub as its bridge has seen it: mirrored objects, and the objects that it acts on."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from typing_extensions import override

from moorage.bridges.engine.cluster_events import Regarding
from moorage.bridges.engine.plan import FollowedKind
from moorage.bridges.engine.seen_state import LEASE, JsonObject, Seen, SeenState, fields_of, is_older, reduced_object
from moorage.bridges.engine.seen_target import (
    TAINTS_ANNOTATION,
    SeenTarget,
    mirrored_taints,
    own_taints,
    state_taints,
    target_fields,
)
from moorage.decide.taints.desired.addons import DEFAULT_GRACE, LABEL_PREFIX, lease_grace
from moorage_schemas.keys import ResourceKey
from moorage_schemas.resources.names import MANAGED_CLUSTER_AVAILABLE as AVAILABLE
from moorage_schemas.resources.names import PLACEMENT_LABEL

CLUSTER: Final = "ManagedCluster"
SET: Final = "ManagedClusterSet"
SET_BINDING: Final = "ManagedClusterSetBinding"
PLACEMENT: Final = "Placement"
DECISION: Final = "PlacementDecision"
SCORE: Final = "AddOnPlacementScore"
ADD_ON: Final = "ManagedClusterAddOn"

CLUSTER_LEASE: Final = "managed-cluster-lease"
"""The Lease that a cluster's agent renews, in the namespace of the cluster's name."""

_API: Final = "/apis/cluster.open-cluster-management.io"

CLUSTERS: Final = f"{_API}/v1/managedclusters"
LEASES: Final = "/apis/coordination.k8s.io/v1"


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
MIRRORED: Final = frozenset(one.kind for one in FOLLOWED)

_DROPPED: Final = frozenset({"kubectl.kubernetes.io/last-applied-configuration", TAINTS_ANNOTATION})
_CLUSTER_STATUS: Final = ("capacity", "allocatable", "clusterClaims", "version")
_ADD_ON_STATUS: Final = ("conditions", "healthCheck")
_LEASE: Final = ("holderIdentity", "leaseDurationSeconds", "renewTime")
_ACCEPTED: Final = "HubAcceptedManagedCluster"


@dataclass(frozen=True, slots=True)
class SeenCluster(SeenTarget):
    """A managed cluster as it was last seen.

    A bridge may remove its own taints, and those that follow from whether the cluster is available: one controller
    manages all of these.

    Attributes:
        add_on_labels: its labels that show the state of add-ons.
        grace: seconds without a renewal of its Lease after which it is silent. Infinity if the hub has never accepted
            it.
    """

    add_on_labels: Mapping[str, str]
    grace: float

    @classmethod
    def of(cls, found: Mapping[str, Any]) -> SeenCluster:
        """Read a managed cluster."""
        fields, labels = target_fields(found), found["metadata"].get("labels") or {}
        grace = lease_grace((found.get("spec") or {}).get("leaseDurationSeconds")) or DEFAULT_GRACE
        return cls(
            **{**fields, "managed_taints": own_taints(found) | state_taints(found)},
            add_on_labels={name: value for name, value in labels.items() if name.startswith(LABEL_PREFIX)},
            grace=grace.total_seconds() if _ACCEPTED in fields["conditions"] else math.inf,
        )

    @property
    @override
    def about(self) -> Regarding:
        return Regarding("cluster.open-cluster-management.io/v1", "ManagedCluster", "", self.name, self.uid)

    @property
    def is_judged(self) -> bool:
        """Whether something is known of its being available. Before, the labels of its add-ons are not set."""
        return AVAILABLE in self.conditions


class HubState(SeenState[SeenCluster]):
    """The objects of one hub.

    Args:
        is_decided: returns whether Moorage has decided on a placement, by its key and uid. What is on the hub is then
            what it has written there, or is about to be.
    """

    def __init__(self, seen: Seen, is_decided: Callable[[str, str], bool]) -> None:
        super().__init__(seen)
        self._is_decided = is_decided
        self._leases: dict[str, JsonObject] = {}
        """The Leases of add-ons, and of all else on the hub, by key."""

        self._reporting: set[str] = set()
        """The keys of add-ons whose agent reports their state on the hub itself."""

        self.placements: dict[str, JsonObject] = {}
        """By key, whole."""

        self.decisions: dict[str, dict[str, JsonObject]] = {}
        """By the key of the placement, by their own, whole."""

        self._placements: dict[str, str] = {}
        """The key of the placement of each PlacementDecision, by its own."""

    @property
    @override
    def keys(self) -> frozenset[str]:
        leases = (key for key in self._leases if self._is_used(key))
        decisions = (key for key in self._placements if self._foreign(key) is not None)
        return frozenset([*self._objects, *leases, *decisions])

    @override
    def object(self, key: str) -> JsonObject | None:
        if (found := self._objects.get(key)) is not None:
            return found
        if (decision := self._foreign(key)) is not None:
            return reduced(decision)
        return self._leases.get(key) if self._is_used(key) else None

    @override
    def leased(self, kind: str, key: str) -> str:
        _, namespace, name, _ = ResourceKey.parse(key)
        return namespace if kind == LEASE and name == CLUSTER_LEASE else ""

    @override
    def put(self, kind: str, found: JsonObject) -> None:
        key = self.key_of(kind, found)
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
        if is_older(found, self._objects.get(key)):
            return
        if kind == PLACEMENT:
            self.placements[key] = found
        self._objects[key] = reduced(found, keeps_taints=self.keeps_taints)
        if kind == CLUSTER:
            self.targets[found["metadata"]["name"]] = SeenCluster.of(found)
        elif kind == ADD_ON:
            conditions = (found.get("status") or {}).get("conditions") or ()
            reports = any(one.get("type") == "Available" for one in conditions)
            (self._reporting.add if reports else self._reporting.discard)(key)
            self._add_on_changed(key)
        self._seen(kind, key)

    @override
    def drop(self, kind: str, key: str) -> None:
        if kind == DECISION:
            self._drop_decision(key)
            return
        self._objects.pop(key, None)
        if kind == LEASE:
            # That of a cluster stays known: one that is gone is not renewed, either.
            self._leases.pop(key, None)
        elif kind == PLACEMENT:
            self.placements.pop(key, None)
        elif kind == CLUSTER:
            name = ResourceKey.parse(key).name
            self.targets.pop(name, None)
            self.renewals.pop(name, None)
        elif kind == ADD_ON:
            self._reporting.discard(key)
            self._add_on_changed(key)
        self._seen(kind, key)

    @override
    def of_kind(self, kind: str) -> list[str]:
        if kind == DECISION:
            return list(self._placements)
        return list(self._leases) if kind == LEASE else super().of_kind(kind)

    def add_ons(self, cluster: str) -> list[str]:
        """Return the names of the add-ons of a cluster."""
        keys = (ResourceKey.parse(key) for key in self._objects if key.startswith(f"{ADD_ON}/{cluster}/"))
        return [key.name for key in keys]

    def _foreign(self, key: str) -> JsonObject | None:
        """Return a PlacementDecision of another controller, which counts because Moorage has not decided itself.

        One whose owner no longer exists is about to be deleted by the hub.
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
        """Return whether a Lease is one of an add-on whose state follows from it."""
        _, namespace, name, _ = ResourceKey.parse(lease)
        add_on = str(ResourceKey(ADD_ON, namespace, name))
        return add_on in self._objects and add_on not in self._reporting

    def _add_on_changed(self, key: str) -> None:
        """Note the Lease of an add-on again: whether it counts depends on the add-on."""
        _, namespace, name, _ = ResourceKey.parse(key)
        if (lease := str(ResourceKey(LEASE, namespace, name))) in self._leases:
            self._seen(LEASE, lease)

    def _put_decision(self, found: JsonObject) -> None:
        key, placement = self.key_of(DECISION, found), _placement_of(found)
        before = self._placements.get(key)
        if before is not None:
            if is_older(found, self.decisions[before].get(key)):
                return
            if before != placement:  # its label was changed
                self._drop_decision(key)
        self._placements[key] = placement
        self.decisions.setdefault(placement, {})[key] = found
        self._seen(DECISION, key)
        self._seen(PLACEMENT, placement)

    def _drop_decision(self, key: str) -> None:
        if (placement := self._placements.pop(key, None)) is None:
            return
        del self.decisions[placement][key]
        if not self.decisions[placement]:
            del self.decisions[placement]
        self._seen(DECISION, key)
        self._seen(PLACEMENT, placement)


def _placement_of(decision: JsonObject) -> str:
    """Return the key of the placement of a PlacementDecision."""
    metadata = decision["metadata"]
    return str(ResourceKey(PLACEMENT, metadata["namespace"], (metadata.get("labels") or {}).get(PLACEMENT_LABEL, "")))


def reduced(found: Mapping[str, Any], *, keeps_taints: bool = False) -> JsonObject:
    """Return an object as it is mirrored: what decisions and people need, without what only changes or is large.

    Args:
        found: the object.
        keeps_taints: whether the hub decides on the taints of its clusters.
    """
    kind = str(found["kind"])
    body = _cluster(found, keeps_taints=keeps_taints) if kind == CLUSTER else _KINDS.get(kind, _spec)(found)
    whole = reduced_object(found, body, _DROPPED)
    if kind == CLUSTER and "labels" in (metadata := whole["metadata"]):
        # These labels show the state of add-ons. Moorage decides that, also where it has written them there itself.
        labels = {name: value for name, value in metadata.pop("labels").items() if not name.startswith(LABEL_PREFIX)}
        metadata |= {"labels": labels} if labels else {}
    return whole


def _cluster(found: Mapping[str, Any], *, keeps_taints: bool) -> JsonObject:
    kept = fields_of(found.get("spec") or {}, ("hubAcceptsClient", "leaseDurationSeconds"))
    kept |= mirrored_taints(found, keeps=keeps_taints)
    return {"spec": kept, "status": fields_of(found.get("status") or {}, _CLUSTER_STATUS)}


def _score(found: Mapping[str, Any]) -> JsonObject:
    return {"status": fields_of(found.get("status") or {}, ("scores", "validUntil"))}


def _add_on(found: Mapping[str, Any]) -> JsonObject:
    return {**_spec(found), "status": fields_of(found.get("status") or {}, _ADD_ON_STATUS)}


def _decision(found: Mapping[str, Any]) -> JsonObject:
    return {"status": fields_of(found.get("status") or {}, ("decisions",))}


def _lease(found: Mapping[str, Any]) -> JsonObject:
    return {"spec": fields_of(found.get("spec") or {}, _LEASE)}


def _spec(found: Mapping[str, Any]) -> JsonObject:
    """Return a Placement, a set or a binding. Moorage computes its status itself."""
    return {"spec": dict(found.get("spec") or {})}


_KINDS: Final[Mapping[str, Callable[[Mapping[str, Any]], JsonObject]]] = {
    SCORE: _score,
    ADD_ON: _add_on,
    LEASE: _lease,
    DECISION: _decision,
}
