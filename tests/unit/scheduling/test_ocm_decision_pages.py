from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.tables import table

from moorage.decide.scheduling.ocm.columns.cluster_facts import ManagedClusterFacts
from moorage.decide.scheduling.ocm.decisions.groups import GroupTerms, SelectedGroup
from moorage.decide.scheduling.ocm.decisions.pages import (
    GROUP_INDEX_LABEL,
    GROUP_NAME_LABEL,
    MOST_CLUSTERS,
    DecisionPart,
    DecisionRecord,
    layout_of,
    records_between,
)
from moorage_schemas.placement import DecisionGroupStatus
from moorage_schemas.resources.managed import DecisionStrategy
from moorage_schemas.resources.names import PLACEMENT_LABEL


def strategy(length: int | str | None = None, *groups: dict[str, Any]) -> DecisionStrategy:
    return DecisionStrategy.model_validate(
        {"groupStrategy": {"clustersPerDecisionGroup": length, "decisionGroups": list(groups)}}
    )


def named(name: str, **selector: Any) -> dict[str, Any]:
    return {"groupName": name, "groupClusterSelector": selector}


EU = {"matchLabels": {"region": "eu"}}
WRONG = {"matchExpressions": [{"key": "a", "operator": "Bogus"}]}
FACTS = {
    "a": ManagedClusterFacts("a", labels={"region": "eu"}, claims={"platform": "AWS"}),
    "b": ManagedClusterFacts("b", labels={"region": "us"}),
    "c10": ManagedClusterFacts("c10", labels={"region": "eu"}),
    "c2": ManagedClusterFacts("c2", labels={"region": "us"}, claims={"platform": "AWS"}),
    "d": ManagedClusterFacts("d", document={"metadata": {"name": "d"}}),
}


def cut(terms: GroupTerms, *names: str) -> list[tuple[str, tuple[str, ...]]]:
    return [(group.name, group.clusters) for group in terms.cut(names or tuple(FACTS), FACTS.__getitem__)]


@table(
    ("length", "selected", "expected"),
    [
        (None, 7, 7),
        (3, 7, 3),
        (7, 7, 7),
        (8, 7, 7),
        ("3", 7, 3),
        (0, 7, 7),  # the zero of Go's clients
        (-1, 7, 7),
        ("100%", 7, 7),
        ("50%", 7, 4),
        ("34%", 3, 2),
        ("1%", 7, 1),
        ("1%", 250, 3),
    ],
)
def test_the_length_of_a_group(length: int | str | None, selected: int, expected: int) -> None:
    terms = GroupTerms.of(strategy(length))
    assert terms.problem == ""
    assert terms.length(selected) == expected
    if length != "3":
        assert GroupTerms.of(strategy(length), as_upstream=True).length(selected) == expected


@table("length", ["0", "0%", "abc", "", "150%", "12.5%", "%", "-1"])
def test_a_wrong_length_is_said_and_counts_as_none(length: int | str) -> None:
    terms = GroupTerms.of(strategy(length, named("eu", labelSelector=EU)))
    assert terms.problem == (
        f"decisionStrategy.groupStrategy.clustersPerDecisionGroup: Invalid value: {length!r}: "
        "must be a number of at least 1, or a percentage from 1% to 100%"
    )
    assert cut(terms) == [("eu", ("a", "c10")), ("", ("b", "c2", "d"))]


def test_as_upstream_a_wrong_length_leaves_nothing() -> None:
    terms = GroupTerms.of(strategy("abc"), as_upstream=True)
    assert terms.problem == "abc invalid type: string is not a percentage"
    assert terms.cut(tuple(FACTS), FACTS.__getitem__) == []
    assert cut(GroupTerms.of(strategy("12.5%"), as_upstream=True), "a", "b") == [("", ("a",)), ("", ("b",))]
    assert cut(GroupTerms.of(strategy(-1), as_upstream=True), "a", "b") == [("", ("a", "b"))]


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (strategy(), [("", ("a", "b", "c10", "c2", "d"))]),
        (strategy(2), [("", ("a", "b")), ("", ("c10", "c2")), ("", ("d",))]),
        (
            strategy(1, named("eu", labelSelector=EU)),
            [("eu", ("a",)), ("eu", ("c10",)), ("", ("b",)), ("", ("c2",)), ("", ("d",))],
        ),
        (
            strategy(None, named("eu", labelSelector=EU), named("every")),
            [("eu", ("a", "c10")), ("every", ("b", "c2", "d"))],
        ),
        (
            strategy(
                None,
                named(
                    "aws",
                    labelSelector=EU,
                    claimSelector={"matchExpressions": [{"key": "platform", "operator": "In", "values": ["AWS"]}]},
                ),
                named("none", labelSelector={"matchLabels": {"region": "mars"}}),
            ),
            [("aws", ("a",)), ("", ("b", "c10", "c2", "d"))],
        ),
        (
            strategy(None, named("d", celSelector={"celExpressions": ["managedCluster.metadata.name == 'd'"]})),
            [("d", ("d",)), ("", ("a", "b", "c10", "c2"))],
        ),
    ],
)
def test_groups(made: DecisionStrategy, expected: list[tuple[str, tuple[str, ...]]]) -> None:
    terms = GroupTerms.of(made)
    assert terms.problem == ""
    assert cut(terms) == expected
    assert bool(terms.aspects) == bool(made.group_strategy.decision_groups)


def test_a_wrong_group_is_said_and_the_others_count() -> None:
    made = strategy(None, named("eu", labelSelector=EU), named("bad", labelSelector=WRONG), named("rest"))
    terms = GroupTerms.of(made)
    assert terms.problem == (
        "decisionStrategy.groupStrategy.decisionGroups[1].groupClusterSelector: "
        '"Bogus" is not a valid label selector operator'
    )
    assert cut(terms) == [("eu", ("a", "c10")), ("rest", ("b", "c2", "d"))]
    upstream = GroupTerms.of(made, as_upstream=True)
    assert upstream.problem == '"Bogus" is not a valid label selector operator'
    assert cut(upstream) == [("eu", ("a", "c10"))]


def test_nothing_selected_is_one_group() -> None:
    assert GroupTerms.of(strategy(2, named("eu", labelSelector=EU))).cut((), FACTS.__getitem__) == [
        SelectedGroup("", ())
    ]


def labels(name: str, index: int) -> dict[str, str]:
    return {PLACEMENT_LABEL: "web", GROUP_NAME_LABEL: name, GROUP_INDEX_LABEL: str(index)}


def test_a_layout() -> None:
    many = tuple(f"c{i:03}" for i in range(250))
    made = layout_of("web", [SelectedGroup("canary", ("x",)), SelectedGroup("", many)])
    assert made.parts == {
        "web-decision-1": DecisionPart(("x",), labels("canary", 0)),
        "web-decision-2": DecisionPart(many[:100], labels("", 1)),
        "web-decision-3": DecisionPart(many[100:200], labels("", 1)),
        "web-decision-4": DecisionPart(many[200:], labels("", 1)),
    }
    assert made.groups == (
        DecisionGroupStatus(index=0, name="canary", decisions=("web-decision-1",), clusters=1),
        DecisionGroupStatus(
            index=1, name="", decisions=("web-decision-2", "web-decision-3", "web-decision-4"), clusters=250
        ),
    )


def test_an_empty_layout_has_one_part() -> None:
    made = layout_of("web", [SelectedGroup("", ())])
    assert made.parts == {"web-decision-1": DecisionPart((), labels("", 0))}
    assert made.groups == (DecisionGroupStatus(index=0, decisions=("web-decision-1",)),)


def test_what_a_change_tells() -> None:
    before = layout_of("web", [SelectedGroup("one", ("a", "b")), SelectedGroup("", ("c", "d"))]).parts
    after = layout_of("web", [SelectedGroup("", ("b", "d", "e"))]).parts
    assert records_between(before, after) == [
        DecisionRecord("web-decision-1", DecisionPart(("b", "d", "e"), labels("", 0)), added=("e",), removed=("a",)),
        DecisionRecord("web-decision-2", DecisionPart((), labels("", 1)), removed=("c",)),
        DecisionRecord("web-decision-2", None),
    ]
    assert records_between(after, after) == []
    assert records_between(after, {}) == [
        DecisionRecord("web-decision-1", DecisionPart((), labels("", 0)), removed=("b", "d", "e")),
        DecisionRecord("web-decision-1", None),
    ]
    moved = layout_of("web", [SelectedGroup("", ("b",)), SelectedGroup("", ("d", "e"))]).parts
    assert [(one.added, one.removed) for one in records_between(after, moved)] == [((), ()), ((), ())]
    assert records_between(moved, after)[-1] == DecisionRecord("web-decision-2", None)
    relabelled = layout_of("web", [SelectedGroup("late", ("b", "d", "e"))]).parts
    assert records_between(after, relabelled) == [
        DecisionRecord("web-decision-1", DecisionPart(("b", "d", "e"), labels("late", 0)))
    ]


NAMES = st.lists(st.integers(0, 349).map(lambda number: f"c{number}"), unique=True, max_size=40)
MANY = st.integers(0, 350).map(lambda count: [f"c{number}" for number in range(count)])
CUTS = st.tuples(st.one_of(NAMES, MANY), st.integers(1, 120), st.sampled_from([(), ("c1", "c2", "c3")]))


def drawn_layout(drawn: tuple[Sequence[str], int, Sequence[str]]) -> Mapping[str, DecisionPart]:
    selected, length, first = drawn
    facts = {name: ManagedClusterFacts(name, labels={"first": "yes"} if name in first else {}) for name in selected}
    terms = GroupTerms.of(strategy(length, named("first", labelSelector={"matchLabels": {"first": "yes"}})))
    return layout_of("web", terms.cut(selected, facts.__getitem__)).parts


@given(st.lists(st.one_of(CUTS, st.none()), max_size=6))
def test_folding_the_records_gives_the_selection_and_tells_each_change_once(
    steps: list[tuple[Sequence[str], int, Sequence[str]] | None],
) -> None:
    written: Mapping[str, DecisionPart] = {}
    stored: dict[str, DecisionPart] = {}
    told: set[str] = set()
    for step in steps:
        wanted = {} if step is None else drawn_layout(step)
        selected = set() if step is None else set(step[0])
        records = records_between(written, wanted)
        if wanted == written:
            assert records == []
        counts: Counter[str] = Counter()
        for record in records:
            # A consumer that follows `added` and `removed`.
            assert told.isdisjoint(record.added)
            told.update(record.added)
            assert told.issuperset(record.removed)
            told.difference_update(record.removed)
            counts.update((*record.added, *record.removed))
            assert set(record.removed) <= set(stored[record.name].clusters if record.name in stored else ())
            # A consumer that keeps the last record of each key.
            if record.part is None:
                del stored[record.name]
            else:
                assert set(record.added) <= set(record.part.clusters)
                assert list(record.part.clusters) == sorted(record.part.clusters)
                assert len(record.part.clusters) <= MOST_CLUSTERS
                stored[record.name] = record.part
        assert told == selected
        assert all(count == 1 for count in counts.values())
        assert stored == wanted
        assert sorted(name for part in stored.values() for name in part.clusters) == sorted(selected)
        written = wanted
