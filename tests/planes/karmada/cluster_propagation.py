"""Upstream's test/e2e/suites/base/clusterpropagationpolicy_test.go, and the failover of what has no namespace.

Upstream's tests of failover are about a Deployment alone. Its taint manager, scheduler and graceful eviction controller
do the same for ClusterResourceBindings.
"""

from __future__ import annotations

from typing import Any, Final

from tests.planes.karmada.world import World
from tests.planes.scenarios import Suite

BASIC: Final = Suite[World]("[BasicCase] ClusterPropagationPolicy testing")
FAILOVER: Final = Suite[World]("cluster failover testing")

_FAIL_TEST: Final = {"key": "fail-test", "effect": "NoExecute"}
_ONE_CLUSTER: Final = [{"spreadByField": "cluster", "maxGroups": 1, "minGroups": 1}]


@BASIC.scenario("ClusterRole propagation testing: clusterRole propagation testing")
async def cluster_role(world: World) -> None:
    members = [await world.member("m1"), await world.member("m2")]
    await world.propagate_role({"clusterAffinity": {"clusterNames": members}})
    await world.presented(members)
    await world.scheduled()
    await world.delete_role()
    await world.disappears(members)


async def _failing_over(world: World, purge_mode: str) -> tuple[str, str]:
    """A ClusterRole that had to leave one of two clusters. Returns that cluster, and the other."""
    members = {await world.member("m1"), await world.member("m2")}
    placement: dict[str, Any] = {
        "clusterAffinity": {"clusterNames": sorted(members)},
        "clusterTolerations": [{**_FAIL_TEST, "operator": "Exists", "tolerationSeconds": 2}],
        "spreadConstraints": _ONE_CLUSTER,
    }
    await world.propagate_role(placement, {"cluster": {"purgeMode": purge_mode}})
    (here,) = await world.placed(lambda found: len(found) == 1, "on one cluster")
    await world.presented([here])
    (other,) = members - {here}
    await world.taint(here, _FAIL_TEST)
    await world.placed(lambda found: found == {other}, f"on {other}")
    return here, other


@FAILOVER.scenario("Cluster failover testing with purgeMode directly: taint Cluster with NoExecute taint (ClusterRole)")
async def directly(world: World) -> None:
    here, _ = await _failing_over(world, "Directly")
    await world.disappears([here])


@FAILOVER.scenario(
    "Cluster failover testing with purgeMode gracefully: taint Cluster with NoExecute taint (ClusterRole)"
)
async def gracefully(world: World) -> None:
    here, other = await _failing_over(world, "Gracefully")
    await world.presented([other])
    assert world.work(here), "nobody says that it is healthy elsewhere, so it stays until its grace period is over"
