"""Upstream's test/e2e/scheduling/predicates.go, and test/integration/scheduler/filters/filters_test.go in part."""

from __future__ import annotations

from typing import Any, Final

from tests.planes.cluster import MERGE
from tests.planes.kubernetes.world import NODES, World, tolerated
from tests.planes.scenarios import Suite

PREDICATES: Final = Suite[World]("SchedulerPredicates")
FILTERS: Final = Suite[World]("TestInterPodAffinity and TestPodTopologySpreadFilter")
WAITING: Final = Suite[World]("TestUnschedulablePodBecomesSchedulable")

_TAINT: Final = {"key": "kubernetes.io/e2e-taint-key", "value": "testing-taint-value", "effect": "NoSchedule"}
_LABEL: Final = "kubernetes.io/e2e-label"


def _affinity(key: str, *values: str) -> dict[str, Any]:
    terms = [{"matchExpressions": [{"key": key, "operator": "In", "values": list(values)}]}]
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}


async def _start(world: World, name: str, **given: Any) -> None:
    await world.start_pod(name, scheduler=world.engine.scheduler, **given)


async def _waits(world: World, name: str) -> str:
    """The pod is unschedulable, and an Event says so. Return the message of its condition."""
    message = await world.unschedulable(name)
    event = await world.event(name, "FailedScheduling")
    assert event["type"] == "Warning"
    found = world.pod(name)
    assert found is not None
    assert "nodeName" not in found["spec"]
    assert found["status"]["phase"] == "Pending"
    return message


@PREDICATES.scenario("validates resource limits of pods that are allowed to run")
async def resource_limits(world: World) -> None:
    for node in ("n1", "n2"):
        await world.node(node, size={"cpu": "1000m"})
    for filler in ("filler-1", "filler-2"):
        await _start(world, filler, requests={"cpu": "700m"}, limits={"cpu": "700m"})
    nodes = {await world.bound("filler-1"), await world.bound("filler-2")}
    assert len(nodes) == 2
    await _start(world, "additional-pod", requests={"cpu": "500m"}, limits={"cpu": "500m"})
    assert "Insufficient cpu" in await _waits(world, "additional-pod")


@PREDICATES.scenario("validates that NodeSelector is respected if not matching")
async def node_selector_not_matching(world: World) -> None:
    await world.node()
    await _start(world, "restricted-pod", nodeSelector={"label": "nonempty"})
    await _waits(world, "restricted-pod")


@PREDICATES.scenario("validates that NodeSelector is respected if matching")
async def node_selector_matching(world: World) -> None:
    await world.node("n1")
    node = await world.node("n2", labels={_LABEL: "42"})
    await world.node("n3")
    await _start(world, "with-labels", nodeSelector={_LABEL: "42"})
    assert await world.bound("with-labels") == node


@PREDICATES.scenario("validates that NodeAffinity is respected if not matching")
async def node_affinity_not_matching(world: World) -> None:
    await world.node()
    await _start(world, "restricted-pod", affinity=_affinity("foo", "bar", "value2"))
    await _waits(world, "restricted-pod")


@PREDICATES.scenario("validates that required NodeAffinity setting is respected if matching")
async def node_affinity_matching(world: World) -> None:
    await world.node("n1")
    node = await world.node("n2", labels={_LABEL: "42"})
    await world.node("n3")
    await _start(world, "with-labels", affinity=_affinity(_LABEL, "42"))
    assert await world.bound("with-labels") == node


@PREDICATES.scenario("validates that taints-tolerations is respected if matching")
async def taints_tolerations_matching(world: World) -> None:
    node = await world.node()
    await world.taint(node, _TAINT)
    toleration = tolerated(_TAINT["key"], value=_TAINT["value"], effect="NoSchedule")
    await _start(world, "with-tolerations", tolerations=[toleration])
    assert await world.bound("with-tolerations") == node


@PREDICATES.scenario("validates that taints-tolerations is respected if not matching")
async def taints_tolerations_not_matching(world: World) -> None:
    node = await world.node()
    await world.taint(node, _TAINT)
    await _start(world, "still-no-tolerations")
    await _waits(world, "still-no-tolerations")
    await world.untaint(node, _TAINT)
    assert await world.bound("still-no-tolerations") == node


def _listening(ip: str, protocol: str = "TCP") -> dict[str, Any]:
    address = {"hostIP": ip} if ip else {}
    return {"ports": [{"hostPort": 54321, "containerPort": 80, "protocol": protocol, **address}]}


@PREDICATES.scenario(
    "validates that there is no conflict between pods with same hostPort but different hostIP and protocol"
)
async def host_ports_without_conflict(world: World) -> None:
    node = await world.node()
    addresses = (("127.0.0.1", "TCP"), ("10.0.0.1", "TCP"), ("10.0.0.1", "UDP"))
    for number, (ip, protocol) in enumerate(addresses, 1):
        await _start(world, f"pod{number}", container=_listening(ip, protocol))
        assert await world.bound(f"pod{number}") == node


@PREDICATES.scenario(
    "validates that there exists conflict between pods with same hostPort and protocol but one using 0.0.0.0 hostIP"
)
async def host_ports_with_conflict(world: World) -> None:
    node = await world.node()
    await _start(world, "pod4", container=_listening(""))
    assert await world.bound("pod4") == node
    await _start(world, "pod5", container=_listening("10.0.0.1"))
    await _waits(world, "pod5")


@PREDICATES.scenario("validates Pods with non-empty schedulingGates are blocked on scheduling")
async def scheduling_gates(world: World) -> None:
    node = await world.node()
    await _start(world, "gated", schedulingGates=[{"name": "example.com/foo"}, {"name": "example.com/bar"}])
    await _start(world, "witness")
    assert await world.bound("witness") == node
    found = world.pod("gated")
    assert found is not None
    assert "nodeName" not in found["spec"]
    await world.remove_gates("gated")
    assert await world.bound("gated") == node


@FILTERS.scenario("validates that Inter-pod-Affinity is respected if not matching")
async def pod_affinity_not_matching(world: World) -> None:
    await world.node()
    selector = {"matchExpressions": [{"key": "security", "operator": "In", "values": ["securityscan"]}]}
    terms = [{"labelSelector": selector, "topologyKey": "topology.kubernetes.io/region"}]
    await _start(world, "fakename", affinity={"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}})
    await _waits(world, "fakename")


@FILTERS.scenario("pod cannot be placed onto any node")
async def topology_spread(world: World) -> None:
    # The node of zone a has a pod too many, and the one of zone b tolerates no more.
    full = await world.node("n1", labels={"example.com/zone": "a"})
    await world.node("n2", labels={"example.com/zone": "b"}, size={"pods": "0"})
    spread = {
        "maxSkew": 1,
        "topologyKey": "example.com/zone",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"foo": "bar"}},
    }
    # The engine itself places this pod: it may decide on the other one before it has read of what another has placed.
    await _start(world, "p0", node=full, labels={"foo": "bar"})
    assert await world.bound("p0") == full
    await _start(world, "p", labels={"foo": "bar"}, topologySpreadConstraints=[spread])
    await _waits(world, "p")


@WAITING.scenario("node gets added")
async def node_gets_added(world: World) -> None:
    await _start(world, "pod-1")
    await _waits(world, "pod-1")
    node = await world.node()
    assert await world.bound("pod-1") == node


@WAITING.scenario("node gets taint removed")
async def node_gets_taint_removed(world: World) -> None:
    node = await world.node()
    await world.taint(node, {"key": "taint-key", "effect": "NoSchedule"})
    await _start(world, "pod-2")
    await _waits(world, "pod-2")
    await world.untaint(node, {"key": "taint-key", "effect": "NoSchedule"})
    assert await world.bound("pod-2") == node


@WAITING.scenario("other pod gets deleted")
async def other_pod_gets_deleted(world: World) -> None:
    node = await world.node(size={"pods": "1"})
    await _start(world, "pod-to-be-deleted")
    assert await world.bound("pod-to-be-deleted") == node
    await _start(world, "pod-3")
    await _waits(world, "pod-3")
    await world.delete_pod("pod-to-be-deleted")
    assert await world.bound("pod-3") == node


@WAITING.scenario("node gets the label that is asked for")
async def node_gets_label(world: World) -> None:
    node = await world.node()
    await _start(world, "pod-4", nodeSelector={_LABEL: "42"})
    await _waits(world, "pod-4")
    await world.cluster.patch(f"{NODES}/{node}", {"metadata": {"labels": {_LABEL: "42"}}}, MERGE)
    assert await world.bound("pod-4") == node
