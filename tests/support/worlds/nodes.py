"""Nodes and pods, for tests that run all services."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from tests.support.worlds.flow import START
from tests.support.worlds.world import PARTITIONS, World, every_service, flow_of, lifted

from moorage.runtime.settings.process_settings import Settings
from moorage_schemas.placement import PlacementState, WorkloadPlaced
from moorage_schemas.topics import BINDINGS, PLACEMENTS


class NodeWorld(World):
    """All services, nodes, and controllers of pods.

    Args:
        nodes: names of nodes to declare.
        seed: determines the order in which services run.
        settings: those of all services; rates are lifted when None.
        start: the time at which it begins.
        cluster: the cluster that everything is in; empty for the home fleet.
        beside: another world, whose services this one shares.
    """

    def __init__(
        self,
        *nodes: str,
        seed: int | None = None,
        settings: Settings | None = None,
        start: datetime = START,
        cluster: str = "",
        beside: World | None = None,
    ) -> None:
        self.settings = settings or lifted(partitions=PARTITIONS)
        flow = flow_of(every_service(self.settings), seed=seed, start=start) if beside is None else beside.flow
        super().__init__(flow, cluster)
        for name in nodes:
            self.node(name)

    def check(self) -> None:
        """Check that every placed pod has its binding, and that there are no others."""
        wanted = {
            (f"{event.workload}|{event.target}", event.binding_generation)
            for event in self.pods().values()
            if event.state is PlacementState.PLACED
        }
        found = self.flow.table(BINDINGS).items()
        assert {(key, one.generation) for key, one in found if one.target.cluster == self.within} == wanted

    def pods(self, owner: str = "") -> dict[str, WorkloadPlaced]:
        """The decision on each pod, by its name."""
        mine = [event for event in self.flow.table(PLACEMENTS).values() if event.workload.cluster == self.within]
        return {event.workload.name: event for event in mine if owner in {"", event.owner.name}}

    def where(self, owner: str = "") -> list[str]:
        """The nodes of an owner's pods, sorted. `-` for a pod that waits."""
        return sorted(event.target.name if event.target else "-" for event in self.pods(owner).values())


def pod_spec(cpu: str = "", **spec: Any) -> dict[str, Any]:
    """The spec of a pod that requests some CPU, or nothing."""
    container = {"name": "c", "resources": {"requests": {"cpu": cpu}}} if cpu else {"name": "c"}
    return {"containers": [container], **spec}
