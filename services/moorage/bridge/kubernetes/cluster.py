"""What a bridge has seen of its cluster: each object as it is mirrored, and of nodes and pods what it acts on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from moorage.bridge.kubernetes.nodes import SeenNode
from moorage.bridge.kubernetes.pods import SCHEDULER, SeenPod
from moorage.bridge.kubernetes.reduced import reduced
from moorage_schemas.keys import ResourceKey

NODE: Final = "Node"
POD: Final = "Pod"

JsonObject = dict[str, Any]
Seen = Callable[[str, str], None]
"""Called with the kind and the key of an object that was seen, changed or gone."""


class MirroredKind(NamedTuple):
    """A kind of objects that are mirrored."""

    kind: str
    path: str
    """Of the list of all of them."""


MIRRORED: Final = (
    MirroredKind(NODE, "/api/v1/nodes"),
    MirroredKind(POD, "/api/v1/pods"),
    MirroredKind("Deployment", "/apis/apps/v1/deployments"),
    MirroredKind("ReplicaSet", "/apis/apps/v1/replicasets"),
    MirroredKind("DaemonSet", "/apis/apps/v1/daemonsets"),
    MirroredKind("StatefulSet", "/apis/apps/v1/statefulsets"),
    MirroredKind("Job", "/apis/batch/v1/jobs"),
    MirroredKind("PodDisruptionBudget", "/apis/policy/v1/poddisruptionbudgets"),
)


class ClusterState:
    """The objects of one cluster.

    Args:
        cluster: its name in references. Empty for the home fleet.
        seen: called for each change.
        scheduler: the `spec.schedulerName` of the pods that Moorage places, beside those that name it.
    """

    def __init__(self, cluster: str, seen: Seen, scheduler: str = SCHEDULER) -> None:
        self._cluster = cluster
        self._scheduler = scheduler
        self._seen = seen
        self._objects: dict[str, JsonObject] = {}
        self.nodes: dict[str, SeenNode] = {}
        """By name."""

        self.pods: dict[str, SeenPod] = {}
        """By key."""

    @property
    def keys(self) -> frozenset[str]:
        """The keys of all objects."""
        return frozenset(self._objects)

    def object(self, key: str) -> JsonObject | None:
        """Return an object as it is to be mirrored. None if it is not there."""
        return self._objects.get(key)

    def key_of(self, kind: str, found: JsonObject) -> str:
        """Return the key of an object."""
        metadata = found["metadata"]
        return str(ResourceKey(kind, metadata.get("namespace") or "", metadata["name"], self._cluster))

    def sink(self, kind: str) -> ClusterSink:
        """Return what takes the objects of a kind."""
        return ClusterSink(self, kind)

    def put(self, kind: str, found: JsonObject) -> None:
        """Note an object as it was seen."""
        key = self.key_of(kind, found)
        if (known := self._objects.get(key)) is not None and known["metadata"].get("uid") != found["metadata"].get(
            "uid"
        ):
            self.drop(kind, key)  # it was deleted while the watch was cut
        self._objects[key] = reduced({**found, "kind": kind}, self._scheduler)
        if kind == NODE:
            self.nodes[found["metadata"]["name"]] = SeenNode.of({**found, "kind": kind})
        elif kind == POD:
            self.pods[key] = SeenPod.of(found, self._scheduler)
        self._seen(kind, key)

    def drop(self, kind: str, key: str) -> None:
        """Note that an object is gone."""
        if self._objects.pop(key, None) is None:
            return
        if kind == NODE:
            self.nodes.pop(ResourceKey.parse(key).name, None)
        elif kind == POD:
            self.pods.pop(key, None)
        self._seen(kind, key)

    def of_kind(self, kind: str) -> list[str]:
        """Return the keys of the objects of a kind."""
        return [key for key in self._objects if ResourceKey.parse(key).kind == kind]


class ClusterSink:
    """Takes the objects of one kind from a reflector."""

    def __init__(self, state: ClusterState, kind: str) -> None:
        self._state = state
        self._kind = kind

    def replaced(self, objects: Sequence[JsonObject]) -> None:
        """See `Sink`."""
        there = {self._state.key_of(self._kind, one): one for one in objects}
        for key in self._state.of_kind(self._kind):
            if key not in there:
                self._state.drop(self._kind, key)
        for one in there.values():
            self._state.put(self._kind, one)

    def changed(self, found: JsonObject) -> None:
        """See `Sink`."""
        self._state.put(self._kind, found)

    def deleted(self, found: JsonObject) -> None:
        """See `Sink`."""
        self._state.drop(self._kind, self._state.key_of(self._kind, found))
