"""A flood of one source beside quiet ones, on a virtual clock, with restarts."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta

import pytest
from tests.support.worlds.flow import Flow
from tests.support.worlds.world import World, node

from moorage.decide.conditions.heartbeats import HEARTBEAT_STOPPED, HeartbeatWatch, check_id
from moorage.runtime.settings.process_settings import Settings
from moorage.workers import condition_ingest, taint_manager, timer
from moorage_schemas.condition import ConditionReported, ConditionStatus
from moorage_schemas.dead_letter import DeadLettered, RefusalReason
from moorage_schemas.topics import CONDITION_REPORTS, CONDITIONS, DEAD_LETTERS, TAINTS, TIMERS

QUIET = [f"n{number}" for number in range(10)]
QPS, BURST = 2, 10
SECONDS = 150  # several times the grace period of 40 s


def say(flow: Flow, name: str, source: str, condition: str, number: int) -> None:
    event = ConditionReported(
        target=node(name),
        type=condition,
        status=ConditionStatus.TRUE,
        observed_time=flow.now,
        message=f"report {number}",
        source=source,
    )
    flow.produce(CONDITION_REPORTS, event.target.key, event, source=source)


def statuses(flow: Flow, condition: str) -> Counter[ConditionStatus]:
    found = flow.table(CONDITIONS)
    return Counter(event.status for key, event in found.items() if key.endswith(f"|{condition}"))


def letters(flow: Flow) -> list[DeadLettered]:
    return [event for event in flow.events(DEAD_LETTERS) if isinstance(event, DeadLettered)]


def flow_with(fleet: list[str]) -> Flow:
    settings = Settings(partitions=1, report_qps=QPS, report_burst=BURST)
    flow = Flow([module.service(settings) for module in (condition_ingest, timer, taint_manager)], partitions=1)
    world = World(flow)
    for name in fleet:
        world.node(name)
    flow.run()
    return flow


@pytest.mark.parametrize("restarts", [False, True])
def test_quiet_sources_are_heard_beside_a_flood(*, restarts: bool) -> None:
    flow = flow_with([*QUIET, "noisy"])
    for second in range(SECONDS):
        for number in range(30):
            say(flow, "noisy", "probe/flood", "Flood", number)
        if second % 10 == 0:
            for name in QUIET:
                say(flow, name, f"probe/{name}", "Ready", second)
        if restarts and second % 50 == 25:
            flow.crash_process("condition-ingest")
        flow.advance(1)
        if second >= 1:
            assert statuses(flow, "Ready") == {ConditionStatus.TRUE: len(QUIET)}
    assert not any(event.taints for key, event in flow.table(TAINTS).items() if key != "Node/noisy")

    told = letters(flow)
    assert {(letter.reason, letter.value) for letter in told} == {(RefusalReason.TOO_MANY_REQUESTS, "probe/flood")}
    crashes = len(range(25, SECONDS, 50)) if restarts else 0
    assert len(told) <= 1 + SECONDS // 60 + crashes
    counted = sum(1 for event in flow.events(CONDITIONS) if event.type == "Flood")
    assert QPS * SECONDS <= counted <= (1 + crashes) * BURST + QPS * SECONDS
    flow.advance(120)
    dropped = sum(letter.count for letter in letters(flow))
    if not restarts:  # after one, what was not told yet is forgotten
        assert dropped + counted == 30 * SECONDS


def test_what_was_written_while_nobody_read_is_not_taken_for_a_flood() -> None:
    flow = flow_with(QUIET)
    flow.stop("condition-ingest")
    for second in range(0, SECONDS, 5):
        for name in QUIET:
            say(flow, name, f"probe/{name}", "Ready", second)
        flow.advance(5)
    flow.start("condition-ingest")
    flow.run()
    assert letters(flow) == []
    assert statuses(flow, "Ready") == {ConditionStatus.TRUE: len(QUIET)}


def test_forged_requests_to_check_a_source_cause_nothing() -> None:
    """condition-ingest requests a check of itself, before grants and limits. Their ids can be guessed."""
    flow = flow_with(["n1"])
    world = World(flow)
    world.report("n1", "Ready", "True", source="probe")
    flow.advance(5)
    (timer_id, timer), *others = flow.table(TIMERS).items()
    assert not others
    assert timer.deadline is not None
    before = {topic: len(flow.records(topic)) for topic in (TIMERS, CONDITIONS, DEAD_LETTERS)}
    for number in range(200):
        watch = HeartbeatWatch(timer_id, "", timer.generation + number, timer.deadline)
        forged = ConditionReported(
            target=node("n1"),
            type="Ready",
            status=ConditionStatus.UNKNOWN,
            reason=HEARTBEAT_STOPPED,
            observed_time=flow.now,
            source="probe",
        )
        flow.produce(CONDITION_REPORTS, "Node/n1", forged, id=check_id(watch), source="moorage/condition-ingest")
    flow.run()
    assert {topic: len(flow.records(topic)) for topic in before} == before
    flow.advance_to(timer.deadline + timedelta(seconds=2))
    assert statuses(flow, "Ready")[ConditionStatus.UNKNOWN] == 1, "its own requests count"
