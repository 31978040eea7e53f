"""Upstream's test/integration/placement/placement_test.go."""

from __future__ import annotations

from typing import Any, Final

from tests.planes.cluster import MERGE
from tests.planes.ocm.world import CLUSTERS, World
from tests.planes.scenarios import Suite

SUITE: Final = Suite[World]("Placement Scheduling")


async def _of_one_set(world: World, clusters: int, number: int = 10, **spec: Any) -> list[str]:
    """A set with clusters that is bound, and a placement that asks for some of them, which was decided."""
    await world.bound_set(world.own("set1"))
    names = await world.clusters(world.own("set1"), clusters)
    await _place(world, min(clusters, number), numberOfClusters=number, **spec)
    return names


async def _place(world: World, clusters: int, decisions: int = 1, **spec: Any) -> None:
    await world.place(**spec)
    await world.numbers(clusters, decisions)
    if wanted := spec.get("numberOfClusters"):
        await world.satisfied(clusters, all_=clusters == wanted)


@SUITE.scenario("Should re-create placementdecisions successfully once placementdecisions are deleted")
async def decisions_are_deleted(world: World) -> None:
    await _of_one_set(world, 5)
    before = {one["metadata"]["uid"] for one in world.decisions()}
    await world.delete_decisions()
    await world.replaced(before)
    await world.numbers(5, 1)
    await world.groups(("", (1,), 5))


@SUITE.scenario("Should re-create placementdecisions successfully once selected clusters are terminating")
async def clusters_are_terminating(world: World) -> None:
    names = await _of_one_set(world, 5)
    path = f"{CLUSTERS}/{names[0]}"
    await world.cluster.patch(path, {"metadata": {"finalizers": ["example.com/test"]}}, MERGE)
    try:
        await world.delete_clusters(names[0])
        await world.selects(names[1:])
        await world.groups(("", (1,), 4))
    finally:
        await world.cluster.patch(path, {"metadata": {"finalizers": []}}, MERGE)


@SUITE.scenario("Should create empty placementdecision when no cluster selected")
async def no_cluster_selected(world: World) -> None:
    await _place(world, 0)
    await world.groups(("", (1,), 0))


@SUITE.scenario("Should create multiple placementdecisions once scheduled")
async def multiple_decisions(world: World) -> None:
    await world.bound_set(world.own("set1"))
    await world.clusters(world.own("set1"), 101)
    await _place(world, 101, 2)
    await world.groups(("", (1, 2), 101))
    await world.satisfied(101, all_=True)


@SUITE.scenario("Should schedule placement successfully once spec.ClusterSets changes")
async def cluster_sets_change(world: World) -> None:
    for name, count in (("set1", 2), ("set2", 3)):
        await world.bound_set(world.own(name))
        await world.clusters(world.own(name), count)
    await _place(world, 5, numberOfClusters=10)
    await world.change(clusterSets=[world.own("set1")])
    await world.numbers(2, 1)


@SUITE.scenario("Should schedule successfully once spec.NumberOfClusters is reduced")
async def number_is_reduced(world: World) -> None:
    await _of_one_set(world, 5)
    await world.change(numberOfClusters=4)
    await world.numbers(4, 1)
    await world.satisfied(4, all_=True)


@SUITE.scenario("Should schedule successfully once spec.NumberOfClusters is increased")
async def number_is_increased(world: World) -> None:
    await _of_one_set(world, 10, 5)
    await world.change(numberOfClusters=8)
    await world.numbers(8, 1)
    await world.satisfied(8, all_=True)


@SUITE.scenario("Should schedule successfully once MisConfigured is fixed")
async def misconfigured_is_fixed(world: World) -> None:
    await world.bound_set(world.own("set1"))
    await world.clusters(world.own("set1"), 1)
    await world.place(numberOfClusters=1, tolerations=[{"key": "key1", "operator": "Exists", "value": "value1"}])
    await world.numbers(0, 1)
    await world.condition("PlacementMisconfigured", "True", "Misconfigured")
    await world.change(tolerations=[])
    await world.numbers(1, 1)
    await world.condition("PlacementMisconfigured", "False", "Succeedconfigured")
    await world.satisfied(1, all_=True)


@SUITE.scenario("Should be satisfied once new clusters are added")
async def clusters_are_added(world: World) -> None:
    await _of_one_set(world, 5)
    await world.clusters(world.own("set1"), 5)
    await world.numbers(10, 1)
    await world.satisfied(10, all_=True)


@SUITE.scenario("Should schedule successfully once clusters belong to labelselector clusterset are added/deleted")
async def clusters_of_a_label_selector(world: World) -> None:
    vendor = world.own("openShift")
    await world.create_set(world.own("set1"), vendor=vendor)
    await world.bind(world.own("set1"))
    first = await world.clusters(world.own("other"), 1, vendor=vendor)
    await _place(world, 1, numberOfClusters=2)
    second = await world.clusters(world.own("other"), 1, vendor=vendor)
    await world.numbers(2, 1)
    await world.satisfied(2, all_=True)
    await world.delete_clusters(*first)
    await world.numbers(1, 1)
    await world.delete_clusters(*second)
    await world.numbers(0, 1)


@SUITE.scenario("Should update the decision group once clusters added/deleted", alone=True)
async def decision_groups(world: World) -> None:
    await world.create_set("global")
    await world.bind("global")
    vendor = world.own("openShift")
    canary = await world.clusters(world.own("set1"), 2, vendor=vendor)
    others = await world.clusters(world.own("set1"), 3)
    group = {"groupName": "canary", "groupClusterSelector": {"labelSelector": {"matchLabels": {"vendor": vendor}}}}
    await _place(
        world,
        5,
        3,
        decisionStrategy={"groupStrategy": {"clustersPerDecisionGroup": 2, "decisionGroups": [group]}},
    )
    await world.satisfied(5, all_=True)
    await world.groups(("canary", (1,), 2), ("", (2,), 2), ("", (3,), 1))
    await world.delete_clusters(canary[0], others[0])
    await world.groups(("canary", (1,), 1), ("", (2,), 2))
    canary += await world.clusters(world.own("set1"), 1, vendor=vendor)
    await world.numbers(4, 2)
    await world.groups(("canary", (1,), 2), ("", (2,), 2))
    others += await world.clusters(world.own("set1"), 1)
    await world.numbers(5, 3)
    await world.groups(("canary", (1,), 2), ("", (2,), 2), ("", (3,), 1))
    await world.delete_clusters(*canary[1:], *others[1:])
    await world.delete_set("global")
    await world.numbers(0, 1)
    await world.groups(("", (1,), 0))


@SUITE.scenario(
    "Should schedule successfully once clusters belong to global(empty labelselector) clusterset are added/deleted)",
    alone=True,
)
async def clusters_of_the_global_set(world: World) -> None:
    await world.create_set("global")
    await world.bind("global")
    first = await world.clusters(world.own("other"), 1)
    await _place(world, 1, numberOfClusters=2)
    second = await world.clusters(world.own("other"), 1)
    await world.numbers(2, 1)
    await world.satisfied(2, all_=True)
    await world.delete_clusters(*first)
    await world.numbers(1, 1)
    await world.delete_clusters(*second)
    await world.numbers(0, 1)


@SUITE.scenario("Should schedule successfully once new clusterset is bound")
async def set_is_bound(world: World) -> None:
    await _of_one_set(world, 5)
    await world.bound_set(world.own("set2"))
    await world.clusters(world.own("set2"), 3)
    await world.numbers(8, 1)
    await world.satisfied(8, all_=False)


@SUITE.scenario("Should schedule successfully once new labelselector clusterset is bound")
async def label_selector_set_is_bound(world: World) -> None:
    for number, vendor in ((1, world.own("openShift")), (2, world.own("IKS"))):
        await world.create_set(world.own(f"set{number}"), vendor=vendor)
        await world.bind(world.own(f"set{number}"))
        await world.clusters(world.own("other"), 1, vendor=vendor)
        if number == 1:
            await _place(world, 1, numberOfClusters=2)
    await world.numbers(2, 1)
    await world.satisfied(2, all_=True)


@SUITE.scenario("Should schedule successfully once a clusterset deleted/added")
async def set_is_deleted(world: World) -> None:
    await _of_one_set(world, 5)
    await world.delete_set(world.own("set1"))
    await world.numbers(0, 1)
    await world.create_set(world.own("set1"))
    await world.numbers(5, 1)
    await world.satisfied(5, all_=False)


@SUITE.scenario("Should schedule successfully once a labelselector clusterset deleted/added")
async def label_selector_set_is_deleted(world: World) -> None:
    vendor = world.own("openShift")
    await world.create_set(world.own("set1"), vendor=vendor)
    await world.bind(world.own("set1"))
    ours = await world.clusters(world.own("other"), 1, vendor=vendor)
    await world.clusters(world.own("other"), 1, vendor=world.own("IKS"))
    await _place(world, 1, numberOfClusters=10)
    await world.delete_set(world.own("set1"))
    await world.numbers(0, 1)
    await world.create_set(world.own("set1"), vendor=vendor)
    await world.numbers(1, 1)
    await world.satisfied(1, all_=False)
    await world.delete_clusters(*ours)
    await world.numbers(0, 1)


@SUITE.scenario("Should schedule successfully once a clustersetbinding deleted/added")
async def binding_is_deleted(world: World) -> None:
    await _of_one_set(world, 5)
    await world.unbind(world.own("set1"))
    await world.numbers(0, 1)
    await world.bind(world.own("set1"))
    await world.numbers(5, 1)
    await world.satisfied(5, all_=False)
