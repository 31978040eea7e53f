"""Placements of a real hub on which somebody else has decided before."""

from __future__ import annotations

import pytest
from tests.support.worlds.ocm import OcmWorld, weights

from moorage_schemas.resources.names import PLACEMENT_LABEL


def found(world: OcmWorld, placement: str, *clusters: str, page: int = 1) -> str:
    """A page of the decisions that are on the hub. Returns its name."""
    name = f"{placement}-decision-{page}"
    decisions = [{"clusterName": one, "reason": ""} for one in clusters]
    world.declare("PlacementDecision", name, labels={PLACEMENT_LABEL: placement}, status={"decisions": decisions})
    return name


def test_what_is_selected_on_the_hub_stays() -> None:
    world = OcmWorld("c1", "c2", "c3", "c4", "c5")
    found(world, "p", "c3", "c5")
    world.placement(numberOfClusters=2)
    assert world.run().selected() == ["c3", "c5"]
    assert world.placed().selected == 2


def test_only_what_must_moves() -> None:
    world = OcmWorld("c1", "c2", "c3", "c4", "c5")
    world.taint("c3")
    found(world, "p", "c3", "c5")
    world.placement(numberOfClusters=2)
    assert world.run().selected() == ["c1", "c5"]


def test_a_selection_that_is_too_small_or_too_large_keeps_what_it_can() -> None:
    world = OcmWorld("c1", "c2", "c3", "c4", "c5")
    found(world, "few", "c4")
    found(world, "many", "c3", "c4", "c5")
    world.placement("few", numberOfClusters=2, prioritizerPolicy=weights(Steady=1))
    world.placement("many", numberOfClusters=2, prioritizerPolicy=weights(Steady=1))
    world.run()
    assert world.selected("few") == ["c1", "c4"]
    assert world.selected("many") == ["c3", "c4"]


def test_all_pages_count_in_the_order_of_their_numbers() -> None:
    names = [f"c{number:03}" for number in range(130)]
    world = OcmWorld(*names)
    found(world, "p", *names[120:], page=10)
    found(world, "p", *names[100:120], page=9)
    world.placement(numberOfClusters=30)
    assert world.run().selected() == names[100:]


@pytest.mark.parametrize("owner", ["other", "is-not-there"])
def test_decisions_of_other_placements_count_for_balance(owner: str) -> None:
    """Also those of one that is not there, as with OCM."""
    world = OcmWorld("c1", "c2", "c3")
    found(world, owner, "c1")
    world.placement("p", numberOfClusters=2, prioritizerPolicy=weights(Balance=1))
    assert world.run().selected("p") == ["c2", "c3"]


def test_they_count_no_more_when_they_are_gone() -> None:
    world = OcmWorld("c1", "c2", "c3")
    page = found(world, "other", "c1")
    world.run()
    world.delete("PlacementDecision", page)
    world.placement(numberOfClusters=2, prioritizerPolicy=weights(Balance=1))
    assert world.run().selected() == ["c1", "c2"]


def test_a_decision_that_was_taken_here_counts_once_and_alone() -> None:
    world = OcmWorld("c1", "c2", "c3")
    page = found(world, "p", "c2")
    world.placement("p", numberOfClusters=1, prioritizerPolicy=weights(Balance=1, Steady=1))
    assert world.run().selected("p") == ["c2"]
    found(world, "p", "c3")  # what somebody writes on the hub afterwards
    world.placement("q", numberOfClusters=2, prioritizerPolicy=weights(Balance=1))
    assert world.run().selected("q") == ["c1", "c3"]
    world.delete("PlacementDecision", page)
    world.run()
    world.restart()
    world.placement("r", numberOfClusters=1, prioritizerPolicy=weights(Balance=1))
    world.run()
    assert (world.selected("p"), world.selected("q"), world.selected("r")) == (["c2"], ["c1", "c3"], ["c1"])


def test_a_restart_in_between_changes_nothing() -> None:
    world = OcmWorld("c1", "c2", "c3", "c4")
    found(world, "p", "c3", "c4")
    world.run()
    world.restart()
    world.placement(numberOfClusters=2)
    assert world.run().selected() == ["c3", "c4"]
    world.restart()
    assert world.run().selected() == ["c3", "c4"]
    world.check()


def test_a_decision_that_cannot_be_read_counts_as_none() -> None:
    world = OcmWorld("c1", "c2", "c3")
    world.declare(
        "PlacementDecision", "p-decision-1", labels={PLACEMENT_LABEL: "p"}, status={"decisions": [{"clusterName": 7}]}
    )
    world.placement(numberOfClusters=1)
    assert world.run().selected() == ["c1"]


UNSUPPORTED = "google.protobuf.Duration{seconds: 1} == duration('1s')"
"""An expression that OCM evaluates, and Moorage does not."""


def expressed(text: str) -> list[dict[str, object]]:
    return [{"requiredClusterSelector": {"celSelector": {"celExpressions": [text]}}}]


def test_a_selection_whose_expression_only_moorage_cannot_compile_stays_and_the_placement_names_the_reason() -> None:
    world = OcmWorld("c1", "c2", "c3")
    found(world, "p", "c1", "c3")
    world.placement(predicates=expressed(UNSUPPORTED))
    assert world.run().selected() == ["c1", "c3"]
    conditions = {one.type: one for one in world.placed().conditions}
    assert conditions["PlacementMisconfigured"].status == "True"
    assert "messages such as google.protobuf.Duration are not supported" in conditions["PlacementMisconfigured"].message
    assert conditions["PlacementSatisfied"].reason == "AllDecisionsScheduled"
    world.taint("c3")
    assert world.run().selected() == ["c1"], "all other filters apply"
    world.untaint("c3")
    world.delete("ManagedCluster", "c1")
    assert world.run().selected() == []
    world.placement(predicates=expressed("managedCluster.metadata.name == 'c2'"))
    assert world.run().selected() == ["c2"]


def test_the_last_decision_stays_when_a_placement_gets_such_an_expression() -> None:
    world = OcmWorld("c1", "c2", "c3")
    world.placement(predicates=expressed("managedCluster.metadata.name != 'c2'"))
    assert world.run().selected() == ["c1", "c3"]
    world.placement(predicates=expressed(UNSUPPORTED))
    assert world.run().selected() == ["c1", "c3"]
    assert world.placed().selected == 2
    world.restart()
    assert world.run().selected() == ["c1", "c3"]


@pytest.mark.parametrize("text", ["nothing == 1", "managedCluster.metadata.(", "1 == 'a'"])
def test_an_expression_that_upstream_refuses_as_well_selects_nothing(text: str) -> None:
    world = OcmWorld("c1", "c2")
    found(world, "p", "c1")
    world.placement(predicates=expressed(text))
    assert world.run().selected() == []
    (misconfigured,) = (one for one in world.placed().conditions if one.type == "PlacementMisconfigured")
    assert misconfigured.status == "True"
