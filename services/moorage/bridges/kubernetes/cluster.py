"""The state of a cluster as its bridge has seen it: mirrored objects, and of nodes and pods what it acts on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from typing_extensions import override

from moorage.bridges.engine.cluster_events import Regarding
from moorage.bridges.engine.plan import FollowedKind
from moorage.bridges.engine.seen_state import LEASE, JsonObject, Seen, SeenState
from moorage.bridges.engine.seen_target import (
    Identity,
    SeenTarget,
    conditions_of,
    own_conditions,
    state_taints,
    target_fields,
)
from moorage.bridges.kubernetes.reduced import SCHEDULER, SeenPod, reduced
from moorage_schemas.keys import ResourceKey

NODE: Final = "Node"
POD: Final = "Pod"

MIRRORED: Final = (
    FollowedKind(NODE, "/api/v1/nodes"),
    FollowedKind(POD, "/api/v1/pods"),
    FollowedKind("Deployment", "/apis/apps/v1/deployments"),
    FollowedKind("ReplicaSet", "/apis/apps/v1/replicasets"),
    FollowedKind("DaemonSet", "/apis/apps/v1/daemonsets"),
    FollowedKind("StatefulSet", "/apis/apps/v1/statefulsets"),
    FollowedKind("Job", "/apis/batch/v1/jobs"),
    FollowedKind("PodDisruptionBudget", "/apis/policy/v1/poddisruptionbudgets"),
    FollowedKind("PersistentVolume", "/api/v1/persistentvolumes"),
    FollowedKind("PersistentVolumeClaim", "/api/v1/persistentvolumeclaims"),
)
_LEASE_NAMESPACE: Final = "kube-node-lease"
LEASES: Final = f"/apis/coordination.k8s.io/v1/namespaces/{_LEASE_NAMESPACE}/leases"
"""The Leases that kubelets renew, by the nodes' names. They may outlive their nodes."""
READY: Final = "Ready"
_OLDER_LABELS: Final = {f"kubernetes.io/{name}": f"beta.kubernetes.io/{name}" for name in ("os", "arch")}


@dataclass(frozen=True, slots=True)
class SeenNode(SeenTarget):
    """A node as it was last seen. Its heartbeat is the time of the last one of Ready, unless a bridge has written it.

    Attributes:
        state_taints: those that follow from the state of the node, regardless of who has set them.
        own_conditions: the types of the conditions that a bridge has set last.
        labels_due: the older names of labels that have to have the values of the stable ones, as the node lifecycle
            controller gives them.
    """

    state_taints: frozenset[Identity]
    own_conditions: frozenset[str]
    labels_due: Mapping[str, str]

    @classmethod
    def of(cls, found: Mapping[str, Any]) -> SeenNode:
        """Read a node."""
        own = own_conditions(found)
        beats = (str(one.get("lastHeartbeatTime") or "") for one in conditions_of(found) if one.get("type") == READY)
        heartbeat = "" if READY in own else next(beats, "")
        fields = {**target_fields(found), "heartbeat": heartbeat}
        labels = found["metadata"].get("labels") or {}
        due = {
            older: labels[name]
            for name, older in _OLDER_LABELS.items()
            if name in labels and labels.get(older) != labels[name]
        }
        return cls(**fields, state_taints=state_taints(found), own_conditions=own, labels_due=due)

    @property
    @override
    def about(self) -> Regarding:
        return Regarding("v1", NODE, "", self.name, self.uid)


class ClusterState(SeenState[SeenNode]):
    """The objects of one cluster.

    Args:
        cluster: its name in references. Empty for the home fleet.
        scheduler: the `spec.schedulerName` of the pods that Moorage places, beside those that name it.
    """

    def __init__(self, cluster: str, seen: Seen, scheduler: str = SCHEDULER) -> None:
        super().__init__(seen, cluster)
        self._scheduler = scheduler
        self.pods: dict[str, SeenPod] = {}
        """By key."""

    @override
    def of_kind(self, kind: str) -> list[str]:
        if kind == LEASE:
            return [str(ResourceKey(LEASE, _LEASE_NAMESPACE, name, self._cluster)) for name in self.renewals]
        return super().of_kind(kind)

    @override
    def leased(self, kind: str, key: str) -> str:
        return ResourceKey.parse(key).name if kind == LEASE else ""

    @override
    def put(self, kind: str, found: JsonObject) -> None:
        key, name = self.key_of(kind, found), found["metadata"]["name"]
        if kind == LEASE:
            self.renewals[name] = str((found.get("spec") or {}).get("renewTime") or "")
            self._seen(kind, key)
            return
        known = self._objects.get(key)
        if known is not None and known["metadata"].get("uid") != found["metadata"].get("uid"):
            self.drop(kind, key)  # it was deleted while the watch was cut
        self._objects[key] = reduced({**found, "kind": kind}, self._scheduler, keeps_taints=self.keeps_taints)
        if kind == NODE:
            self.targets[name] = SeenNode.of({**found, "kind": kind})
        elif kind == POD:
            self.pods[key] = SeenPod.of(found, self._scheduler)
        self._seen(kind, key)

    @override
    def drop(self, kind: str, key: str) -> None:
        name = ResourceKey.parse(key).name
        if kind == LEASE:
            self.renewals.pop(name, None)
            return
        if self._objects.pop(key, None) is None:
            return
        if kind == NODE:
            self.targets.pop(name, None)
        elif kind == POD:
            self.pods.pop(key, None)
        self._seen(kind, key)
