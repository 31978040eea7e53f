"""condition-ingest: what it refuses and why, what it forwards, what it ignores, and what it writes."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

import msgspec
import pytest
from tests.support.records import T0, at, record
from tests.support.worlds.flow import Flow
from tests.support.worlds.world import World

from moorage.decide.conditions.heartbeats import LEAST_OFTEN
from moorage.decide.conditions.reports import KeptCondition, accept
from moorage.decide.taints.desired.from_conditions import leads_to_a_taint
from moorage.runtime.engine.portions import CHECKS
from moorage.runtime.service import Emit, Input, Malformed, NeedFresh
from moorage.runtime.settings.process_settings import Settings
from moorage.workers import condition_ingest
from moorage.workers.condition_ingest.service import ConditionIngest
from moorage.workers.condition_ingest.state import ConditionIngestPartition
from moorage_schemas.condition import (
    ConditionChanged,
    ConditionReported,
    ConditionStatus,
    WorkloadConditionChanged,
)
from moorage_schemas.dead_letter import DeadLettered, RefusalReason
from moorage_schemas.placement import WorkloadBound
from moorage_schemas.refs import TargetKind, TargetRef, WorkloadRef
from moorage_schemas.resource import ResourceDeclared
from moorage_schemas.timer import SetTimer, TimerFired
from moorage_schemas.times import format_time
from moorage_schemas.topics import (
    BINDINGS,
    CONDITION_REPORTS,
    CONDITIONS,
    DEAD_LETTERS,
    RESOURCES,
    TIMER_FIRED,
    TIMERS,
    WORKLOAD_CONDITIONS,
    partition_of,
)

PARTITIONS = 4
SETTINGS = Settings(partitions=PARTITIONS, report_max_bytes=2000, clock_skew=30)
SERVICE = condition_ingest.service(SETTINGS.model_copy(update={"node_monitor_grace_period": 0.0}))
"""A service without heartbeats, because most tests are not about them."""

LISTENING = condition_ingest.service(SETTINGS)
HERE = partition_of("Node/n1", PARTITIONS)
ELSEWHERE = (HERE + 1) % PARTITIONS


def report(status: str = "False", *, observed: datetime = T0, name: str = "n1", message: str = "") -> ConditionReported:
    return ConditionReported(
        target=TargetRef(kind=TargetKind.NODE, name=name),
        type="Ready",
        status=ConditionStatus(status),
        observed_time=observed,
        message=message,
    )


def came(event: ConditionReported | None, *, key: str = "Node/n1", id: str = "e1", size: int = 0) -> Input:  # noqa: A002 - CloudEvents' own name
    return record(CONDITION_REPORTS, key, event, id=id, partition=HERE, size=size)


def take(service: ConditionIngest, state: ConditionIngestPartition, batch: list[Input], now: datetime) -> list[Emit]:
    """Give a service a batch, like the engine. The present targets are those in the state."""
    try:
        return service.process(state, batch, now)
    except NeedFresh:
        return service.process(state, batch, now, fresh=True)


def state(*nodes: str, service: condition_ingest.ConditionIngest = SERVICE) -> ConditionIngestPartition:
    found = service.new_state(HERE)
    for name in nodes or ("n1",):
        found.targets[f"Node/{name}"] = f"uid-{name}-1"
    return found


@pytest.mark.parametrize(
    ("bad", "reason", "field"),
    [
        (came(report(), key="Node/n2"), RefusalReason.WRONG_KEY, "key"),
        (came(report(observed=at(30.5))), RefusalReason.FUTURE_TIME, "observedTime"),
        (came(report(), size=2001), RefusalReason.TOO_LARGE, "value"),
        (came(None), RefusalReason.INVALID_EVENT, "value"),
    ],
    ids=lambda value: str(value) if isinstance(value, str) else "",
)
def test_what_is_refused_goes_to_dead_letters_with_reason_and_original(
    bad: Input, reason: RefusalReason, field: str
) -> None:
    (emit,) = take(SERVICE, state(), [bad], T0)
    assert emit.topic is DEAD_LETTERS
    letter = emit.event
    assert isinstance(letter, DeadLettered)
    assert (letter.service, letter.reason, letter.field) == ("condition-ingest", reason, field)
    assert letter.rule in letter.message
    assert bad.raw is not None
    assert letter.original == (bad.raw.value or b"").decode()
    assert (letter.topic, letter.partition, letter.offset) == ("condition-reports", HERE, 0)
    assert emit.cause == bad.meta


def test_the_ones_around_a_refused_report_count() -> None:
    batch = [
        came(report(), id="a"),
        came(report(), key="Node/n2", id="b"),
        came(report("True", observed=at(1)), id="c"),
    ]
    emits = take(SERVICE, state(), batch, T0)
    assert [emit.topic.short for emit in emits] == ["conditions", "dead-letters", "conditions"]


@pytest.mark.parametrize("service", [SERVICE, LISTENING])
@pytest.mark.parametrize("known", [False, True])
def test_a_condition_is_written_as_its_model_would_be(service: ConditionIngest, known: bool) -> None:  # noqa: FBT001 - a parameter
    mine = state("n1")
    mine.targets["Node/n1"] = uid = "uid-n1-1"
    if known:
        take(service, mine, [came(report("True"), id="e0")], T0)
    before = mine.conditions.get("Node/n1", {}).get("Ready")
    said = came(report(observed=at(1), message='disk pressure \u2028 "quoted"'))
    assert isinstance(said.event, ConditionReported)
    fields = accept(
        said.event,
        report_id=said.meta.id,
        source=said.event.source or said.meta.source,
        target_uid=uid,
        known=before,
        now=at(2),
        unrecorded=service._monitor.coarseness(mine, said.event.target, said.meta.source),
    )
    condition = ConditionChanged(**fields)
    emit = take(service, mine, [said], at(2))[0]
    assert (emit.topic, emit.event) == (CONDITIONS, condition)
    assert emit.content == condition.model_dump_json().encode()
    kept = KeptCondition.of(condition)
    kept.heard = True
    assert mine.conditions["Node/n1"]["Ready"] == kept


@pytest.mark.parametrize(
    ("given", "source", "can_wait"),
    [
        ({"status": "True"}, "probe", True),
        ({"status": "True", "message": "other words"}, "probe", False),
        ({"status": "False"}, "probe", False),
        ({"status": "True"}, "another probe", False),
        ({"status": "True"}, "cli/ann", False),
    ],
    ids=["a heartbeat", "other words", "another status", "another source", "by hand"],
)
def test_only_a_heartbeat_that_is_recorded_again_can_wait(
    given: dict[str, Any], source: str, *, can_wait: bool
) -> None:
    first = source if source == "cli/ann" else "probe"
    mine = state(service=LISTENING)

    def said(number: int, seconds: float, by: str, **fields: Any) -> Input:
        one = report(observed=at(seconds), **fields).model_copy(update={"source": by})
        return came(one, id=f"e{number}")

    take(LISTENING, mine, [said(1, 0, first, status="True")], T0)
    emits = take(LISTENING, mine, [said(2, 25, source, **given)], at(25))
    assert [emit.can_wait for emit in emits if emit.topic is CONDITIONS] == [can_wait]


@pytest.mark.parametrize(("grace", "can_wait"), [(40.0, True), (6.0, False)])
def test_a_timer_that_is_far_away_can_wait(grace: float, *, can_wait: bool) -> None:
    service = condition_ingest.service(SETTINGS.model_copy(update={"node_monitor_grace_period": grace}))
    mine = state(service=service)
    emits = take(service, mine, [came(report("True").model_copy(update={"source": "probe"}))], T0)
    (timer,) = [emit for emit in emits if emit.topic is TIMERS]
    assert not timer.can_wait, "another member may have to fire it"
    found = timer.event
    assert isinstance(found, SetTimer)
    heard = grace / 2 - 1
    again = report("True", observed=at(heard)).model_copy(update={"source": "probe"})
    assert take(service, mine, [came(again, id="e2")], at(heard)) == []
    fired = TimerFired(
        **{name: getattr(found, name) for name in ("id", "target", "owner", "generation", "deadline", "subject")},
        fired_time=found.deadline,
    )
    emits = take(service, mine, [record(TIMER_FIRED, found.id, fired, id="f1", partition=HERE)], at(grace))
    assert [emit.can_wait for emit in emits] == [can_wait]


def test_a_report_at_the_edge_of_the_skew_counts() -> None:
    (emit,) = take(SERVICE, state(), [came(report(observed=at(30)))], T0)
    assert emit.topic is CONDITIONS


def test_an_empty_key_counts() -> None:
    (emit,) = take(SERVICE, state(), [came(report(), key="")], T0)
    assert (emit.topic, emit.key, emit.partition_key) == (CONDITIONS, "Node/n1|Ready", "Node/n1")


def test_an_unknown_target_is_asked_for_once_and_then_refused() -> None:
    mine = state()
    unknown = came(report(name="n9"), key="Node/n9")
    mine.partition = partition_of("Node/n9", PARTITIONS)
    mine.targets.clear()
    with pytest.raises(NeedFresh):
        SERVICE.process(mine, [unknown], T0)
    assert not mine.conditions, "it asks before it changes anything"
    (emit,) = SERVICE.process(mine, [unknown], T0, fresh=True)
    assert isinstance(emit.event, DeadLettered)
    assert emit.event.reason is RefusalReason.UNKNOWN_TARGET
    assert emit.event.value == "Node/n9"


def test_need_fresh_comes_before_any_change_even_late_in_a_batch() -> None:
    mine = SERVICE.new_state(HERE)
    mine.targets["Node/n1"] = "u"
    same = next(n for n in (f"x{i}" for i in range(99)) if partition_of(f"Node/{n}", PARTITIONS) == HERE)
    batch = [came(report()), came(report(name=same), key=f"Node/{same}")]
    with pytest.raises(NeedFresh):
        SERVICE.process(mine, batch, T0)
    assert mine.conditions == {}
    emits = SERVICE.process(mine, batch, T0, fresh=True)
    assert [emit.topic.short for emit in emits] == ["conditions", "dead-letters"]


def test_a_stray_report_is_sent_on_once_under_its_own_id() -> None:
    elsewhere = SERVICE.new_state(ELSEWHERE)
    stray = record(CONDITION_REPORTS, "Node/n1", report(), id="mine", partition=ELSEWHERE)
    (emit,) = take(SERVICE, elsewhere, [stray], T0)
    assert (emit.topic, emit.key, emit.partition_key) == (CONDITION_REPORTS, "Node/n1", "Node/n1")
    assert emit.event == stray.event
    assert emit.meta is not None
    assert (emit.meta.id, emit.meta.source) == ("mine", "probe")
    again = Input(CONDITION_REPORTS, ELSEWHERE, 1, "Node/n1", emit.event, emit.meta, stray.raw)
    with pytest.raises(NeedFresh):
        SERVICE.process(elsewhere, [again], T0)
    (refused,) = SERVICE.process(elsewhere, [again], T0, fresh=True)
    assert refused.topic is DEAD_LETTERS, "with a wrong count of partitions it ends, too"


def test_a_stray_report_arrives_and_counts_once() -> None:
    flow = Flow([SERVICE], partitions=PARTITIONS)
    fleet = World(flow)
    fleet.node("n1")
    elsewhere = next(k for k in (f"k{i}" for i in range(99)) if flow.partition(k) == ELSEWHERE)
    fleet.report("n1", id="mine", partition_key=elsewhere)
    fleet.report("n1", id="mine", partition_key=elsewhere)
    fleet.report("n1", id="mine")
    flow.run()
    (condition,) = flow.events(CONDITIONS)
    assert (condition.report_id, condition.source, condition.target_uid) == ("mine", "probe", fleet.uid("n1"))
    assert flow.events(DEAD_LETTERS) == []


def test_a_target_that_was_declared_a_moment_ago_is_known() -> None:
    flow = Flow([SERVICE], partitions=PARTITIONS)
    flow.lagging.add("condition-ingest")
    flow.run()
    fleet = World(flow)
    fleet.node("n1")
    fleet.report("n1")
    flow.run()
    assert [event.target.name for event in flow.events(CONDITIONS)] == ["n1"]


@pytest.mark.parametrize(
    ("second", "id", "count"),
    [
        (report("True", observed=at(-1)), "e2", 1),
        (report("True"), "e1", 1),
        (report("True"), "e2", 2),
        (report("True", observed=at(1)), "e2", 2),
    ],
)
def test_order_and_duplicates(second: ConditionReported, id: str, count: int) -> None:  # noqa: A002 - CloudEvents' own name
    emits = take(SERVICE, state(), [came(report()), came(second, id=id)], T0)
    assert [emit.topic.short for emit in emits] == ["conditions"] * count
    last = emits[-1].event
    assert isinstance(last, ConditionChanged)
    assert last.generation == count


def test_conditions_go_with_their_target() -> None:
    flow = Flow([SERVICE], partitions=PARTITIONS)
    fleet = World(flow)
    fleet.node("n1")
    fleet.report("n1")
    fleet.report("n1", "DiskPressure", "True")
    flow.run()
    assert list(flow.table(CONDITIONS)) == ["Node/n1|DiskPressure", "Node/n1|Ready"]
    fleet.delete("Node", "n1")
    flow.run()
    assert flow.table(CONDITIONS) == {}
    written = len(flow.records(CONDITIONS))
    flow.crash("condition-ingest", flow.partition("Node/n1"))
    assert flow.reconcile() == []
    flow.run()
    assert len(flow.records(CONDITIONS)) == written


def test_a_target_that_is_gone_is_found_out_after_a_restart() -> None:
    flow = Flow([SERVICE], partitions=PARTITIONS)
    fleet = World(flow)
    fleet.node("n1")
    fleet.report("n1")
    flow.run()
    fleet.delete("Node", "n1")
    fleet.node("n1")
    flow.crash("condition-ingest", flow.partition("Node/n1"))
    flow.compact([RESOURCES])
    flow.run()
    assert flow.table(CONDITIONS) == {}, "it is another target under the same name"
    fleet.report("n1")
    flow.run()
    assert [c.target_uid for c in flow.table(CONDITIONS).values()] == [fleet.uid("n1")]


def test_what_cannot_be_decoded_is_refused_with_its_place_as_cause() -> None:
    flow = Flow([SERVICE], partitions=PARTITIONS)
    World(flow).node("n1")
    headers = [
        ("ce_specversion", b"1.0"),
        ("ce_id", b"x"),
        ("ce_source", b"probe"),
        ("ce_type", CONDITION_REPORTS.event_type.encode()),
    ]
    good = report().model_dump_json()
    bodies = {
        "NotJSON": (headers, b"{"),
        "InvalidEnvelope": (headers[:2], good.encode()),
        "InvalidEvent": (headers, json.dumps({**json.loads(good), "extra": 1}).encode()),
        "TooLarge": (headers, b" " * 65_537),
    }
    for number, (which, body) in enumerate(bodies.values()):
        flow.produce_raw(CONDITION_REPORTS, HERE, key=str(number).encode(), value=body, headers=which)
    flow.run()
    letters = {letter.key: letter for letter in flow.events(DEAD_LETTERS)}
    assert [letters[str(number)].reason.value for number in range(4)] == list(bodies)
    assert [letters[str(number)].offset for number in range(4)] == [0, 1, 2, 3]
    assert letters["0"].original == "{"
    flow.produce(CONDITION_REPORTS, "Node/n1", report())
    flow.run()
    assert len(flow.events(CONDITIONS)) == 1, "the service goes on"


def test_a_malformed_record_has_an_id_that_follows_from_its_place() -> None:
    raw = came(report()).raw
    assert raw is not None
    bad = Malformed(CONDITION_REPORTS, 1, 5, raw, RefusalReason.NOT_JSON.value, "no JSON")
    (first,) = SERVICE.refuse(state(), bad, T0)
    (second,) = SERVICE.refuse(state(), bad, at(9))
    assert first.cause == second.cause


# Heartbeats and workloads in the service itself. The flow tests show their effects.


def heard(mine: ConditionIngestPartition, *, now: datetime = T0, **fields: Any) -> list[Emit]:
    return take(LISTENING, mine, [came(report(**fields), id=f"at-{now}")], now)


def fired(timer: SetTimer, *, now: datetime, owner: str = "condition-ingest") -> Input:
    assert timer.deadline is not None
    event = TimerFired(
        id=timer.id,
        target=timer.target,
        owner=owner,
        generation=timer.generation,
        deadline=timer.deadline,
        fired_time=now,
        subject=timer.subject,
    )
    return record(TIMER_FIRED, timer.id, event, id="f1", partition=HERE, source="moorage/timer")


def timer_of(emits: list[Emit]) -> SetTimer:
    (timer,) = (emit.event for emit in emits if emit.topic is TIMERS)
    assert isinstance(timer, SetTimer)
    return timer


def back(emit: Emit) -> Input:
    """A record that the service has written, as it reads it back."""
    assert emit.meta is not None
    return Input(emit.topic, HERE, 9, emit.key, emit.event, emit.meta)


def test_a_timer_is_set_when_a_source_first_speaks_and_not_moved() -> None:
    mine = state(service=LISTENING)
    first = heard(mine)
    assert [emit.topic.short for emit in first] == ["conditions", "timers"]
    timer = timer_of(first)
    assert (timer.owner, timer.subject, timer.deadline, timer.generation) == ("condition-ingest", "probe", at(40), 1)
    assert timer.id == "heartbeat|Node/n1|uid-n1-1|Ready|1|probe"
    assert timer.correlation_id == f"at-{T0}"
    assert heard(mine, now=at(10), observed=at(10)) == [], "nothing has changed"
    assert [emit.topic.short for emit in heard(mine, now=at(20), observed=at(20))] == ["conditions"]


def written_times(service: ConditionIngest, *batch: tuple[float, ConditionReported]) -> list[float]:
    """The times, of these, at which a report was written to `conditions`."""
    mine, found = state(service=service), []
    for seconds, event in batch:
        given = event.model_copy(update={"observed_time": at(seconds)})
        emits = take(service, mine, [came(given, id=f"at-{seconds}")], at(seconds))
        found += [seconds for emit in emits if emit.topic is CONDITIONS]
    return found


def test_what_changes_is_written_at_once() -> None:
    same, other = report("True", message="fine"), report("True", message="fine, but hot")
    reason = same.model_copy(update={"reason": "KubeletReady"})
    source = same.model_copy(update={"source": "probe/b"})
    batch = ((0, same), (1, same), (2, other), (3, other), (4, reason), (5, source), (6, source), (7, report("False")))
    assert written_times(LISTENING, *batch) == [0, 2, 4, 5, 7]


def test_reports_by_hand_are_all_written() -> None:
    by_hand = report("True").model_copy(update={"source": "cli/alice"})
    assert written_times(LISTENING, (0, by_hand), (1, by_hand)) == [0, 1]


def test_a_source_without_a_grace_period_is_written_every_five_minutes() -> None:
    same = report("True")
    assert written_times(SERVICE, *((10 * number, same) for number in range(61))) == [0, 300, 600]


def test_a_source_that_says_it_does_not_know_is_not_written_each_time() -> None:
    assert written_times(LISTENING, *((10 * number, report("Unknown")) for number in range(5))) == [0, 20, 40]


def test_a_short_grace_period_has_every_heartbeat_written() -> None:
    hasty = condition_ingest.service(SETTINGS.model_copy(update={"node_monitor_grace_period": 1.9}))
    assert written_times(hasty, *((number / 2, report("True")) for number in range(4))) == [0, 0.5, 1, 1.5]


def test_a_clock_that_is_set_back_has_the_heartbeat_written() -> None:
    mine = state()
    heard(mine, now=at(10), observed=at(10))
    emits = heard(mine, now=at(5), observed=at(11))
    assert [emit.topic for emit in emits] == [CONDITIONS]


def test_heartbeats_that_are_not_written_keep_the_order_of_reports() -> None:
    mine = state(service=LISTENING)
    heard(mine, observed=at(0))
    heard(mine, now=at(10), observed=at(10))
    late = came(report("True", observed=at(9)), id="late")
    assert take(LISTENING, mine, [late], at(11)) == [], "an older report does not count"
    again = came(report("True", observed=at(10)), id=f"at-{at(10)}")
    before = mine.conditions["Node/n1"]["Ready"]
    take(LISTENING, mine, [again], at(12))
    assert mine.conditions["Node/n1"]["Ready"] == before, "and no report counts twice"


def test_one_batch_has_one_time() -> None:
    mine = state(service=LISTENING)
    batch = [came(report(observed=at(n), message=str(n)), id=str(n)) for n in range(3)]
    emits = take(LISTENING, mine, batch, at(20))
    conditions = [emit.event for emit in emits if isinstance(emit.event, ConditionChanged)]
    assert [(c.accepted_time, c.status_since) for c in conditions] == [(at(20), at(20))] * 3


def test_the_same_batch_gives_the_same_records() -> None:
    batch = [came(report(observed=at(n)), id=str(n)) for n in range(3)]
    assert take(LISTENING, state(service=LISTENING), batch, at(20)) == take(
        LISTENING, state(service=LISTENING), batch, at(20)
    )


def test_silence_goes_through_the_partition_before_it_counts() -> None:
    mine = state(service=LISTENING)
    timer = timer_of(heard(mine))
    (ask,) = take(LISTENING, mine, [fired(timer, now=at(40))], at(40))
    assert (ask.topic, ask.key, ask.partition_key) == (CONDITION_REPORTS, "Node/n1", "Node/n1")
    emits = take(LISTENING, mine, [back(ask)], at(41))
    unknown = emits[0].event
    assert isinstance(unknown, ConditionChanged)
    assert (unknown.status, unknown.last_transition_time) == (ConditionStatus.UNKNOWN, at(40))
    assert (emits[1].topic, emits[1].key, emits[1].event) == (TIMERS, timer.id, None)
    assert take(LISTENING, mine, [back(ask), fired(timer, now=at(50))], at(50)) == [], "once is enough"


def test_a_report_that_was_waiting_answers_the_question() -> None:
    mine = state(service=LISTENING)
    timer = timer_of(heard(mine))
    (ask,) = take(LISTENING, mine, [fired(timer, now=at(40))], at(40))
    heard(mine, now=at(41), observed=at(12))
    again = timer_of(take(LISTENING, mine, [back(ask)], at(41)))
    assert (again.id, again.generation, again.deadline) == (timer.id, 2, at(81))
    assert take(LISTENING, mine, [back(ask)], at(42)) == [], "an old question is not asked anew"
    assert take(LISTENING, mine, [fired(timer, now=at(42))], at(42)) == []


def test_a_question_that_somebody_else_wrote_does_nothing() -> None:
    mine = state(service=LISTENING)
    heard(mine)
    event = report("Unknown", observed=at(60)).model_copy(update={"reason": "HeartbeatStopped", "source": "probe"})
    forged = record(CONDITION_REPORTS, "Node/n1", event, id="mine", partition=HERE, source="moorage/condition-ingest")
    assert take(LISTENING, mine, [forged], at(60)) == []


def test_a_timer_whose_clock_is_ahead_does_not_make_silence_come_early() -> None:
    mine = state(service=LISTENING)
    timer = timer_of(heard(mine))
    again = timer_of(take(LISTENING, mine, [fired(timer, now=at(40))], at(37)))
    assert (again.generation, again.deadline) == (2, at(43)), "three seconds later by the timer's clock"


@pytest.mark.parametrize("owner", ["eviction", "condition-ingest-2"])
def test_timers_of_others_are_ignored(owner: str) -> None:
    mine = state(service=LISTENING)
    timer = timer_of(heard(mine))
    assert take(LISTENING, mine, [fired(timer, now=at(40), owner=owner)], at(40)) == []
    before = dict(mine.watches["Node/n1"])
    theirs = timer.model_copy(update={"owner": owner, "generation": 9})
    LISTENING.apply(mine, TIMERS, timer.id, theirs)
    LISTENING.apply(mine, TIMERS, "evict|Pod/default/p|Node/n1|1", theirs)
    LISTENING.apply(mine, TIMERS, "evict|Pod/default/p|Node/n1|1", None)
    assert mine.watches == {"Node/n1": before}


def test_a_target_made_again_is_watched_by_a_timer_of_its_own() -> None:
    mine = state(service=LISTENING)
    old = timer_of(heard(mine))
    mine.targets["Node/n1"] = "uid-n1-2"
    emits = heard(mine, now=at(10), observed=at(10))
    assert [(emit.topic.short, emit.key, emit.event is None) for emit in emits] == [
        ("conditions", "Node/n1|Ready", False),
        ("timers", old.id, True),
        ("timers", "heartbeat|Node/n1|uid-n1-2|Ready|2|probe", False),
    ]


def test_a_timer_that_fires_for_a_target_that_is_gone_does_nothing_but_go() -> None:
    mine = state(service=LISTENING)
    timer = timer_of(heard(mine))
    LISTENING.apply(mine, RESOURCES, "Node//n1", None)
    assert take(LISTENING, mine, [fired(timer, now=at(40))], at(40)) == []
    gone = [(emit.topic, emit.key, emit.event) for emit in LISTENING.wake(mine, at(40))]
    assert gone == [(CONDITIONS, "Node/n1|Ready", None), (TIMERS, timer.id, None)]
    restored = LISTENING.new_state(HERE)
    LISTENING.apply(restored, TIMERS, timer.id, timer)
    assert LISTENING.next_wake(restored) is not None
    assert [emit.key for emit in LISTENING.wake(restored, at(40))] == [timer.id]
    assert LISTENING.next_wake(restored) is None


def test_a_source_that_says_unknown_has_nothing_to_lose() -> None:
    mine = state(service=LISTENING)
    assert [emit.topic.short for emit in heard(mine, status="Unknown")] == ["conditions"]
    timer = timer_of(heard(mine, now=at(5), status="True", observed=at(5)))
    heard(mine, now=at(6), status="Unknown", observed=at(6))
    (over,) = take(LISTENING, mine, [fired(timer, now=at(45))], at(45))
    assert (over.topic, over.event) == (TIMERS, None)


POD = WorkloadRef(kind="Pod", namespace="shop", name="web-0")


def about_a_pod(status: str = "False", *, observed: datetime = T0, **fields: Any) -> ConditionReported:
    fields = {"type": "Healthy", "workload": POD, **fields}
    return report(status, observed=observed).model_copy(update=fields)


def test_what_a_deployer_says_of_a_workload_has_a_table_of_its_own_and_no_heartbeats() -> None:
    mine = state(service=LISTENING)
    batch = [
        came(about_a_pod(), id="a"),
        came(about_a_pod("True", observed=at(-1)), id="b"),
        came(about_a_pod(), id="a"),
        came(about_a_pod("True", observed=at(1)), id="c"),
    ]
    emits = take(LISTENING, mine, batch, at(5))
    assert [(emit.topic.short, emit.key, emit.partition_key) for emit in emits] == [
        ("workload-conditions", "Pod/shop/web-0|Node/n1|Healthy", "Node/n1")
    ] * 2
    last = emits[-1].event
    assert isinstance(last, WorkloadConditionChanged)
    assert (last.workload, last.status, last.generation) == (POD, ConditionStatus.TRUE, 2)
    assert (last.accepted_time, last.status_since, last.report_id) == (at(5), at(5), "c")
    assert (mine.conditions, mine.watches) == ({}, {})


@pytest.mark.parametrize(
    ("bad", "reason", "field"),
    [
        (came(about_a_pod(), key="Pod/shop/web-0"), RefusalReason.WRONG_KEY, "key"),
        (came(about_a_pod(observed=at(31))), RefusalReason.FUTURE_TIME, "observedTime"),
        (
            came(about_a_pod(workload=POD.model_copy(update={"name": "a|Node/n2"}))),
            RefusalReason.INVALID_EVENT,
            "workload.name",
        ),
    ],
    ids=["key", "time", "name"],
)
def test_a_report_about_a_workload_is_checked_like_any_other(bad: Input, reason: RefusalReason, field: str) -> None:
    (emit,) = take(LISTENING, state(service=LISTENING), [bad], T0)
    assert isinstance(emit.event, DeadLettered)
    assert (emit.event.reason, emit.event.field) == (reason, field)


def test_a_workload_on_an_unknown_target_is_refused() -> None:
    mine = state(service=LISTENING)
    mine.targets.clear()
    (emit,) = LISTENING.process(mine, [came(about_a_pod())], T0, fresh=True)
    assert isinstance(emit.event, DeadLettered)
    assert emit.event.reason is RefusalReason.UNKNOWN_TARGET


def binding(*, present: bool = True, name: str = "web-0") -> tuple[str, WorkloadBound | None]:
    pod, node = POD.model_copy(update={"name": name}), TargetRef(kind=TargetKind.NODE, name="n1")
    bound = WorkloadBound(
        workload=pod, uid="u", owner=pod, target=node, generation=1, tolerations=(), bound_time=T0, requests={}
    )
    return f"{pod.key}|{node.key}", bound if present else None


def removed(mine: ConditionIngestPartition, seconds: float) -> list[str]:
    """The keys for which `wake` writes a tombstone."""
    found = LISTENING.wake(mine, at(seconds))
    assert {emit.event for emit in found} <= {None}
    assert {emit.topic.short for emit in found} <= {"workload-conditions"}
    return [emit.key for emit in found]


HEALTHY = "Pod/shop/web-0|Node/n1|Healthy"


def test_what_is_known_of_a_workload_goes_ten_minutes_after_it_has_left() -> None:
    mine = state(service=LISTENING)
    LISTENING.apply(mine, BINDINGS, *binding())
    take(LISTENING, mine, [came(about_a_pod(), id="a"), came(about_a_pod(type="Warm"), id="b")], at(0))
    assert LISTENING.next_wake(mine) is None, "it is bound"
    LISTENING.apply(mine, BINDINGS, *binding(present=False))
    take(LISTENING, mine, [came(about_a_pod(observed=at(100)), id="c")], at(100))
    assert LISTENING.next_wake(mine) == at(600)
    assert removed(mine, 599) == []
    assert removed(mine, 600) == ["Pod/shop/web-0|Node/n1|Warm"]
    assert LISTENING.next_wake(mine) == at(700), "the other one was reported later"
    LISTENING.apply(mine, BINDINGS, *binding())
    assert removed(mine, 700) == [], "it is bound again"
    LISTENING.apply(mine, BINDINGS, *binding(present=False))
    assert removed(mine, 701) == [HEALTHY]
    assert (mine.workloads, len(mine.unbound), mine.bound) == ({}, 0, {})
    assert LISTENING.next_wake(mine) is None


def test_a_workload_that_is_reported_and_never_bound_is_queued_once() -> None:
    mine = state(service=LISTENING)
    for seconds in range(0, 1200, 10):
        take(LISTENING, mine, [came(about_a_pod(observed=at(seconds)), id=f"r{seconds}")], at(seconds))
        assert removed(mine, seconds) == []
        assert len(mine.unbound) == 1
    assert removed(mine, 1189 + 600) == []
    assert removed(mine, 1190 + 600) == [HEALTHY]


def test_a_restore_finds_what_is_not_bound_whatever_it_reads_first() -> None:
    first = state(service=LISTENING)
    emits = take(LISTENING, first, [came(about_a_pod(workload=pod(n)), id=f"p{n}") for n in range(2400)], at(0))
    restored = state(service=LISTENING)
    for emit in emits:
        LISTENING.apply(restored, emit.topic, emit.key, emit.event)
    for number in range(0, 2400, 2):
        LISTENING.apply(restored, BINDINGS, *binding(name=f"web-{number}"))
    found = [removed(restored, 600) for _ in range(3)]
    assert all(0 < len(keys) < CHECKS for keys in found), "it works in portions"
    assert sorted(key for keys in found for key in keys) == sorted(
        f"Pod/shop/web-{number}|Node/n1|Healthy" for number in range(1, 2400, 2)
    )
    assert LISTENING.next_wake(restored) is None
    assert len(restored.workloads["Node/n1"]) == 1200


def pod(number: int) -> WorkloadRef:
    return POD.model_copy(update={"name": f"web-{number}"})


def test_many_types_of_conditions_of_a_workload_go_with_it() -> None:
    mine = state(service=LISTENING)
    LISTENING.apply(mine, BINDINGS, *binding())
    batch = [came(about_a_pod(type=f"Type{number}"), id=f"t{number}") for number in range(40)]
    take(LISTENING, mine, batch, at(0))
    LISTENING.apply(mine, BINDINGS, *binding(present=False))
    assert len(removed(mine, 600)) == 40
    assert mine.workloads == {}
    assert len(mine.types) < 40


def test_what_is_known_of_workloads_and_the_timers_go_with_the_target() -> None:
    flow = Flow([LISTENING], partitions=PARTITIONS)
    fleet = World(flow)
    fleet.node("n1")
    fleet.report("n1")
    flow.produce(CONDITION_REPORTS, "Node/n1", about_a_pod(observed=flow.now))
    flow.run()
    tables = (CONDITIONS, WORKLOAD_CONDITIONS, TIMERS)
    assert [len(flow.table(topic)) for topic in tables] == [1, 1, 1]
    flow.crash("condition-ingest", HERE)
    assert flow.reconcile() == []
    fleet.delete("Node", "n1")
    flow.run()
    assert [len(flow.table(topic)) for topic in tables] == [0, 0, 0]
    assert flow.reconcile() == []


# A target that was deleted and created again with the same name.


def declared(life: int, seconds: float) -> ResourceDeclared:
    """The gateway's record of a node, with the uid of one of its lives."""
    metadata = {"name": "n1", "uid": f"uid-n1-{life}", "creationTimestamp": format_time(at(int(seconds)))}
    return ResourceDeclared(object={"kind": "Node", "metadata": metadata}, version=life)


def written(event: ConditionReported, seconds: float, *, id: str = "e1") -> Input:  # noqa: A002 - CloudEvents' own name
    return msgspec.structs.replace(came(event, id=id), written=at(seconds))


def life(number: int, seconds: float) -> ConditionIngestPartition:
    found = SERVICE.new_state(HERE)
    SERVICE.apply(found, RESOURCES, "Node//n1", declared(number, seconds))
    return found


def test_a_report_that_was_written_before_its_target_was_declared_is_refused() -> None:
    (emit,) = take(SERVICE, life(2, 50), [written(report(observed=at(40)), 40)], at(60))
    letter = emit.event
    assert isinstance(letter, DeadLettered)
    assert (letter.reason, letter.field, letter.value) == (RefusalReason.UNKNOWN_TARGET, "target", "Node/n1")
    assert letter.rule.startswith("must be declared before the report is written, at 2026-01-01T00:00:40")


@pytest.mark.parametrize(
    ("seconds", "counts"),
    [(48.9, False), (49.0, True), (50.2, True), (50.7, True), (90, True)],
    ids=["long before", "clocks differ", "in the same second", "just after", "later"],
)
def test_clocks_may_differ_by_a_second(seconds: float, *, counts: bool) -> None:
    emits = take(SERVICE, life(2, 50.6), [written(report(), seconds)], at(99))
    assert [emit.topic for emit in emits] == [CONDITIONS if counts else DEAD_LETTERS]


def test_it_is_not_the_time_of_observation_that_counts() -> None:
    (emit,) = take(SERVICE, life(2, 50), [written(report(observed=at(5)), 55)], at(60))
    assert isinstance(emit.event, ConditionChanged)
    assert emit.event.target_uid == "uid-n1-2"


def test_where_times_are_not_known_a_report_counts() -> None:
    (emit,) = take(SERVICE, life(2, 50), [came(report())], at(60))
    assert emit.topic is CONDITIONS
    (emit,) = take(SERVICE, state(), [written(report(), -100)], at(60))
    assert emit.topic is CONDITIONS


@pytest.mark.parametrize("stamp", ["", "yesterday", "2026-01-01T00:00:00", 7])
def test_a_target_that_does_not_say_when_it_was_declared_takes_all_reports(stamp: object) -> None:
    mine, event = SERVICE.new_state(HERE), declared(2, 50)
    event.object["metadata"]["creationTimestamp"] = stamp
    SERVICE.apply(mine, RESOURCES, "Node//n1", event)
    (emit,) = take(SERVICE, mine, [written(report(), 1)], at(60))
    assert emit.topic is CONDITIONS


def test_only_a_heartbeat_of_who_is_watched_does_not_ask_for_the_present_targets() -> None:
    mine = LISTENING.new_state(HERE)
    LISTENING.apply(mine, RESOURCES, "Node//n1", declared(1, 0))
    with pytest.raises(NeedFresh):
        LISTENING.process(mine, [written(report("True"), 1)], at(1))
    take(LISTENING, mine, [written(report("True"), 1)], at(1))
    beat = written(report("True", observed=at(10)), 10, id="e2")
    assert LISTENING.process(mine, [beat], at(10)) == []
    again = report("True", observed=at(20))
    for other in (
        written(report("False", observed=at(20)), 20, id="e3"),
        written(again.model_copy(update={"source": "another"}), 20, id="e3"),
        written(again.model_copy(update={"type": "Another"}), 20, id="e3"),
        written(about_a_pod(), 20, id="e3"),
    ):
        with pytest.raises(NeedFresh):
            LISTENING.process(mine, [other], at(20))
    LISTENING.apply(mine, RESOURCES, "Node//n1", declared(2, 15))
    with pytest.raises(NeedFresh):
        LISTENING.process(mine, [beat], at(20))


def made_again(flow: Flow, *, after: float) -> World:
    fleet = World(flow)
    fleet.node("n1")
    flow.run()
    flow.advance(60)
    fleet.delete("Node", "n1")
    flow.advance(after)
    fleet.node("n1")
    return fleet


def test_a_report_on_a_target_that_was_just_made_again_is_not_lost_with_the_one_before() -> None:
    flow = Flow([SERVICE], partitions=PARTITIONS)
    flow.lagging.add("condition-ingest")
    fleet = made_again(flow, after=0)
    fleet.report("n1")
    flow.run()
    (condition,) = flow.table(CONDITIONS).values()
    assert condition.target_uid == fleet.uid("n1") == "uid-n1-2"
    flow.lagging.clear()
    flow.run()
    flow.reconcile()
    assert [one.target_uid for one in flow.table(CONDITIONS).values()] == ["uid-n1-2"]


def test_what_was_reported_while_nobody_listened_does_not_count_for_a_later_target() -> None:
    flow = Flow([SERVICE], partitions=PARTITIONS)
    fleet = World(flow)
    fleet.node("n1")
    flow.run()
    flow.stop("condition-ingest")
    flow.advance(60)
    fleet.report("n1")
    flow.advance(5)
    fleet.delete("Node", "n1")
    fleet.node("n1")
    flow.compact()
    flow.start("condition-ingest")
    flow.run()
    assert flow.table(CONDITIONS) == {}
    (letter,) = flow.events(DEAD_LETTERS)
    assert letter.reason is RefusalReason.UNKNOWN_TARGET
    fleet.report("n1", "Ready", "True")
    flow.run()
    assert [one.target_uid for one in flow.table(CONDITIONS).values()] == ["uid-n1-2"]


DAY = 86_400


def custom(*, seconds: float = 0, source: str = "probe", name: str = "CertificateOk") -> Input:
    """A report of a condition from which no taint follows."""
    event = report("True", observed=at(seconds)).model_copy(update={"type": name, "source": source})
    return came(event, id=f"{name}{seconds}")


def removed_conditions(
    mine: ConditionIngestPartition, now: datetime, service: ConditionIngest = LISTENING
) -> list[str]:
    """The keys for which `wake` writes a tombstone."""
    found = service.wake(mine, now)
    assert {(emit.topic, emit.event) for emit in found} <= {(CONDITIONS, None)}
    return [emit.key for emit in found]


def test_a_condition_without_effect_goes_a_day_after_its_last_report() -> None:
    mine = state(service=LISTENING)
    take(LISTENING, mine, [custom(), custom(name="Ready")], at(0))
    first = LISTENING.next_wake(mine)
    assert first is not None
    assert at(DAY) <= first <= at(DAY) + LEAST_OFTEN
    take(LISTENING, mine, [custom(seconds=1000), custom(seconds=1000, name="Ready")], at(1000))
    assert removed_conditions(mine, first) == [], "it was reported again"
    due = LISTENING.next_wake(mine)
    assert due is not None
    assert at(DAY + 1000) <= due <= at(DAY + 1000) + LEAST_OFTEN
    assert removed_conditions(mine, due) == ["Node/n1|CertificateOk"]
    assert set(mine.conditions["Node/n1"]) == {"Ready"}
    assert LISTENING.next_wake(mine) is None


def test_a_condition_without_effect_goes_after_a_restart_too() -> None:
    restored = state(service=LISTENING)
    for emit in take(LISTENING, state(service=LISTENING), [custom()], at(0)):
        LISTENING.apply(restored, emit.topic, emit.key, emit.event)
    due = LISTENING.next_wake(restored)
    assert due is not None
    assert at(DAY) <= due <= at(DAY) + LEAST_OFTEN
    assert removed_conditions(restored, due) == ["Node/n1|CertificateOk"]


@pytest.mark.parametrize("source", ["cli/ann", "probe/slow"])
def test_a_source_that_need_not_repeat_keeps_its_conditions(source: str) -> None:
    slow = condition_ingest.service(SETTINGS.model_copy(update={"source_grace_periods": "Node:probe/slow=0"}))
    mine = state(service=slow)
    take(slow, mine, [custom(source=source)], at(0))
    due = at(0)
    for _ in range(30):
        due = slow.next_wake(mine) or due
        assert removed_conditions(mine, due, slow) == []
    assert due > at(29 * DAY)


def test_a_long_grace_period_keeps_a_condition_longer() -> None:
    slow = condition_ingest.service(SETTINGS.model_copy(update={"source_grace_periods": "Node:probe/slow=72h"}))
    mine = state(service=slow)
    take(slow, mine, [custom(source="probe/slow")], at(0))
    assert removed_conditions(mine, at(DAY + 300), slow) == []
    due = slow.next_wake(mine)
    assert due is not None
    assert due >= at(3 * DAY)
    assert removed_conditions(mine, due, slow) == ["Node/n1|CertificateOk"]


def test_policies_may_name_any_condition_of_a_cluster() -> None:
    assert leads_to_a_taint("Cluster/c1", "CertificateOk")
    assert leads_to_a_taint("Node/n1", "MemoryPressure")
    assert leads_to_a_taint("ManagedCluster/c1", "ManagedClusterConditionAvailable")
    assert not leads_to_a_taint("ManagedCluster/c1", "Ready")
