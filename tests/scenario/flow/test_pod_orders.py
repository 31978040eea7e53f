"""What is said of single pods of a controller: to end one, to bind one that another scheduler places, other labels."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.worlds.flow import Crash
from tests.support.worlds.nodes import NodeWorld, pod_spec
from tests.support.worlds.world import TEMPLATE

from moorage_schemas.placement import PlacementState
from moorage_schemas.resource import PodMetadata, PodOrder
from moorage_schemas.topics import BINDINGS

ELSEWHERE: dict[str, Any] = {**TEMPLATE, "spec": {**TEMPLATE["spec"], "schedulerName": "mine"}}


def web(world: NodeWorld, kind: str = "Deployment", template: dict[str, Any] = TEMPLATE) -> None:
    world.declare(kind, "web", {"replicas": 3, "template": template})
    world.flow.run()


def order(world: NodeWorld, kind: str, name: str, node: str = "") -> None:
    """Order that a pod ends, or is bound to a node, like the gateway."""
    placed = world.pods()[name]
    key = f"{kind}/default/web"
    world.order(key, PodOrder(pod=placed.workload.key, uid=placed.uid, node=node, time=world.flow.now, actor="me"))


@pytest.mark.parametrize("kind", ["Deployment", "ReplicaSet", "ReplicationController", "StatefulSet", "DaemonSet"])
def test_one_pod_is_ended_and_made_again_once(kind: str) -> None:
    world = NodeWorld("n1", "n2", "n3")
    web(world, kind)
    before = world.pods()
    name = min(before)
    order(world, kind, name)
    world.flow.run()
    after = world.pods()
    world.check()
    assert len(after) == 3
    assert before[name].uid not in {event.uid for event in after.values()}
    kept = {event.uid for event in before.values()} & {event.uid for event in after.values()}
    assert len(kept) == 2, "the others stay"
    (new,) = [event for event in after.values() if event.uid not in kept]
    assert (new.workload.name == name) is (kind == "StatefulSet")
    assert "Deleted: deleted by me" in new.message
    for _ in range(2):
        world.flow.crash_process("placement")
        world.flow.run()
        world.flow.reconcile()
    assert world.pods() == after, "an order that was carried out does nothing more"


@pytest.mark.parametrize("crash", list(Crash))
def test_a_crash_ends_no_pod_twice(crash: Crash) -> None:
    world = NodeWorld("n1", "n2")
    web(world)
    before = world.pods()
    order(world, "Deployment", min(before))
    armed = [True]

    def once(service: str, _: int) -> Crash | None:
        if service == "placement" and armed:
            armed.clear()
            return crash
        return None

    world.flow.crash_when = once
    world.flow.run()
    world.check()
    assert not armed
    kept = {event.uid for event in before.values()} & {event.uid for event in world.pods().values()}
    assert (len(kept), len(world.pods())) == (2, 3)


def test_a_waiting_pod_is_made_again_too() -> None:
    world = NodeWorld()
    web(world)
    before = world.pods()
    order(world, "Deployment", min(before))
    world.flow.run()
    after = world.pods()
    assert len(after) == 3
    assert len(before.keys() & after.keys()) == 2


def test_a_pod_of_another_scheduler_waits_until_it_is_bound() -> None:
    world = NodeWorld("n1")
    world.declare("Pod", "alone", pod_spec(schedulerName="mine"))
    world.declare("Pod", "ours", pod_spec(schedulerName="default-scheduler"))
    world.flow.run()
    assert world.pods()["ours"].state is PlacementState.PLACED
    waiting = world.pods()["alone"]
    assert (waiting.state, waiting.reason) == (PlacementState.PENDING, "OtherScheduler")
    world.node("n2")
    world.flow.run()
    assert world.pods()["alone"].state is PlacementState.PENDING
    world.declare("Pod", "alone", pod_spec(schedulerName="mine", nodeName="n2"))
    world.flow.run()
    assert str(world.pods()["alone"].target) == "Node/n2"
    world.check()


def test_a_gated_pod_waits_until_all_its_gates_are_gone() -> None:
    world = NodeWorld("n1")
    world.declare("Pod", "gated", pod_spec(schedulingGates=[{"name": "example.com/a"}, {"name": "example.com/b"}]))
    world.flow.run()
    waiting = world.pods()["gated"]
    assert (waiting.state, waiting.reason) == (PlacementState.PENDING, "SchedulingGated")
    world.declare("Pod", "gated", pod_spec(schedulingGates=[{"name": "example.com/b"}]))
    world.node("n2")
    world.flow.run()
    assert world.pods()["gated"].state is PlacementState.PENDING
    world.declare("Pod", "gated", pod_spec())
    world.flow.run()
    assert world.pods()["gated"].state is PlacementState.PLACED
    world.check()


def test_a_controllers_pod_of_another_scheduler_is_bound_by_order() -> None:
    world = NodeWorld("n1", "n2")
    web(world, template=ELSEWHERE)
    names = sorted(world.pods())
    assert world.where() == ["-", "-", "-"]
    order(world, "Deployment", names[1], "n2")
    world.flow.run()
    assert str(world.pods()[names[1]].target) == "Node/n2"
    assert world.where() == ["-", "-", "n2"]
    world.flow.crash_process("placement")
    world.flow.run()
    assert world.where() == ["-", "-", "n2"]
    world.check()


def test_a_binding_follows_the_labels_of_its_pod() -> None:
    world = NodeWorld("n1", "n2")
    web(world)
    before, bound = world.pods(), world.flow.table(BINDINGS)
    name = min(before)
    pod = before[name]
    front = PodMetadata(pod=pod.workload.key, uid=pod.uid, labels={"app": "web", "tier": "front"})
    stale = PodMetadata(pod=max(before.values(), key=lambda one: one.workload.name).workload.key, uid="of-another")
    world.change_pods("Deployment/default/web", front, stale)
    world.flow.run()
    world.check()
    assert world.pods() == before, "nothing is decided again"
    after = world.flow.table(BINDINGS)
    changed = {key for key in bound if after[key] != bound[key]}
    assert {after[key].workload.name for key in changed} == {name}
    (key,) = changed
    assert after[key].labels == {"app": "web", "tier": "front"}
    assert after[key].model_copy(update={"labels": bound[key].labels, "revision": bound[key].revision}) == bound[key]
    world.flow.crash_process("placement")
    world.flow.run()
    world.flow.reconcile()
    assert world.flow.table(BINDINGS) == after

    world.change_pods("Deployment/default/web", PodMetadata(pod=pod.workload.key, uid=pod.uid, labels={"app": "web"}))
    world.flow.run()
    assert world.flow.table(BINDINGS)[key].labels == {"app": "web"}
