"""Upstream's test/e2e/suites/base/failover_test.go for clusters, and tainttoleration_test.go.

There are no member clusters. That the deployment is on a cluster is a Work in that cluster's namespace, and what its
agent would report is reported by the scenario. The preservation of state is left out.
"""

from __future__ import annotations

from typing import Any, Final

from tests.planes.karmada.world import Taint, World
from tests.planes.scenarios import Suite

CLUSTER: Final = Suite[World]("cluster failover testing")
TOLERATION: Final = Suite[World]("propagation with taint and toleration testing")

_NOT_READY: Final = {"key": "cluster.karmada.io/not-ready", "effect": "NoExecute"}
_FAIL_TEST: Final = {"key": "fail-test", "effect": "NoExecute"}


async def _deployed(world: World, taint: Taint, seconds: int, purge_mode: str = "") -> tuple[str, str]:
    """A deployment that runs on one of two clusters, and tolerates a taint for some seconds.

    Returns:
        The cluster that it runs on, and the other.
    """
    members = {await world.member("m1"), await world.member("m2")}
    placement: dict[str, Any] = {
        "clusterAffinity": {"clusterNames": sorted(members)},
        "clusterTolerations": [{**taint, "operator": "Exists", "tolerationSeconds": seconds}],
        "spreadConstraints": [{"spreadByField": "cluster", "maxGroups": 1, "minGroups": 1}],
    }
    await world.deploy(placement, {"cluster": {"purgeMode": purge_mode}} if purge_mode else None)
    (here,) = await world.placed(lambda found: len(found) == 1, "on one cluster")
    await world.healthy(here)
    (other,) = members - {here}
    return here, other


async def _fails_over_gracefully(world: World, taint: Taint, seconds: int, purge_mode: str = "") -> None:
    here, other = await _deployed(world, taint, seconds, purge_mode)
    await world.taint(here, taint)
    await world.placed(lambda found: found == {other}, f"on {other}")
    assert world.work(here), "it is to run where it was until it is healthy elsewhere"
    await world.untaint(here, taint)
    await world.healthy(other)
    await world.disappears([here])


@CLUSTER.scenario("Cluster failover testing with nil failover behavior: deployment failover testing")
async def nil_behavior(world: World) -> None:
    await _fails_over_gracefully(world, _NOT_READY, 2)


@CLUSTER.scenario("Cluster failover testing with purgeMode gracefully: taint Cluster with NoExecute taint")
async def gracefully(world: World) -> None:
    await _fails_over_gracefully(world, _FAIL_TEST, 3, "Gracefully")


@CLUSTER.scenario("Cluster failover testing with purgeMode directly: taint Cluster with NoExecute taint")
async def directly(world: World) -> None:
    here, other = await _deployed(world, _FAIL_TEST, 3, "Directly")
    await world.taint(here, _FAIL_TEST)
    await world.placed(lambda found: found == {other}, f"on {other}")
    await world.disappears([here])  # though nobody has said that it is healthy elsewhere


@TOLERATION.scenario("Deployment propagation testing: deployment with cluster tolerations testing")
async def cluster_tolerations(world: World) -> None:
    key = "cluster-toleration.karmada.io"
    members = [
        await world.member(name, {"key": key, "value": f"{world.name}-{name}", "effect": "NoSchedule"})
        for name in ("m1", "m2", "m3")
    ]
    toleration = {"key": key, "operator": "Equal", "value": members[0], "effect": "NoSchedule"}
    await world.deploy({"clusterAffinity": {"clusterNames": members}, "clusterTolerations": [toleration]})
    await world.placed(lambda found: found == {members[0]}, f"on {members[0]} alone")
