"""No service writes more than a portion in one transaction, however much comes due at once, and nothing is left out."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from tests.support.records import at
from tests.support.worlds.flow import Flow

from moorage.decide.disruption import zones
from moorage.runtime.engine.batch import DECISION_EVENTS, BatchDecision
from moorage.runtime.engine.portions import CHECKS, FIRINGS, RECORDS
from moorage.runtime.service import Emit
from moorage.runtime.settings.process_settings import Settings
from moorage.workers import condition_ingest, eviction, governor, taint_manager, timer
from moorage_schemas.budget import EvictionSlot
from moorage_schemas.condition import ConditionReported, ConditionStatus
from moorage_schemas.eviction import EvictionState
from moorage_schemas.keys import binding_key
from moorage_schemas.placement import WorkloadBound
from moorage_schemas.refs import TargetKind, TargetRef, WorkloadRef
from moorage_schemas.resource import ResourceDeclared, resource_partition_key
from moorage_schemas.taint import TaintOrigin, TaintRecord, TargetTainted, Toleration
from moorage_schemas.timer import SetTimer
from moorage_schemas.topics import (
    BINDINGS,
    CONDITION_REPORTS,
    CONDITIONS,
    EVICTION_SLOTS,
    EVICTIONS,
    FLEET,
    RESOURCES,
    TAINTS,
    TIMER_FIRED,
    TIMERS,
    ZONE_GRANTS,
    ZONE_MEMBERS,
)
from moorage_schemas.zone import ZoneMembered

MANY = 2 * RECORDS + 500
STORM = FIRINGS + 500
MOST = DECISION_EVENTS + 4 * RECORDS
"""The maximum size of a transaction: a full batch, what its last slice adds, and a portion of what is due."""

NODE = TargetRef(kind=TargetKind.NODE, name="n1")


@contextmanager
def sizes(flow: Flow) -> Iterator[list[int]]:
    """Collect the numbers of records of the transactions that are written meanwhile."""
    found: list[int] = []
    commit = flow._commit

    def counted(owner: Any, decision: BatchDecision) -> None:
        found.append(len(decision.emits))
        commit(owner, decision)

    flow._commit = counted  # type: ignore[method-assign]  # only to look on
    try:
        yield found
    finally:
        del flow._commit


def node(name: str, kind: TargetKind = TargetKind.NODE) -> ResourceDeclared:
    return ResourceDeclared(object={"kind": kind.value, "metadata": {"name": name, "uid": f"uid-{name}"}}, version=1)


def declare(flow: Flow, *events: ResourceDeclared) -> None:
    for event in events:
        flow.produce(RESOURCES, event.key, event, partition_key=resource_partition_key(event.key))


def test_timers_that_are_due_at_once_fire_in_portions_and_none_is_early_or_lost() -> None:
    flow = Flow([timer.service(Settings())], partitions=1)
    for number in range(STORM):
        event = SetTimer(id=f"t{number}", target=NODE, owner="somebody", generation=1, deadline=flow.now, subject="")
        flow.produce(TIMERS, event.id, event, partition_key=NODE.key)
    with sizes(flow) as found:
        flow.run()
    assert RECORDS < max(found) <= FIRINGS
    assert len({event.id for event in flow.events(TIMER_FIRED)}) == len(flow.events(TIMER_FIRED)) == STORM


def test_timers_that_came_due_while_nobody_was_there_fire_in_portions_too() -> None:
    flow = Flow([timer.service(Settings())], partitions=1)
    for number in range(STORM):
        event = SetTimer(
            id=f"t{number}", target=NODE, owner="somebody", generation=1, deadline=at(-1), subject=f"{number}"
        )
        flow.produce(TIMERS, event.id, event, partition_key=NODE.key)
    flow.crash_process("timer")
    with sizes(flow) as found:
        while not flow.events(TIMER_FIRED):
            flow.step("timer", 0)
        flow.crash_process("timer")  # between two portions
        flow.run()
    assert RECORDS < max(found) <= FIRINGS
    assert len({event.id for event in flow.events(TIMER_FIRED)}) == len(flow.events(TIMER_FIRED)) == STORM


def tainted(generation: int, seconds: float) -> TargetTainted:
    taint = TaintRecord(key="k", effect="NoExecute", time_added=at(seconds), origins=(TaintOrigin.EXPLICIT,))
    return TargetTainted(target=NODE, target_uid="u1", generation=generation, taints=(taint,))


def bound(number: int, *, seconds: int | None = 60) -> WorkloadBound:
    pod = WorkloadRef(kind="Pod", namespace="default", name=f"p{number}")
    tolerations = () if seconds is None else (Toleration(key="k", operator="Exists", toleration_seconds=seconds),)
    return WorkloadBound(
        workload=pod,
        uid=f"uid-{number}",
        owner=pod,
        target=NODE,
        generation=1,
        revision=1,
        tolerations=tolerations,
        bound_time=at(0),
    )


@pytest.mark.parametrize("crash", [False, True])
def test_a_taint_on_a_target_with_a_great_many_workloads(crash: bool) -> None:  # noqa: FBT001 - a table's column
    flow = Flow([eviction.service(Settings()), timer.service(Settings())], partitions=1)
    flow.now = at(0)
    for number in range(MANY):
        event = bound(number)
        flow.produce(BINDINGS, binding_key(event.workload, NODE), event, partition_key=NODE.key)
    flow.run()
    flow.produce(TAINTS, NODE.key, tainted(1, 0), partition_key=NODE.key)
    with sizes(flow) as found:
        while not flow.events(EVICTIONS):
            flow.step("eviction", 0)
        assert len(flow.events(EVICTIONS)) < MANY
        if crash:
            flow.crash_process("eviction")
        flow.run()
        scheduled = flow.table(EVICTIONS).values()
        assert len(scheduled) == MANY
        assert {(one.state, one.deadline) for one in scheduled} == {(EvictionState.SCHEDULED, at(60))}
        flow.advance_to(at(61))
    assert max(found) <= MOST
    states = [one.state for one in flow.table(EVICTIONS).values()]
    assert states == [EvictionState.REQUESTED] * MANY


def test_a_taint_that_is_lifted_before_all_of_it_was_seen() -> None:
    flow = Flow([eviction.service(Settings())], partitions=1)
    flow.now = at(0)
    for number in range(MANY):
        event = bound(number)
        flow.produce(BINDINGS, binding_key(event.workload, NODE), event, partition_key=NODE.key)
    flow.run()
    flow.produce(TAINTS, NODE.key, tainted(1, 0), partition_key=NODE.key)
    while not flow.events(EVICTIONS):
        flow.step("eviction", 0)
    lifted = TargetTainted(target=NODE, target_uid="u1", generation=2, taints=())
    flow.produce(TAINTS, NODE.key, lifted, partition_key=NODE.key)
    flow.run()
    assert {one.state for one in flow.table(EVICTIONS).values()} == {EvictionState.CANCELLED}
    assert all(event.deadline is None for event in flow.table(TIMERS).values())


def test_the_reconciler_checks_in_portions_and_repairs_what_it_finds_last() -> None:
    """The records are folded into the state only, so that the service has never decided on them."""
    service = eviction.service(Settings())
    state = service.new_state(0)
    state.begun = True
    for number in range(MANY):
        one = bound(number, seconds=60 if number == MANY - 1 else 3600)
        target = TargetRef(kind=TargetKind.NODE, name=f"n{number:05}")
        event = one.model_copy(update={"target": target})
        service.apply(state, BINDINGS, binding_key(event.workload, target), event)
        taints = tainted(1, 0).model_copy(update={"target": target})
        service.apply(state, TAINTS, target.key, taints)
    written: list[int] = []
    keys: set[str] = set()
    while not written or service.is_reconciling(state):
        emits = service.reconcile(state, at(1))
        written.append(len(emits))
        keys |= {emit.key for emit in emits if emit.topic is EVICTIONS}
    assert len(written) > MANY // RECORDS
    assert max(written) <= RECORDS + 1
    assert len(keys) == MANY
    assert service.reconcile(state, at(2)) == [], "the next round begins, and finds nothing"


def test_a_changed_policy_is_applied_in_portions() -> None:
    flow = Flow([taint_manager.service(Settings(feature_gates="Failover=true"))], partitions=1)
    flow.now = at(0)
    declare(flow, *(node(f"c{number}", TargetKind.CLUSTER) for number in range(MANY)))
    flow.run()
    for number in range(MANY):
        report = ConditionReported(
            target=TargetRef(kind=TargetKind.CLUSTER, name=f"c{number}"),
            type="Ready",
            status=ConditionStatus.FALSE,
            observed_time=at(0),
            source="probe",
        )
        flow.produce(CONDITIONS, f"{report.target.key}|Ready", changed(report), partition_key=report.target.key)
    flow.run()
    policy = {
        "apiVersion": "policy.karmada.io/v1alpha1",
        "kind": "ClusterTaintPolicy",
        "metadata": {"name": "p", "uid": "p"},
        "spec": {
            "addOnConditions": [{"conditionType": "Ready", "operator": "In", "statusValues": ["False"]}],
            "taints": [{"key": "down", "effect": "NoSchedule"}],
        },
    }
    declare(flow, ResourceDeclared(object=policy, version=1))
    with sizes(flow) as found:
        flow.run()
    assert max(found) <= RECORDS
    keys = [[taint.key for taint in event.taints] for event in flow.table(TAINTS).values()]
    assert sum("down" in one for one in keys) == MANY


def changed(report: ConditionReported) -> Any:
    flow = Flow([condition_ingest.service(Settings())], partitions=1)
    flow.now = at(0)
    declare(flow, node(report.target.name, report.target.kind))
    flow.produce(CONDITION_REPORTS, report.target.key, report)
    flow.run()
    (event,) = flow.events(CONDITIONS)
    return event


def test_the_taint_manager_reconciles_in_portions() -> None:
    service = taint_manager.service(Settings())
    state = service.new_state(0)
    state.checked = True
    for number in range(MANY):
        event = node(f"n{number}")
        service.apply(state, RESOURCES, event.key, event)
    portions: list[list[Emit]] = []
    while not portions or service.is_reconciling(state):
        portions.append(service.reconcile(state, at(1)))
    assert max(map(len, portions)) <= RECORDS + 1
    assert sum(emit.topic is TAINTS for portion in portions for emit in portion) == MANY
    assert service.reconcile(state, at(2)) == []


def test_what_is_left_to_see_after_a_restart_is_seen_in_portions() -> None:
    service = taint_manager.service(Settings())
    state = service.new_state(0)
    for number in range(MANY):
        event = node(f"n{number}")
        service.apply(state, RESOURCES, event.key, event)
    portions: list[list[Emit]] = []
    while (due := service.next_wake(state)) is not None or not portions:
        assert due is None or due <= at(1)
        portions.append(service.wake(state, at(1)))
    assert max(map(len, portions)) <= RECORDS + 1
    assert sum(emit.topic is TAINTS for portion in portions for emit in portion) == MANY


def test_deleted_targets_are_cleaned_up_in_portions() -> None:
    service = condition_ingest.service(Settings())
    flow = Flow([service], partitions=1)
    names = [f"n{number}" for number in range(CHECKS + 500)]
    declare(flow, *map(node, names))
    for name in names:
        report = ConditionReported(
            target=TargetRef(kind=TargetKind.NODE, name=name),
            type="Ready",
            status=ConditionStatus.TRUE,
            observed_time=flow.now,
            source="probe",
        )
        flow.produce(CONDITION_REPORTS, report.target.key, report)
    flow.run()
    assert len(flow.table(CONDITIONS)) == len(names)
    for name in names:
        flow.produce(RESOURCES, f"Node//{name}", None, partition_key=f"Node/{name}")
    with sizes(flow) as found:
        flow.run()
    assert max(found) <= RECORDS + 2
    assert flow.table(CONDITIONS) == flow.table(TIMERS) == {}


@pytest.mark.parametrize("crash", [False, True])
def test_a_fleet_that_is_lost_whole_is_told_in_portions(crash: bool, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: FBT001 - a table's column
    monkeypatch.setattr(zones, "WITHDRAWN_AT_ONCE", 10)
    flow = Flow([governor.service(Settings(partitions=1))], partitions=1)

    def say(number: int, *, generation: int = 1, incident: int = 1, tainted: bool = True) -> None:
        member = ZoneMembered(
            target=TargetRef(kind=TargetKind.NODE, name=f"n{number:02}"),
            target_uid=f"uid-{number}",
            zone="/",
            generation=generation,
            ready=incident == 0,
            incident=incident,
            tainted=tainted,
            since=flow.now,
        )
        flow.produce(ZONE_MEMBERS, member.target.key, member, partition_key=FLEET)

    say(0, incident=0, tainted=False)
    for number in range(1, 35):
        say(number)
    flow.run()
    say(0, generation=2, incident=2, tainted=False)
    with sizes(flow) as found:
        flow.step("governor", 0)
        assert 0 < len(flow.table(ZONE_GRANTS)) < 34
        if crash:
            flow.crash_process("governor")
        flow.run()
    assert max(found) <= 12
    told = flow.table(ZONE_GRANTS)
    assert {event.granted for event in told.values()} == {False}
    assert len(told) == 34


def test_evictions_that_leave_a_window_at_once_are_dropped_in_portions() -> None:
    service = governor.service(Settings(partitions=1))
    flow = Flow([service], partitions=1)
    budget = {
        "apiVersion": "moorage.io/v1",
        "kind": "EvictionBudget",
        "metadata": {"name": "b", "uid": "b"},
        "spec": {"maxInWindow": 10_000, "windowSeconds": 60},
    }
    declare(flow, ResourceDeclared(object=budget, version=1))
    for number in range(MANY):
        slot = EvictionSlot(
            workload=WorkloadRef(kind="Pod", namespace="default", name=f"p{number}"),
            workload_uid=f"uid-{number}",
            owner=WorkloadRef(kind="Pod", namespace="default", name=f"p{number}"),
            target=NODE,
            generation=1,
            revision=1,
            asked=1,
            granted=True,
            over=True,
            granted_time=flow.now,
            zone="/",
        )
        key = f"{slot.workload.key}|{NODE.key}|1"
        flow.produce(EVICTION_SLOTS, key, slot, partition_key=FLEET)
    with sizes(flow) as found:
        flow.advance(120)
    assert max(found) <= RECORDS + 2
    assert flow.table(EVICTION_SLOTS) == {}
