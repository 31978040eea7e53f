"""taint-manager: when it writes, at which time, and when it does not."""

from __future__ import annotations

from datetime import timedelta

from tests.flow.driver import Flow
from tests.flow.fleet import Fleet
from tests.services.records import T0, at, record

from moorage import condition_ingest, taint_manager
from moorage.runtime.service import Emit
from moorage.runtime.settings import Settings
from moorage_schemas.condition import ConditionChanged, ConditionStatus
from moorage_schemas.refs import TargetKind, TargetRef
from moorage_schemas.resource import ResourceDeclared
from moorage_schemas.taint import TargetTainted
from moorage_schemas.topics import CONDITIONS, RESOURCES, TAINTS

SERVICE = taint_manager.service(Settings())
NOT_READY = "node.kubernetes.io/not-ready"


def condition(status: str, generation: int, *, seen: float = 0, uid: str = "u1") -> ConditionChanged:
    return ConditionChanged(
        target=TargetRef(kind=TargetKind.NODE, name="n1"),
        target_uid=uid,
        type="Ready",
        status=ConditionStatus(status),
        last_transition_time=at(seen),
        last_heartbeat_time=at(seen),
        generation=generation,
    )


def declared(version: int = 1, uid: str = "u1", *, kind: str = "Node", unschedulable: bool = False) -> ResourceDeclared:
    return ResourceDeclared(
        object={
            "kind": kind,
            "metadata": {"name": "n1", "uid": uid},
            "spec": {"unschedulable": unschedulable},
        },
        version=version,
    )


def tainted(emit: Emit) -> TargetTainted:
    assert emit.topic is TAINTS
    assert isinstance(emit.event, TargetTainted)
    return emit.event


def test_a_taint_is_added_when_its_condition_was_accepted_not_when_it_was_seen() -> None:
    state = SERVICE.new_state(0)
    batch = [
        record(RESOURCES, "Node//n1", declared(), time=at(1)),
        record(CONDITIONS, "Node/n1|Ready", condition("False", 1, seen=-50), id="c", time=at(2)),
    ]
    (emit,) = SERVICE.process(state, batch, at(99))
    assert {t.time_added for t in tainted(emit).taints} == {at(2)}
    assert tainted(emit).report_time == at(-50)
    assert emit.cause.id == "c"
    assert (emit.key, emit.partition_key) == ("Node/n1", "Node/n1")


def test_a_record_without_a_time_counts_as_now() -> None:
    state = SERVICE.new_state(0)
    (emit,) = SERVICE.process(state, [record(RESOURCES, "Node//n1", declared(unschedulable=True))], at(99))
    assert {t.time_added for t in tainted(emit).taints} == {at(99)}


def test_conditions_that_come_before_their_target_wait_for_it() -> None:
    state = SERVICE.new_state(0)
    early = record(CONDITIONS, "Node/n1|Ready", condition("False", 1), time=at(1))
    assert SERVICE.process(state, [early], at(1)) == []
    (emit,) = SERVICE.process(state, [record(RESOURCES, "Node//n1", declared(), time=at(5))], at(5))
    assert [t.key for t in tainted(emit).taints] == [NOT_READY, NOT_READY]


def test_heartbeats_older_records_and_other_kinds_write_nothing() -> None:
    state = SERVICE.new_state(0)
    begin = [
        record(RESOURCES, "Node//n1", declared(2), time=T0),
        record(CONDITIONS, "Node/n1|Ready", condition("False", 2), time=T0),
    ]
    assert len(SERVICE.process(state, begin, T0)) == 1
    quiet = [
        record(CONDITIONS, "Node/n1|Ready", condition("False", 3, seen=9), time=at(9)),
        record(CONDITIONS, "Node/n1|Ready", condition("True", 1), time=at(9)),
        record(RESOURCES, "Node//n1", declared(1, unschedulable=True), time=at(9)),
        record(RESOURCES, "Node//n1", declared(3), time=at(9)),
        record(RESOURCES, "Deployment/default/web", declared(1, kind="Deployment"), time=at(9)),
        record(RESOURCES, "Deployment/default/web", None, time=at(9)),
    ]
    assert SERVICE.process(state, quiet, at(9)) == []


def test_a_deleted_target_has_its_taints_tombstoned_once() -> None:
    state = SERVICE.new_state(0)
    gone = record(RESOURCES, "Node//n1", None, id="gone", time=at(3))
    batch = [record(RESOURCES, "Node//n1", declared(unschedulable=True), time=T0), gone, gone]
    _, emit = SERVICE.process(state, batch, at(3))
    assert (emit.topic, emit.key, emit.event, emit.cause.id) == (TAINTS, "Node/n1", None, "gone")


def test_a_target_made_again_starts_clean_before_its_old_conditions_are_gone() -> None:
    state = SERVICE.new_state(0)
    batch = [
        record(RESOURCES, "Node//n1", declared(1, "u1"), time=T0),
        record(CONDITIONS, "Node/n1|Ready", condition("False", 4, uid="u1"), time=T0),
        record(RESOURCES, "Node//n1", declared(1, "u2"), time=at(5)),
    ]
    first, second = SERVICE.process(state, batch, at(5))
    assert len(tainted(first).taints) == 2
    assert (tainted(second).taints, tainted(second).target_uid) == ((), "u2")
    late = record(CONDITIONS, "Node/n1|Ready", condition("Unknown", 1, uid="u2"), time=at(6))
    (third,) = SERVICE.process(state, [late], at(6))
    assert {t.key for t in tainted(third).taints} == {"node.kubernetes.io/unreachable"}


def test_batches_do_not_matter() -> None:
    batch = [
        record(RESOURCES, "Node//n1", declared(), time=T0),
        *(
            record(CONDITIONS, "Node/n1|Ready", condition(status, g), id=f"c{g}", time=at(g))
            for g, status in enumerate(("False", "Unknown", "True", "True", "False"), start=1)
        ),
    ]
    whole = SERVICE.process(SERVICE.new_state(0), batch, T0)
    state = SERVICE.new_state(0)
    single = [emit for one in batch for emit in SERVICE.process(state, [one], at(77))]
    assert whole == single
    assert [tainted(emit).generation for emit in whole] == [1, 2, 3, 4]


def test_the_reconciler_is_quiet_when_all_is_well_and_repairs_what_is_not() -> None:
    state = SERVICE.new_state(0)
    batch = [
        record(RESOURCES, "Node//n1", declared(unschedulable=True), time=T0),
        record(CONDITIONS, "Node/n1|Ready", condition("False", 1), time=T0),
    ]
    SERVICE.process(state, batch, T0)
    assert SERVICE.reconcile(state, at(60)) == []
    SERVICE.apply(state, RESOURCES, "Node//n1", None)
    (emit,) = SERVICE.reconcile(state, at(60))
    assert (emit.key, emit.event) == ("Node/n1", None)
    assert SERVICE.reconcile(state, at(60)) == []


def test_a_late_report_does_not_make_its_taints_old() -> None:
    flow = Flow([condition_ingest.service(Settings(partitions=3)), SERVICE])
    fleet = Fleet(flow)
    fleet.declare("n1")
    flow.advance(3600)
    fleet.report("n1", at=flow.now - timedelta(minutes=30))
    flow.run()
    (event,) = flow.events(TAINTS)
    assert {t.time_added for t in event.taints} == {flow.now}
    assert event.report_time == flow.now - timedelta(minutes=30)
