"""The fleet: rows, order, columns, and the effect of a change."""

from __future__ import annotations

from datetime import UTC, datetime

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage.decide.scheduling.ocm.cluster_sets import ManagedSet
from moorage.decide.scheduling.ocm.columns.cluster_facts import ManagedClusterFacts, ScoreFacts
from moorage.decide.scheduling.ocm.columns.column import Aspect, ScoreColumn
from moorage.decide.scheduling.ocm.columns.labels import ClaimColumn, LabelColumn
from moorage.decide.scheduling.ocm.columns.managed_fleet import ManagedFleet
from moorage.decide.scheduling.ocm.scheduler import SetColumn, members
from moorage.decide.scheduling.ocm.selector import LabelTerms
from moorage_schemas.taint import Taint

NOW = datetime(2026, 1, 1, tzinfo=UTC)
EU = LabelTerms((("r", "In", frozenset({"eu"})),))


def test_a_change_tells_what_it_touches() -> None:
    fleet = ManagedFleet()
    labels, score = LabelColumn(EU), ScoreColumn("demo", "g")
    fleet.hold([labels, score])
    new = fleet.put(ManagedClusterFacts("a", {"r": "eu"}))
    assert (new.columns, new.before, new.after) == (frozenset({labels}), False, True)
    assert not fleet.put(ManagedClusterFacts("a", {"r": "eu"}))
    other = fleet.put(ManagedClusterFacts("a", {"r": "eu", "x": "1"}))
    assert (other.aspects, other.columns) == (Aspect.LABELS, frozenset())
    assert fleet.put(ManagedClusterFacts("a", {"r": "us"})).columns == {labels}
    assert fleet.put_score(ScoreFacts("a", "demo", {"g": 1})).columns == {score}
    assert fleet.put_score(ScoreFacts("a", "demo", {"g": 1, "h": 2})).columns == frozenset()
    assert fleet.remove_score("a", "demo").columns == {score}
    going = fleet.put(ManagedClusterFacts("a", {"r": "us"}, deleting=True))
    assert (going.before, going.after) == (True, False)
    assert "a" in fleet
    assert fleet.remove("a")
    assert not fleet.remove("a")
    assert "a" not in fleet
    assert len(fleet) == 0


def test_columns_that_are_not_held_go_when_there_are_many() -> None:
    fleet = ManagedFleet()
    fleet.put(ManagedClusterFacts("a", {"r": "eu"}))
    held = LabelColumn(EU)
    fleet.hold([held])
    for i in range(2000):
        fleet.column(LabelColumn(LabelTerms((("r", "In", frozenset({str(i)})),))))
    assert fleet.put(ManagedClusterFacts("a", {"r": "us"})).columns == {held}
    fleet.release([held])


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 60)), max_size=120), st.integers(1, 40))
def test_names_are_ranked_in_their_order_after_any_changes(changes: list[tuple[bool, int]], every: int) -> None:
    fleet = ManagedFleet()
    there: set[str] = set()
    for i, (adds, number) in enumerate(changes):
        name = f"c{number}"
        if adds:
            fleet.put(ManagedClusterFacts(name))
            there.add(name)
        else:
            fleet.remove(name)
            there.discard(name)
        if i % every == 0:
            assert fleet.names == sorted(there)
            rows = fleet.rows_of(sorted(there))
            assert fleet.ranks(rows).tolist() == list(range(len(there)))


operators = st.sampled_from(["In", "NotIn", "Exists", "DoesNotExist"])
requirements = st.tuples(
    st.sampled_from(["r", "s"]), operators, st.frozensets(st.sampled_from(["1", "2", "3"]), min_size=1)
)
labels = st.dictionaries(st.sampled_from(["r", "s"]), st.sampled_from(["1", "2", ""]))


@given(st.lists(requirements, max_size=3), st.lists(labels, min_size=17, max_size=30))
def test_selectors_hold_of_many_clusters_as_of_one(
    parts: list[tuple[str, str, frozenset[str]]], every: list[dict[str, str]]
) -> None:
    terms = LabelTerms(tuple(parts))
    fleet = ManagedFleet()
    for i, one in enumerate(every):
        fleet.put(ManagedClusterFacts(f"c{i}", labels=one, claims=one))
    expected = [terms.hold(one) for one in every]
    for column in (LabelColumn(terms), ClaimColumn(terms)):
        assert fleet.column(column)[: len(every)].tolist() == expected


def test_sets_have_their_members_but_those_that_go() -> None:
    fleet = ManagedFleet()
    named = "cluster.open-cluster-management.io/clusterset"
    fleet.put(ManagedClusterFacts("a", {named: "x"}))
    fleet.put(ManagedClusterFacts("b", {named: "y"}))
    fleet.put(ManagedClusterFacts("c", {named: "x"}, deleting=True))
    fleet.put(ManagedClusterFacts("d", {"r": "eu"}))
    x, eu = ManagedSet("x", exclusive=True), ManagedSet("eu", exclusive=False, terms=EU)
    assert fleet.names_of(members(fleet, frozenset({x}))) == ["a"]
    assert fleet.names_of(members(fleet, frozenset({x, eu}))) == ["a", "d"]
    assert fleet.names_of(members(fleet, frozenset())) == []
    assert fleet.put(ManagedClusterFacts("a")).columns == {SetColumn(x)}


def test_many_clusters_and_a_row_without_one() -> None:
    fleet = ManagedFleet()
    fleet.put_score(ScoreFacts("later", "demo", {"g": 7}))
    for i in range(300):
        fleet.put(ManagedClusterFacts(f"c{i}"))
    with pytest.raises(LookupError, match="later is not a cluster"):
        fleet.at(fleet.row("later"))
    fleet.put(ManagedClusterFacts("later"))
    assert fleet.column(ScoreColumn("demo", "g"))[0, fleet.row("later")] == 7
    assert int(np.count_nonzero(fleet.available)) == 301


def test_an_object_is_read_with_the_taints_and_labels_that_it_has_by_now() -> None:
    document = {
        "metadata": {"name": "a", "labels": {"r": "eu", "s": "1"}, "deletionTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {"taints": [{"key": "own", "effect": "NoSelect"}]},
        "status": {
            "clusterClaims": [{"name": "p", "value": "1"}, {"name": "p", "value": "2"}],
            "allocatable": {"cpu": "4"},
        },
    }
    plain = ManagedClusterFacts.of(document)
    assert (plain.name, plain.deleting, plain.claims) == ("a", True, {"p": "2"})
    assert plain.taints == (Taint(key="own", effect="NoSelect"),)
    merged = ManagedClusterFacts.of(
        document, taints=[Taint(key="k", effect="NoSelect", time_added=NOW)], labels={"s": "2"}
    )
    assert merged.labels == {"r": "eu", "s": "2"}
    assert merged.document["metadata"]["labels"] == {"r": "eu", "s": "2"}
    assert merged.document["spec"]["taints"][0]["key"] == "k"
    assert merged.document["spec"]["hubAcceptsClient"] is False
