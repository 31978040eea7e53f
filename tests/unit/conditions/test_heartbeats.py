"""Grace periods, silent sources, and the time of the next check."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pydantic import ValidationError
from tests.support.tables import table

from moorage.decide.conditions.heartbeats import (
    GracePeriods,
    HeartbeatWatch,
    SourceRule,
    SourceStatus,
    Watched,
    check_again,
    check_id,
    coarseness,
    grace_period,
    own_grace,
    parse_source_grace_periods,
    recorded_until,
    silenced,
    silent_since,
    timer_id,
    voice,
    watched,
)
from moorage.decide.conditions.reports import KeptCondition
from moorage.runtime.settings.process_settings import Settings
from moorage.workers.condition_ingest.service import grace_periods
from moorage_schemas.condition import ConditionStatus
from moorage_schemas.refs import TargetKind, TargetRef
from moorage_schemas.resource import ResourceDeclared

T0 = datetime(2026, 1, 1, tzinfo=UTC)
NODE = TargetRef(kind=TargetKind.NODE, name="n1")
GRACE = timedelta(seconds=40)


def at(seconds: float) -> datetime:
    return T0 + timedelta(seconds=seconds)


def held(source: str = "probe/a", seconds: float = 0, status: str = "True", **fields: Any) -> KeptCondition:
    known: dict[str, Any] = {
        "target_uid": "u1",
        "status": ConditionStatus(status),
        "source": source,
        "last_transition_time": T0,
        "last_heartbeat_time": at(seconds - 1),
        "generation": 3,
        "report_id": "r3",
        "accepted_time": at(seconds),
        "status_since": T0,
        "words": 0,
        "recorded_time": at(seconds),
        "unrecorded": timedelta(),
    }
    return KeptCondition(**{**known, **fields})


def test_the_first_rule_that_fits_goes_before_the_kind() -> None:
    text = "Node:probe/disk=5m, Node:probe/*=0 ,Cluster:probe/*=1m30s,Node:cli/night*=250ms,Node:a:b=c=10,"
    periods = GracePeriods({TargetKind.NODE: GRACE}, parse_source_grace_periods(text))
    assert periods.of(TargetKind.NODE, "probe/disk") == timedelta(minutes=5)
    assert periods.of(TargetKind.NODE, "probe/disks") is None
    assert periods.of(TargetKind.NODE, "kubelet") == GRACE
    assert periods.of(TargetKind.NODE, "") == GRACE
    assert periods.of(TargetKind.CLUSTER, "probe/disk") == timedelta(seconds=90)
    assert periods.of(TargetKind.CLUSTER, "kubelet") is None, "nothing is set for the kind"
    assert periods.of(TargetKind.NODE, "a:b=c") == timedelta(seconds=10), "a source may hold the signs between"


def test_reports_by_hand_have_no_heartbeats_unless_a_rule_says_so() -> None:
    rules = parse_source_grace_periods("Node:cli/night*=250ms")
    periods = GracePeriods({TargetKind.NODE: GRACE, TargetKind.CLUSTER: GRACE}, rules)
    assert periods.of(TargetKind.NODE, "cli/alice") is None
    assert periods.of(TargetKind.NODE, "cli/nightwatch") == timedelta(milliseconds=250)
    assert periods.of(TargetKind.CLUSTER, "cli/nightwatch") is None
    assert periods.of(TargetKind.NODE, "client") == GRACE


def test_what_a_target_asks_for_goes_before_its_kind_and_after_a_rule() -> None:
    own, kind = timedelta(seconds=50), TargetKind.MANAGED_CLUSTER
    periods = GracePeriods({kind: GRACE}, parse_source_grace_periods("ManagedCluster:probe/*=0"))
    assert periods.of(kind, "agent", own) == own
    assert periods.of(kind, "agent", None) == GRACE
    assert periods.of(kind, "probe/disk", own) is None
    assert periods.of(kind, "cli/alice", own) is None
    assert GracePeriods({kind: None}).of(kind, "agent", own) is None, "it is switched off"
    assert GracePeriods({}).of(kind, "agent", own) is None


@table(
    ("kind", "seconds", "expected"),
    [
        ("ManagedCluster", 60, timedelta(minutes=5)),
        ("ManagedCluster", 1, timedelta(seconds=5)),
        ("ManagedCluster", 10**18, timedelta(days=36_500)),
        ("ManagedCluster", 0, None),
        ("ManagedCluster", -1, None),
        ("ManagedCluster", None, None),
        ("ManagedCluster", "60", None),
        ("Cluster", 60, None),
        ("Node", 60, None),
    ],
)
def test_only_a_managed_cluster_asks_for_a_grace_period(kind: str, seconds: object, expected: timedelta | None) -> None:
    document = {"kind": kind, "metadata": {"name": "c1"}, "spec": {"leaseDurationSeconds": seconds}}
    assert own_grace(ResourceDeclared(object=document, version=1)) == expected


def test_a_managed_cluster_s_grace_is_five_leases_of_a_minute_unless_it_is_set() -> None:
    assert grace_periods(Settings()).of(TargetKind.MANAGED_CLUSTER, "agent") == timedelta(minutes=5)
    chosen = Settings(managed_cluster_monitor_grace_period=7)
    assert grace_periods(chosen).of(TargetKind.MANAGED_CLUSTER, "agent") == timedelta(seconds=7)


@pytest.mark.parametrize("text", ["", " ", ",", " , "])
def test_no_rules(text: str) -> None:
    assert parse_source_grace_periods(text) == ()


def test_a_star_alone_is_every_source() -> None:
    assert parse_source_grace_periods("Node:*=0") == (SourceRule(TargetKind.NODE, "*", None),)
    assert parse_source_grace_periods("Node:*=0")[0].fits(TargetKind.NODE, "anything")


@table(
    ("item", "rule"),
    [
        ("Node", "must be Kind:source=duration"),
        ("Node:probe", "must be Kind:source=duration"),
        ("probe=5m", "must be Kind:source=duration"),
        ("Node:=5m", "must be Kind:source=duration"),
        ("Pod:probe=5m", "invalid kind 'Pod': must be one of Node, Cluster, ManagedCluster"),
        ("node:probe=5m", "invalid kind 'node'"),
        ("NODE:probe=5m", "invalid kind 'NODE'"),
        ("Node:pro*be=5m", "invalid source 'pro*be': * may only be its last character"),
        ("Node:probe=", "invalid duration ''"),
        ("Node:probe=soon", "invalid duration 'soon': must be like 40s, 5m or 1m30s"),
        ("Node:probe=-5s", "invalid duration '-5s'"),
        ("Node:probe=5 m", "invalid duration '5 m'"),
        ("Node:probe=inf", "invalid duration 'inf'"),
    ],
)
def test_a_wrong_item_is_named_with_its_rule_and_nothing_starts(item: str, rule: str) -> None:
    with pytest.raises(ValidationError) as caught:
        Settings(source_grace_periods=f"Node:probe/disk=5m,{item}")
    (error,) = caught.value.errors()
    assert error["loc"] == ("source_grace_periods",)
    assert f"item {item!r}: " in error["msg"]
    assert rule in error["msg"]


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [(0, None), (40, GRACE), (0.5, timedelta(milliseconds=500)), (1e300, None), (3.2e9, None)],
)
def test_nothing_and_centuries_are_for_ever(seconds: float, expected: timedelta | None) -> None:
    assert grace_period(seconds) == expected


def test_a_source_says_what_it_reported_last_of_this_target() -> None:
    conditions = {
        "A": held("probe/a", 1),
        "B": held("probe/b", 9),
        "C": held("probe/a", 5, "Unknown"),
        "D": held("probe/a", 7, target_uid="u0"),
    }
    said = voice(conditions, "u1", "probe/a")
    assert said == SourceStatus(at(5), {"A": conditions["A"]}), "what is Unknown was a heartbeat, too"
    assert voice(conditions, "u1", "probe/c") is None


@pytest.mark.parametrize(
    ("deadline", "now", "since"),
    [
        (at(50), at(49.999999), None),
        (at(50), at(50), at(50)),
        (at(40), at(60), at(50)),
        (at(55), at(60), at(55)),
        (at(65), at(60), at(60)),
        (None, at(60), at(50)),
    ],
)
def test_silence_begins_a_grace_period_after_the_last_report(
    deadline: datetime | None, now: datetime, since: datetime | None
) -> None:
    watch = HeartbeatWatch("id", "u1", 1, deadline)
    assert silent_since(watch, SourceStatus(at(10), {}), GRACE, now) == since


def test_a_timer_whose_clock_is_ahead_is_told_its_own_time() -> None:
    said = SourceStatus(at(10), {})
    assert check_again(said, GRACE, at(48), at(48)) == at(50)
    assert check_again(said, GRACE, at(48), at(51)) == at(53)
    assert check_again(said, GRACE, at(48), at(20)) == at(50), "one that is behind fires late enough"


@pytest.mark.parametrize(
    ("grace", "coarse"),
    [(40, 20), (2, 1), (1.99, 0), (599, 299.5), (600, 300), (86_400, 300), (None, 300)],
)
def test_heartbeats_are_recorded_as_coarsely_as_half_the_grace_period(grace: float | None, coarse: float) -> None:
    given = timedelta(seconds=grace) if grace is not None else None
    assert coarseness(given) == timedelta(seconds=coarse)


def test_a_source_counts_as_heard_as_late_as_its_records_allow() -> None:
    restored = {
        "Ready": held(seconds=5, unrecorded=timedelta(seconds=20)),
        "Disk": held(seconds=10, unrecorded=timedelta(seconds=3)),
        "Other": held("probe/b", 50, unrecorded=timedelta(seconds=20)),
    }
    said = voice(restored, "u1", "probe/a")
    assert said is not None
    assert said.heard == at(25)
    known = restored | {"Disk": held(seconds=10, heard=True)}
    said = voice(known, "u1", "probe/a")
    assert said is not None
    assert said.heard == at(10), "this process has heard it"
    said = voice(restored, "u1", "probe/a", at(12))
    assert said is not None
    assert said.heard == at(12), "a former process has heard nothing since"
    said = voice(known, "u1", "probe/a", at(7))
    assert said is not None
    assert said.heard == at(10)
    assert recorded_until(restored, "u1", "probe/a", timedelta(minutes=5)) == at(25)
    assert recorded_until(restored, "u1", "probe/a", timedelta(seconds=4)) == at(13), "the present coarseness is less"
    assert recorded_until(restored, "u2", "probe/a", timedelta(minutes=5)) is None


def test_silence_takes_the_status_and_keeps_what_was_reported() -> None:
    event = silenced(held(seconds=10), target=NODE, condition="Ready", grace=GRACE, since=at(50), now=at(51))
    assert (event.status, event.reason, event.source) == (ConditionStatus.UNKNOWN, "HeartbeatStopped", "probe/a")
    assert (event.last_transition_time, event.last_heartbeat_time) == (at(50), at(9))
    assert (event.accepted_time, event.status_since) == (at(10), at(51))
    assert (event.generation, event.report_id, event.target_uid) == (4, "", "u1")
    assert event.message == "probe/a has not reported on Node/n1 for its grace period of 40 s"


@pytest.mark.parametrize("source", ["probe/a", "", "a|b|c|d|e|f|g", "a b/ä"])
def test_a_timers_id_says_who_is_watched(source: str) -> None:
    key = timer_id(NODE, "u1", ("example.com/Ready", 7), source)
    assert watched(key) == Watched("Node/n1", "u1", source)
    assert watched(f"evict|Pod/default/p|{key}") is None
    assert watched("heartbeat|Node/n1") is None


def test_each_generation_of_each_timer_asks_for_itself() -> None:
    asked = {check_id(HeartbeatWatch(name, "u1", generation, T0)) for name in "ab" for generation in (1, 2)}
    assert len(asked) == 4
