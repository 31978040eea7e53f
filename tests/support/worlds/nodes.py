"""Nodes and pods, for tests that drive all services."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from tests.support.worlds.flow import START
from tests.support.worlds.world import PARTITIONS, World, every_service, flow_of, lifted

from moorage.runtime.settings import Settings
from moorage_schemas.placement import PlacementState, WorkloadPlaced
from moorage_schemas.topics import BINDINGS, PLACEMENTS


class NodeWorld(World):
    """All services, nodes, and what makes pods.

    Args:
        nodes: names of nodes to declare.
        seed: draws the order in which services get their turn.
        settings: those of all services; rates are lifted when None.
        start: the time at which it begins.
    """

    def __init__(
        self, *nodes: str, seed: int | None = None, settings: Settings | None = None, start: datetime = START
    ) -> None:
        self.settings = settings or lifted(partitions=PARTITIONS)
        super().__init__(flow_of(every_service(self.settings), seed=seed, start=start))
        for name in nodes:
            self.node(name)

    def check(self) -> None:
        """Every placed pod has exactly its binding, and nothing else is bound."""
        wanted = {
            (f"{event.workload}|{event.target}", event.binding_generation)
            for event in self.pods().values()
            if event.state is PlacementState.PLACED
        }
        assert {(key, event.generation) for key, event in self.flow.table(BINDINGS).items()} == wanted

    def pods(self, owner: str = "") -> dict[str, WorkloadPlaced]:
        """What was decided of each pod, by its name."""
        table = self.flow.table(PLACEMENTS)
        return {event.workload.name: event for event in table.values() if owner in {"", event.owner.name}}

    def where(self, owner: str = "") -> list[str]:
        """The nodes of an owner's pods, sorted; `-` for one that waits."""
        return sorted(event.target.name if event.target else "-" for event in self.pods(owner).values())


def pod_spec(cpu: str = "", **spec: Any) -> dict[str, Any]:
    """The spec of a pod that asks for some CPU, or for nothing."""
    container = {"name": "c", "resources": {"requests": {"cpu": cpu}}} if cpu else {"name": "c"}
    return {"containers": [container], **spec}
