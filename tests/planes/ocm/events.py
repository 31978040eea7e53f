"""What `kubectl describe placement` shows: the events of upstream's pkg/placement/controllers/scheduling."""

from __future__ import annotations

from typing import Final

from tests.planes.ocm.world import World
from tests.planes.scenarios import Suite

SUITE: Final = Suite[World]("schedulingController.bind")


@SUITE.scenario("events of decisions that are created, updated and deleted")
async def decisions(world: World) -> None:
    await world.bound_set(world.own("set1"))
    first, _ = await world.clusters(world.own("set1"), 2)
    await world.place(decisionStrategy={"groupStrategy": {"clustersPerDecisionGroup": 1}})
    await world.numbers(2, 2)
    await _told(world, "DecisionCreate")
    await world.delete_clusters(first)
    await world.numbers(1, 1)
    await _told(world, "DecisionUpdate", "DecisionDelete", "ScoreUpdate")


async def _told(world: World, *reasons: str) -> None:
    for reason in reasons:
        await world.told("Placement", world.name, "Normal", reason, namespace=world.name)
