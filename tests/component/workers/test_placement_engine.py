"""The parts that the three placement controllers share."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from moorage.runtime.service import Input
from moorage.runtime.settings.moorage_configuration import Configuration
from moorage.runtime.settings.process_settings import Settings
from moorage.workers.placement.engine.outbox import SOURCE, LastDecision, Outbox, supersedes
from moorage.workers.placement.engine.placement_controller import PORTION, Controller
from moorage.workers.placement.engine.view_tables import Declaration, EvictionTable, Overlay, TargetTable
from moorage.workers.placement.engine.work_queue import Work, WorkQueue
from moorage.workers.placement.state import PlacementPartition
from moorage_schemas.envelope import Meta
from moorage_schemas.eviction import EvictionDecided, EvictionState
from moorage_schemas.placement import PlacementState, WorkloadPlaced
from moorage_schemas.refs import TargetKind, TargetRef, WorkloadRef
from moorage_schemas.resource import ResourceDeclared, TaintWish
from moorage_schemas.taint import TaintOrigin, TaintRecord, TargetTainted
from moorage_schemas.topics import BINDINGS, EVICTIONS, PLACEMENTS

NOW = datetime(2026, 1, 1, tzinfo=UTC)
POD = WorkloadRef(kind="Pod", namespace="default", name="a")


def cause(name: str) -> Meta:
    return Meta(id=name, source="test", type="test", time=NOW)


def placed(generation: int, uid: str = "u") -> WorkloadPlaced:
    return WorkloadPlaced(
        workload=POD,
        uid=uid,
        owner=POD,
        owner_uid=uid,
        generation=generation,
        state=PlacementState.PENDING,
        decided_time=NOW,
    )


class TestWorkQueue:
    def test_work_comes_back_in_the_order_of_its_arrival(self) -> None:
        queue = WorkQueue()
        for key in "aba":
            queue.add(Work(key, None))
        assert [work.key for work in queue] == ["a", "b", "a"]
        queue.put_back(Work("left", None))
        assert [queue.take().key for _ in range(len(queue))] == ["left", "a", "b", "a"]
        with pytest.raises(IndexError):
            queue.take()

    def test_what_waits_once_keeps_its_place_and_its_first_cause(self) -> None:
        queue = WorkQueue()
        queue.add_once(Work("a", cause("first")))
        queue.add_once(Work("b", None))
        queue.add_once(Work("a", cause("second")))
        assert [(work.key, work.cause and work.cause.id) for work in queue] == [("a", "first"), ("b", None)]
        queue.take()
        queue.add_once(Work("a", cause("third")))
        assert [work.key for work in queue] == ["b", "a"]

    def test_work_that_decides_takes_the_place_of_work_that_checks(self) -> None:
        queue = WorkQueue()
        queue.add_once(Work("a", None, check=True))
        queue.add_once(Work("b", None, check=True))
        queue.add_once(Work("a", cause("event")))
        queue.add_once(Work("a", None, check=True))
        assert [(work.key, work.check) for work in queue] == [("a", False), ("b", True)]

    def test_work_that_is_added_in_any_case_is_not_swallowed(self) -> None:
        queue = WorkQueue()
        queue.add_once(Work("a", cause("told")))
        queue.add(Work("a", cause("gone"), removed="c1"))
        assert [work.removed for work in queue] == ["", "c1"]


class TestOverlay:
    def overlay(self) -> Overlay[int]:
        return Overlay(lambda found, assumed: found >= assumed)

    def test_what_is_assumed_holds_until_the_log_has_it(self) -> None:
        overlay, me = self.overlay(), object()
        overlay.assume("k", 2, by=me)
        assert (overlay.get("k"), overlay.assumed_by(me)) == (2, ["k"])
        assert not overlay.arrive("k", 1)
        assert (overlay.get("k"), overlay.logged["k"]) == (2, 1)
        assert overlay.arrive("k", 2)
        assert (overlay.get("k"), overlay.assumed_by(me)) == (2, [])

    def test_an_assumed_end_hides_what_is_logged_until_the_tombstone(self) -> None:
        overlay = self.overlay()
        overlay.arrive("k", 1)
        overlay.assume("k", None, by="me")
        assert overlay.get("k") is None
        assert not overlay.arrive("k", 5), "a later value is not the end that was assumed"
        assert overlay.get("k") is None
        assert overlay.arrive("k", None)
        assert overlay.get("k") is None
        assert not overlay.arrive("k", 7)
        assert overlay.get("k") == 7

    def test_what_another_has_assumed_stays(self) -> None:
        overlay = self.overlay()
        overlay.assume("a", 1, by="one")
        overlay.assume("b", 1, by="other")
        for key in overlay.assumed_by("one"):
            overlay.put_back(key, None)
        assert (overlay.get("a"), overlay.get("b")) == (None, 1)


class TestTargetTable:
    def declared(self, uid: str, version: int) -> ResourceDeclared:
        node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n", "uid": uid}}
        return ResourceDeclared(object=node, version=version)

    def test_it_says_what_a_declaration_means(self) -> None:
        table = TargetTable()
        found = [
            table.declare("n", event)
            for event in (
                None,
                self.declared("u1", 2),
                self.declared("u1", 1),
                self.declared("u1", 2),
                self.declared("u2", 1),
                None,
                self.declared("u2", 1),
            )
        ]
        assert found == [
            Declaration.STALE,
            Declaration.NEW,
            Declaration.STALE,
            Declaration.CHANGED,
            Declaration.REPLACED,
            Declaration.DELETED,
            Declaration.NEW,
        ]

    def test_what_it_returns_later_equals_what_was_folded_in(self) -> None:
        table, target = TargetTable(), TargetRef(kind=TargetKind.NODE, name="n")
        wish = TaintWish(key="k", effect="NoSchedule", present=True, generation=3, time=NOW, actor="me")
        declared = self.declared("u1", 2).model_copy(update={"wishes": (wish,)})
        taint = TaintRecord(key="k", effect="NoSchedule", time_added=NOW, origins=(TaintOrigin.EXPLICIT,))
        tainted = TargetTainted(target=target, target_uid="u1", generation=4, taints=(taint,), labels={"a": "b"})
        table.declare("n", declared)
        table.taint("n", tainted)
        assert table.declared("n") is declared, "it was just folded in"
        table.declare("other", ResourceDeclared(object={"kind": "Node", "metadata": {"name": "other"}}, version=2))
        assert (table.declared("n"), table.tainted("n")) == (declared, tainted)
        assert (table.uid("n"), table.taint_generation("n")) == ("u1", 4)
        table.declare("n", None)
        assert (table.declared("n"), table.uid("n"), table.taint_generation("absent")) == (None, None, 0)

    def test_taints_are_kept_by_generation_and_without_a_target(self) -> None:
        table = TargetTable()
        target = TargetRef(kind=TargetKind.NODE, name="n")
        for generation in (2, 1):
            table.taint("n", TargetTainted(target=target, target_uid="u", generation=generation, taints=()))
        tainted = table.tainted("n")
        assert tainted is not None
        assert (tainted.generation, table.declared("n")) == (2, None)
        table.taint("n", None)
        assert table.tainted("n") is None


class TestEvictionTable:
    def record(self, generation: int, state: EvictionState | None) -> Input:
        key = f"{POD.key}|Node/n1|{generation}"
        event = state and EvictionDecided(
            workload=POD,
            workload_uid="u",
            owner=POD,
            target=TargetRef(kind=TargetKind.NODE, name="n1"),
            generation=generation,
            revision=1,
            state=state,
            decided_time=NOW,
        )
        return Input(EVICTIONS, 0, generation, key, event or None, cause(f"e{generation}"))

    def test_it_finds_the_request_for_exactly_one_binding(self) -> None:
        table = EvictionTable()
        assert table.fold(self.record(3, EvictionState.SCHEDULED)) is None
        assert table.fold(self.record(2, EvictionState.REQUESTED)) is not None
        assert table.requested(POD.key, "u", "n1", 2) is not None
        others = [("other", "n1", 2), ("u", "n2", 2), ("u", "n1", 3)]
        assert [table.requested(POD.key, uid, node, number) for uid, node, number in others] == [None] * 3
        assert table.next_generation(POD.key, None) == 4

    @pytest.mark.parametrize("state", [EvictionState.COMPLETED, EvictionState.CANCELLED, None])
    def test_a_request_that_is_over_is_forgotten_but_not_its_generation(self, state: EvictionState | None) -> None:
        table = EvictionTable()
        table.fold(self.record(2, EvictionState.REQUESTED))
        table.fold(self.record(2, state))
        assert (table.next_generation(POD.key, None), table._requested) == (3, {})

    def test_a_removed_one_leaves_only_the_floor_for_workloads_that_are_not_known(self) -> None:
        table = EvictionTable()
        table.fold(self.record(2, EvictionState.COMPLETED))
        table.fold(self.record(5, EvictionState.COMPLETED))
        table.fold(self.record(2, None))
        assert table.next_generation(POD.key, None) == table.next_generation(POD.key, 3) == 6
        table.fold(self.record(5, None))
        assert table._highest == {}
        assert table.next_generation(POD.key, None) == table.next_generation("Pod/default/other", None) == 6
        assert table.next_generation(POD.key, 3) == 4, "what it had is known"
        table.raise_floor(9)
        table.raise_floor(4)
        assert table.next_generation(POD.key, None) == 10


class TestOutbox:
    def test_a_decision_holds_at_once_and_a_binding_does_not(self) -> None:
        applied = []
        outbox = Outbox(lambda topic, key, _event: applied.append((topic, key)), NOW)
        outbox.begin(cause("c"))
        outbox.put(PLACEMENTS, POD.key, POD.key, placed(1))
        outbox.put(BINDINGS, f"{POD.key}|Node/n1", "Node/n1", None)
        assert applied == [(PLACEMENTS, POD.key)]
        assert [emit.cause.id for emit in outbox.emits] == ["c", "c"]
        assert len(outbox) == 2

    def test_work_without_a_cause_gets_one_that_says_what_it_is_of(self) -> None:
        causes = []
        for grounds in (("a", 1), ("a", 1), ("a", 2)):
            outbox = Outbox(lambda *_given: None, NOW)
            outbox.begin(None, *grounds)
            causes.append(outbox.cause)
        assert causes[0] == causes[1] != causes[2]
        assert {one.source for one in causes} == {SOURCE}


@pytest.mark.parametrize(
    ("event", "newer"), [(placed(2), True), (placed(3), True), (placed(1), False), (placed(1, uid="next life"), True)]
)
def test_a_decision_supersedes_what_is_older_or_of_another_life(event: WorkloadPlaced, newer: bool) -> None:  # noqa: FBT001 - a case of the table
    known = LastDecision(POD.key, "u", 2, PlacementState.PENDING, "", "", NOW)
    assert supersedes(event, known) is newer
    assert supersedes(event, None)


class Counting(Controller):
    """Writes one record for each item of work."""

    resources = ("Thing/",)
    decisions = ("Thing/",)
    at_once = 7

    def declare(self, key: str, event: ResourceDeclared | None) -> None: ...
    def decided(self, key: str, event: WorkloadPlaced | None) -> None: ...
    def decision(self, workload: str) -> LastDecision | None: ...

    def is_new(self, event: ResourceDeclared) -> bool:  # noqa: ARG002 - not used
        return False

    def check_resource(self, key: str, cause: Meta) -> None:
        self.work.add(Work(key, cause))

    def keys(self) -> list[str]:
        return ["Thing/a", "Thing/b"]

    def due(self) -> bool:
        return bool(self.work)

    def gather(self, now: datetime) -> None: ...
    def leave(self) -> None: ...
    def reconcile_one(self, outbox: Outbox, work: Work) -> None:
        outbox.put(BINDINGS, work.key, work.key, None)


class TestController:
    def outbox(self, emits: int = 0) -> Outbox:
        outbox = Outbox(lambda *_given: None, NOW)
        for number in range(emits):
            outbox.put(BINDINGS, str(number), "", None)
        return outbox

    def test_a_call_is_bounded_by_pieces_of_work(self) -> None:
        controller = Counting()
        for number in range(20):
            controller.check_resource(f"Thing/{number}", cause("c"))
        outbox = self.outbox()
        controller.reconcile(outbox)
        assert (len(outbox), len(controller.work)) == (7, 13)

    def test_a_call_is_bounded_by_what_all_controllers_write(self) -> None:
        controller = Counting()
        for number in range(7):
            controller.check_resource(f"Thing/{number}", cause("c"))
        outbox = self.outbox(PORTION - 2)
        controller.reconcile(outbox)
        assert (len(outbox), len(controller.work)) == (PORTION, 5)

    def test_the_reconciler_looks_at_everything(self) -> None:
        controller = Counting()
        controller.repair()
        assert [(work.key, work.repair) for work in controller.work] == [("Thing/a", True), ("Thing/b", True)]


def test_no_two_controllers_decide_on_the_same_kind() -> None:

    state = PlacementPartition(0, Configuration(Settings()))
    kinds = [prefix for controller in state.controllers for prefix in controller.decisions]
    assert len(kinds) == len(set(kinds))
    assert state.due()
    assert not all(controller.begun for controller in state.controllers)
