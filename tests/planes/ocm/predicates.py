"""Upstream's test/integration/placement/predicate_test.go."""

from __future__ import annotations

from typing import Any, Final

from tests.planes.ocm.world import World
from tests.planes.scenarios import Suite

SUITE: Final = Suite[World]("Predicates Cluster Selector")


async def _of_two_clouds(world: World) -> tuple[list[str], list[str]]:
    """Two clusters of Azure and three of Amazon, which are all selected."""
    await world.bound_set(world.own("set1"))
    azure = await world.clusters(world.own("set1"), 2, cloud="Azure")
    amazon = await world.clusters(world.own("set1"), 3, cloud="Amazon")
    await world.place(numberOfClusters=10)
    await world.numbers(5, 1)
    await world.satisfied(5, all_=False)
    return azure, amazon


def _required(**selector: Any) -> list[dict[str, Any]]:
    return [{"requiredClusterSelector": selector}]


@SUITE.scenario("Should schedule placement successfully once spec.Predicates LabelSelector changes")
async def label_selector_changes(world: World) -> None:
    azure, amazon = await _of_two_clouds(world)
    await world.change(predicates=_required(labelSelector={"matchLabels": {"cloud": "Amazon"}}))
    await world.selects(amazon)
    await world.groups(("", (1,), 3))
    await world.change(predicates=_required(labelSelector={"matchLabels": {"cloud": "Azure"}}))
    await world.selects(azure)


@SUITE.scenario("Should schedule placement successfully once spec.Predicates ClaimSelector changes")
async def claim_selector_changes(world: World) -> None:
    azure, amazon = await _of_two_clouds(world)
    for cloud, clusters in (("Amazon", amazon), ("Azure", azure)):
        terms = [{"key": "cloud", "operator": "In", "values": [cloud]}]
        await world.change(predicates=_required(claimSelector={"matchExpressions": terms}))
        await world.selects(clusters)


@SUITE.scenario("Should schedule placement successfully once spec.Predicates CelSelector changes")
async def cel_selector_changes(world: World) -> None:
    await world.bound_set(world.own("set1"))
    first, second = await world.clusters(world.own("set1"), 2)
    await world.score(first, 70)
    await world.score(second, 90)
    await world.place(numberOfClusters=1, predicates=_required(celSelector={"celExpressions": ["xxxx.expression"]}))
    await world.numbers(0, 1)
    await world.condition("PlacementMisconfigured", "True", "Misconfigured")
    expression = """managedCluster.scores("demo").filter(s, s.name == 'demo').all(e, e.value > 80)"""
    await world.change(predicates=_required(celSelector={"celExpressions": [expression]}))
    await world.selects([second])
