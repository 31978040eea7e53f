"""Upstream's test/integration/placement/prioritizer_test.go."""

from __future__ import annotations

from typing import Any, Final

from tests.planes.ocm.world import World
from tests.planes.scenarios import Suite

BUILTIN: Final = Suite[World]("Prioritizers BuiltinPlugin")
ADDON: Final = Suite[World]("Prioritizers AddonScore")

_RESOURCES: Final = ((("10", "50"), ("10", "100")), (("7", "90"), ("10", "100")), (("9", "80"), ("10", "100")))
"""Of each of three clusters: what is allocatable, and the capacity."""

_FREE: Final = (("10", "100"), ("10", "100"))


def _policy(mode: str, **weights: int) -> dict[str, Any]:
    return {
        "mode": mode,
        "configurations": [
            {"scoreCoordinate": {"type": "BuiltIn", "builtIn": name}, "weight": weight}
            for name, weight in weights.items()
        ],
    }


_BOTH: Final = {"ResourceAllocatableCPU": 1, "ResourceAllocatableMemory": 1}
_DEMO: Final = {
    "mode": "Exact",
    "configurations": [
        {
            "scoreCoordinate": {"type": "AddOn", "addOn": {"resourceName": "demo", "scoreName": "demo"}},
            "weight": 1,
        }
    ],
}


async def _three(world: World) -> list[str]:
    await world.bound_set(world.own("set1"))
    names = await world.clusters(world.own("set1"), 3)
    for name, (allocatable, capacity) in zip(names, _RESOURCES, strict=True):
        await world.resources(name, allocatable, capacity)
    return names


@BUILTIN.scenario("Should schedule successfully with default SchedulePolicy")
async def default_policy(world: World) -> None:
    names = await _three(world)
    await world.place(numberOfClusters=2)
    await world.selects([names[0], names[1]])


@BUILTIN.scenario(
    "Should schedule successfully based on SchedulePolicy ResourceAllocatableCPU & ResourceAllocatableMemory"
)
async def allocatable(world: World) -> None:
    names = await _three(world)
    await world.place(numberOfClusters=2, prioritizerPolicy=_policy("Exact", **_BOTH))
    await world.selects([names[0], names[2]])


@BUILTIN.scenario("Should keep steady successfully even placementdecisions' balance and cluster situation changes")
async def steady(world: World) -> None:
    names = await _three(world)
    await world.place(numberOfClusters=2, prioritizerPolicy=_policy("Additive", Steady=3, **_BOTH))
    await world.selects([names[0], names[2]])
    await world.decide_elsewhere(world.own("1"), [names[1]])
    (new,) = await world.clusters(world.own("set1"), 1)
    await world.resources(new, *_FREE)
    # The engine has seen the new cluster when it has one more to choose from.
    await world.change(numberOfClusters=3)
    await world.selects([names[0], names[2], new])


@BUILTIN.scenario("Should schedule successfully based on SchedulePolicy balance")
async def balance(world: World) -> None:
    names = await _three(world)
    await world.decide_elsewhere(world.own("fake-1"), [names[0]])
    policy = _policy("Exact", Balance=2, ResourceAllocatableCPU=1)
    await world.place(numberOfClusters=2, prioritizerPolicy=policy)
    await world.selects([names[1], names[2]])


@BUILTIN.scenario("Should re-schedule successfully once a new cluster with resources added/deleted")
async def cluster_with_resources(world: World) -> None:
    names = await _three(world)
    await world.place(numberOfClusters=2, prioritizerPolicy=_policy("Exact", **_BOTH))
    await world.selects([names[0], names[2]])
    (new,) = await world.clusters(world.own("set1"), 1)
    await world.resources(new, *_FREE)
    await world.selects([names[2], new])
    await world.delete_clusters(new)
    await world.selects([names[0], names[2]])


@ADDON.scenario("Should schedule successfully based on AddOnPlacementScore")
async def addon_score(world: World) -> None:
    await world.bound_set(world.own("set1"))
    names = await world.clusters(world.own("set1"), 3)
    for name, value in zip(names, (80, 90, 100), strict=True):
        await world.score(name, value)
    await world.place(numberOfClusters=2, prioritizerPolicy=_DEMO)
    await world.selects(names[1:])


@ADDON.scenario("Should reschedule every ResyncInterval and update desicion when AddOnPlacementScore changes")
async def addon_score_changes(world: World) -> None:
    await world.bound_set(world.own("set1"))
    names = await world.clusters(world.own("set1"), 3)
    await world.place(numberOfClusters=2, prioritizerPolicy=_DEMO)
    await world.selects([names[0], names[1]])
    for name, value in zip(names, (80, 90, 100), strict=True):
        await world.score(name, value)
    await world.selects([names[1], names[2]])
    for name, value in zip(names, (100, 90, 100), strict=True):
        await world.score(name, value)
    await world.selects([names[0], names[2]])
