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
