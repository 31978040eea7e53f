"""Pods that arrive at once: placement decides on each in the batch of its record, and on nothing older."""

from __future__ import annotations

from typing import Any

from tests.support.worlds.flow import Flow
from tests.support.worlds.nodes import pod_spec
from tests.support.worlds.world import World

from moorage.insight.copy.stack import CopyTask
from moorage.runtime.engine.batch import BatchDecision
from moorage.runtime.settings.process_settings import Settings
from moorage.workers import placement
from moorage_schemas.placement import PlacementState
from moorage_schemas.topics import BINDINGS, PLACEMENTS


class CountedFlow(Flow):
    """A flow of placement alone, on one partition, which counts its transactions."""

    def __init__(self) -> None:
        super().__init__([placement.service(Settings(partitions=1))], partitions=1)
        self.transactions: list[int] = []
        """The number of records of each transaction."""

    def batch(self) -> None:
        """Let placement decide on all records that have arrived, once."""
        self.step("placement", 0)

    def _commit(self, owner: CopyTask, decision: BatchDecision) -> None:
        if decision.emits:
            self.transactions.append(len(decision.emits))
        super()._commit(owner, decision)


def world_of(*nodes: str, room: int = 500) -> tuple[CountedFlow, World]:
    flow = CountedFlow()
    world = World(flow)
    for name in nodes:
        world.node(name, allocatable={"pods": str(room)})
    flow.run()
    return flow, world


def bound(flow: Flow) -> dict[str, str]:
    """The node of each pod."""
    return {one.workload.name: one.target.name for one in flow.events(BINDINGS)}


def is_at_rest(flow: Flow) -> bool:
    due = flow.next_wake("placement", 0)
    return due is None or due > flow.now


def test_each_pod_is_bound_in_the_batch_of_its_record() -> None:
    flow, world = world_of("n1", "n2")
    for number in range(20):
        world.declare("Pod", f"p{number}", pod_spec())
        flow.batch()
        assert f"p{number}" in bound(flow)
        assert is_at_rest(flow)
    assert flow.transactions == [2] * 20


def test_pods_of_one_batch_are_bound_in_one_transaction() -> None:
    flow, world = world_of("n1", "n2")
    for number in range(200):
        world.declare("Pod", f"p{number}", pod_spec())
    flow.batch()
    assert flow.transactions == [400]
    assert len(bound(flow)) == 200
    assert is_at_rest(flow)


def test_the_pods_of_a_deployment_are_bound_in_one_transaction() -> None:
    flow, world = world_of("n1", "n2")
    template: dict[str, Any] = {"spec": pod_spec()}
    world.declare("Deployment", "web", {"replicas": 200, "template": template})
    flow.batch()
    assert flow.transactions == [400]
    assert len(bound(flow)) == 200


def test_decisions_of_a_batch_count_for_those_after_them() -> None:
    flow, world = world_of("n1", "n2", room=30)
    for number in range(100):
        world.declare("Pod", f"p{number}", pod_spec())
    flow.batch()
    taken = list(bound(flow).values())
    assert (taken.count("n1"), taken.count("n2")) == (30, 30)
    states = [event.state for event in flow.table(PLACEMENTS).values()]
    assert states.count(PlacementState.PENDING) == 40


def test_a_batch_rests_on_what_was_committed_before_it() -> None:
    flow, world = world_of()
    flow.behind.add("placement")  # its view is read to the present only when it requests that
    world.node("n1")
    world.taint("n1", effect="NoSchedule")
    world.node("n2")
    world.declare("Pod", "p", pod_spec())
    flow.batch()
    assert bound(flow) == {"p": "n2"}
    assert flow.transactions == [2]
