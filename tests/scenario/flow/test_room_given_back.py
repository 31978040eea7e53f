"""Room that is released without a record must be found by the workloads that wait for it."""

from __future__ import annotations

from tests.support.worlds.flow import Crash, Flow
from tests.support.worlds.nodes import NodeWorld, pod_spec
from tests.support.worlds.world import World, lifted, node, pod, tolerate

from moorage.workers import condition_ingest, eviction, governor, taint_manager, timer
from moorage_schemas.eviction import EvictionState
from moorage_schemas.placement import WorkloadBound
from moorage_schemas.resource import resource_key
from moorage_schemas.topics import BINDINGS, EVICTIONS


def test_a_transaction_that_failed_gives_its_room_to_other_partitions() -> None:
    world = NodeWorld()
    flow = world.flow
    world.node("n1", allocatable={"cpu": "1"})
    world.run()
    names: dict[int, str] = {}
    for number in range(20):
        names.setdefault(flow.partition(resource_key("Pod", "default", f"p{number}")), f"p{number}")
    (mine, first), (other, second), *_ = names.items()
    world.declare("Pod", first, pod_spec("1"))
    world.declare("Pod", second, pod_spec("1"))

    def fail(_service: str, _partition: int) -> Crash:
        """While the first one is being written, the second one finds no room. Then the write fails."""
        flow.crash_when = lambda _service, _partition: None
        flow.step("placement", other)
        assert world.where(second) == ["-"]
        world.delete("Pod", first)
        return Crash.BEFORE_COMMIT

    flow.crash_when = fail
    flow.step("placement", mine)
    world.run()
    assert flow.table(BINDINGS).keys() == {f"Pod/default/{second}|Node/n1"}
    assert world.where() == ["n1"]


def test_a_pod_that_asks_for_less_makes_room() -> None:
    world = NodeWorld()
    world.node("n1", allocatable={"cpu": "2"})
    world.declare("Pod", "large", pod_spec("2"))
    world.run()
    world.declare("Pod", "waits", pod_spec("1"))
    assert world.run().where("waits") == ["-"]
    world.declare("Pod", "large", pod_spec("1"))
    assert world.run().where("waits") == ["n1"]


def test_a_pod_made_again_counts_although_the_end_of_the_first_was_compacted() -> None:
    settings = lifted(partitions=3)
    modules = (condition_ingest, taint_manager, governor, eviction, timer)
    flow = Flow([module.service(settings) for module in modules], partitions=3)
    fleet = World(flow)
    fleet.node("n1")
    first = fleet.bind("p", "n1", [tolerate("k", 100)])
    fleet.taint("n1", "k")
    flow.run()
    assert [event.state for event in flow.events(EVICTIONS)] == [EvictionState.SCHEDULED]
    fleet.unbind("p", "n1")
    # Placement starts to count generations again if it does not know of an eviction yet.
    again = WorkloadBound(
        workload=pod("p"),
        uid="another",
        owner=pod("p"),
        target=node("n1"),
        generation=first.event.generation,
        tolerations=(),
        bound_time=flow.now,
    )
    flow.produce(BINDINGS, first.name, again, partition_key="Node/n1")
    flow.compact([BINDINGS])
    flow.run()
    assert [(event.state, event.workload_uid) for event in flow.events(EVICTIONS)][1:] == [
        (EvictionState.CANCELLED, "uid-p"),
        (EvictionState.REQUESTED, "another"),
    ]
