"""Every event of every topic is shown as a readable line."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.support.tables import table

from moorage.insight.explain.wording import local_clock, utc_clock, words
from moorage_schemas.base import Model
from moorage_schemas.budget import BudgetCounted, EvictionAnswered, EvictionAsked, EvictionSlot
from moorage_schemas.condition import ConditionReported, ConditionStatus, WorkloadConditionChanged
from moorage_schemas.eviction import EvictionDecided, EvictionState
from moorage_schemas.placement import LeavingTarget, PlacedTarget, PlacementState, WorkloadBound, WorkloadPlaced
from moorage_schemas.refs import TargetKind, TargetRef, WorkloadRef
from moorage_schemas.resource import ResourceDeclared
from moorage_schemas.taint import HeldTaint, TaintOrigin, TaintRecord, TargetTainted
from moorage_schemas.zone import NoExecuteGranted, ZoneChanged, ZoneMembered, ZoneState

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
LATER = NOW + timedelta(seconds=30)
NODE = TargetRef(kind=TargetKind.NODE, name="n1")
PARIS = TargetRef(kind=TargetKind.CLUSTER, name="paris")
OSLO = TargetRef(kind=TargetKind.CLUSTER, name="oslo")
POD = WorkloadRef(kind="Pod", namespace="shop", name="p")
OSLO_UNTIL = f"cluster/oslo until {local_clock(LATER)}"
BINDING = WorkloadRef(kind="ResourceBinding", namespace="shop", name="web-deployment")


SAID = {"source": "deployer/mine", "message": "the disk hangs", "time": NOW}


def decided(state: EvictionState, **more: Any) -> EvictionDecided:
    said = {"workload": POD, "owner": POD, "target": NODE, "generation": 1, "revision": 1, "decided_time": NOW}
    return EvictionDecided.model_validate({**said, "state": state, **more})


def zone(state: ZoneState, **more: Any) -> ZoneChanged:
    said = {"zone": "eu/1", "generation": 1, "nodes": 4, "tokens": 1, "tokens_time": NOW, "rate": 0.1, "not_ready": 3}
    return ZoneChanged.model_validate({**said, "state": state, **more})


def member(*, ready: bool) -> ZoneMembered:
    return ZoneMembered(target=NODE, zone="eu/1", generation=1, ready=ready, since=NOW)


def granted(*, yes: bool) -> NoExecuteGranted:
    return NoExecuteGranted(
        target=NODE, zone="eu/1", incident=1, generation=1, granted=yes, reason="why", granted_time=NOW
    )


def asked(*, requested: bool) -> EvictionAsked:
    return EvictionAsked(
        workload=POD, owner=POD, target=NODE, generation=1, revision=1, due_time=NOW, requested=requested
    )


def answered(*held_by: str) -> EvictionAnswered:
    return EvictionAnswered(
        workload=POD,
        target=NODE,
        generation=1,
        revision=1,
        granted=not held_by,
        held_by=held_by,
        message="why",
        answered_time=NOW,
    )


def slot(*held_by: str) -> EvictionSlot:
    return EvictionSlot(
        workload=POD,
        owner=POD,
        target=NODE,
        generation=1,
        granted_time=NOW,
        granted=not held_by,
        revision=1,
        held_by=held_by,
    )


CASES: list[tuple[Model, str]] = [
    (
        ConditionReported(
            target=PARIS, workload=BINDING, type="Healthy", status=ConditionStatus.TRUE, observed_time=NOW, source="me"
        ),
        "resourcebinding/web-deployment (shop) on cluster/paris Healthy=True  (me)",
    ),
    (
        WorkloadConditionChanged(
            target=NODE,
            workload=POD,
            type="Healthy",
            status=ConditionStatus.FALSE,
            last_transition_time=NOW,
            last_heartbeat_time=NOW,
            generation=1,
        ),
        "pod/p (shop) on node/n1 Healthy=False",
    ),
    (
        TargetTainted(
            target=NODE,
            generation=1,
            taints=(TaintRecord(key="a", effect="NoSchedule", time_added=NOW, origins=(TaintOrigin.CONDITION,)),),
            held=(HeldTaint(key="a", effect="NoExecute", since=NOW, reason="zone eu/1"),),
        ),
        "node/n1 has a:NoSchedule (condition); waits for a:NoExecute  (zone eu/1)",
    ),
    (
        decided(EvictionState.HELD, held_by=("EvictionPause/all", "EvictionBudget/slow"), reason="R", message="sale"),
        "pod/p (shop) off node/n1: Held by EvictionPause/all, EvictionBudget/slow  (sale)",
    ),
    (
        decided(EvictionState.REQUESTED, target=OSLO, workload=BINDING, purge_mode="Gracefully"),
        "resourcebinding/web-deployment (shop) off cluster/oslo: Requested, Gracefully",
    ),
    (
        decided(EvictionState.REQUESTED, deployer="deployer/mine", reason="UntoleratedTaint"),
        "pod/p (shop) off node/n1: Requested, waits for deployer/mine  (UntoleratedTaint)",
    ),
    (
        decided(EvictionState.REQUESTED, deployer="deployer/mine", escalated={**SAID, "reason": "Failed"}),
        "pod/p (shop) off node/n1: Requested, escalated by deployer/mine  (Failed, the disk hangs)",
    ),
    (
        decided(EvictionState.COMPLETED, acknowledged=SAID, escalated={**SAID, "reason": "Failed"}),
        "pod/p (shop) off node/n1: Completed, acknowledged by deployer/mine",
    ),
    (
        decided(EvictionState.SCHEDULED, deadline=LATER),
        f"pod/p (shop) off node/n1: Scheduled at {local_clock(LATER)}",
    ),
    (
        WorkloadPlaced(
            workload=BINDING,
            uid="u",
            owner=BINDING,
            owner_uid="o",
            generation=1,
            state=PlacementState.PLACED,
            decided_time=NOW,
            reason="Scheduled",
            targets=(PlacedTarget(target=PARIS, replicas=3, binding_generation=1),),
            leaving=(
                LeavingTarget(target=OSLO, binding_generation=1, since=NOW, until=LATER, purge_mode="Gracefully"),
            ),
        ),
        f"resourcebinding/web-deployment (shop) Placed on cluster/paris (3), leaving {OSLO_UNTIL}  (Scheduled)",
    ),
    (
        WorkloadBound(workload=BINDING, uid="u", owner=BINDING, target=PARIS, generation=1, bound_time=NOW, replicas=3),
        "resourcebinding/web-deployment (shop) bound to cluster/paris, 3 replicas",
    ),
    (zone(ZoneState.NORMAL), "zone eu/1 Normal: 3 of 4 not ready, 1 every 10s"),
    (
        zone(ZoneState.PARTIAL_DISRUPTION, rate=0, waiting=2),
        "zone eu/1 PartialDisruption: 3 of 4 not ready, 2 waiting, none may pass",
    ),
    (
        zone(ZoneState.FULL_DISRUPTION, stopped=True, rate="inf"),
        "zone eu/1 FullDisruption, stopped: every zone is disrupted: 3 of 4 not ready, no limit",
    ),
    (member(ready=True), "node/n1 in zone eu/1 is ready"),
    (member(ready=False), f"node/n1 in zone eu/1 is not ready since {local_clock(NOW)}"),
    (granted(yes=True), "node/n1 in zone eu/1 may get its NoExecute taint  (why)"),
    (granted(yes=False), "node/n1 in zone eu/1 withdrawn: may have no NoExecute taint  (why)"),
    (asked(requested=False), f"pod/p (shop) off node/n1 waits for a grant, due at {local_clock(NOW)}"),
    (asked(requested=True), "pod/p (shop) off node/n1 is in progress"),
    (answered(), "pod/p (shop) off node/n1 granted  (why)"),
    (answered("EvictionPause/all"), "pod/p (shop) off node/n1 held by EvictionPause/all  (why)"),
    (slot(), "pod/p (shop) off node/n1 counts"),
    (slot("EvictionPause/all"), "pod/p (shop) off node/n1 held by EvictionPause/all"),
    (
        BudgetCounted(
            budget="EvictionBudget//slow", generation=1, allowed=1, in_progress=2, in_window=3, held=4, counted_time=NOW
        ),
        "EvictionBudget/slow allows 1: 2 in progress, 3 in the window, 4 held",
    ),
    (
        ResourceDeclared(object={"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}}, version=2),
        "Node/n1 declared, version 2",
    ),
]


@table(("event", "text"), CASES, ids=lambda case: type(case).__name__)
def test_an_event_in_words(event: Model, text: str) -> None:
    assert words("k", event) == text


def test_times_of_day_are_told_in_a_time_zone_that_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    event = asked(requested=False)
    monkeypatch.setenv("TZ", "Asia/Kolkata")
    time.tzset()
    try:
        assert words("k", event).endswith("due at 17:30:00")
        assert words("k", event, utc_clock).endswith("due at 12:00:00")
    finally:
        monkeypatch.undo()
        time.tzset()
