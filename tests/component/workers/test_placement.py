"""The service placement alone: its view, what it assumes, portions, and which binding wins."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from tests.support.worlds.flow import START

from moorage.runtime.service import Emit, Input
from moorage.runtime.settings.process_settings import Settings
from moorage.workers.placement import PlacementService, service
from moorage.workers.placement.engine.view_tables import present_taints
from moorage.workers.placement.fleet_view import FleetView
from moorage.workers.placement.pods.nodes import allocatable
from moorage.workers.placement.state import PlacementPartition
from moorage_schemas.envelope import Meta
from moorage_schemas.eviction import EvictionDecided, EvictionState
from moorage_schemas.keys import binding_key, eviction_key
from moorage_schemas.placement import PlacementState, WorkloadBound, WorkloadPlaced
from moorage_schemas.refs import TargetKind, TargetRef, WorkloadRef
from moorage_schemas.resource import ResourceDeclared, TaintWish
from moorage_schemas.taint import TaintOrigin, TaintRecord, TargetTainted
from moorage_schemas.topics import BINDINGS, EVICTIONS, PLACEMENTS, RESOURCES, TAINTS, Topic


class Bench:
    """One process of the service: a view and some partitions, with records from the test."""

    def __init__(self, partitions: int = 1) -> None:
        self.service: PlacementService = service(Settings())
        view = self.service.new_globals()
        assert isinstance(view, FleetView)
        self.view = view
        self.states = [self.begin(p) for p in range(partitions)]
        self.offset = 0

    def begin(self, partition: int) -> PlacementPartition:
        state = self.service.new_state(partition)
        self.service.use_globals(state, self.view)
        return state

    def fold(self, topic: Topic, key: str, event: Any) -> None:
        self.offset += 1
        self.view.apply(Input(topic, 0, self.offset, key, event, meta(self.offset)))

    def node(self, name: str, *, version: int = 1, uid: str = "", **status: str) -> None:
        event = declared("Node", name, {}, version=version, uid=uid, status={"allocatable": status} if status else {})
        self.fold(RESOURCES, event.key, event)

    def declare(self, event: ResourceDeclared, partition: int = 0) -> list[Emit]:
        self.offset += 1
        record = Input(RESOURCES, partition, self.offset, event.key, event, meta(self.offset))
        return self.service.process(self.states[partition], [record], START, fresh=True)


def meta(number: int) -> Meta:
    return Meta(id=f"event-{number}", source="test", type="test", time=START + timedelta(seconds=number))


def declared(
    kind: str, name: str, spec: dict[str, Any], *, version: int = 1, uid: str = "", **parts: Any
) -> ResourceDeclared:
    metadata = {"name": name, "uid": uid or f"uid-{name}"} | ({} if kind == "Node" else {"namespace": "default"})
    api = "v1" if kind in {"Node", "Pod"} else "apps/v1"
    return ResourceDeclared(
        object={"apiVersion": api, "kind": kind, "metadata": metadata, "spec": spec, **parts}, version=version
    )


def bare(name: str, cpu: str = "") -> ResourceDeclared:
    resources = {"requests": {"cpu": cpu}} if cpu else {}
    return declared("Pod", name, {"containers": [{"name": "c", "resources": resources}]})


def placed(emits: list[Emit]) -> list[WorkloadPlaced]:
    return [emit.event for emit in emits if isinstance(emit.event, WorkloadPlaced)]


def bound(emits: list[Emit]) -> list[WorkloadBound]:
    return [emit.event for emit in emits if isinstance(emit.event, WorkloadBound)]


def test_partitions_of_a_process_do_not_give_the_same_room_away_twice() -> None:
    bench = Bench(partitions=2)
    bench.node("n1", cpu="1")
    (first,) = placed(bench.declare(bare("a", "1"), 0))
    (second,) = placed(bench.declare(bare("b", "1"), 1))
    assert (first.state, second.state) == (PlacementState.PLACED, PlacementState.PENDING)
    assert second.message == "0/1 nodes are available: 1 Insufficient cpu."


def test_what_was_assumed_is_taken_back_when_the_partition_goes() -> None:
    bench = Bench(partitions=2)
    bench.node("n1", cpu="1")
    bench.declare(bare("a", "1"), 0)
    bench.service.drop(bench.states[0])
    (second,) = placed(bench.declare(bare("b", "1"), 1))
    assert second.state is PlacementState.PLACED


def test_what_is_written_stays_when_the_partition_goes() -> None:
    bench = Bench(partitions=2)
    bench.node("n1", cpu="1")
    for emit in bench.declare(bare("a", "1"), 0):
        if emit.topic is BINDINGS:
            bench.fold(BINDINGS, emit.key, emit.event)
    bench.service.drop(bench.states[0])
    (second,) = placed(bench.declare(bare("b", "1"), 1))
    assert second.state is PlacementState.PENDING


def test_a_tombstone_that_is_on_its_way_frees_the_room_at_once() -> None:
    bench = Bench()
    bench.node("n1", cpu="1")
    emits = bench.declare(bare("a", "1"))
    record = Input(RESOURCES, 0, 99, "Pod/default/a", None, meta(99))
    emits = bench.service.process(bench.states[0], [record], START, fresh=True)
    assert [(emit.topic, emit.event) for emit in emits] == [(BINDINGS, None), (PLACEMENTS, None)]
    (second,) = placed(bench.declare(bare("b", "1")))
    assert second.state is PlacementState.PLACED


def test_a_large_deployment_comes_in_portions_and_whole() -> None:
    bench = Bench()
    for number in range(20):
        bench.node(f"n{number:02}")
    spec = {"replicas": 1200, "template": {"spec": {"containers": [{"name": "c"}]}}}
    state = bench.states[0]
    portions = [bench.declare(declared("Deployment", "big", spec))]
    while bench.service.next_wake(state) is not None:
        portions.append(bench.service.wake(state, START))
    assert len(portions) > 2
    assert max(map(len, portions)) <= 502
    names = [event.workload.name for portion in portions for event in placed(portion)]
    assert len(names) == len(set(names)) == 1200
    per_node = {event.target.name for portion in portions for event in bound(portion)}
    assert len(per_node) == 20
    assert max(len(name) for name in names) <= 63


def test_a_crash_between_portions_loses_nothing() -> None:
    bench = Bench()
    bench.node("n1")
    spec = {"replicas": 600, "template": {"spec": {"containers": [{"name": "c"}]}}}
    event = declared("Deployment", "big", spec)
    first = bench.declare(event)
    for emit in first:
        if emit.topic is BINDINGS:
            bench.fold(BINDINGS, emit.key, emit.event)
    bench.service.drop(bench.states[0])
    state = bench.begin(0)
    bench.service.apply(state, RESOURCES, event.key, event)
    for emit in first:
        if emit.topic is PLACEMENTS:
            bench.service.apply(state, PLACEMENTS, emit.key, emit.event)
    rest: list[Emit] = []
    while bench.service.next_wake(state) is not None:
        rest += bench.service.wake(state, START)
    names = [one.workload.name for one in placed(first) + placed(rest)]
    assert len(names) == len(set(names)) == 600


def other_workers(name: str, node: str, *, cpu: int, seconds: int, bypassed: bool = False) -> WorkloadBound:
    ref = WorkloadRef(kind="Pod", namespace="default", name=name)
    return WorkloadBound(
        workload=ref,
        uid=f"uid-{name}",
        owner=ref,
        target=TargetRef(kind=TargetKind.NODE, name=node),
        generation=1,
        requests={"cpu": cpu},
        bypassed=bypassed,
        bound_time=START + timedelta(seconds=seconds),
    )


def test_of_two_workers_bindings_the_earlier_in_the_log_wins() -> None:
    bench = Bench()
    bench.node("n1", cpu="1")
    bench.node("n2", cpu="1")
    emits = bench.declare(bare("mine", "1"))
    (mine,) = bound(emits)
    rival = other_workers("rival", mine.target.name, cpu=1000, seconds=50)
    bench.fold(BINDINGS, binding_key(rival.workload, rival.target), rival)
    assert not bench.view.changed(), "mine is not in the log yet, so nothing is known"
    bench.fold(BINDINGS, binding_key(mine.workload, mine.target), mine)
    assert bench.view.changed() == [0]
    again = bench.service.wake(bench.states[0], START)
    (moved,) = placed(again)
    assert moved.state is PlacementState.PLACED
    assert moved.target is not None
    assert moved.target.name != mine.target.name
    assert moved.previous_target == mine.target
    assert moved.generation > mine.generation
    assert moved.message.startswith("Conflict: ")
    ended = [emit.key for emit in again if emit.topic is BINDINGS and emit.event is None]
    assert ended == [binding_key(mine.workload, mine.target)]


def test_the_worker_whose_binding_came_first_keeps_it() -> None:
    bench = Bench()
    bench.node("n1", cpu="1")
    (mine,) = bound(bench.declare(bare("mine", "1")))
    rival = other_workers("rival", "n1", cpu=1000, seconds=50)
    bench.fold(BINDINGS, binding_key(mine.workload, mine.target), mine)
    bench.fold(BINDINGS, binding_key(rival.workload, rival.target), rival)
    assert bench.view.pods.is_overcommitted(binding_key(rival.workload, rival.target))
    assert not bench.view.pods.is_overcommitted(binding_key(mine.workload, mine.target))
    assert not bench.view.changed()


def test_a_loser_takes_no_room_from_those_after_it() -> None:
    bench = Bench()
    bench.node("n1", cpu="2")
    for name, cpu in (("a", 1000), ("b", 1500), ("c", 1000)):
        one = other_workers(name, "n1", cpu=cpu, seconds=50)
        bench.fold(BINDINGS, binding_key(one.workload, one.target), one)
    losers = [name for name in "abc" if bench.view.pods.is_overcommitted(f"Pod/default/{name}|Node/n1")]
    assert losers == ["b"]


def test_a_person_named_binding_never_loses() -> None:
    bench = Bench()
    bench.node("n1", cpu="1")
    for name, bypassed in (("a", False), ("named", True)):
        one = other_workers(name, "n1", cpu=1000, seconds=50, bypassed=bypassed)
        bench.fold(BINDINGS, binding_key(one.workload, one.target), one)
    assert [name for name in ("a", "named") if bench.view.pods.is_overcommitted(f"Pod/default/{name}|Node/n1")] == []


def test_a_node_that_shrinks_moves_nobody() -> None:
    bench = Bench()
    bench.node("n1", cpu="2")
    emits = bench.declare(bare("a", "1")) + bench.declare(bare("b", "1"))
    for emit in emits:
        if emit.topic is BINDINGS:
            bench.fold(BINDINGS, emit.key, emit.event)
    bench.node("n1", cpu="1", version=2)
    assert bench.service.reconcile(bench.states[0], START) == []
    while bench.service.next_wake(bench.states[0]) is not None:
        assert bench.service.wake(bench.states[0], START) == []


def wish(key: str, generation: int, *, present: bool = True, value: str = "") -> TaintWish:
    return TaintWish(
        key=key, effect="NoSchedule", value=value, present=present, generation=generation, time=START, actor="a"
    )


def tainted(*keys: str, applied: int, uid: str = "uid-n1", generation: int = 1) -> TargetTainted:
    return TargetTainted(
        target=TargetRef(kind=TargetKind.NODE, name="n1"),
        target_uid=uid,
        generation=generation,
        taints=tuple(
            TaintRecord(key=key, effect="NoSchedule", time_added=START, origins=(TaintOrigin.EXPLICIT,)) for key in keys
        ),
        wishes_applied=applied,
    )


def test_taints_on_their_way_count_already() -> None:
    node = declared("Node", "n1", {})
    wished = node.model_copy(update={"wishes": (wish("a", 1), wish("b", 2), wish("c", 3, present=False))})
    assert [taint.key for taint in present_taints(wished, None)] == ["a", "b"]
    assert [taint.key for taint in present_taints(wished, tainted("a", "c", applied=1))] == ["a", "c", "b"]
    assert [taint.key for taint in present_taints(wished, tainted("a", "b", applied=3))] == ["a", "b"]
    assert [taint.key for taint in present_taints(wished, tainted(applied=3))] == []


def test_taints_of_an_earlier_node_of_that_name_do_not_count() -> None:
    node = declared("Node", "n1", {})
    assert present_taints(node, tainted("old", applied=7, uid="another")) == ()


def test_a_cordoned_node_carries_its_taint_before_it_is_there() -> None:
    node = declared("Node", "n1", {"unschedulable": True})
    assert [taint.key for taint in present_taints(node, None)] == ["node.kubernetes.io/unschedulable"]


def test_no_pod_slips_in_before_the_taint() -> None:
    bench = Bench()
    event = declared("Node", "n1", {}).model_copy(update={"wishes": (wish("a", 1),)})
    bench.fold(RESOURCES, event.key, event)
    (waits,) = placed(bench.declare(bare("p")))
    assert waits.message == "0/1 nodes are available: 1 node(s) had untolerated taint(s)."
    bench.fold(TAINTS, "Node/n1", tainted(applied=1))
    assert bench.view.changed() == [0]
    (then,) = placed(bench.service.wake(bench.states[0], START))
    assert then.state is PlacementState.PLACED


def test_what_a_node_offers() -> None:
    assert allocatable({"capacity": {"cpu": "2"}, "allocatable": {"cpu": "1500m"}}) == {"cpu": 1500}
    assert allocatable({"capacity": {"cpu": 2}}) == {"cpu": 2000}
    assert allocatable({}) == {}
    assert allocatable({"allocatable": {"cpu": "many"}}) == {"cpu": 0}


def test_only_partitions_with_work_are_woken() -> None:
    bench = Bench(partitions=3)
    assert bench.view.changed() == [0, 1, 2], "all look at everything when they begin"
    for state in bench.states:
        bench.service.wake(state, START)
    bench.declare(bare("p"), 1)
    bench.node("n1")
    assert bench.view.changed() == [1], "only there does something wait"


def test_lost_bindings_are_written_again_by_the_reconciler() -> None:
    bench = Bench()
    bench.node("n1")
    emits = bench.declare(bare("p"))
    (event,) = placed(emits)
    bench.service.drop(bench.states[0])
    state = bench.begin(0)
    bench.service.apply(state, RESOURCES, "Pod/default/p", bare("p"))
    bench.service.apply(state, PLACEMENTS, "Pod/default/p", event)
    assert bench.service.wake(state, START) == []
    repaired = bench.service.reconcile(state, START)
    assert [(one.workload.name, one.generation) for one in bound(repaired)] == [("p", event.binding_generation)]
    assert bench.service.reconcile(state, START) == []


def test_waiting_is_said_once_while_only_counts_change() -> None:
    bench = Bench()
    bench.node("n1", cpu="1")
    assert len(placed(bench.declare(bare("p", "8")))) == 1
    for number in range(2, 6):
        bench.node(f"n{number}", cpu="1")
        assert bench.service.wake(bench.states[0], START) == []
    bench.node("n9", cpu="8")
    (then,) = placed(bench.service.wake(bench.states[0], START))
    assert then.target is not None
    assert then.target.name == "n9"


def test_a_pod_that_cannot_be_read_is_said_to_be_invalid() -> None:
    bench = Bench()
    bench.node("n1")
    (event,) = placed(bench.declare(bare("p", "lots")))
    assert (event.state, event.reason) == (PlacementState.PENDING, "Invalid")
    assert "spec.containers[0].resources.requests[cpu]: Invalid value: 'lots'" in event.message
    assert bench.service.reconcile(bench.states[0], START) == []
    (then,) = placed(bench.declare(bare("p", "1")))
    assert then.state is PlacementState.PLACED


def test_a_controller_that_cannot_be_read_keeps_the_pods_that_it_has() -> None:
    bench = Bench()
    bench.node("n1")
    template = {"spec": {"containers": [{"name": "c"}]}}
    bench.declare(declared("Deployment", "d", {"replicas": 2, "template": template}))
    assert bench.declare(declared("Deployment", "d", {"replicas": "2", "template": template}, version=2)) == []
    assert len(bench.states[0].pods.state.last["Deployment/default/d"]) == 2


def test_bindings_of_clusters_are_none_of_a_nodes_business() -> None:
    bench = Bench()
    bench.node("n1", pods="1")
    other = other_workers("rb", "n1", cpu=1, seconds=1)
    cluster = other.model_copy(update={"target": TargetRef(kind=TargetKind.CLUSTER, name="n1")})
    bench.fold(BINDINGS, binding_key(cluster.workload, cluster.target), cluster)
    (event,) = placed(bench.declare(bare("p")))
    assert event.state is PlacementState.PLACED


def test_the_counts_of_a_waiting_pod_are_brought_up_to_date_now_and_then() -> None:
    bench = Bench()
    bench.node("n1", cpu="1")
    bench.declare(bare("p", "8"))
    bench.offset += 30
    bench.node("n2", cpu="1")
    (event,) = placed(bench.service.wake(bench.states[0], START))
    assert event.message == "0/2 nodes are available: 2 Insufficient cpu."


def test_a_late_farewell_takes_nothing_from_the_one_who_came_after() -> None:
    bench = Bench()
    bench.node("n1", cpu="1")
    before, after = bench.states[0], bench.begin(0)
    bench.states = [after]
    bench.declare(bare("a", "1"))
    bench.service.drop(before)
    (event,) = placed(bench.declare(bare("b", "1")))
    assert event.state is PlacementState.PENDING


def test_bindings_without_a_pod_are_ended_by_the_reconciler() -> None:
    bench = Bench()
    bench.node("n1", pods="1")
    bench.node("n2", pods="1")
    (mine,) = bound(bench.declare(bare("p")))
    stray = mine.model_copy(update={"target": TargetRef(kind=TargetKind.NODE, name="n2")})
    bench.fold(BINDINGS, binding_key(stray.workload, stray.target), stray)
    (ended,) = bench.service.reconcile(bench.states[0], START)
    assert (ended.topic, ended.key, ended.event) == (BINDINGS, "Pod/default/p|Node/n2", None)
    assert ended.partition_key == "Node/n2"
    (other,) = placed(bench.declare(bare("q")))
    assert other.state is PlacementState.PLACED


def test_an_edited_binding_keeps_its_turn() -> None:
    bench = Bench()
    bench.node("n1", cpu="1")
    first = other_workers("a", "n1", cpu=1000, seconds=50)
    named = other_workers("named", "n1", cpu=1000, seconds=50, bypassed=True)
    for one in (first, named, first.model_copy(update={"revision": 2})):
        bench.fold(BINDINGS, binding_key(one.workload, one.target), one)
    assert not bench.view.pods.is_overcommitted("Pod/default/a|Node/n1")


def test_a_node_with_another_uid_is_another_node() -> None:
    bench = Bench()
    bench.node("n1")
    bench.declare(bare("p"))
    bench.node("n1", uid="another")
    (event,) = placed(bench.service.wake(bench.states[0], START))
    assert (event.state, event.reason) == (PlacementState.EVICTED, "TargetGone")


def requested(mine: WorkloadBound, **changes: Any) -> EvictionDecided:
    return EvictionDecided(
        workload=mine.workload,
        workload_uid=mine.uid,
        owner=mine.owner,
        target=mine.target,
        generation=mine.generation,
        revision=1,
        state=EvictionState.REQUESTED,
        message="because",
        decided_time=START,
        report_time=START,
    ).model_copy(update=changes)


@pytest.mark.parametrize(
    ("changes", "leaves"),
    [
        ({}, True),
        ({"workload_uid": ""}, True),
        ({"generation": 7}, False),
        ({"workload_uid": "of another life"}, False),
        ({"target": TargetRef(kind=TargetKind.NODE, name="n2")}, False),
        ({"state": EvictionState.SCHEDULED}, False),
    ],
)
def test_only_the_end_of_exactly_this_binding_is_heeded(changes: dict[str, Any], *, leaves: bool) -> None:
    bench = Bench()
    bench.node("n1")
    (mine,) = bound(bench.declare(bare("p")))
    task = requested(mine, **changes)
    bench.fold(EVICTIONS, eviction_key(task.workload, task.target, task.generation), task)
    states = [event.state for event in placed(bench.service.wake(bench.states[0], START))]
    assert states == ([PlacementState.EVICTED] if leaves else [])


def test_an_eviction_that_came_while_nobody_was_there_is_found_with_its_cause() -> None:
    bench = Bench()
    bench.node("n1")
    emits = bench.declare(bare("p"))
    (mine,) = bound(emits)
    bench.service.drop(bench.states[0])
    bench.fold(BINDINGS, binding_key(mine.workload, mine.target), mine)
    bench.fold(EVICTIONS, eviction_key(mine.workload, mine.target, 1), requested(mine))
    told = bench.offset
    state = bench.begin(0)
    bench.service.apply(state, RESOURCES, "Pod/default/p", bare("p"))
    bench.service.apply(state, PLACEMENTS, "Pod/default/p", placed(emits)[0])
    found = bench.service.wake(state, START)
    assert {emit.cause.id for emit in found} == {f"event-{told}"}
    (event,) = placed(found)
    assert (event.state, event.message, event.report_time) == (PlacementState.EVICTED, "because", START)


def test_a_decision_is_not_older_than_the_node_that_it_rests_on() -> None:
    bench = Bench()
    bench.offset = 40
    bench.node("n1", cpu="1")
    record = Input(RESOURCES, 0, 1, "Pod/default/p", bare("p", "1"), meta(2))
    (mine,) = bound(bench.service.process(bench.states[0], [record], START, fresh=True))
    assert mine.bound_time == START + timedelta(seconds=41)
