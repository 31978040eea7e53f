"""Reports: what is refused, which of several counts, and the resulting condition."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.tables import table

from moorage.decide.conditions.reports import (
    SAME_TIME_MOST,
    Duplicate,
    KeptCondition,
    Stale,
    Superseded,
    accept,
    check_key,
    check_order,
    newer_condition,
    source_of,
    unknown_target,
)
from moorage_schemas.condition import (
    ConditionChanged,
    ConditionReported,
    ConditionStatus,
    WorkloadConditionChanged,
)
from moorage_schemas.dead_letter import RefusalReason
from moorage_schemas.refs import TargetKind, TargetRef, WorkloadRef
from moorage_schemas.report_rules import Refusal, check_size, check_time, check_workload

T0 = datetime(2026, 1, 1, tzinfo=UTC)
TARGET = TargetRef(kind=TargetKind.NODE, name="n1")


def report(status: str = "False", seconds: float = 0, **fields: Any) -> ConditionReported:
    return ConditionReported(
        target=TARGET,
        type="Ready",
        status=ConditionStatus(status),
        observed_time=T0 + timedelta(seconds=seconds),
        **fields,
    )


Decided = ConditionChanged | Stale | Superseded | Duplicate


def decide(
    one: ConditionReported,
    known: ConditionChanged | None = None,
    *,
    report_id: str = "r1",
    source: str = "probe",
    uid: str = "u1",
    now: datetime = T0,
) -> Decided:
    """Return the condition that results from a report, or why it does not count."""
    held = None if known is None else KeptCondition.of(known)
    source = source_of(one, source)
    wrong = check_order(one, report_id=report_id, source=source, target_uid=uid, known=held)
    if wrong is not None:
        return wrong
    fields = accept(
        one, report_id=report_id, source=source, target_uid=uid, known=held, now=now, unrecorded=timedelta()
    )
    return ConditionChanged(**fields) if one.workload is None else WorkloadConditionChanged(**fields)


def accepted(decided: Decided) -> ConditionChanged:
    assert isinstance(decided, ConditionChanged)
    return decided


def test_the_first_report_is_the_condition() -> None:
    condition = accepted(decide(report("False", reason="Kubelet", message="down")))
    assert condition.generation == 1
    assert condition.status is ConditionStatus.FALSE
    assert (condition.reason, condition.message, condition.source) == ("Kubelet", "down", "probe")
    assert condition.last_transition_time == condition.last_heartbeat_time == T0
    assert (condition.report_id, condition.target_uid) == ("r1", "u1")


def test_a_named_source_goes_before_the_envelopes() -> None:
    assert accepted(decide(report(source="probe/disk"))).source == "probe/disk"


def test_a_heartbeat_keeps_the_transition_time_and_takes_the_new_words() -> None:
    first = accepted(decide(report("False")))
    second = accepted(decide(report("False", 10, reason="Still"), first, report_id="r2"))
    assert second.last_transition_time == T0
    assert second.last_heartbeat_time == T0 + timedelta(seconds=10)
    assert (second.generation, second.reason) == (2, "Still")


def test_a_new_status_moves_the_transition_time() -> None:
    first = accepted(decide(report("False")))
    second = accepted(decide(report("True", 10), first, report_id="r2"))
    assert second.last_transition_time == T0 + timedelta(seconds=10)


@pytest.mark.parametrize(
    ("seconds", "report_id", "expected"),
    [
        (-0.000001, "r2", Stale(T0)),
        (-3600, "r1", Stale(T0)),
        (0, "r1", Duplicate("r1")),
    ],
)
def test_what_is_older_or_the_same_does_not_count(seconds: float, report_id: str, expected: Decided) -> None:
    first = accepted(decide(report("False")))
    assert decide(report("True", seconds), first, report_id=report_id) == expected


def test_of_two_with_one_time_the_later_record_wins() -> None:
    first = accepted(decide(report("False")))
    assert accepted(decide(report("True"), first, report_id="r2")).status is ConditionStatus.TRUE


def test_the_same_id_of_another_source_is_another_report() -> None:
    first = accepted(decide(report("False")))
    second = accepted(decide(report("True"), first, source="other"))
    assert (second.status, second.source) == (ConditionStatus.TRUE, "other")
    assert decide(report("False"), second) == Duplicate("r1")
    assert decide(report("True"), second, source="other") == Duplicate("r1")


def test_reports_with_one_time_that_are_repeated_change_nothing() -> None:
    first = accepted(decide(report("False"), report_id="a"))
    second = accepted(decide(report("True"), first, report_id="b"))
    assert [decide(report(), second, report_id=one) for one in "ab"] == [Duplicate("a"), Duplicate("b")]
    later = accepted(decide(report("False", 1), second, report_id="c"))
    assert "earlierReports" in second.model_dump(mode="json")
    assert "earlierReports" not in later.model_dump(mode="json")
    assert decide(report(), later, report_id="b") == Stale(T0 + timedelta(seconds=1))


def test_what_is_remembered_of_one_time_is_limited() -> None:
    known = accepted(decide(report(), report_id="0"))
    for number in range(1, SAME_TIME_MOST + 2):
        known = accepted(decide(report(), known, report_id=str(number)))
    assert len(known.earlier_reports.split()) == SAME_TIME_MOST
    assert decide(report(), known, report_id="1") == Duplicate("1")
    assert isinstance(decide(report(), known, report_id="0"), ConditionChanged)


Said = tuple[int, str, str]
"""A report: its time in seconds, its source, and its id. The status follows from them."""


def status_of(said: Said) -> str:
    return ("True", "False", "Unknown")[sum(map(ord, f"{said}")) % 3]


@given(
    st.lists(st.tuples(st.integers(0, 2), st.sampled_from("ab"), st.sampled_from("1234")), min_size=1, max_size=40),
    st.data(),
)
def test_the_last_new_report_of_the_latest_time_wins_however_reports_are_repeated(
    log: list[Said], data: st.DataObject
) -> None:
    """Also when the state is restored from its record at any point."""
    held: KeptCondition | None = None
    for said in log:
        seconds, source, identity = said
        one = report(status_of(said), seconds)
        if check_order(one, report_id=identity, source=source, target_uid="u1", known=held) is not None:
            continue
        if held is not None and data.draw(st.booleans(), label="changes nothing but times, and is not written"):
            unwritten = held.status is one.status and held.source == source
            if unwritten:
                held.hear(one, identity, T0)
                continue
        fields = accept(
            one, report_id=identity, source=source, target_uid="u1", known=held, now=T0, unrecorded=timedelta()
        )
        written = ConditionChanged.model_validate_json(ConditionChanged(**fields).model_dump_json())
        held = KeptCondition.of(written)
    new = list(dict.fromkeys(log))  # in the order in which each came first
    latest = max(seconds for seconds, *_ in log)
    winner = [said for said in new if said[0] == latest][-1]
    assert held is not None
    assert (held.status, held.source, held.report_id) == (ConditionStatus(status_of(winner)), winner[1], winner[2])


def test_an_earlier_targets_condition_counts_only_for_the_generation() -> None:
    first = accepted(decide(report("False", 100)))
    second = accepted(decide(report("False", 50), first, report_id="r1", uid="u2"))
    assert second.generation == 2
    assert second.last_transition_time == T0 + timedelta(seconds=50)


@pytest.mark.parametrize(
    ("key", "refused"), [("", False), ("Node/n1", False), ("Node/n2", True), ("n1", True), ("Node/n1 ", True)]
)
def test_the_key_is_the_targets_or_empty(key: str, *, refused: bool) -> None:
    refusal = check_key(key, TARGET.key)
    assert (refusal is not None) is refused
    if refusal is not None:
        assert refusal.reason is RefusalReason.WRONG_KEY
        assert refusal.message == f"key: invalid value {key!r}: must be empty or the target's key, Node/n1"


@pytest.mark.parametrize(("seconds", "refused"), [(-1e6, False), (30, False), (30.000001, True)])
def test_the_future_begins_after_the_skew(seconds: float, *, refused: bool) -> None:
    refusal = check_time(report(seconds=seconds), T0, timedelta(seconds=30))
    assert (refusal is not None) is refused
    if refusal is not None:
        assert refusal.reason is RefusalReason.FUTURE_TIME
        assert refusal.message == (
            "observedTime: invalid value '2026-01-01T00:00:30.000001Z': "
            "must not be more than 30 s after the present, 2026-01-01T00:00:00Z"
        )


@pytest.mark.parametrize(("size", "refused"), [(0, False), (100, False), (101, True)])
def test_the_size_has_a_limit(size: int, *, refused: bool) -> None:
    refusal = check_size(size, 100)
    expected = Refusal(
        RefusalReason.TOO_LARGE, field="value", value=f"{size} bytes", rule="must have at most 100 bytes"
    )
    assert refusal == (expected if refused else None)


def test_an_unknown_target_is_named() -> None:
    refusal = unknown_target(report())
    assert (refusal.reason, refusal.value) == (RefusalReason.UNKNOWN_TARGET, "Node/n1")


def test_what_the_clock_says_is_told_apart_from_what_the_probe_says() -> None:
    first = accepted(decide(report("False"), now=T0 + timedelta(seconds=3)))
    second = accepted(decide(report("False", 10), first, report_id="r2", now=T0 + timedelta(seconds=14)))
    third = accepted(decide(report("True", 20), second, report_id="r3", now=T0 + timedelta(seconds=25)))
    taken = [(each.accepted_time, each.status_since) for each in (first, second, third)]
    assert taken == [
        (T0 + timedelta(seconds=3), T0 + timedelta(seconds=3)),
        (T0 + timedelta(seconds=14), T0 + timedelta(seconds=3)),
        (T0 + timedelta(seconds=25), T0 + timedelta(seconds=25)),
    ]


def test_a_condition_of_an_earlier_version_counts_from_its_heartbeat() -> None:
    old = accepted(decide(report("False", 7))).model_copy(update={"accepted_time": None, "status_since": None})
    held = KeptCondition.of(old)
    assert held.accepted_time == held.status_since == T0 + timedelta(seconds=7)
    second = accepted(decide(report("False", 10), old, report_id="r2", now=T0 + timedelta(seconds=14)))
    assert second.status_since == T0 + timedelta(seconds=7)


@pytest.mark.parametrize(("seconds", "counts"), [(-1, False), (0, False), (0.000001, True)])
def test_after_silence_only_a_later_report_counts(seconds: float, *, counts: bool) -> None:
    silent = accepted(decide(report("False"))).model_copy(
        update={"status": ConditionStatus.UNKNOWN, "report_id": "", "generation": 2}
    )
    verdict = decide(report("False", seconds), silent, report_id="r9", now=T0 + timedelta(seconds=50))
    assert isinstance(verdict, ConditionChanged) is counts
    if counts:
        assert accepted(verdict).status_since == T0 + timedelta(seconds=50)
        assert accepted(verdict).generation == 3


def test_a_report_about_a_workload_is_a_condition_of_the_workload() -> None:
    workload = WorkloadRef(kind="Pod", namespace="shop", name="web-0")
    first = accepted(decide(report(workload=workload)))
    assert isinstance(first, WorkloadConditionChanged)
    assert (first.workload, first.target, first.generation) == (workload, TARGET, 1)
    assert type(accepted(decide(report()))) is ConditionChanged


@pytest.mark.parametrize(
    ("parts", "field"),
    [
        (("Pod", "shop", "web-0"), ""),
        (("Widget", "", "w"), ""),
        (("Po/d", "shop", "web-0"), "workload.kind"),
        (("Pod", "sh|op", "web-0"), "workload.namespace"),
        (("Pod", "shop", "web-0|Node/n2|Ready"), "workload.name"),
    ],
)
def test_a_workloads_name_cannot_pass_for_a_key(parts: tuple[str, str, str], field: str) -> None:
    kind, namespace, name = parts
    refusal = check_workload(report(workload=WorkloadRef(kind=kind, namespace=namespace, name=name)))
    assert ("" if refusal is None else refusal.field) == field
    if refusal is not None:
        assert refusal.reason is RefusalReason.INVALID_EVENT
        assert "must not hold / or |" in refusal.message
    assert check_workload(report()) is None


WEB = WorkloadRef(kind="Pod", namespace="shop", name="web-0")


def about(generation: int, seconds: float = 0, *, uid: str = "b1", status: str = "True") -> ConditionReported:
    """A report about a binding of a workload; about none if its generation is 0."""
    named = {"workload_uid": uid, "binding_generation": generation} if generation else {}
    return report(status, seconds, workload=WEB, **named)


@table(
    ("known", "found", "verdict"),
    [
        (about(5, 10), about(3, 20), Superseded),
        (about(5, 10), about(5, 20), WorkloadConditionChanged),
        (about(5, 10), about(5, 5), Stale),
        (about(3, 10), about(5, 5), WorkloadConditionChanged),
        (about(5, 10), about(3, 20, uid="b2"), WorkloadConditionChanged),
        (about(5, 10), about(3, 5, uid="b2"), Stale),
        (about(5, 10), about(0, 20), WorkloadConditionChanged),
        (about(5, 10), about(0, 5), Stale),
        (about(0, 10), about(3, 5), Stale),
    ],
)
def test_the_generation_of_a_binding_comes_before_the_time(
    known: ConditionReported, found: ConditionReported, verdict: type[Decided]
) -> None:
    condition = accepted(decide(known))
    decided = decide(found, condition, report_id="r2")
    assert type(decided) is verdict
    if isinstance(decided, WorkloadConditionChanged):
        named = (decided.workload_uid, decided.binding_generation)
        assert named == (found.workload_uid, found.binding_generation)
    elif isinstance(decided, Superseded):
        assert decided.why == "about an earlier binding than generation 5, which was reported last"


def test_the_status_of_another_binding_begins_anew() -> None:
    first = accepted(decide(about(1, 0)))
    again = accepted(decide(about(1, 5), first, report_id="r2", now=T0 + timedelta(seconds=5)))
    assert (again.last_transition_time, again.status_since) == (T0, T0)
    other = accepted(decide(about(2, 9), again, report_id="r3", now=T0 + timedelta(seconds=9)))
    assert other.last_transition_time == other.status_since == T0 + timedelta(seconds=9)


@given(st.permutations([about(g, s) for g in (1, 2, 3) for s in (1, 2)]))
def test_in_any_order_the_last_report_about_the_last_binding_stays(reports: list[ConditionReported]) -> None:
    known: ConditionChanged | None = None
    for number, one in enumerate(reports):
        decided = decide(one, known, report_id=f"r{number}")
        known = decided if isinstance(decided, ConditionChanged) else known
    assert isinstance(known, WorkloadConditionChanged)
    assert (known.binding_generation, known.last_heartbeat_time) == (3, T0 + timedelta(seconds=2))


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"workload": WEB, "workload_uid": "b1", "binding_generation": 3}, ""),
        ({"workload": WEB}, "bindingGeneration"),
        ({"workload": WEB, "binding_generation": 3}, "bindingGeneration"),
        ({"workload": WEB, "workload_uid": "b1"}, "workloadUid"),
        ({"binding_generation": 3}, "bindingGeneration"),
        ({"workload_uid": "b1"}, "workloadUid"),
        ({}, ""),
    ],
)
def test_an_acknowledgement_names_one_binding(fields: dict[str, Any], field: str) -> None:
    refusal = check_workload(report("True", **fields).model_copy(update={"type": "Evicted"}))
    assert ("" if refusal is None else refusal.field) == field
    if refusal is not None:
        assert refusal.reason is RefusalReason.INVALID_EVENT


def test_a_report_without_any_binding_counts_as_before() -> None:
    assert check_workload(report("True", workload=WEB)) is None


def test_newer_is_a_higher_generation_or_another_target() -> None:
    first = accepted(decide(report()))
    second = accepted(decide(report("True", 1), first, report_id="r2"))
    assert newer_condition(first, None)
    assert newer_condition(second, first)
    assert not newer_condition(first, second)
    assert not newer_condition(second, second)
    assert newer_condition(first.model_copy(update={"target_uid": "u2"}), second)
