from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st
from tests.support.tables import table

from moorage.decide.scheduling.ocm.cluster_sets import UsableSets
from moorage.decide.scheduling.ocm.decisions.conditions import (
    MISCONFIGURED,
    SATISFIED,
    conditions_of,
    leading_condition,
)
from moorage.decide.scheduling.ocm.plugin import Code, Status
from moorage_schemas.placement import PlacementCondition

NOW = datetime(2026, 1, 1, tzinfo=UTC)
BOUND = UsableSets(("a", "b"), ("a", "b"))
NOT_MISCONFIGURED = ("False", "Succeedconfigured", "Placement configurations check pass")


@table(
    ("status", "sets", "counts", "value", "reason", "message"),
    [
        (
            Status(),
            UsableSets((), (), ("a",)),
            (0, 0, 0),
            "False",
            "NoManagedClusterSetBindings",
            "No valid ManagedClusterSetBindings found in placement namespace",
        ),
        (
            Status(),
            UsableSets(("b",), (), ("z", "a")),
            (0, 0, 0),
            "False",
            "NoIntersection",
            "None of ManagedClusterSets [z,a] is bound to placement namespace",
        ),
        (
            Status(),
            BOUND,
            (0, 0, 3),
            "False",
            "AllManagedClusterSetsEmpty",
            "All ManagedClusterSets [a,b] have no member ManagedCluster",
        ),
        (Status(Code.ERROR, "AddOn/x/y", "no"), BOUND, (4, 2, 0), "False", "NotAllDecisionsScheduled", "no"),
        (
            Status(),
            BOUND,
            (4, 0, 0),
            "False",
            "NoManagedClusterMatched",
            "No ManagedCluster matches any of the cluster predicate",
        ),
        (Status(), BOUND, (4, 2, 0), "True", "AllDecisionsScheduled", "All cluster decisions scheduled"),
        (Status(), BOUND, (4, 2, 3), "False", "NotAllDecisionsScheduled", "3 cluster decisions unscheduled"),
        (
            Status(Code.WARNING, "AddOn/x/y", "w"),
            BOUND,
            (4, 2, 0),
            "True",
            "AllDecisionsScheduled",
            "All cluster decisions scheduled",
        ),
    ],
)
def test_satisfied(
    *, status: Status, sets: UsableSets, counts: tuple[int, int, int], value: str, reason: str, message: str
) -> None:
    available, decisions, unscheduled = counts
    made = conditions_of(status, sets, available=available, decisions=decisions, unscheduled=unscheduled, now=NOW)
    assert [one.type for one in made] == [MISCONFIGURED, SATISFIED]
    assert (made[0].status, made[0].reason, made[0].message) == NOT_MISCONFIGURED
    assert (made[1].status, made[1].reason, made[1].message) == (value, reason, message)
    assert leading_condition(made) is made[1]


def test_misconfigured_decides() -> None:
    status = Status(Code.MISCONFIGURED, "TaintToleration", "wrong")
    made = conditions_of(status, BOUND, available=2, decisions=0, unscheduled=0, now=NOW)
    assert (made[0].status, made[0].reason, made[0].message) == ("True", "Misconfigured", "TaintToleration:wrong")
    assert (made[1].status, made[1].reason) == ("False", "NoManagedClusterMatched")
    assert leading_condition(made) is made[0]
    assert leading_condition(()) is None


STEPS = st.lists(
    st.tuples(
        st.sampled_from([Status(), Status(Code.MISCONFIGURED, "", "x"), Status(Code.MISCONFIGURED, "", "y")]),
        st.integers(0, 2),
        st.integers(0, 2),
    ),
    min_size=1,
)


@given(STEPS)
def test_the_transition_time_changes_with_the_status_and_only_with_it(steps: list[tuple[Status, int, int]]) -> None:
    before: tuple[PlacementCondition, ...] = ()
    for number, (status, decisions, unscheduled) in enumerate(steps):
        now = NOW + timedelta(seconds=number)
        made = conditions_of(
            status, BOUND, available=2, decisions=decisions, unscheduled=unscheduled, before=before, now=now
        )
        for condition in made:
            old = next((one for one in before if one.type == condition.type), None)
            stayed = old is not None and old.status == condition.status
            assert condition.last_transition_time == (old.last_transition_time if stayed and old is not None else now)
        before = made
