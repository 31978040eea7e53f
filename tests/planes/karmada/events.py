"""What `kubectl describe` shows of bindings and clusters: the events of upstream's pkg/events."""

from __future__ import annotations

from typing import Final

from tests.planes.karmada.world import World
from tests.planes.scenarios import Suite

SUITE: Final = Suite[World]("events")

_FAIL_TEST: Final = {"key": "fail-test", "effect": "NoExecute"}
_BINDING: Final = "nginx-deployment"


@SUITE.scenario("recordScheduleResultEventForResourceBinding, EmitClusterEvictionEventForResourceBinding")
async def bindings(world: World) -> None:
    members = {await world.member("m1"), await world.member("m2")}
    one = [{"spreadByField": "cluster", "maxGroups": 1, "minGroups": 1}]
    await world.deploy({"clusterAffinity": {"clusterNames": sorted(members)}, "spreadConstraints": one})
    (here,) = await world.placed(lambda found: len(found) == 1, "on one cluster")
    for kind, name in (("ResourceBinding", _BINDING), ("Deployment", "nginx")):
        await world.told(kind, name, "Normal", "ScheduleBindingSucceed", namespace=world.name)
    await world.healthy(here)
    await world.taint(here, _FAIL_TEST)
    (other,) = members - {here}
    await world.placed(lambda found: found == {other}, f"on {other}")
    await world.healthy(other)
    for kind, name in (("ResourceBinding", _BINDING), ("Deployment", "nginx")):
        await world.told(kind, name, "Normal", "EvictWorkloadFromClusterSucceed", namespace=world.name)


@SUITE.scenario("recordScheduleResultEventForResourceBinding: no cluster fits")
async def no_cluster_fits(world: World) -> None:
    await world.deploy({"clusterAffinity": {"clusterNames": [f"{world.name}-none"]}})
    await world.told("ResourceBinding", _BINDING, "Warning", "ScheduleBindingFailed", namespace=world.name)


@SUITE.scenario("recordScheduleResultEventForClusterResourceBinding")
async def cluster_bindings(world: World) -> None:
    await world.propagate_role({"clusterAffinity": {"clusterNames": [await world.member("m1")]}})
    await world.told("ClusterResourceBinding", f"{world.name}-clusterrole", "Normal", "ScheduleBindingSucceed")
    await world.told("ClusterRole", world.name, "Normal", "ScheduleBindingSucceed")


@SUITE.scenario("ClusterTaintPolicyController: taint")
async def taints(world: World) -> None:
    cluster, taint = await world.member("m1"), {"key": "testing/network-not-ready", "effect": "NoSchedule"}
    false = [{"conditionType": "NetworkReady", "operator": "In", "statusValues": ["False"]}]
    await world.taint_policy(
        "policy", targetClusters={"clusterNames": [cluster]}, addOnConditions=false, taints=[taint]
    )
    await world.condition(cluster, "NetworkReady", "False")
    await world.tainted(cluster, (taint["key"], taint["effect"]))
    await world.told("Cluster", cluster, "Normal", "TaintClusterSucceed")
