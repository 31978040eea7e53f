"""condition-ingest: what it refuses and why, what it sends on, what it ignores, and what it writes."""

from __future__ import annotations

import json
from datetime import datetime

import pytest
from tests.flow.driver import Flow
from tests.flow.fleet import Fleet
from tests.services.records import T0, at, record

from moorage import condition_ingest
from moorage.condition_ingest.service import State
from moorage.runtime.service import Input, Malformed, NeedFresh
from moorage.runtime.settings import Settings
from moorage_schemas.condition import ConditionChanged, ConditionReported, ConditionStatus
from moorage_schemas.dead_letter import DeadLettered, RefusalReason
from moorage_schemas.refs import TargetKind, TargetRef
from moorage_schemas.topics import CONDITION_REPORTS, CONDITIONS, DEAD_LETTERS, RESOURCES, partition_of

PARTITIONS = 4
SERVICE = condition_ingest.service(Settings(partitions=PARTITIONS, report_max_bytes=2000, clock_skew=30))
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


def state(*nodes: str) -> State:
    found = SERVICE.new_state(HERE)
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
    (emit,) = SERVICE.process(state(), [bad], T0)
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
    emits = SERVICE.process(state(), batch, T0)
    assert [emit.topic.short for emit in emits] == ["conditions", "dead-letters", "conditions"]


def test_a_report_at_the_edge_of_the_skew_counts() -> None:
    (emit,) = SERVICE.process(state(), [came(report(observed=at(30)))], T0)
    assert emit.topic is CONDITIONS


def test_an_empty_key_counts() -> None:
    (emit,) = SERVICE.process(state(), [came(report(), key="")], T0)
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
    (emit,) = SERVICE.process(elsewhere, [stray], T0)
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
    fleet = Fleet(flow)
    fleet.declare("n1")
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
    fleet = Fleet(flow)
    fleet.declare("n1")
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
    emits = SERVICE.process(state(), [came(report()), came(second, id=id)], T0)
    assert [emit.topic.short for emit in emits] == ["conditions"] * count
    last = emits[-1].event
    assert isinstance(last, ConditionChanged)
    assert last.generation == count


def test_conditions_go_with_their_target() -> None:
    flow = Flow([SERVICE], partitions=PARTITIONS)
    fleet = Fleet(flow)
    fleet.declare("n1")
    fleet.report("n1")
    fleet.report("n1", "DiskPressure", "True")
    flow.run()
    assert list(flow.table(CONDITIONS)) == ["Node/n1|DiskPressure", "Node/n1|Ready"]
    fleet.delete("n1")
    flow.run()
    assert flow.table(CONDITIONS) == {}
    written = len(flow.records(CONDITIONS))
    flow.crash("condition-ingest", flow.partition("Node/n1"))
    assert flow.reconcile() == []
    flow.run()
    assert len(flow.records(CONDITIONS)) == written


def test_a_target_that_is_gone_is_found_out_after_a_restart() -> None:
    flow = Flow([SERVICE], partitions=PARTITIONS)
    fleet = Fleet(flow)
    fleet.declare("n1")
    fleet.report("n1")
    flow.run()
    fleet.delete("n1")
    fleet.declare("n1")
    flow.crash("condition-ingest", flow.partition("Node/n1"))
    flow.compact([RESOURCES])
    flow.run()
    assert flow.table(CONDITIONS) == {}, "it is another target under the same name"
    fleet.report("n1")
    flow.run()
    assert [c.target_uid for c in flow.table(CONDITIONS).values()] == [fleet.uid("n1")]


def test_what_cannot_be_decoded_is_refused_with_its_place_as_cause() -> None:
    flow = Flow([SERVICE], partitions=PARTITIONS)
    Fleet(flow).declare("n1")
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
