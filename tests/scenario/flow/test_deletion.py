"""What placement does with workloads that are being deleted."""

from __future__ import annotations

import pytest
from tests.support.worlds.nodes import NodeWorld, pod_spec
from tests.support.worlds.world import TEMPLATE

from moorage_schemas.topics import BINDINGS


def test_the_binding_of_a_pod_ends_when_it_is_marked() -> None:
    world = NodeWorld("n1")
    world.declare("Pod", "p", pod_spec())
    world.flow.run()
    assert world.where() == ["n1"]
    world.mark("Pod", "p", "example.com/held")
    world.flow.run()
    assert world.flow.table(BINDINGS) == {}
    world.node("n2")
    world.flow.run()
    assert world.pods() == {}, "it is not placed again"


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet", "DaemonSet"])
def test_a_controller_that_goes_last_ends_its_pods_and_makes_no_more(kind: str) -> None:
    world = NodeWorld("n1", "n2")
    world.declare(kind, "web", {"replicas": 2, "template": TEMPLATE})
    world.flow.run()
    assert len(world.where("web")) == 2
    world.mark(kind, "web", "foregroundDeletion")
    world.node("n3")
    world.flow.run()
    assert world.flow.table(BINDINGS) == {}
    world.flow.crash_process("placement")
    world.node("n4")
    world.flow.run()
    assert world.pods() == {}


def test_a_controller_that_other_finalizers_hold_keeps_its_pods() -> None:
    world = NodeWorld("n1", "n2")
    world.declare("Deployment", "web", {"replicas": 2, "template": TEMPLATE})
    world.flow.run()
    world.mark("Deployment", "web", "example.com/held")
    world.flow.run()
    assert world.where("web") == ["n1", "n2"]
    world.check()


@pytest.mark.parametrize("kind", ["ReplicaSet", "StatefulSet", "DaemonSet", "Job"])
def test_a_controller_that_other_finalizers_hold_makes_no_more_pods(kind: str) -> None:
    world = NodeWorld("n1", "n2")
    size = {"parallelism": 2, "completions": 2} if kind == "Job" else {"replicas": 2}
    world.declare(kind, "web", {**size, "template": TEMPLATE})
    world.flow.run()
    assert world.where("web") == ["n1", "n2"]
    world.mark(kind, "web", "example.com/held")
    world.taint("n1", "gone", "NoExecute")
    world.node("n3")
    world.advance(10)
    assert world.where("web") == ["n2"], "what has to leave is not replaced, and a new node gets no pod"
    world.flow.crash_process("placement")
    world.flow.run()
    assert world.where("web") == ["n2"]


def test_the_pods_of_a_marked_deployment_are_replaced_by_its_replica_sets_but_neither_scaled_nor_rolled() -> None:
    world = NodeWorld("n1", "n2")
    world.declare("Deployment", "web", {"replicas": 2, "template": TEMPLATE})
    world.flow.run()
    world.mark("Deployment", "web", "example.com/held")
    before = {name for name in world.pods() if name.startswith("web")}
    key = "Deployment/default/web"
    changed = {"replicas": 5, "template": {**TEMPLATE, "metadata": {"labels": {"v": "2"}}}}
    world.objects[key] = {**world.objects[key], "spec": changed}
    world.write(key)
    world.flow.run()
    assert {name for name in world.pods() if name.startswith("web")} == before
    world.node("n3")
    world.taint("n1", "gone", "NoExecute")
    world.advance(10)
    assert world.where("web") == ["n2", "n3"]


def test_a_pod_that_waits_is_bound_although_its_controller_is_being_deleted() -> None:
    world = NodeWorld()
    world.declare("ReplicaSet", "web", {"replicas": 1, "template": TEMPLATE})
    world.flow.run()
    world.mark("ReplicaSet", "web", "example.com/held")
    world.node("n1")
    world.flow.run()
    assert world.where("web") == ["n1"]
