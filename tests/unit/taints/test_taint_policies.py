"""When policies match, in which order they act, and how they are parsed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.tables import table

from moorage.decide.taints.desired.cluster_affinity import ClusterFacts
from moorage.decide.taints.desired.from_conditions import hold_end, parse_hold
from moorage.decide.taints.desired.taint_policies import TaintingPolicy, TargetFacts, acts, in_order, matches
from moorage_schemas.resources.policies import MatchCondition
from moorage_schemas.taint import Taint

T0 = datetime(2026, 1, 1, tzinfo=UTC)
C1 = TargetFacts("Cluster", ClusterFacts("c1", {}))


def when(condition: str, operator: str, *values: str) -> MatchCondition:
    return MatchCondition(condition_type=condition, operator=operator, status_values=list(values))


@table(
    ("requirements", "expected"),
    [
        ([], False),
        ([when("A", "In", "True")], True),
        ([when("A", "In", "False", "Unknown")], False),
        ([when("A", "In")], False),
        ([when("A", "NotIn", "False")], True),
        ([when("A", "NotIn")], True),
        ([when("A", "NotIn", "True")], False),
        ([when("A", "Exists")], False),
        ([when("Absent", "In", "True")], False),
        ([when("Absent", "NotIn", "True")], False),
        ([when("A", "In", "True"), when("B", "In", "Unknown")], True),
        ([when("A", "In", "True"), when("B", "In", "True")], False),
    ],
)
def test_requirements_are_anded(requirements: list[MatchCondition], expected: bool) -> None:  # noqa: FBT001 - a column
    assert matches(requirements, {"A": ("True",), "B": ("Unknown",)}) is expected


def test_an_absent_condition_matches_neither_operator_and_no_condition_at_all_neither() -> None:
    assert not matches([when("A", "NotIn")], {"A": ()})
    assert not matches([when("A", "NotIn")], {})


def document(name: str = "p", *, annotations: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "policy.karmada.io/v1alpha1",
        "kind": "ClusterTaintPolicy",
        "metadata": {"name": name, "creationTimestamp": "2026-01-01T00:00:00Z", "annotations": annotations},
        "spec": {"taints": [{"key": "k", "value": "v", "effect": "NoSchedule"}], **spec},
    }


def test_a_policy_is_read_from_its_object() -> None:
    match = {"conditionType": "Ready", "operator": "In", "statusValues": ["False"]}
    holds = {"moorage.io/taint-add-hold": "1m30s", "moorage.io/taint-remove-hold": "soon"}
    policy = TaintingPolicy.of(document(addOnConditions=[match], annotations=holds))
    assert policy == TaintingPolicy(
        name="p",
        created=T0,
        add=(when("Ready", "In", "False"),),
        taints=(Taint(key="k", value="v", effect="NoSchedule"),),
        add_hold=timedelta(seconds=90),
    )


def test_what_is_no_policy_is_refused_by_field() -> None:
    with pytest.raises(ValueError, match="conditionType"):
        TaintingPolicy.of(document(addOnConditions=[{"operator": "In"}]))


def test_policies_without_a_creation_come_first_and_names_break_ties() -> None:
    made = [
        TaintingPolicy("b", T0),
        TaintingPolicy("a", T0),
        TaintingPolicy("z"),
        TaintingPolicy("c", T0 - timedelta(days=1)),
    ]
    assert [policy.name for policy in in_order(made)] == ["z", "c", "a", "b"]


def test_each_policy_adds_before_it_removes() -> None:
    yes, no = (when("A", "In", "True"),), (when("A", "In", "False"),)
    policies = (
        TaintingPolicy("a", add=yes, remove=yes),
        TaintingPolicy("b", add=no, remove=yes),
        TaintingPolicy("c", add=yes),
    )
    found = [(act.policy.name, act.adds, act.conditions) for act in acts(policies, C1, {"A": ("True",)})]
    assert found == [("a", True, yes), ("a", False, yes), ("b", False, yes), ("c", True, yes)]


@table(
    ("text", "seconds"),
    [
        ("30s", 30),
        ("1m30s", 90),
        ("500ms", 0.5),
        ("1.5h", 5400),
        (" 0 ", 0),
        ("0s", 0),
        ("", None),
        ("30", None),
        ("-5s", None),
        ("s", None),
        ("5s later", None),
        ("9" * 30 + "d", None),
    ],
)
def test_durations(text: str, seconds: float | None) -> None:
    assert parse_hold(text) == (None if seconds is None else timedelta(seconds=seconds))


@given(st.text(max_size=12))
def test_any_text_is_a_duration_or_none(text: str) -> None:
    hold = parse_hold(text)
    assert hold is None or hold >= timedelta()


def test_no_hold_looks_at_no_clock_and_a_long_one_never_ends() -> None:
    assert hold_end(T0, timedelta()) is None
    assert hold_end(T0, timedelta(seconds=1)) == T0 + timedelta(seconds=1)
    assert hold_end(T0, timedelta.max) == datetime.max.replace(tzinfo=UTC)
