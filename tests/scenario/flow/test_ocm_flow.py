"""From managed clusters, sets and placements to PlacementDecisions, on a virtual clock."""

from __future__ import annotations

from datetime import timedelta

import pytest
from tests.support.worlds.flow import START
from tests.support.worlds.ocm import DISABLE, SET_LABEL, OcmWorld, by_score, labelled, tolerates, weights

from moorage_schemas.placement import PlacementState
from moorage_schemas.times import format_time
from moorage_schemas.topics import BINDINGS, EVICTIONS, PLACEMENTS


def said(world: OcmWorld, name: str = "p") -> tuple[str, str, str]:
    """Status, reason and message of PlacementSatisfied."""
    (found,) = (one for one in world.placed(name).conditions if one.type == "PlacementSatisfied")
    return found.status, found.reason, found.message


def test_a_placement_has_every_cluster_that_fits() -> None:
    world = OcmWorld("c1", "c2", "c3")
    world.taint("c2")
    world.placement()
    assert world.run().decisions() == {"p-decision-1": ("c1", "c3")}
    placed = world.placed()
    assert (placed.state, placed.selected, placed.reason) == (PlacementState.PLACED, 2, "AllDecisionsScheduled")
    assert (placed.targets_considered, placed.generation) == (3, 1)
    assert [(one.filter, one.count, one.targets) for one in placed.filters] == [("TaintToleration", 1, ("c2",))]
    assert said(world) == ("True", "AllDecisionsScheduled", "All cluster decisions scheduled")
    (part,) = (event for event in world.flow.events(PLACEMENTS) if event.clusters)
    assert part.labels == {
        "cluster.open-cluster-management.io/placement": "p",
        "cluster.open-cluster-management.io/decision-group-name": "",
        "cluster.open-cluster-management.io/decision-group-index": "0",
    }
    assert (part.added, part.removed) == (("c1", "c3"), ())
    assert not world.flow.records(BINDINGS)
    assert not world.flow.records(EVICTIONS)


def test_a_taint_takes_a_cluster_out_and_its_end_brings_it_back() -> None:
    world = OcmWorld("c1", "c2")
    world.placement()
    world.run()
    wish = world.taint("c1")
    world.run()
    assert world.selected() == ["c2"]
    part = next(event for event in reversed(world.flow.events(PLACEMENTS)) if event.workload.name == "p-decision-1")
    assert (part.added, part.removed, part.generation) == ((), ("c1",), 2)
    assert world.flow.records(PLACEMENTS)[-1].meta.correlation_id == wish.meta.correlation
    world.untaint("c1")
    assert world.run().selected() == ["c1", "c2"]
    assert world.placed().generation == 3


@pytest.mark.parametrize(("effect", "kept"), [("NoSelectIfNew", True), ("PreferNoSelect", True), ("NoSelect", False)])
def test_what_the_effects_do_to_a_cluster_that_is_selected(effect: str, *, kept: bool) -> None:
    world = OcmWorld("c1", "c2")
    world.placement()
    world.run()
    world.taint("c1", effect=effect)
    assert ("c1" in world.run().selected()) is kept
    world.placement("later")
    assert ("c1" in world.run().selected("later")) is (effect == "PreferNoSelect")


def test_a_toleration_ends_at_its_time_also_after_a_restart() -> None:
    world = OcmWorld("c1", "c2")
    world.placement(tolerations=[tolerates(seconds=300)])
    world.taint("c1")
    assert world.run().selected() == ["c1", "c2"]
    assert world.placed().decide_again == START + timedelta(seconds=300)
    world.advance(100)
    world.restart()
    world.advance(199)
    assert world.selected() == ["c1", "c2"]
    world.advance(1)
    assert world.selected() == ["c2"]
    assert world.placed().decide_again is None
    assert world.placed().decided_time == START + timedelta(seconds=300)


def test_a_time_that_ended_while_nobody_looked_is_made_up_for() -> None:
    world = OcmWorld("c1", "c2")
    world.placement(tolerations=[tolerates(seconds=300)])
    world.taint("c1")
    world.run()
    world.flow.crash_process("placement")
    world.flow.now += timedelta(seconds=400)
    assert world.run().selected() == ["c2"]


def test_a_taint_that_comes_again_is_tolerated_from_then_on() -> None:
    world = OcmWorld("c1")
    world.placement(tolerations=[tolerates(seconds=60)])
    world.taint("c1")
    world.advance(30)
    world.taint("c1")
    world.advance(59)
    assert world.selected() == ["c1"]
    world.advance(1)
    assert world.selected() == []
    assert said(world)[1] == "NoManagedClusterMatched"


def test_the_number_of_clusters() -> None:
    world = OcmWorld("c1", "c2", "c3")
    world.placement(numberOfClusters=2)
    assert len(world.run().selected()) == 2
    world.placement(numberOfClusters=5)
    assert world.run().selected() == ["c1", "c2", "c3"]
    assert said(world) == ("False", "NotAllDecisionsScheduled", "2 cluster decisions unscheduled")
    since = world.placed().conditions
    world.advance(10)
    world.cluster("c4")
    assert said(world.run())[2] == "1 cluster decisions unscheduled"
    assert [one.last_transition_time for one in world.placed().conditions] == [
        one.last_transition_time for one in since
    ]
    world.placement(numberOfClusters=0)
    assert world.run().selected() == []


def test_another_takes_the_place_of_a_cluster_that_is_lost() -> None:
    world = OcmWorld("c1", "c2", "c3")
    world.placement(numberOfClusters=2)
    (lost, stays) = world.run().selected()
    world.taint(lost)
    after = world.run().selected()
    assert len(after) == 2
    assert stays in after
    assert lost not in after
    world.delete("ManagedCluster", stays)
    assert len(world.run().selected()) == 1
    assert said(world)[2] == "1 cluster decisions unscheduled"


def test_the_reasons_for_which_there_is_nothing_to_choose_from() -> None:
    world = OcmWorld()
    world.placement("a", namespace="elsewhere")
    world.placement("b", clusterSets=["other"])
    world.placement("c")
    world.run()
    (found,) = (one for one in world.placed("a", "elsewhere").conditions if one.type == "PlacementSatisfied")
    assert found.message == "No valid ManagedClusterSetBindings found in placement namespace"
    assert said(world, "b") == (
        "False",
        "NoIntersection",
        "None of ManagedClusterSets [other] is bound to placement namespace",
    )
    assert said(world, "c")[2] == "All ManagedClusterSets [default] have no member ManagedCluster"
    assert world.decisions("c") == {"c-decision-1": ()}
    world.cluster("c1", labels={"not": "here"})
    world.placement("c", predicates=[labelled(here="yes")])
    assert said(world.run(), "c")[2] == "No ManagedCluster matches any of the cluster predicate"
    world.cluster("c1", labels={"here": "yes"})
    assert world.run().selected("c") == ["c1"]
    world.delete("ManagedCluster", "c1")
    assert said(world.run(), "c")[1] == "AllManagedClusterSetsEmpty"


def test_sets_and_bindings_decide_what_there_is_to_choose_from() -> None:
    world = OcmWorld("c1")
    world.cluster("c2", labels={SET_LABEL: "prod"})
    world.cluster("c3", labels={SET_LABEL: "prod", "region": "eu"})
    world.placement()
    assert world.run().selected() == ["c1"]
    world.bind_set("prod")
    assert world.run().selected() == ["c1"], "there is no such set"
    world.set("prod")
    assert world.run().selected() == ["c1", "c2", "c3"]
    world.placement("only", clusterSets=["prod"])
    assert world.run().selected("only") == ["c2", "c3"]
    world.cluster("c2")
    assert world.run().selected("only") == ["c3"]
    assert world.selected() == ["c1", "c2", "c3"]
    world.set("eu", {"matchLabels": {"region": "eu"}})
    world.bind_set("eu", namespace="shop")
    world.placement("shop", namespace="shop")
    assert world.run().selected("shop", "shop") == ["c3"]
    world.set("eu", {"matchLabels": {"region": "us"}})
    assert world.run().selected("shop", "shop") == []
    world.bind_set("global", namespace="shop")
    assert world.run().selected("shop", "shop") == ["c1", "c2", "c3"]
    world.delete("ManagedClusterSetBinding", "global", namespace="shop")
    world.delete("ManagedClusterSet", "prod")
    assert world.run().selected("shop", "shop") == []
    assert world.selected() == ["c1", "c2"]


def test_scores_decide_when_there_are_more_than_enough() -> None:
    world = OcmWorld("c1", "c2", "c3")
    for number, name in enumerate(("c1", "c2", "c3")):
        world.score(name, number)
    world.placement(numberOfClusters=1, prioritizerPolicy=by_score())
    assert world.run().selected() == ["c3"]
    assert [one.target for one in world.placed().scores] == ["c3", "c2", "c1"]
    world.score("c1", 50)
    assert world.run().selected() == ["c1"]
    world.delete("AddOnPlacementScore", "load", namespace="c1")
    assert world.run().selected() == ["c3"]


def test_a_score_ends_at_its_time() -> None:
    world = OcmWorld("c1", "c2")
    world.score("c1", 1)
    world.score("c2", 9, until=format_time(START + timedelta(seconds=50)))
    world.placement(numberOfClusters=1, prioritizerPolicy=by_score())
    assert world.run().selected() == ["c2"]
    world.advance(49)
    assert world.selected() == ["c2"]
    world.advance(2)
    assert world.selected() == ["c1"]


def test_amounts_decide_among_those_that_can_be_selected() -> None:
    world = OcmWorld()

    def sized(name: str, cpu: int) -> None:
        status = {"allocatable": {"cpu": str(cpu)}, "capacity": {"cpu": "100"}}
        world.cluster(name, status=status)

    for name, cpu in (("c1", 10), ("c2", 20), ("c3", 90)):
        sized(name, cpu)
    world.placement(numberOfClusters=1, prioritizerPolicy=weights(ResourceAllocatableCPU=1))
    assert world.run().selected() == ["c3"]
    sized("c1", 95)
    assert world.run().selected() == ["c1"]


def test_a_hundred_clusters_each_and_a_move_is_neither_added_nor_removed() -> None:
    names = [f"c{number:03}" for number in range(250)]
    world = OcmWorld(*names)
    world.placement()
    parts = world.run().decisions()
    assert [len(parts[f"p-decision-{number}"]) for number in (1, 2, 3)] == [100, 100, 50]
    before = world.writes()
    world.taint("c000")
    world.run()
    written = [record.event for record in world.flow.records(PLACEMENTS)[before:]]
    assert [(event.added, event.removed) for event in written] == [((), ("c000",)), ((), ()), ((), ()), ((), ())]
    for name in names[1:170]:
        world.taint(name)
    world.run()
    assert list(world.decisions()) == ["p-decision-1"]
    removed = [record for record in world.flow.records(PLACEMENTS) if record.value is None]
    assert {record.name.rpartition("-")[2] for record in removed} == {"2", "3"}


def test_decision_groups_follow_the_labels_of_clusters() -> None:
    world = OcmWorld()
    for name in ("c1", "c2", "c3"):
        world.cluster(name, labels={"canary": "yes"} if name == "c1" else {})
    canary = {"groupName": "canary", "groupClusterSelector": {"labelSelector": {"matchLabels": {"canary": "yes"}}}}
    strategy = {"groupStrategy": {"decisionGroups": [canary], "clustersPerDecisionGroup": 1}}
    world.placement(decisionStrategy=strategy)
    world.run()
    assert [(one.name, one.clusters) for one in world.placed().decision_groups] == [("canary", 1), ("", 1), ("", 1)]
    before = world.writes()
    world.cluster("c2", labels={"canary": "yes"})
    world.run()
    assert [one.name for one in world.placed().decision_groups] == ["canary", "canary", ""]
    moved = [record.event for record in world.flow.records(PLACEMENTS)[before:]]
    assert moved
    assert not any(event.added or event.removed for event in moved)
    world.placement(decisionStrategy={"groupStrategy": {"clustersPerDecisionGroup": "200%"}})
    world.run()
    assert world.placed().reason == "Misconfigured"
    assert world.selected() == ["c1", "c2", "c3"], "what is right counts"


def test_a_placement_that_is_wrong_loses_its_clusters() -> None:
    world = OcmWorld("c1", "c2")
    world.placement()
    world.run()
    world.placement(tolerations=[{"operator": "Equal", "value": "x"}])
    assert world.run().selected() == []
    condition = world.placed().conditions[0]
    assert (condition.type, condition.status) == ("PlacementMisconfigured", "True")
    assert (world.placed().reason, world.placed().message) == (condition.reason, condition.message)
    world.placement()
    assert world.run().selected() == ["c1", "c2"]


def test_a_disabled_placement_stays_as_it_is() -> None:
    world = OcmWorld("c1", "c2")
    world.placement()
    world.run()
    world.placement(annotations={DISABLE: "true"})
    world.taint("c1")
    world.delete("ManagedCluster", "c2")
    assert world.run().selected() == ["c1", "c2"]
    world.flow.crash_process("placement")
    assert world.run().selected() == ["c1", "c2"]
    assert not world.flow.reconcile("placement")
    world.placement(annotations={DISABLE: "false"})
    assert world.run().selected() == []
    world.placement("new", annotations={DISABLE: "true"})
    assert world.run().decisions("new") == {}


def test_a_deleted_placement_tells_what_is_to_be_removed_and_goes() -> None:
    world = OcmWorld("c1", "c2")
    world.placement()
    world.run()
    before = world.writes()
    cause = world.delete("Placement", "p")
    world.run()
    told = world.flow.records(PLACEMENTS)[before:]
    assert told[0].event.removed == ("c1", "c2")
    assert told[0].event.clusters == ()
    assert [(record.name, record.value) for record in told[1:]] == [
        ("PlacementDecision/default/p-decision-1", None),
        ("Placement/default/p", None),
    ]
    assert {record.meta.causation_id for record in told} == {cause.meta.id}
    assert not world.flow.table(PLACEMENTS)


def test_a_placement_made_again_under_its_name_starts_clean() -> None:
    world = OcmWorld("c1", "c2")
    world.placement()
    world.run()
    world.taint("c1", effect="NoSelectIfNew")
    assert world.run().selected() == ["c1", "c2"]
    world.placement(uid="another")
    assert world.run().selected() == ["c2"], "it never had c1"
    assert world.placed().uid == "another"
    assert world.placed().generation > 2


def test_a_cluster_that_nothing_is_known_of_is_not_selected() -> None:
    world = OcmWorld("c1")
    world.own_taints = False
    world.declare("ManagedCluster", "c2")
    world.placement()
    assert world.run().selected() == ["c1"]


def test_others_are_not_decided_again_when_one_takes_a_cluster() -> None:
    world = OcmWorld("c1", "c2", "c3")
    world.placement("a", numberOfClusters=1)
    world.run()
    before = world.placed("a")
    for name in ("b", "c", "d"):
        world.placement(name, numberOfClusters=2)
    world.run()
    assert world.placed("a") == before


def test_decisions_are_spread_over_the_clusters() -> None:
    world = OcmWorld("c1", "c2", "c3", "c4")
    for number in range(8):
        world.placement(f"p{number}", numberOfClusters=1)
        world.run()
    counts = [sum(name in world.selected(f"p{number}") for number in range(8)) for name in ("c1", "c2", "c3", "c4")]
    assert counts == [2, 2, 2, 2]


def test_a_restart_moves_nothing() -> None:
    world = OcmWorld("c1", "c2", "c3", "c4")
    for number in range(9):
        world.placement(f"p{number}", numberOfClusters=1 + number % 3)
        world.run()
    world.delete("Placement", "p0")
    world.delete("Placement", "p4")
    world.run()
    world.restart()
    before = world.writes()
    world.run()
    assert not world.flow.reconcile("placement")
    assert world.writes() == before


def test_what_changed_while_nobody_looked_is_found() -> None:
    world = OcmWorld("c1", "c2", "c3")
    world.placement("all")
    world.placement("one", numberOfClusters=1)
    (had,) = world.run().selected("one")
    world.flow.crash_process("placement")
    world.taint(had)
    world.cluster("c4")
    world.placement("all", predicates=[])
    world.run()
    assert world.selected("all") == sorted({"c1", "c2", "c3", "c4"} - {had})
    assert had not in world.selected("one")


def test_a_lost_decision_is_written_again() -> None:
    world = OcmWorld("c1", "c2")
    record = world.placement()
    world.run()
    part = "PlacementDecision/default/p-decision-1"
    world.flow.produce(PLACEMENTS, part, None, partition_key=record.name)
    world.flow.crash_process("placement")
    world.flow.run()
    assert world.selected() == ["c1", "c2"]


def sized(world: OcmWorld, name: str, cpu: int) -> None:
    """A cluster with so much to give."""
    world.cluster(name, status={"allocatable": {"cpu": str(cpu)}, "capacity": {"cpu": "1000"}})


def test_that_another_cluster_is_lost_matters_where_scores_are_relative() -> None:
    world = OcmWorld()
    sized(world, "b", 20)
    world.placement(numberOfClusters=1, prioritizerPolicy=weights(ResourceAllocatableCPU=-1, Steady=1))
    assert world.run().selected() == ["b"]
    sized(world, "z", 1000)
    world.run()
    sized(world, "a", 10)
    assert world.run().selected() == ["b"], "beside z, it is as small as a, and it is here already"
    world.taint("z")
    assert world.run().selected() == ["a"]


def test_a_placement_whose_expression_does_not_compile_is_misconfigured() -> None:
    world = OcmWorld("c1")
    wrong = {"requiredClusterSelector": {"celSelector": {"celExpressions": ["managedCluster.metadata.("]}}}
    world.placement(predicates=[wrong])
    assert world.run().selected() == []
    condition = world.placed().conditions[0]
    assert (condition.type, condition.status, condition.reason) == ("PlacementMisconfigured", "True", "Misconfigured")
    assert condition.message.startswith("Predicate:compilation failed: ")


def test_a_set_by_labels_that_says_none_has_no_clusters() -> None:
    world = OcmWorld("c1")
    world.placement()
    assert world.run().selected() == ["c1"]
    world.placement(clusterSets=["unsaid"])
    world.declare("ManagedClusterSet", "unsaid", spec={"clusterSelector": {"selectorType": "LabelSelector"}})
    world.bind_set("unsaid")
    assert world.run().selected() == []
    assert world.placed().reason == "AllManagedClusterSetsEmpty"


def test_a_wrong_placement_is_wrong_only_while_there_is_a_cluster_to_look_at() -> None:
    world = OcmWorld()
    world.cluster("c1", labels={"here": "yes"})
    world.placement(predicates=[labelled(here="yes")], tolerations=[{"operator": "Equal", "value": "x"}])
    assert world.run().placed().reason == "Misconfigured"
    world.cluster("c1", labels={"here": "no"})
    assert world.run().placed().reason == "NoManagedClusterMatched"
    world.cluster("c1", labels={"here": "yes"})
    assert world.run().placed().reason == "Misconfigured"
    world.delete("ManagedCluster", "c1")
    assert world.run().placed().reason == "AllManagedClusterSetsEmpty"


def test_a_cluster_that_was_tolerated_for_a_time_comes_back_without_the_taint() -> None:
    world = OcmWorld("c1", "c2")
    world.placement(tolerations=[tolerates(seconds=60)])
    world.run()
    world.taint("c1")
    world.advance(61)
    assert world.selected() == ["c2"]
    world.untaint("c1")
    assert world.run().selected() == ["c1", "c2"]


def test_what_there_is_to_choose_from_is_told_when_it_comes_and_goes() -> None:
    world = OcmWorld()
    world.placement(predicates=[labelled(here="yes")])
    assert world.run().placed().reason == "AllManagedClusterSetsEmpty"
    world.cluster("c1")
    assert world.run().placed().reason == "NoManagedClusterMatched"
    world.delete("ManagedCluster", "c1")
    assert world.run().placed().reason == "AllManagedClusterSetsEmpty"


def test_a_choice_that_stays_keeps_the_time_of_its_toleration() -> None:
    world = OcmWorld("c2")
    world.cluster("c1", labels={"first": "yes"})
    world.placement(numberOfClusters=1, tolerations=[tolerates(seconds=60)])
    assert world.run().selected() == ["c1"]
    world.taint("c1")
    world.run()
    for number in range(3):
        world.placement(f"more{number}", tolerations=[tolerates()], predicates=[labelled(first="yes")])
    assert world.run().selected() == ["c1"], "Balance would have it elsewhere now"
    world.restart()
    before = world.writes()
    world.run()
    assert world.writes() == before
    world.advance(59)
    assert world.selected() == ["c1"]
    world.advance(1)
    assert world.selected() == ["c2"]


def test_where_scores_are_relative_the_time_of_every_cluster_counts() -> None:
    world = OcmWorld()
    sized(world, "b", 20)
    world.placement(
        numberOfClusters=1,
        tolerations=[tolerates(seconds=60)],
        prioritizerPolicy=weights(ResourceAllocatableCPU=-1, Steady=1),
    )
    world.run()
    sized(world, "z", 1000)
    world.run()
    sized(world, "a", 10)
    world.run()
    world.taint("z")
    world.advance(59)
    assert world.selected() == ["b"]
    world.restart()
    world.advance(1)
    assert world.selected() == ["a"]


def test_where_scores_are_relative_it_matters_that_a_tolerated_cluster_is_lost() -> None:
    world = OcmWorld()
    sized(world, "b", 20)
    world.placement(
        numberOfClusters=1,
        tolerations=[tolerates(seconds=600)],
        prioritizerPolicy=weights(ResourceAllocatableCPU=-1, Steady=1),
    )
    world.run()
    sized(world, "z", 1000)
    world.taint("z")
    world.run()
    sized(world, "a", 10)
    assert world.run().selected() == ["b"]
    world.taint("z", "worse")
    assert world.run().selected() == ["a"]


def test_the_end_of_a_score_counts_only_while_the_cluster_can_be_selected() -> None:
    world = OcmWorld("c1", "c2")
    world.score("c1", 9)
    world.score("c2", 5, until=format_time(START + timedelta(seconds=50)))
    world.placement(numberOfClusters=1, prioritizerPolicy=by_score())
    assert world.run().placed().decide_again is not None
    world.taint("c2")
    assert world.run().placed().decide_again is None


def test_a_placement_of_no_clusters_is_wrong_like_any_other() -> None:
    world = OcmWorld("c1")
    wrong = [{"operator": "Equal", "value": "x"}]
    world.placement(numberOfClusters=0, predicates=[labelled(here="yes")], tolerations=wrong)
    assert world.run().placed().reason == "NoManagedClusterMatched"
    world.cluster("c1", labels={"here": "yes"})
    assert world.run().placed().reason == "Misconfigured"


def test_a_cluster_that_only_those_may_have_who_have_it_counts_no_more_once_it_is_dropped() -> None:
    world = OcmWorld("c1", "c2")
    world.score("c1", 9, until=format_time(START + timedelta(seconds=90)))
    world.score("c2", 1, until=format_time(START + timedelta(seconds=500)))
    world.placement(numberOfClusters=1, prioritizerPolicy=by_score())
    world.run()
    world.taint("c1", effect="NoSelectIfNew")
    assert world.run().selected() == ["c1"]
    cause = world.score("c2", 50, until=format_time(START + timedelta(seconds=500)))
    assert world.run().selected() == ["c2"]
    assert world.placed().decide_again == START + timedelta(seconds=500, microseconds=1)
    last = world.flow.records(PLACEMENTS)[-1]
    assert last.meta.correlation_id == cause.meta.id
    assert len({record.meta.id for record in world.flow.records(PLACEMENTS)}) == world.writes()


def test_fewer_taints_are_better_relative_to_clusters_that_are_not_selected() -> None:
    world = OcmWorld("c1", "c2", "c3")
    for cluster, keys, score in (("c1", "a", 100), ("c2", "", 20), ("c3", "abcd", -100)):
        world.score(cluster, score)
        for key in keys:
            world.taint(cluster, key, "PreferNoSelect")
    both = [*weights(PreferNoSelect=1)["configurations"], *by_score()["configurations"]]
    world.placement(numberOfClusters=1, prioritizerPolicy={"mode": "Exact", "configurations": both})
    assert world.run().selected() == ["c1"]
    world.taint("c3")
    assert world.run().selected() == ["c2"], "now its one taint is the most that any cluster has"


def test_groups_follow_what_their_expressions_see() -> None:
    world = OcmWorld("c1", "c2")
    selector = {"celSelector": {"celExpressions": ["managedCluster.metadata.annotations['tier'] == 'gold'"]}}
    gold = {"groupName": "gold", "groupClusterSelector": selector}
    world.placement(decisionStrategy={"groupStrategy": {"decisionGroups": [gold]}})
    assert world.run().decisions() == {"p-decision-1": ("c1", "c2")}
    world.cluster("c2", annotations={"tier": "gold"})
    assert world.run().decisions() == {"p-decision-1": ("c2",), "p-decision-2": ("c1",)}


def test_relative_scores_change_when_a_cluster_that_is_not_selected_is_tolerated_no_longer() -> None:
    world = OcmWorld()
    for cluster, cpu, score in (("c1", "1", 20), ("c2", "2", 0), ("c3", "9", -100)):
        world.cluster(cluster, status={"allocatable": {"cpu": cpu}, "capacity": {"cpu": "10"}})
        world.score(cluster, score)
    both = [*weights(ResourceAllocatableCPU=1)["configurations"], *by_score(3)["configurations"]]
    policy = {"mode": "Exact", "configurations": both}
    world.placement(numberOfClusters=1, prioritizerPolicy=policy, tolerations=[tolerates(seconds=60)])
    assert world.run().selected() == ["c1"], "-40; c2 has -75, c3 -200"
    world.taint("c3")
    assert world.run().selected() == ["c1"]
    assert world.placed().decide_again == START + timedelta(seconds=60)
    assert world.advance(60).selected() == ["c2"], "100 without c3"
    assert world.placed().decide_again is None
