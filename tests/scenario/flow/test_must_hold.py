"""Three pods on a tainted node, through all services but placement, on a virtual clock."""

from __future__ import annotations

from datetime import timedelta

import pytest
from tests.support.worlds.flow import Crash, Flow
from tests.support.worlds.world import WITNESS, World, lifted, tolerate

from moorage.workers import condition_ingest, eviction, governor, taint_manager, timer
from moorage_schemas.eviction import EvictionState
from moorage_schemas.topics import CONDITIONS, EVICTIONS, TAINTS, TIMER_FIRED, TIMERS, ZONE_GRANTS

PARTITIONS = 3


def make_flow() -> Flow:
    settings = lifted(partitions=PARTITIONS)
    modules = (condition_ingest, taint_manager, governor, eviction, timer)
    return Flow([module.service(settings) for module in modules], partitions=PARTITIONS)


def three_pods(flow: Flow) -> World:
    fleet = World(flow)
    fleet.node("n1")
    fleet.bind("bare", "n1")
    fleet.bind("patient", "n1", [tolerate("key1", 3)])
    fleet.bind("loyal", "n1", [tolerate("key1")])
    flow.run()
    assert flow.events(EVICTIONS) == []
    return fleet


def states(flow: Flow, workload: str) -> list[EvictionState]:
    return [event.state for event in flow.events(EVICTIONS) if event.workload.name == workload]


def test_each_pod_leaves_when_its_toleration_says() -> None:
    flow = make_flow()
    fleet = three_pods(flow)
    began = flow.now
    fleet.taint("n1", "key1", value="value1")
    flow.run()
    assert states(flow, "bare") == [EvictionState.REQUESTED]
    assert states(flow, "patient") == [EvictionState.SCHEDULED]
    (scheduled,) = (event for event in flow.events(EVICTIONS) if event.workload.name == "patient")
    assert scheduled.deadline == began + timedelta(seconds=3)
    flow.advance(timedelta(seconds=3) - timedelta(microseconds=1))
    assert states(flow, "patient") == [EvictionState.SCHEDULED]
    flow.advance(timedelta(microseconds=1))
    assert states(flow, "patient") == [EvictionState.SCHEDULED, EvictionState.REQUESTED]
    flow.advance(3600)
    assert states(flow, "loyal") == []
    assert len(flow.events(TIMER_FIRED)) == 1
    assert flow.table(TIMERS) == {}, "a timer that has done its work is tombstoned"


def test_untainted_in_time_the_second_stays() -> None:
    flow = make_flow()
    fleet = three_pods(flow)
    fleet.taint("n1", "key1", value="value1")
    flow.advance(2.9)
    fleet.untaint("n1", "key1")
    flow.advance(3600)
    assert states(flow, "bare") == [EvictionState.REQUESTED]
    assert states(flow, "patient") == [EvictionState.SCHEDULED, EvictionState.CANCELLED]
    assert flow.events(TIMER_FIRED) == []
    (target,) = flow.table(TAINTS).values()
    assert target.taints == ()


def test_a_cancelled_eviction_is_scheduled_again_and_fires_at_the_new_deadline() -> None:
    flow = make_flow()
    fleet = three_pods(flow)
    fleet.taint("n1", "key1")
    flow.advance(2)
    fleet.untaint("n1", "key1")
    flow.run()
    fleet.taint("n1", "key1")
    again = flow.now
    flow.advance(100)
    fired = flow.events(TIMER_FIRED)
    assert [(event.generation, event.fired_time) for event in fired] == [(3, again + timedelta(seconds=3))]
    assert states(flow, "patient")[-1] is EvictionState.REQUESTED


def test_a_condition_becomes_an_eviction_with_one_correlation() -> None:
    flow = make_flow()
    fleet = World(flow)
    fleet.node("n1")
    fleet.node(WITNESS)
    fleet.bind("web", "n1", [tolerate("node.kubernetes.io/not-ready", 300)])
    flow.run()
    flow.advance(10)
    report = fleet.report("n1", "Ready", "False", at=flow.now - timedelta(seconds=5))
    flow.run()
    (condition,) = flow.records(CONDITIONS)
    at_once, granted = flow.records(TAINTS)[2:]
    assert at_once.event.report_time == report.event.observed_time
    assert [held.effect for held in at_once.event.held] == ["NoExecute"]
    assert [(t.key, t.effect) for t in granted.event.taints] == [
        ("node.kubernetes.io/not-ready", "NoSchedule"),
        ("node.kubernetes.io/not-ready", "NoExecute"),
    ]
    assert {t.time_added for t in granted.event.taints} == {condition.meta.time}
    (grant,) = flow.records(ZONE_GRANTS)
    flow.advance(299)
    assert states(flow, "web") == [EvictionState.SCHEDULED]
    flow.advance(1)
    assert states(flow, "web") == [EvictionState.SCHEDULED, EvictionState.REQUESTED]
    chain = [record for t in (CONDITIONS, EVICTIONS, TIMER_FIRED) for record in flow.records(t)]
    assert {record.meta.correlation for record in (*chain, at_once, grant, granted)} == {report.meta.id}
    assert {event.report_time for event in flow.events(EVICTIONS)} == {None}, "waiting is not latency"


@pytest.mark.parametrize("when", list(Crash))
def test_a_crash_at_every_step_changes_nothing(when: Crash) -> None:
    def play(crash_at: int | None) -> Flow:
        flow = make_flow()
        if crash_at is not None:
            flow.crash_when = lambda _service, _partition: when if flow.steps == crash_at else None
        fleet = three_pods(flow)
        fleet.taint("n1", "key1", value="value1")
        flow.advance(10)
        fleet.unbind("bare", "n1")
        fleet.untaint("n1", "key1")
        flow.advance(10)
        return flow

    expected = play(None)
    assert expected.steps > 8
    for crash_at in range(1, expected.steps + 2):
        flow = play(crash_at)
        for topic in (TAINTS, EVICTIONS, TIMERS, TIMER_FIRED):
            assert [r.content for r in flow.records(topic)] == [r.content for r in expected.records(topic)]
