"""The rule of a deployer, case by case, as the contract states it."""

from __future__ import annotations

from datetime import UTC, datetime

from tests.support.tables import table

from moorage_schemas.eviction import EvictionDecided, EvictionState
from moorage_schemas.keys import binding_key, eviction_key
from moorage_schemas.placement import WorkloadBound
from moorage_schemas.refs import TargetRef, WorkloadRef
from moorage_sdk.decisions import Decisions, Place, Remove, Running

NOW = datetime(2026, 1, 1, tzinfo=UTC)
POD = WorkloadRef.parse("Pod/shop/web")
NODE = TargetRef.parse("Node/n1")
KEY = binding_key(POD, NODE)


def bound(uid: str = "a", generation: int = 1, revision: int = 1, **more: object) -> WorkloadBound:
    given = {"uid": uid, "generation": generation, "revision": revision, **more}
    return WorkloadBound.model_validate({"workload": POD, "owner": POD, "target": NODE, "bound_time": NOW, **given})


def evicted(state: EvictionState, uid: str = "a", generation: int = 1, **more: object) -> EvictionDecided:
    given = {"workload_uid": uid, "generation": generation, "state": state, "revision": 1, **more}
    return EvictionDecided.model_validate({"workload": POD, "owner": POD, "target": NODE, "decided_time": NOW, **given})


def tables(*events: WorkloadBound | EvictionDecided) -> Decisions:
    decisions = Decisions()
    for event in events:
        if isinstance(event, WorkloadBound):
            decisions.fold_binding(KEY, event)
        else:
            decisions.fold_eviction(eviction_key(POD, NODE, event.generation), event)
    return decisions


REQUESTED = EvictionState.REQUESTED


@table(
    ("event", "stays"),
    [
        (evicted(REQUESTED), False),
        (evicted(REQUESTED, purge_mode="Directly"), False),
        (evicted(REQUESTED, purge_mode="Gracefully"), True),
        (evicted(EvictionState.COMPLETED, purge_mode="Gracefully"), False),
        (evicted(EvictionState.CANCELLED, reason="BindingEnded"), False),
        (evicted(EvictionState.CANCELLED, reason="TaintRemoved"), True),
        (evicted(EvictionState.SCHEDULED), True),
        (evicted(EvictionState.HELD), True),
        (evicted(REQUESTED, uid="b"), True),
        (evicted(REQUESTED, uid=""), False),
        (evicted(REQUESTED, generation=2), True),
    ],
)
@table("is_ahead", [False, True])
def test_an_eviction_is_about_one_binding(event: EvictionDecided, *, stays: bool, is_ahead: bool) -> None:
    decisions = tables(event, bound()) if is_ahead else tables(bound(), event)
    assert decisions.step(KEY, None) == (Place(bound()) if stays else None)
    step = decisions.step(KEY, Running.of(bound()))
    assert (step is None) is stays
    assert stays or (isinstance(step, Remove) and step.eviction == event)


def test_another_life_of_the_name_is_removed_before_the_present_one_starts() -> None:
    decisions = tables(bound("b"))
    step = decisions.step(KEY, Running.of(bound("a", 7)))
    assert isinstance(step, Remove)
    assert (step.running.uid, step.reason) == ("a", "Replaced")
    assert decisions.step(KEY, None) == Place(bound("b"))


def test_what_runs_is_adopted_by_a_later_binding_of_the_same_workload() -> None:
    assert tables(bound(generation=2)).step(KEY, Running.of(bound())) == Place(bound(generation=2))
    assert tables(bound(revision=2, replicas=3)).step(KEY, Running.of(bound())) == Place(bound(revision=2, replicas=3))
    assert tables(bound()).step(KEY, Running.of(bound())) is None


def test_an_older_record_changes_nothing() -> None:
    assert tables(bound(revision=3), bound(revision=2)).binding(KEY) == bound(revision=3)
    assert tables(bound(generation=3)).step(KEY, Running.of(bound(generation=4))) is None


def test_tombstones_end_the_binding_and_forget_the_eviction() -> None:
    decisions = tables(bound(), evicted(REQUESTED))
    decisions.fold_binding(KEY, None)
    assert decisions.fold_eviction(eviction_key(POD, NODE, 1), None) == evicted(REQUESTED)
    assert (decisions.keys, decisions.evictions) == (set(), [])
    step = decisions.step(KEY, Running.of(bound()))
    assert isinstance(step, Remove)
    assert step.reason == "BindingEnded"


def test_nothing_is_started_or_changed_while_it_is_suspended() -> None:
    assert tables(bound(suspended=True)).step(KEY, None) is None
    assert tables(bound(revision=2, suspended=True)).step(KEY, Running.of(bound())) is None
    assert tables(bound(revision=3)).step(KEY, Running.of(bound())) == Place(bound(revision=3))
    assert isinstance(tables(bound(suspended=True), evicted(REQUESTED)).step(KEY, Running.of(bound())), Remove)


@table(
    ("event", "stays"),
    [
        (None, True),
        (evicted(EvictionState.CANCELLED, reason="BindingEnded"), True),
        (evicted(REQUESTED), False),
        (evicted(EvictionState.COMPLETED, purge_mode="Gracefully"), False),
    ],
)
def test_what_is_preserved_stays_when_its_binding_ends_unless_it_was_evicted(
    event: EvictionDecided | None, *, stays: bool
) -> None:
    decisions = tables(bound(preserved=True), *([event] if event is not None else []))
    decisions.fold_binding(KEY, None)
    step = decisions.step(KEY, Running.of(bound(preserved=True)))
    assert (step is None) is stays
    assert isinstance(decisions.step(KEY, Running.of(bound())), Remove)
