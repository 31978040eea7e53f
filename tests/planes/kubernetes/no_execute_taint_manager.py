"""Upstream's test/e2e/node/taints.go, with seconds where upstream waits for minutes.

Upstream concludes from a pause that a pod stays. Here a second pod shows that the engine has acted by then: it differs
from the first only in that it has to leave, and later than the first would have had to.
"""

from __future__ import annotations

import datetime as dt
from typing import Final

from tests.planes.kubernetes.world import World, tolerated
from tests.planes.scenarios import Suite

SINGLE: Final = Suite[World]("NoExecuteTaintManager Single Pod")
MULTIPLE: Final = Suite[World]("NoExecuteTaintManager Multiple Pods")

_KEY: Final = "kubernetes.io/e2e-evict-taint-key"
_VALUE: Final = "evictTaintVal"
_LONG: Final = 15  # seconds within which an engine on a busy machine evicts a pod that does not tolerate the taint
TAINT: Final = {"key": _KEY, "value": _VALUE, "effect": "NoExecute"}
TOLERATION: Final = tolerated(_KEY, value=_VALUE)


def _for(seconds: int) -> list[dict[str, object]]:
    return [tolerated(_KEY, seconds=seconds, value=_VALUE)]


@SINGLE.scenario("evicts pods from tainted nodes")
async def evicts_pods_from_tainted_nodes(world: World) -> None:
    node = await world.node()
    await world.run_pod("taint-eviction-1", node=node)
    await world.taint(node, TAINT)
    await world.leaving("taint-eviction-1")


@SINGLE.scenario("doesn't evict pod with tolerations from tainted nodes")
async def doesnt_evict_pod_with_tolerations_from_tainted_nodes(world: World) -> None:
    node = await world.node()
    await world.run_pod("taint-eviction-2", node=node, tolerations=[TOLERATION])
    await world.run_pod("witness", node=node)
    await world.taint(node, TAINT)
    await world.leaving("witness")
    await world.stays("taint-eviction-2")


@SINGLE.scenario("eventually evict pod with finite tolerations from tainted nodes")
async def eventually_evict_pod_with_finite_tolerations_from_tainted_nodes(world: World) -> None:
    node = await world.node()
    await world.run_pod("taint-eviction-3", node=node, tolerations=_for(6))
    begin = await world.taint(node, TAINT)
    left = await world.leaving("taint-eviction-3", seconds=6 + world.patience)
    assert left.time >= begin + dt.timedelta(seconds=6)


@SINGLE.scenario("removing taint cancels eviction")
async def removing_taint_cancels_eviction(world: World) -> None:
    node, other = await world.node("n1"), await world.node("n2")
    await world.run_pod("taint-eviction-4", node=node, tolerations=_for(_LONG))
    await world.run_pod("queued", node=node)
    await world.run_pod("witness", node=other, tolerations=_for(_LONG))
    await world.run_pod("first", node=other)
    # The engine has nothing else to do with these nodes when it has evicted a first pod.
    await world.taint(other, TAINT)
    await world.leaving("first")
    await world.untaint(other, TAINT)
    await world.taint(node, TAINT)
    await world.leaving("queued")
    await world.untaint(node, TAINT)
    await world.taint(other, TAINT)
    await world.leaving("witness", seconds=_LONG + world.patience)
    await world.stays("taint-eviction-4")


@SINGLE.scenario("pods evicted from tainted nodes have pod disruption condition")
async def pods_evicted_from_tainted_nodes_have_pod_disruption_condition(world: World) -> None:
    node = await world.node()
    await world.run_pod("taint-eviction-pod-disruption", node=node)
    await world.taint(node, TAINT)
    left = await world.leaving("taint-eviction-pod-disruption")
    conditions = {one["type"]: one for one in left.object["status"]["conditions"]}
    assert conditions["DisruptionTarget"]["status"] == "True"
    assert conditions["DisruptionTarget"]["reason"] == "DeletionByTaintManager"


@MULTIPLE.scenario("only evicts pods without tolerations from tainted nodes")
async def only_evicts_pods_without_tolerations_from_tainted_nodes(world: World) -> None:
    first, second = await world.node("n1"), await world.node("n2")
    await world.run_pod("taint-eviction-a1", node=first)
    await world.run_pod("taint-eviction-a2", node=second, tolerations=[TOLERATION])
    await world.run_pod("witness", node=second)
    for node in (first, second):
        await world.taint(node, TAINT)
    await world.leaving("taint-eviction-a1")
    await world.leaving("witness")
    await world.stays("taint-eviction-a2")


@MULTIPLE.scenario("evicts pods with minTolerationSeconds")
async def evicts_pods_with_mintolerationseconds(world: World) -> None:
    node = await world.node()
    await world.run_pod("taint-eviction-b1", node=node, tolerations=_for(3))
    await world.run_pod("taint-eviction-b2", node=node, tolerations=_for(9))
    begin = await world.taint(node, TAINT)
    first = await world.leaving("taint-eviction-b1", seconds=3 + world.patience)
    second = await world.leaving("taint-eviction-b2", seconds=9 + world.patience)
    assert first.time >= begin + dt.timedelta(seconds=3)
    assert second.time >= begin + dt.timedelta(seconds=9)
