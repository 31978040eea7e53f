"""Upstream's test/e2e/suites/base/clustertaintpolicy_test.go."""

from __future__ import annotations

from typing import Any, Final

from tests.planes.karmada.world import World
from tests.planes.scenarios import Suite

SUITE: Final = Suite[World]("Taint cluster with ClusterTaintPolicy")


def _policy(cluster: str, conditions: tuple[str, ...], *taints: tuple[str, str]) -> dict[str, Any]:
    def matches(*statuses: str) -> list[dict[str, Any]]:
        return [{"conditionType": one, "operator": "In", "statusValues": list(statuses)} for one in conditions]

    return {
        "targetClusters": {"clusterNames": [cluster]},
        "addOnConditions": matches("False", "Unknown"),
        "removeOnConditions": matches("True"),
        "taints": [{"key": key, "effect": effect} for key, effect in taints],
    }


async def _added_and_removed(world: World, conditions: tuple[str, ...], *taints: tuple[str, str]) -> None:
    other, cluster = await world.member("m1"), await world.member("m2")
    await world.taint_policy("policy", **_policy(cluster, conditions, *taints))
    for type_ in conditions:
        await world.condition(cluster, type_, "False")
    await world.tainted(cluster, *taints)
    for type_ in conditions:
        await world.condition(cluster, type_, "True")
    await world.tainted(cluster)
    await world.tainted(other)
    assert not world.ever_tainted(other) & set(taints)


@SUITE.scenario("One condition match: taint should be added and removed upon single condition match")
async def one_condition(world: World) -> None:
    await _added_and_removed(world, ("NetworkReady",), ("testing/network-not-ready", "NoSchedule"))


@SUITE.scenario("Multi conditions match: taint should be added and removed upon multi conditions match")
async def several_conditions(world: World) -> None:
    await _added_and_removed(world, ("NetworkReady", "StorageReady"), ("testing/all-not-ready", "NoSchedule"))


@SUITE.scenario("Control with multiple taints: multiple taints should be added and removed upon conditions match")
async def several_taints(world: World) -> None:
    key = "testing/network-not-ready"
    await _added_and_removed(world, ("NetworkReady",), (key, "NoSchedule"), (key, "NoExecute"))
