"""A fleet with objects of a real cluster, which a bridge mirrors, and with the bridge's reports."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.support.worlds.flow import Record
from tests.support.worlds.nodes import NodeWorld, pod_spec
from tests.support.worlds.world import WITNESS

from moorage_schemas.condition import EVICTED, HEALTHY
from moorage_schemas.eviction import EvictionDecided
from moorage_schemas.placement import WorkloadBound
from moorage_schemas.resource import Mirrored
from moorage_schemas.times import format_time
from moorage_schemas.topics import BINDINGS, EVICTIONS

BRIDGE = "bridge/east"


class MirroredWorld(NodeWorld):
    """All services, and a bridge.

    Args:
        nodes: names of nodes to declare. They are not mirrored, because that makes no difference.
        options: as for `NodeWorld`.
    """

    def __init__(self, *nodes: str, **options: Any) -> None:
        self.mirrored: dict[str, str] = {}
        """The bridge of each mirrored object, by record key."""

        super().__init__(*nodes, **options)

    def mirror(self, kind: str, name: str, spec: Mapping[str, Any] | None = None, **parts: Any) -> Record:
        """Mirror an object of the cluster, or its change. See `declare`."""
        self.mirrored[self._key(kind, name, "default")] = BRIDGE
        return self.declare(kind, name, spec, **parts)

    def pod(self, name: str, *, on: str = "", cpu: str = "", phase: str = "Pending", **spec: Any) -> Record:
        """Mirror a pod, or its change.

        Args:
            name: its name.
            on: the node to which its cluster has bound it.
            cpu: how much CPU it requests.
            phase: its phase.
            spec: further fields of its spec.
        """
        spec = {**pod_spec(cpu), **spec, **({"nodeName": on} if on else {})}
        return self.mirror("Pod", name, spec, labels={"app": "web"}, status={"phase": phase})

    def terminate(self, name: str) -> Record:
        """The cluster has begun to delete a pod."""
        key = self._key("Pod", name, "default")
        mark = {"deletionTimestamp": format_time(self.flow.now)}
        self.objects[key] = {**self.objects[key], "metadata": {**self.objects[key]["metadata"], **mark}}
        return self.write(key)

    def ready(self, *names: str, status: str = "True") -> None:
        """The bridge reports how pods are."""
        for name in names:
            bound = self.bound(name)
            self.report(bound.target.key, HEALTHY, status, source=BRIDGE, binding=bound)

    def acknowledge(self, name: str) -> None:
        """The bridge reports that an evicted pod is gone."""
        bound = self.bound(name)
        self.flow.advance(1)
        self.report(bound.target.key, EVICTED, "True", source=BRIDGE, binding=bound)
        self.run()

    def bound(self, name: str) -> WorkloadBound:
        """The only binding of a pod."""
        (found,) = self.bindings(name)
        return found

    def bindings(self, name: str) -> list[WorkloadBound]:
        """The bindings of a pod."""
        found = self.flow.table(BINDINGS).values()
        mine = [one for one in found if isinstance(one, WorkloadBound) and one.workload.cluster == self.within]
        return [one for one in mine if one.workload.name == name]

    def task(self, bound: WorkloadBound) -> EvictionDecided:
        """The eviction of a binding."""
        found = self.flow.table(EVICTIONS)[f"{bound.workload}|{bound.target}|{bound.generation}"]
        assert isinstance(found, EvictionDecided)
        return found

    def _write_with(self, key: str, **fields: Any) -> Record:
        if (source := self.mirrored.get(key)) is not None:
            fields["mirrored"] = Mirrored(source=source, resource_version="1")
        return super()._write_with(key, **fields)


def controller(kind: str, name: str, api_version: str = "apps/v1") -> dict[str, Any]:
    """The reference to a controller, as its pods have it."""
    return {"apiVersion": api_version, "kind": kind, "name": name, "uid": f"uid-{name}", "controller": True}


def with_witness(*nodes: str, **options: Any) -> MirroredWorld:
    """A world with nodes, and one more that takes no pods, so that not all nodes can be down."""
    world = MirroredWorld(*nodes, WITNESS, **options)
    world.taint(WITNESS, "keep-out", "NoSchedule")
    return world
