"""The taints of a managed cluster: by its availability, by people, and after records were lost."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.tables import table

from moorage.conformance.operations import evaluate
from moorage.decide.taints.desired.from_conditions import Holds, desired_taints
from moorage.decide.taints.desired.managed_taints import AVAILABLE, UNAVAILABLE_KEY, UNREACHABLE_KEY
from moorage.decide.taints.desired.taint_reconciliation import TaintRules, next_taints, reconcile_taints
from moorage_schemas.condition import ConditionChanged, ConditionStatus
from moorage_schemas.refs import TargetKind, TargetRef
from moorage_schemas.resource import ResourceDeclared, TaintWish
from moorage_schemas.taint import Taint, TargetTainted

T0 = datetime(2026, 1, 1, tzinfo=UTC)
Known = dict[str, ConditionChanged]


def at(seconds: float) -> datetime:
    return T0 + timedelta(seconds=seconds)


def cluster(*wishes: TaintWish, uid: str = "u1", **spec: Any) -> ResourceDeclared:
    metadata = {"name": "c1", "uid": uid}
    return ResourceDeclared(
        object={"kind": "ManagedCluster", "metadata": metadata, "spec": spec}, version=1, wishes=wishes
    )


def wish(generation: int, key: str, effect: str = "NoSelect", *, present: bool = True, time: float = 0) -> TaintWish:
    return TaintWish(key=key, effect=effect, present=present, generation=generation, time=at(time), actor="ann")


def is_(status: str | None, *, uid: str = "u1", since: float = 0) -> Known:
    if status is None:
        return {}
    condition = ConditionChanged(
        target=TargetRef(kind=TargetKind.MANAGED_CLUSTER, name="c1"),
        target_uid=uid,
        type=AVAILABLE,
        status=ConditionStatus(status),
        last_transition_time=at(since),
        last_heartbeat_time=at(since),
        generation=1,
    )
    return {AVAILABLE: condition}


def listed(event: TargetTainted | None) -> list[tuple[str, str, float]]:
    """The taints as (key, effect, when it was added)."""
    assert event is not None
    return [(t.key, t.effect, (t.time_added - T0).total_seconds()) for t in event.taints]


BUILT_IN = {"True": [], "False": [UNAVAILABLE_KEY], "Unknown": [UNREACHABLE_KEY], None: [UNREACHABLE_KEY]}


@pytest.mark.parametrize("status", [*BUILT_IN])
def test_a_cluster_that_is_declared_has_the_taint_of_its_status_at_once(status: str | None) -> None:
    event = next_taints(None, cluster(), is_(status), at(3))
    expected = [(key, "NoSelect", 3) for key in BUILT_IN[status]]
    assert listed(event) == expected, "a set is written even if it is empty: none would mean that nothing is known"
    assert [want.key for want in desired_taints(cluster(), is_(status))] == BUILT_IN[status]
    assert event is not None
    word = "was never reported" if status is None else f"is {status}"
    assert [t.reason for t in event.taints] == [f"condition {AVAILABLE} {word}" for _ in expected]
    assert next_taints(event, cluster(), is_(status), at(4)) is None


@table("before", [*BUILT_IN])
@table("after", ["True", "False", "Unknown"])
def test_one_takes_the_other_s_place_in_one_update(before: str | None, after: str) -> None:
    first = next_taints(None, cluster(wish(1, "mine")), is_(before), at(1))
    second = next_taints(first, cluster(wish(1, "mine")), is_(after), at(2))
    if BUILT_IN[before] == BUILT_IN[after]:
        assert second is None, "it is there since the first of them"
    else:
        assert listed(second) == [("mine", "NoSelect", 0), *((key, "NoSelect", 2) for key in BUILT_IN[after])]


@pytest.mark.parametrize("before", ["True", "False", "Unknown"])
def test_what_was_lost_of_a_condition_changes_nothing(before: str) -> None:
    first = next_taints(None, cluster(wish(1, "mine")), is_(before), at(1))
    assert next_taints(first, cluster(wish(1, "mine")), {}, at(2)) is None


def test_a_cluster_made_again_is_unreachable_until_it_is_reported_itself() -> None:
    first = next_taints(None, cluster(wish(1, "mine")), is_("True"), at(1))
    second = next_taints(first, cluster(uid="u2"), is_("True"), at(2))
    assert listed(second) == [(UNREACHABLE_KEY, "NoSelect", 2)]
    third = next_taints(second, cluster(uid="u2"), is_("True", uid="u2"), at(3))
    assert listed(third) == []


@pytest.mark.parametrize("status", ["Unknown", None])
def test_a_person_cannot_take_a_built_in_taint_away(status: str | None) -> None:
    first = next_taints(None, cluster(), is_(status), at(1))
    second = next_taints(first, cluster(wish(1, UNREACHABLE_KEY, present=False)), is_(status), at(2))
    assert listed(second) == listed(first)
    assert second is not None
    assert second.wishes_applied == 1
    asked = next_taints(second, cluster(wish(2, UNREACHABLE_KEY)), is_(status), at(3))
    assert listed(asked) == listed(first)
    assert listed(next_taints(asked, cluster(wish(2, UNREACHABLE_KEY)), is_("True"), at(4))) == [], "nor keep it there"


@table("key", [UNAVAILABLE_KEY, UNREACHABLE_KEY])
@table("status", [*BUILT_IN])
def test_a_person_cannot_add_a_built_in_taint(status: str | None, key: str) -> None:
    asked = [wish(1, key), wish(2, key, "PreferNoSelect"), wish(3, "mine")]
    event = next_taints(next_taints(None, cluster(), is_(status), at(1)), cluster(*asked), is_(status), at(2))
    assert listed(event) == [
        *((built_in, "NoSelect", 1) for built_in in BUILT_IN[status]),
        (key, "PreferNoSelect", 0),
        ("mine", "NoSelect", 0),
    ]


def test_a_value_of_its_own_makes_it_a_persons_taint_until_the_value_goes() -> None:
    def value(event: TargetTainted | None) -> list[tuple[str, str]]:
        assert event is not None
        return [(taint.value, "+".join(taint.origins)) for taint in event.taints]

    mine = TaintWish(key=UNREACHABLE_KEY, effect="NoSelect", value="x", present=True, generation=1, time=at(0))
    first = next_taints(None, cluster(mine), is_("Unknown"), at(1))
    assert value(first) == [("x", "condition+explicit")]
    second = next_taints(first, cluster(mine), is_("True"), at(2))
    assert value(second) == [("x", "explicit")]
    assert value(next_taints(second, cluster(wish(2, UNREACHABLE_KEY)), is_("True"), at(3))) == []
    assert value(next_taints(first, cluster(wish(2, UNREACHABLE_KEY)), is_("Unknown"), at(3))) == [("", "condition")]


def test_each_effect_that_a_person_may_wish() -> None:
    wishes = [wish(n, "gpu", effect, time=n) for n, effect in enumerate(("NoSelect", "PreferNoSelect"), start=1)]
    wishes.append(wish(3, "gpu", "NoSelectIfNew", time=3))
    event = next_taints(None, cluster(*wishes), is_("True"), at(9))
    assert listed(event) == [("gpu", "NoSelect", 1), ("gpu", "PreferNoSelect", 2), ("gpu", "NoSelectIfNew", 3)]
    fewer = cluster(wish(4, "gpu", "PreferNoSelect", present=False))
    assert listed(next_taints(event, fewer, is_("True"), at(10))) == [
        ("gpu", "NoSelect", 1),
        ("gpu", "NoSelectIfNew", 3),
    ]


def test_a_condition_may_have_to_hold_first_but_a_declaration_need_not() -> None:
    rules = TaintRules(holds=Holds(timedelta(seconds=10), timedelta(seconds=20)))
    declared = reconcile_taints(None, cluster(), {}, at(0), rules=rules)
    assert listed(declared.event) == [(UNREACHABLE_KEY, "NoSelect", 0)]
    up = reconcile_taints(declared.event, cluster(), is_("True", since=5), at(5), rules=rules)
    assert listed(up.event) == listed(declared.event), "it stays a while"
    assert up.event is not None
    assert up.event.settles_at == up.due == at(25)
    well = reconcile_taints(up.event, cluster(), is_("True", since=5), at(25), rules=rules)
    assert listed(well.event) == []
    down = reconcile_taints(well.event, cluster(), is_("False", since=30), at(30), rules=rules)
    assert listed(down.event) == []
    assert down.event is not None
    assert [(held.key, held.since) for held in down.event.held] == [(UNAVAILABLE_KEY, at(30))]
    assert down.due == at(40)
    gone = reconcile_taints(down.event, cluster(), is_("False", since=30), at(40), rules=rules)
    assert listed(gone.event) == [(UNAVAILABLE_KEY, "NoSelect", 40)]
    other = reconcile_taints(gone.event, cluster(), is_("Unknown", since=50), at(50), rules=rules)
    assert listed(other.event) == [(UNREACHABLE_KEY, "NoSelect", 50)], "and one takes the other's place at once"


TAINTS = st.lists(
    st.builds(
        Taint,
        key=st.sampled_from((UNAVAILABLE_KEY, UNREACHABLE_KEY, "mine")),
        value=st.sampled_from(("", "", "v")),
        effect=st.sampled_from(("NoSelect", "PreferNoSelect")),
    ),
    unique_by=lambda taint: taint.identity,
    max_size=5,
)


@given(taints=TAINTS, steps=st.lists(st.sampled_from((None, "True", "False", "Unknown")), min_size=1, max_size=4))
def test_what_eval_says_of_a_cluster_is_what_becomes_of_one(taints: list[Taint], steps: list[str | None]) -> None:
    """The result does not depend on how a cluster got its status and its person's taints."""
    wishes = [
        TaintWish(key=t.key, value=t.value, effect=t.effect, present=True, generation=number, time=at(0))
        for number, t in enumerate(taints, start=1)
    ]
    status = next((step for step in reversed(steps) if step is not None), None)
    current = None
    for second, step in enumerate(steps, start=1):
        known = is_(step) if step is not None else is_(next((s for s in reversed(steps[:second]) if s), None))
        asked = wishes if second == len(steps) else []
        current = next_taints(current, cluster(*asked), known, at(second)) or current
    assert current is not None
    conditions = [] if status is None else [{"type": AVAILABLE, "status": status}]
    spec = {"taints": [taint.model_dump(mode="json", by_alias=True, exclude_none=True) for taint in taints]}
    document = {"metadata": {"name": "c1"}, "spec": spec, "status": {"conditions": conditions}}
    answer = evaluate({"op": "ocm_taint_controller", "cluster": document}, as_upstream=False)
    assert {(t.key, t.effect, t.value) for t in current.taints} == {
        (t["key"], t["effect"], t.get("value", "")) for t in answer["taints"]
    }
