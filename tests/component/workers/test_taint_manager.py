"""taint-manager: when it writes, with which times, and when it does not write."""

from __future__ import annotations

from datetime import timedelta

from tests.support.records import T0, at, record
from tests.support.worlds.flow import Flow
from tests.support.worlds.world import World

from moorage.runtime.service import Emit
from moorage.runtime.settings.process_settings import Settings
from moorage.workers import condition_ingest, taint_manager
from moorage_schemas.base import Model
from moorage_schemas.condition import ConditionChanged, ConditionStatus
from moorage_schemas.refs import TargetKind, TargetRef
from moorage_schemas.resource import ResourceDeclared
from moorage_schemas.taint import TargetTainted
from moorage_schemas.topics import CONDITIONS, FLEET, RESOURCES, TAINTS, ZONE_GRANTS, ZONE_MEMBERS, Topic
from moorage_schemas.zone import NoExecuteGranted, ZoneMembered

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


def granted(incident: int, generation: int = 1, *, yes: bool = True, uid: str = "u1") -> NoExecuteGranted:
    return NoExecuteGranted(
        target=TargetRef(kind=TargetKind.NODE, name="n1"),
        target_uid=uid,
        zone="/",
        incident=incident,
        generation=generation,
        granted=yes,
        granted_time=at(50),
    )


def taints_only(emits: list[Emit]) -> list[Emit]:
    assert {emit.topic for emit in emits} <= {TAINTS, ZONE_MEMBERS}
    return [emit for emit in emits if emit.topic is TAINTS]


def members(emits: list[Emit]) -> list[tuple[int, bool, int, bool]]:
    """Generation, ready, incident and tainted of each record."""
    found = []
    for emit in emits:
        if isinstance(emit.event, ZoneMembered):
            assert (emit.key, emit.partition_key) == ("Node/n1", FLEET)
            found.append((emit.event.generation, emit.event.ready, emit.event.incident, emit.event.tainted))
    return found


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
    _, emit = taints_only(SERVICE.process(state, batch, at(99)))
    assert {t.time_added for t in tainted(emit).taints} == {at(2)}
    assert tainted(emit).report_time == at(-50)
    assert emit.cause.id == "c"
    assert (emit.key, emit.partition_key) == ("Node/n1", "Node/n1")


def test_a_record_without_a_time_counts_as_now() -> None:
    state = SERVICE.new_state(0)
    emits = SERVICE.process(state, [record(RESOURCES, "Node//n1", declared(unschedulable=True))], at(99))
    (emit,) = taints_only(emits)
    assert {t.time_added for t in tainted(emit).taints} == {at(99)}


def test_conditions_that_come_before_their_target_wait_for_it() -> None:
    state = SERVICE.new_state(0)
    early = record(CONDITIONS, "Node/n1|Ready", condition("False", 1), time=at(1))
    assert SERVICE.process(state, [early], at(1)) == []
    emit, _ = SERVICE.process(state, [record(RESOURCES, "Node//n1", declared(), time=at(5))], at(5))
    assert [(t.key, t.effect) for t in tainted(emit).taints] == [(NOT_READY, "NoSchedule")]
    assert [h.effect for h in tainted(emit).held] == ["NoExecute"]


def test_heartbeats_older_records_and_other_kinds_write_nothing() -> None:
    state = SERVICE.new_state(0)
    begin = [
        record(RESOURCES, "Node//n1", declared(2), time=T0),
        record(CONDITIONS, "Node/n1|Ready", condition("False", 2), time=T0),
        record(ZONE_GRANTS, "Node/n1", granted(2, 2), time=T0),
    ]
    assert len(taints_only(SERVICE.process(state, begin, T0))) == 3
    quiet = [
        record(CONDITIONS, "Node/n1|Ready", condition("False", 3, seen=9), time=at(9)),
        record(CONDITIONS, "Node/n1|Ready", condition("True", 1), time=at(9)),
        record(RESOURCES, "Node//n1", declared(1, unschedulable=True), time=at(9)),
        record(RESOURCES, "Node//n1", declared(3), time=at(9)),
        record(ZONE_GRANTS, "Node/n1", granted(2, 1, yes=False), time=at(9)),
        record(ZONE_GRANTS, "Node/n1", granted(2, 2), time=at(9)),
        record(ZONE_GRANTS, "Node/other", granted(2, 2), time=at(9)),
        record(RESOURCES, "Deployment/default/web", declared(1, kind="Deployment"), time=at(9)),
        record(RESOURCES, "Deployment/default/web", None, time=at(9)),
    ]
    assert SERVICE.process(state, quiet, at(9)) == []


def test_a_zone_is_told_when_something_of_its_node_changes_and_only_then() -> None:
    state = SERVICE.new_state(0)

    def told(topic: Topic, event: Model | None, seconds: float) -> list[tuple[int, bool, int, bool]]:
        key = {RESOURCES: "Node//n1", CONDITIONS: "Node/n1|Ready", ZONE_GRANTS: "Node/n1"}[topic]
        return members(SERVICE.process(state, [record(topic, key, event, time=at(seconds))], at(seconds)))

    assert told(RESOURCES, declared(1), 0) == [(1, True, 0, False)]
    assert told(RESOURCES, declared(2, unschedulable=True), 1) == [], "that is not its zone's concern"
    assert told(CONDITIONS, condition("False", 1), 2) == [(3, False, 3, False)]
    assert told(CONDITIONS, condition("Unknown", 2), 3) == []
    assert told(ZONE_GRANTS, granted(3), 51) == [(5, False, 3, True)]
    assert told(CONDITIONS, condition("False", 3), 52) == []
    assert told(ZONE_GRANTS, granted(3, 2, yes=False), 53) == [(7, False, 3, False)]
    assert told(ZONE_GRANTS, granted(3, 3), 54) == [(8, False, 3, True)]
    assert told(CONDITIONS, condition("True", 4), 55) == [(9, True, 0, False)]


def test_a_granted_taint_is_there_since_it_was_granted() -> None:
    state = SERVICE.new_state(0)
    batch = [
        record(RESOURCES, "Node//n1", declared(), time=T0),
        record(CONDITIONS, "Node/n1|Ready", condition("False", 1), time=T0),
        record(ZONE_GRANTS, "Node/n1", granted(2), time=at(60)),
    ]
    *_, emit = taints_only(SERVICE.process(state, batch, at(61)))
    assert [(t.effect, t.time_added) for t in tainted(emit).taints] == [("NoSchedule", T0), ("NoExecute", at(50))]


def test_a_deleted_target_has_its_taints_tombstoned_once() -> None:
    state = SERVICE.new_state(0)
    gone = record(RESOURCES, "Node//n1", None, id="gone", time=at(3))
    batch = [record(RESOURCES, "Node//n1", declared(unschedulable=True), time=T0), gone, gone]
    _, _, emit, member = SERVICE.process(state, batch, at(3))
    assert (emit.topic, emit.key, emit.event, emit.cause.id) == (TAINTS, "Node/n1", None, "gone")
    assert (member.topic, member.key, member.partition_key, member.event) == (ZONE_MEMBERS, "Node/n1", FLEET, None)


def test_a_target_made_again_starts_clean_before_its_old_conditions_are_gone() -> None:
    state = SERVICE.new_state(0)
    batch = [
        record(RESOURCES, "Node//n1", declared(1, "u1"), time=T0),
        record(CONDITIONS, "Node/n1|Ready", condition("False", 4, uid="u1"), time=T0),
        record(RESOURCES, "Node//n1", declared(1, "u2"), time=at(5)),
    ]
    emits = SERVICE.process(state, batch, at(5))
    assert members(emits) == [(1, True, 0, False), (2, False, 2, False), (3, True, 0, False)]
    _, first, second = taints_only(emits)
    assert len(tainted(first).taints) == 1
    assert (tainted(second).taints, tainted(second).target_uid, tainted(second).incident) == ((), "u2", 0)
    late = [
        record(CONDITIONS, "Node/n1|Ready", condition("Unknown", 1, uid="u2"), time=at(6)),
        record(ZONE_GRANTS, "Node/n1", granted(4, uid="u1"), time=at(7)),
    ]
    (third,) = taints_only(SERVICE.process(state, late, at(6)))
    assert {(t.key, t.effect) for t in tainted(third).taints} == {("node.kubernetes.io/unreachable", "NoSchedule")}


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
    assert [tainted(emit).generation for emit in taints_only(whole)] == [1, 2, 3, 4, 5]


def test_the_reconciler_is_quiet_when_all_is_well_and_repairs_what_is_not() -> None:
    state = SERVICE.new_state(0)
    batch = [
        record(RESOURCES, "Node//n1", declared(unschedulable=True), time=T0),
        record(CONDITIONS, "Node/n1|Ready", condition("False", 1), time=T0),
    ]
    SERVICE.process(state, batch, T0)
    assert SERVICE.reconcile(state, at(60)) == []
    SERVICE.apply(state, RESOURCES, "Node//n1", None)
    emit, member = SERVICE.reconcile(state, at(60))
    assert (emit.key, emit.event) == ("Node/n1", None)
    assert (member.topic, member.event) == (ZONE_MEMBERS, None)
    assert SERVICE.reconcile(state, at(60)) == []


def test_a_record_of_an_earlier_version_is_written_anew_with_its_zone() -> None:
    state = SERVICE.new_state(0)
    SERVICE.apply(state, RESOURCES, "Node//n1", declared())
    old = TargetTainted(target=TargetRef(kind=TargetKind.NODE, name="n1"), target_uid="u1", generation=4)
    SERVICE.apply(state, TAINTS, "Node/n1", old)
    emits = SERVICE.reconcile(state, at(1))
    assert [tainted(emit).zone for emit in taints_only(emits)] == ["/"]
    assert members(emits) == [(5, True, 0, False)]


def test_a_late_report_does_not_make_its_taints_old() -> None:
    flow = Flow([condition_ingest.service(Settings(partitions=3)), SERVICE])
    fleet = World(flow)
    fleet.node("n1")
    flow.advance(3600)
    fleet.report("n1", at=flow.now - timedelta(minutes=30))
    flow.run()
    _, event = flow.events(TAINTS)
    assert {t.time_added for t in event.taints} == {flow.now}
    assert event.report_time == flow.now - timedelta(minutes=30)


def test_a_node_that_an_earlier_version_left_is_told_of_at_once() -> None:
    service = taint_manager.service(Settings())
    state = service.new_state(0)
    service.apply(state, RESOURCES, "Node//n1", declared())
    (event,) = [emit.event for emit in service.wake(state, at(50)) if emit.topic is ZONE_MEMBERS]
    assert isinstance(event, ZoneMembered)
    assert (event.zone, event.ready, event.tainted) == ("/", True, False)
    again = service.new_state(0)
    service.apply(again, RESOURCES, "Node//n1", declared())
    service.apply(again, TAINTS, "Node/n1", state.taints["Node/n1"])
    assert service.wake(again, at(60)) == [], "once is enough"
    assert service.reconcile(again, at(70)) == []


def restart_without_holds(flow: Flow) -> None:
    service = taint_manager.service(Settings(partitions=3))
    flow.services[service.name] = service
    flow.crash_process(service.name)
    flow.run()


def carried(flow: Flow) -> list[tuple[str, str]]:
    (event,) = flow.table(TAINTS).values()
    return [(taint.key, taint.effect) for taint in event.taints]


def test_a_hold_that_is_taken_away_keeps_nothing_from_the_next_start_on() -> None:
    flow = Flow(
        [
            condition_ingest.service(Settings(partitions=3, node_monitor_grace_period=0)),
            taint_manager.service(Settings(partitions=3, taint_remove_hold=600)),
        ]
    )
    fleet = World(flow)
    fleet.node("n1")
    fleet.report("n1", "Ready", "False")
    flow.advance(60)
    fleet.report("n1", "Ready", "True")
    flow.advance(60)
    assert carried(flow) == [(NOT_READY, "NoSchedule")], "it is held"
    restart_without_holds(flow)
    assert carried(flow) == []
    (event,) = flow.table(TAINTS).values()
    assert event.settles_at is None
    assert flow.reconcile("taint-manager") == []


def test_a_hold_that_is_taken_away_keeps_nothing_back_from_the_next_start_on() -> None:
    flow = Flow(
        [
            condition_ingest.service(Settings(partitions=3, node_monitor_grace_period=0)),
            taint_manager.service(Settings(partitions=3, taint_add_hold=600)),
        ]
    )
    fleet = World(flow)
    fleet.node("n1")
    fleet.report("n1", "Ready", "False")
    flow.advance(60)
    assert carried(flow) == []
    restart_without_holds(flow)
    assert carried(flow) == [(NOT_READY, "NoSchedule")]
    assert flow.reconcile("taint-manager") == []
