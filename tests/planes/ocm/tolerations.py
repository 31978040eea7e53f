"""Upstream's test/integration/placement/toleration_test.go."""

from __future__ import annotations

import datetime as dt
from typing import Final

from tests.planes.ocm.world import World
from tests.planes.scenarios import Suite

SUITE: Final = Suite[World]("TaintToleration")


async def _clusters(world: World, count: int) -> list[str]:
    await world.bound_set(world.own("set1"))
    return await world.clusters(world.own("set1"), count)


def _exists(key: str, effect: str) -> dict[str, str]:
    return {"key": key, "operator": "Exists", "effect": effect}


@SUITE.scenario("Should schedule successfully when taint/toleration matches")
async def toleration_matches(world: World) -> None:
    names = await _clusters(world, 3)
    for name, key, value in zip(names, ("key1", "key2", "key2"), ("value1", "value2", "value3"), strict=True):
        await world.taint(name, key, value, "NoSelect")
    tolerations = [{"key": "key1", "operator": "Exists"}, {"key": "key2", "operator": "Equal", "value": "value2"}]
    await world.place(numberOfClusters=3, tolerations=tolerations)
    await world.selects(names[:2])
    await world.satisfied(2, all_=False)


@SUITE.scenario("Should schedule when taint/toleration effect matches")
async def effect_matches(world: World) -> None:
    names = await _clusters(world, 4)
    for number, effect in enumerate(("NoSelect", "NoSelectIfNew", "PreferNoSelect")):
        await world.taint(names[number], f"key{number + 1}", f"value{number + 1}", effect)
    tolerations = [
        _exists("key1", "PreferNoSelect"),
        *(_exists(key, "NoSelect") for key in ("key2", "key3", "key4")),
    ]
    await world.place(numberOfClusters=4, tolerations=tolerations)
    await world.selects(names[2:])
    await world.satisfied(2, all_=False)
    await world.taint(names[3], "key4", "value4", "NoSelectIfNew")
    # The engine has seen that taint when a later one has taken another cluster.
    await world.taint(names[2], "key5", "value5", "NoSelect")
    await world.selects(names[3:])


@SUITE.scenario("Should reschedule when expire TolerationSeconds")
async def toleration_expires(world: World) -> None:
    names = await _clusters(world, 4)
    begin = await world.taint(names[0], "key1", "value1", "NoSelect", ago=0)
    later = await world.taint(names[1], "key2", "value2", "NoSelect", ago=0)
    await world.taint(names[2], "key2", "value2", "NoSelect", ago=60)
    seconds = {"key1": 30, "key2": 40}  # upstream: 10 and 20, which is short for a busy machine
    tolerations = [{"key": key, "operator": "Exists", "tolerationSeconds": for_} for key, for_ in seconds.items()]
    await world.place(numberOfClusters=4, tolerations=tolerations)
    await world.selects([names[0], names[1], names[3]])
    await world.selects([names[1], names[3]], seconds=30 + world.patience)
    assert dt.datetime.now(dt.UTC) >= begin + dt.timedelta(seconds=30)
    await world.selects([names[3]], seconds=40 + world.patience)
    assert dt.datetime.now(dt.UTC) >= later + dt.timedelta(seconds=40)
    await world.taint(names[3], "key3", "value3", "NoSelect", ago=60)
    await world.selects([])
