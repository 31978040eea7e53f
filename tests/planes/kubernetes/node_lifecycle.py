"""Upstream's test/integration/node/lifecycle_test.go, and nodes whose kubelets fall silent.

Each scenario is a zone of three nodes, of which one fails, so that the zone is not disrupted as a whole.
"""

from __future__ import annotations

from typing import Final

from tests.planes.kubernetes.world import World, tolerated
from tests.planes.scenarios import Suite

BY_USER: Final = Suite[World]("TestEvictionForNoExecuteTaintAddedByUser")
TAINT_BASED: Final = Suite[World]("TestTaintBasedEvictions")
SILENCE: Final = Suite[World]("Kubelets that renew no lease")

NOT_READY: Final = "node.kubernetes.io/not-ready"
UNREACHABLE: Final = "node.kubernetes.io/unreachable"

_KUBELETS: Final = "kwok-b"
_GRACE: Final = 12.0  # seconds after which a kubelet is silent


async def _zone(world: World, kubelets: str = "a") -> str:
    """Three nodes, of which one is returned."""
    node = await world.node("n1", kubelets=kubelets)
    await world.node("n0")
    await world.node("n2")
    return node


@BY_USER.scenario("Test eviction for NoExecute taint added by user; pod condition added")
async def eviction_for_a_taint_added_by_user(world: World) -> None:
    node = await _zone(world)
    await world.run_pod("testpod", nodeName=node)
    await world.taint(node, {"key": "CustomTaintByUser", "effect": "NoExecute"})
    left = await world.leaving("testpod")
    conditions = {one["type"]: one["status"] for one in left.object["status"]["conditions"]}
    assert conditions.get("DisruptionTarget") == "True"


@TAINT_BASED.scenario("Taint based evictions for NodeNotReady and 200 tolerationseconds")
async def not_ready_and_200_seconds(world: World) -> None:
    node = await _zone(world)
    await world.run_pod("testpod", nodeName=node, tolerations=[tolerated(NOT_READY, seconds=200)])
    await world.run_pod("witness", nodeName=node, tolerations=[tolerated(NOT_READY, seconds=0)])
    await world.condition(node, "Ready", "False")
    await world.has_taint(node, NOT_READY, "NoExecute")
    await world.leaving("witness")
    await world.stays("testpod")


@TAINT_BASED.scenario("Taint based evictions for NodeNotReady with no pod tolerations")
async def not_ready_and_no_tolerations(world: World) -> None:
    node = await _zone(world)
    await world.run_pod("testpod", nodeName=node)
    await world.run_pod("witness", nodeName=node, tolerations=[tolerated(NOT_READY, seconds=0)])
    pod = world.pod("testpod")
    assert pod is not None
    given = {one["key"]: one.get("tolerationSeconds") for one in pod["spec"]["tolerations"]}
    assert given == {NOT_READY: 300, UNREACHABLE: 300}  # by the API server's admission
    await world.condition(node, "Ready", "False")
    await world.has_taint(node, NOT_READY, "NoExecute")
    await world.leaving("witness")
    await world.stays("testpod")


@TAINT_BASED.scenario("Taint based evictions for NodeNotReady and 0 tolerationseconds")
async def not_ready_and_0_seconds(world: World) -> None:
    node = await _zone(world)
    await world.run_pod("testpod", nodeName=node, tolerations=[tolerated(NOT_READY, seconds=0)])
    await world.condition(node, "Ready", "False")
    await world.has_taint(node, NOT_READY, "NoExecute")
    await world.leaving("testpod")


@TAINT_BASED.scenario("Taint based evictions for NodeUnreachable")
async def unreachable(world: World) -> None:
    node = await _zone(world)
    await world.condition(node, "Ready", "Unknown")
    await world.has_taint(node, UNREACHABLE, "NoExecute")


@TAINT_BASED.scenario("a node that becomes ready again keeps its pods")
async def ready_again(world: World) -> None:
    node = await _zone(world)
    await world.run_pod("testpod", nodeName=node, tolerations=[tolerated(NOT_READY, seconds=20)])
    await world.condition(node, "Ready", "False")
    await world.has_taint(node, NOT_READY, "NoExecute")
    await world.condition(node, "Ready", "True")
    await world.tainted(node)
    await world.stays("testpod")


@SILENCE.scenario("the node is Unknown and unreachable, its pods leave, and it comes back")
async def kubelets_stop(world: World) -> None:
    node = await _zone(world, kubelets="b")
    await world.run_pod("testpod", nodeName=node, tolerations=[tolerated(UNREACHABLE, seconds=1)])
    await world.run_pod("patient", nodeName=node)
    world.plane.pause(_KUBELETS)
    try:
        await world.has_condition(node, "Ready", "Unknown", seconds=_GRACE + world.patience)
        await world.has_taint(node, UNREACHABLE, "NoSchedule")
        await world.has_taint(node, UNREACHABLE, "NoExecute")
        await world.leaving("testpod")
        await world.stays("patient")
    finally:
        world.plane.resume(_KUBELETS)
    await world.condition(node, "Ready", "True")  # as a kubelet does; the simulated ones only renew leases
    await world.tainted(node)
