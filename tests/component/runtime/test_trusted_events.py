"""Models made without validation are equal to those made with validation."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.records import decide
from tests.unit.contract.strategies import instances

from moorage.runtime.service import Input
from moorage.workers.eviction.service import Eviction
from moorage_schemas.base import Model
from moorage_schemas.envelope import Meta
from moorage_schemas.eviction import EvictionDecided, EvictionState
from moorage_schemas.keys import binding_key
from moorage_schemas.placement import TargetScore, WorkloadBound, WorkloadPlaced
from moorage_schemas.refs import TargetKind, TargetRef, WorkloadRef
from moorage_schemas.taint import TaintOrigin, TaintRecord, TargetTainted, Toleration
from moorage_schemas.timer import SetTimer
from moorage_schemas.topics import BINDINGS, TAINTS
from moorage_schemas.trusted_events import target_ref, trusted, workload_ref

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize("model", [WorkloadRef, TargetRef, EvictionDecided, SetTimer], ids=lambda model: model.__name__)
@settings(max_examples=50)
@given(data=st.data())
def test_a_trusted_model_is_the_checked_one(model: type[Model], data: st.DataObject) -> None:
    checked = data.draw(instances(model))
    made = trusted(model, **checked.__dict__)
    assert type(made) is model
    assert made == checked
    assert hash(made) == hash(checked)
    assert made.model_dump_json() == checked.model_dump_json()
    assert repr(made) == repr(checked)
    assert made.model_copy(deep=True) == checked


def test_a_trusted_model_can_be_changed_in_copies_only() -> None:
    ref = trusted(WorkloadRef, kind="Pod", namespace="shop", name="web-0")
    copy = ref.model_copy(update={"name": "web-1"})
    assert (ref.key, copy.key) == ("Pod/shop/web-0", "Pod/shop/web-1")
    with pytest.raises(ValueError, match="frozen"):
        ref.name = "web-2"  # type: ignore[misc]  # tests that it cannot be set
    assert trusted(WorkloadRef, kind="Pod", name="x").model_fields_set == ref.model_fields_set


def test_defaults_are_filled_in_and_in_order() -> None:
    workload = WorkloadRef(kind="Pod", namespace="shop", name="web-0")
    parts = {
        "decided_time": NOW,
        "state": EvictionState.REQUESTED,
        "revision": 1,
        "generation": 1,
        "target": TargetRef(kind=TargetKind.NODE, name="n1"),
        "owner": workload,
        "workload": workload,
    }
    made, checked = trusted(EvictionDecided, **parts), EvictionDecided(**parts)
    assert made == checked
    assert made.model_dump_json() == checked.model_dump_json()


def test_missing_and_unknown_fields_are_named() -> None:
    with pytest.raises(TypeError, match="WorkloadRef: missing or unknown: colour, name"):
        trusted(WorkloadRef, kind="Pod", colour="red")
    with pytest.raises(TypeError, match="WorkloadRef: missing or unknown: kind"):
        trusted(WorkloadRef, name="web-0")


def test_fields_whose_defaults_are_made_anew_must_be_given() -> None:
    with pytest.raises(TypeError, match="TargetScore: missing or unknown: scores"):
        trusted(TargetScore, target="n1", total=0)
    assert trusted(TargetScore, target="n1", total=0, scores={}) == TargetScore(target="n1", total=0)


@settings(max_examples=50)
@pytest.mark.parametrize("model", [WorkloadPlaced, WorkloadBound], ids=lambda model: model.__name__)
@given(data=st.data())
def test_a_trusted_model_with_mappings_is_the_checked_one(model: type[Model], data: st.DataObject) -> None:
    checked = data.draw(instances(model))
    made = trusted(model, **checked.__dict__)
    assert made == checked
    assert made.model_dump_json() == checked.model_dump_json()


@given(ref=instances(WorkloadRef))
def test_refs_by_their_keys(ref: WorkloadRef) -> None:
    # Parts of a validated event may contain a slash, and its kind a colon. Keys of workloads do not.
    if ref.key.count("/") == 2 and ":" not in ref.kind:
        assert workload_ref(ref.key) == WorkloadRef.parse(ref.key) == ref
    assert target_ref("Node/n1") == TargetRef.parse("Node/n1")
    assert target_ref("Node/n1") is target_ref("Node/n1")
    with pytest.raises(ValueError, match="is not Kind/name"):
        target_ref("n1")


def test_an_event_of_trusted_parts_reads_back() -> None:
    workload = trusted(WorkloadRef, kind="Pod", namespace="shop", name="web-0")
    target = trusted(TargetRef, kind=TargetKind.NODE, name="n1")
    event = EvictionDecided(
        workload=workload,
        owner=workload,
        target=target,
        generation=1,
        revision=1,
        state=EvictionState.SCHEDULED,
        deadline=NOW + timedelta(seconds=300),
        decided_time=NOW,
    )
    assert EvictionDecided.model_validate_json(event.model_dump_json()) == event


def test_what_eviction_writes_is_what_checks_would_make() -> None:
    service = Eviction()
    state = service.new_state(0)
    view = service.new_globals()
    service.use_globals(state, view)
    target, seconds = TargetRef(kind=TargetKind.NODE, name="n1"), (None, 0, 30, 300)
    for number, tolerated in enumerate(seconds):
        workload = WorkloadRef(kind="Pod", namespace="shop", name=f"web-{number}")
        owner = workload if number % 2 else WorkloadRef(kind="Deployment", namespace="shop", name="web")
        tolerations = () if tolerated is None else (Toleration(operator="Exists", toleration_seconds=tolerated),)
        bound = WorkloadBound(
            workload=workload,
            uid=f"uid-{number}",
            owner=owner,
            target=target,
            generation=1,
            tolerations=tolerations,
            bound_time=NOW,
        )
        service.apply(state, BINDINGS, binding_key(workload, target), bound)
    taint = TaintRecord(key="down", effect="NoExecute", time_added=NOW, origins=(TaintOrigin.EXPLICIT,))
    events: list[Model] = []
    for generation, taints in ((1, (taint,)), (2, ())):
        tainted = TargetTainted(target=target, generation=generation, taints=taints, report_time=NOW)
        meta = Meta(id=f"m{generation}", source="test", type=TAINTS.event_type, time=NOW)
        emits = decide(service, state, [Input(TAINTS, 0, generation, target.key, tainted, meta)], NOW)
        events += [emit.event for emit in emits if emit.event is not None]
    states = [event.state for event in events if isinstance(event, EvictionDecided)]
    assert states.count(EvictionState.REQUESTED) == states.count(EvictionState.SCHEDULED) == 2
    assert states.count(EvictionState.CANCELLED) == 2
    for event in events:
        checked = type(event).model_validate(event.model_dump())
        assert checked == event
        assert checked.model_dump_json() == event.model_dump_json()
        assert type(event).model_validate_json(event.model_dump_json()) == event
