"""governor: which evictions are granted, by tables and compared with a model that computes everything each time."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.component.workers.budget_bench import Bench
from tests.support.records import at

from moorage.decide.disruption.budgets import LEAVE_LASTS, Budget, Disruption, Subject, disruptions
from moorage.decide.disruption.guard_index import Guards
from moorage.runtime.service import Freshness
from moorage_schemas.budget import EvictionAsked, EvictionSlot
from moorage_schemas.keys import eviction_key
from moorage_schemas.placement import WorkloadBound
from moorage_schemas.topics import BINDINGS, BUDGETS, EVICTION_ANSWERS, EVICTION_ASKS, RESOURCES

WEB = "Deployment/shop/web"
LABELS = {"app": "web"}
PDB = "PodDisruptionBudget/shop/web"


def web(replicas: int = 3, bench: Bench | None = None, **settings: Any) -> Bench:
    """A deployment with this number of pods, each on a node of its own."""
    bench = bench or Bench(**settings)
    bench.declare("Deployment", "web", "shop", replicas=replicas)
    for number in range(replicas):
        bench.bind(f"p{number}", f"Node/n{number}", owner=WEB, labels=LABELS)
    return bench


def budget(bench: Bench, **spec: Any) -> None:
    bench.declare("EvictionBudget", "slow", **spec)


def pdb(bench: Bench, name: str = "web", **spec: Any) -> None:
    bench.declare("PodDisruptionBudget", name, "shop", selector={"matchLabels": LABELS}, **spec)


def key(number: int) -> str:
    return eviction_key(f"Pod/shop/p{number}", f"Node/n{number}", 1)


def leave(bench: Bench, number: int, *, replaced: bool = True) -> list[str]:
    """The granted eviction is requested, the binding ends, another pod is bound, and the task is over."""
    bench.requested(key(number))
    bench.decide()
    bench.unbind(f"p{number}", f"Node/n{number}")
    bench.hear(key(number), None)
    found = bench.decide()
    if replaced:
        bench.bind(f"q{number}", f"Node/m{number}", owner=WEB, labels=LABELS)
        found += bench.decide()
    return found


def test_a_hold_while_reports_are_unread_names_the_count_as_well() -> None:
    """The text stays, so that the lag alone would mislead when all is read."""
    bench = web()
    pdb(bench, minAvailable=3)
    bench.book.use_unread(Freshness(bench.now, lagging={"Node/n0": "condition-ingest"}), bench.view)
    bench.ask("p0", "Node/n0")
    assert bench.decide() == [f"p0 held by {PDB}"]
    assert bench.answers[-1].message == (
        f"held by {PDB}: 3 of 3 needed pods are healthy, "
        "and condition-ingest has not processed all reports about its pods"
    )


def test_a_budget_for_each_owner_keeps_no_counter_of_those_that_have_left() -> None:
    bench = Bench()
    budget(bench, per="Workload", maxInWindow=1, windowSeconds=60)
    for number in range(20):
        bench.bind(f"p{number}", f"Node/n{number}", owner=f"Deployment/shop/d{number}", labels=LABELS)
    bench.decide()
    for number in range(20):
        bench.ask(f"p{number}", f"Node/n{number}")
    assert len(bench.decide()) == 20
    assert len(list(bench.book._counters)) == 21, "one for each owner, and the rate"
    for number in range(20):
        leave(bench, number, replaced=False)
    assert len(list(bench.book._counters)) == 21, "they count in their windows"
    bench.advance(60)
    assert len(list(bench.book._counters)) == 1


def test_what_nothing_holds_goes_and_is_forgotten_when_it_is_over() -> None:
    bench = web()
    bench.ask("p0", "Node/n0")
    assert bench.decide() == ["p0 goes"]
    assert bench.slot(key(0)) is not None
    leave(bench, 0, replaced=False)
    assert bench.slot(key(0)) is not None, "its workload is not whole"
    bench.bind("q0", "Node/m0", owner=WEB, labels=LABELS)
    bench.decide()
    assert bench.slot(key(0)) is None


def test_a_disruption_budget_lets_the_next_go_when_the_replacement_is_bound() -> None:
    bench = web()
    pdb(bench, minAvailable=2)
    for number in (0, 1):
        bench.ask(f"p{number}", f"Node/n{number}")
    assert bench.decide() == ["p0 goes", f"p1 held by {PDB}"]
    assert bench.answers[-1].message == f"held by {PDB}: 2 of 2 needed pods are healthy"
    assert leave(bench, 0, replaced=False) == []
    bench.bind("q0", "Node/m0", owner=WEB, labels=LABELS)
    assert bench.decide() == ["p1 goes"]


def test_a_replacement_that_is_not_well_does_not_count() -> None:
    bench = web()
    pdb(bench, maxUnavailable=1)
    for number in (0, 1):
        bench.ask(f"p{number}", f"Node/n{number}")
    bench.decide()
    leave(bench, 0, replaced=False)
    bench.bind("q0", "Node/m0", owner=WEB, labels=LABELS)
    bench.report("q0", "Node/m0", healthy=False)
    assert bench.decide() == []
    bench.report("q0", "Node/m0", healthy=True)
    assert bench.decide() == ["p1 goes"]


def test_what_was_said_before_a_pod_was_bound_does_not_count() -> None:
    bench = web()
    pdb(bench, maxUnavailable=1)
    bench.report("p0", "Node/n0", healthy=False)
    bench.unbind("p0", "Node/n0")
    bench.time = 5
    bench.bind("p0", "Node/n0", owner=WEB, labels=LABELS, generation=2)
    bench.ask("p1", "Node/n1")
    assert bench.decide() == ["p1 goes"]


def test_patience_ends_and_the_answer_says_so() -> None:
    bench = web(disruption_budget_patience=60)
    pdb(bench, maxUnavailable=0)
    bench.ask("p0", "Node/n0", due=-10)
    assert bench.decide() == [f"p0 held by {PDB}"]
    assert bench.book.next_wake() is not None
    assert bench.advance(49.9) == []
    assert bench.advance(0.1) == ["p0 goes"]
    assert bench.answers[-1].message == f"is granted despite {PDB}: its patience of 60 s is over"


def test_patience_with_one_budget_leaves_the_other() -> None:
    bench = web(disruption_budget_patience=60)
    pdb(bench, maxUnavailable=0)
    budget(bench, maxConcurrent=0, patienceSeconds=90)
    bench.ask("p0", "Node/n0")
    assert bench.decide() == [f"p0 held by EvictionBudget/slow, {PDB}"]
    assert bench.advance(89) == []
    assert bench.advance(1) == ["p0 goes"]


def test_a_pod_that_is_not_well_goes_when_the_rest_is_whole_or_always() -> None:
    for policy, goes in (("IfHealthyBudget", False), ("AlwaysAllow", True)):
        bench = web()
        pdb(bench, minAvailable=3, unhealthyPodEvictionPolicy=policy)
        bench.report("p0", "Node/n0", healthy=False)
        bench.ask("p0", "Node/n0")
        assert bench.decide() == (["p0 goes"] if goes else [f"p0 held by {PDB}"])
    bench = web()
    pdb(bench, minAvailable=2)
    bench.report("p0", "Node/n0", healthy=False)
    bench.ask("p1", "Node/n1")
    bench.ask("p0", "Node/n0")
    assert bench.decide() == ["p0 goes", f"p1 held by {PDB}"]


def test_all_disruption_budgets_of_a_pod_must_allow() -> None:
    bench = web()
    pdb(bench, maxUnavailable=1)
    pdb(bench, "strict", maxUnavailable=0)
    bench.ask("p0", "Node/n0")
    assert bench.decide() == ["p0 held by PodDisruptionBudget/shop/strict"]
    bench.delete("PodDisruptionBudget", "strict", "shop")
    assert bench.decide() == ["p0 goes"]


def test_pods_without_an_owner_that_says_how_many_it_wants() -> None:
    bench = Bench()
    pdb(bench, maxUnavailable=1)
    bench.bind("p0", "Node/n0", labels=LABELS)
    bench.bind("p1", "Node/n1", labels=LABELS, owner="DaemonSet/shop/agent")
    bench.ask("p0", "Node/n0")
    assert bench.decide() == [f"p0 held by {PDB}"]
    assert "does not say how many it wants" in bench.answers[-1].message
    pdb(bench, minAvailable=1)
    assert bench.decide() == ["p0 goes"]


def test_a_pause_has_no_patience_and_what_it_held_goes_in_order_of_time() -> None:
    bench = web()
    bench.declare("EvictionPause", "all", reason="maintenance")
    for number, due in ((0, 3), (1, 1), (2, 2)):
        bench.ask(f"p{number}", f"Node/n{number}", due=due)
    assert bench.decide() == [f"p{n} held by EvictionPause/all" for n in (1, 2, 0)]
    assert bench.answers[-1].message == "held by EvictionPause/all: maintenance"
    assert bench.advance(1e6) == []
    bench.delete("EvictionPause", "all")
    assert bench.decide() == ["p1 goes", "p2 goes", "p0 goes"]


def test_a_pause_that_comes_and_goes_over_a_budget_is_told() -> None:
    bench = web()
    budget(bench, maxConcurrent=0)
    bench.ask("p0", "Node/n0")
    assert bench.decide() == ["p0 held by EvictionBudget/slow"]
    bench.declare("EvictionPause", "all")
    assert bench.decide() == ["p0 held by EvictionBudget/slow, EvictionPause/all"]
    bench.delete("EvictionPause", "all")
    assert bench.decide() == ["p0 held by EvictionBudget/slow"]


@pytest.mark.parametrize(("amount", "go"), [(0, 0), (1, 1), (2, 2), ("0%", 0), ("10%", 1), ("21%", 2), ("100%", 5)])
def test_at_a_time(amount: int | str, go: int) -> None:
    bench = web(5)
    budget(bench, maxConcurrent=amount)
    for number in range(5):
        bench.ask(f"p{number}", f"Node/n{number}")
    held = "held by EvictionBudget/slow"
    assert bench.decide() == [f"p{n} goes" if n < go else f"p{n} {held}" for n in range(5)]


def test_one_that_is_held_does_not_stand_in_the_way_of_others() -> None:
    bench = web(4)
    budget(bench, per="Zone", maxConcurrent=1)
    for number, zone in enumerate(("a/1", "a/1", "a/2", "a/2")):
        bench.ask(f"p{number}", f"Node/n{number}", zone=zone, due=number)
    held = "held by EvictionBudget/slow"
    assert bench.decide() == ["p0 goes", "p2 goes", f"p1 {held}", f"p3 {held}"]
    assert bench.answers[-1].message.endswith("1 of 1 evictions at a time in a/2 are in progress")
    assert leave(bench, 2) == ["p3 goes"]
    assert bench.count("EvictionBudget//slow").budget == "EvictionBudget//slow"


def test_what_is_held_forever_keeps_nothing_of_what_comes_and_goes_behind_it() -> None:
    bench = Bench()
    budget(bench, maxConcurrent=0)
    bench.declare("EvictionBudget", "wide", scope={"selector": {"matchLabels": LABELS}})
    bench.bind("first", "Node/a")
    bench.bind("second", "Node/b", labels=LABELS)
    bench.ask("first", "Node/a", due=0)
    bench.ask("second", "Node/b", due=1)
    bench.decide()
    for number in range(400):
        pod, node = f"p{number}", f"Node/n{number}"
        bench.bind(pod, node, labels=LABELS)
        bench.ask(pod, node, due=2 + number)
        assert bench.decide() == [f"{pod} held by EvictionBudget/slow"]
        bench.unbind(pod, node)
        bench.hear(key(number), None)
        bench.decide()
    (slow,) = bench.book._counters.parts("EvictionBudget//slow")
    assert [len(queue) for queue in slow.queues] == [1, 1], "each with requests of other budgets"
    assert len(slow._watching) < 100
    assert max(len(queue._order._heap) for queue in slow.queues) < 100


def test_a_window_counts_to_the_instant() -> None:
    bench = web(3)
    budget(bench, maxInWindow=1, windowSeconds=100)
    for number in range(3):
        bench.ask(f"p{number}", f"Node/n{number}")
    assert bench.decide()[0] == "p0 goes"
    bench.time = 1
    leave(bench, 0)
    slot = bench.slot(key(0))
    assert slot is not None
    assert slot.over
    assert bench.advance(98.999) == []
    assert bench.advance(0.001) == ["p1 goes"]
    assert bench.slot(key(0)) is None
    bench.requested(key(1))
    assert bench.advance(100) == ["p2 goes"], "it counts from the grant, though it is still under way"


def test_what_is_over_is_not_under_way_again_when_its_owner_grows() -> None:
    bench = web(3)
    budget(bench, maxConcurrent=1, maxInWindow=9)
    bench.ask("p0", "Node/n0")
    bench.decide()
    leave(bench, 0)
    bench.declare("Deployment", "web", "shop", replicas=5)
    bench.ask("p1", "Node/n1")
    assert bench.decide() == ["p1 goes"]


def test_a_replacement_that_is_not_well_keeps_an_eviction_under_way() -> None:
    bench = web()
    budget(bench, maxConcurrent=1)
    for number in (0, 1):
        bench.ask(f"p{number}", f"Node/n{number}")
    bench.decide()
    leave(bench, 0, replaced=False)
    bench.bind("q0", "Node/m0", owner=WEB, labels=LABELS)
    bench.report("q0", "Node/m0", healthy=False)
    assert bench.decide() == []
    bench.report("q0", "Node/m0", healthy=True)
    assert bench.decide() == ["p1 goes"]


def test_of_what_a_controller_lacks_the_newest_evictions_are_under_way() -> None:
    bench = web(4)
    budget(bench, per="Zone", maxConcurrent=1)
    for number, zone in enumerate(("a/1", "a/2", "a/1", "a/2")):
        bench.time = number / 10
        bench.ask(f"p{number}", f"Node/n{number}", zone=zone)
        bench.decide()
    for number in (0, 1):
        leave(bench, number, replaced=False)
    bench.bind("q0", "Node/m0", owner=WEB, labels=LABELS)
    assert bench.decide() == ["p2 goes"], "p0 is made good, p1 not yet"


def test_a_pod_that_is_not_well_and_goes_stands_for_itself_only() -> None:
    """It counts as missing once, and not also for the eviction before it."""
    bench = web(3)
    budget(bench, per="Zone", maxConcurrent=1)
    bench.ask("p0", "Node/n0", zone="a/1")
    bench.decide()
    leave(bench, 0, replaced=False)
    bench.bind("q0", "Node/m0", owner=WEB, labels=LABELS)
    bench.report("q0", "Node/m0", healthy=False)
    bench.ask("p1", "Node/n1", zone="a/1")
    assert bench.decide() == ["p1 held by EvictionBudget/slow"]
    bench.ask("q0", "Node/m0", zone="a/2")
    assert bench.decide() == ["q0 goes", "p1 goes"]


def test_who_came_due_first_goes_first_though_one_before_it_is_gone() -> None:
    bench = web(4)
    budget(bench, maxConcurrent=1)
    bench.declare("EvictionBudget", "other", scope={"targets": ["Node/n0", "Node/n1"]}, maxConcurrent=9)
    bench.ask("p3", "Node/n3", due=-9)
    for number, due in ((0, 1), (1, 10), (2, 5)):
        bench.ask(f"p{number}", f"Node/n{number}", due=due)
    bench.decide()
    bench.hear(key(0), None)
    assert leave(bench, 3) == ["p2 goes"]


def test_a_percentage_follows_what_is_bound() -> None:
    bench = web(10)
    budget(bench, maxConcurrent="10%")
    for number in range(3):
        bench.ask(f"p{number}", f"Node/n{number}")
    assert bench.decide()[0] == "p0 goes"
    bench.bind("one-more", "Node/m")
    assert bench.decide() == ["p1 goes"]
    bench.unbind("one-more", "Node/m")
    assert leave(bench, 0) == [], "one of ten is under way"


def test_a_budget_in_a_zone_counts_what_is_bound_there() -> None:
    bench = web(4)
    budget(bench, per="Zone", maxConcurrent="50%")
    bench.ask("p0", "Node/n0", zone="eu/a")
    assert bench.decide() == ["p0 held by EvictionBudget/slow"], "nothing is known to be bound there"
    labels = {"topology.kubernetes.io/region": "eu", "failure-domain.beta.kubernetes.io/zone": "a"}
    bench.declare("Node", "n0", labels=labels)
    assert bench.decide() == ["p0 goes"]
    bench.declare("Cluster", "c1", region="eu", zones=["a", "b"])
    bench.bind("p9", "Cluster/c1", kind="ResourceBinding")
    bench.decide()
    budgets = bench.view.guards.budgets
    assert bench.view.base(budgets["EvictionBudget//slow"], "eu/a") == 2


def test_a_disruption_budget_follows_what_its_owner_wants() -> None:
    bench = web()
    pdb(bench, maxUnavailable=1)
    bench.declare("Deployment", "web", "shop", replicas=4)
    bench.ask("p0", "Node/n0")
    assert bench.decide() == [f"p0 held by {PDB}"]
    bench.declare("Deployment", "web", "shop", replicas=3)
    assert bench.decide() == ["p0 goes"]


def test_it_is_told_anew_when_what_it_was_told_holds_no_more() -> None:
    bench = web(4)
    budget(bench, maxConcurrent=1)
    bench.ask("p3", "Node/n3", due=-1)
    bench.ask("p0", "Node/n0")
    assert bench.decide() == ["p3 goes", "p0 held by EvictionBudget/slow"]
    pdb(bench, maxUnavailable=0)
    assert bench.decide() == [], "what it was told holds still"
    assert leave(bench, 3) == [f"p0 held by {PDB}"]
    bench.restart()
    assert bench.decide() == []
    bench.delete("PodDisruptionBudget", "web", "shop")
    assert bench.decide() == ["p0 goes"]


@pytest.mark.parametrize("other", ["EvictionPause/all", PDB])
def test_it_is_told_anew_when_one_of_several_concerns_it_no_more(other: str) -> None:
    bench = web(4)
    budget(bench, maxConcurrent=0)
    if other == PDB:
        pdb(bench, maxUnavailable=0)
    else:
        bench.declare("EvictionPause", "all")
    bench.ask("p0", "Node/n0")
    both = ", ".join(sorted(["EvictionBudget/slow", other]))
    assert bench.decide() == [f"p0 held by {both}"]
    budget(bench, maxConcurrent=0, scope={"selector": {"matchLabels": {"app": "other"}}})
    assert bench.decide() == [f"p0 held by {other}"]


def test_bare_pods_are_over_with_their_binding() -> None:
    bench = Bench()
    budget(bench, maxConcurrent=1)
    for number in (0, 1):
        bench.bind(f"p{number}", f"Node/n{number}")
        bench.ask(f"p{number}", f"Node/n{number}")
    assert bench.decide() == ["p0 goes", "p1 held by EvictionBudget/slow"]
    assert leave(bench, 0, replaced=False) == ["p1 goes"]


def test_a_grant_that_came_to_nothing_gives_its_slot_back() -> None:
    bench = web()
    budget(bench, maxConcurrent=1, maxInWindow=1)
    for number in (0, 1):
        bench.ask(f"p{number}", f"Node/n{number}")
    bench.decide()
    bench.hear(key(0), None)
    assert bench.decide() == ["p1 goes"]
    assert bench.slot(key(0)) is None


def test_what_a_policy_took_to_clusters_lacks_no_pods() -> None:
    bench = web(3)
    bench.bind("o", "Node/x")
    budget(bench, maxConcurrent=1)
    bench.ask("p0", "Node/n0")
    assert bench.decide() == ["p0 goes"]
    assert leave(bench, 0, replaced=False) == []
    bench.ask("o", "Node/x")
    assert bench.decide() == ["o held by EvictionBudget/slow"]
    for number in (1, 2):
        bench.unbind(f"p{number}", f"Node/n{number}")
    bench.bind("web-deployment", "Cluster/c1", owner=WEB, kind="ResourceBinding")
    assert bench.decide() == ["o goes"]
    bench.unbind("web-deployment", "Cluster/c1", kind="ResourceBinding")
    bench.decide()
    assert bench.slot(key(0)) is None


@pytest.mark.parametrize("read", [True, False])
def test_an_ask_that_is_compacted_away_leaves_no_slot(read: bool) -> None:  # noqa: FBT001 - a column of the table
    """A request was cancelled while no governor ran. At most its end can be read, and later nothing."""
    bench = web(3)
    budget(bench, maxConcurrent=1)
    for number in (0, 1):
        bench.ask(f"p{number}", f"Node/n{number}")
    assert bench.decide() == ["p0 goes", "p1 held by EvictionBudget/slow"]
    for number in (0, 1):
        del bench.tables[EVICTION_ASKS][key(number)]
    bench.restart()
    if read:
        for number in (0, 1):
            bench.hear(key(number), None)
    bench.decide()
    assert (bench.slot(key(0)), bench.slot(key(1))) == (None, None)
    bench.ask("p2", "Node/n2")
    assert bench.decide() == ["p2 goes"]


def test_a_budget_in_percent_knows_zones_by_their_older_names() -> None:
    bench = web(3)
    labels = {"failure-domain.beta.kubernetes.io/zone": "old", "topology.kubernetes.io/zone": "new"}
    bench.declare("Node", "n0", labels=labels)
    budget(bench, maxConcurrent="50%", per="Zone")
    bench.ask("p0", "Node/n0", zone="/old")
    assert bench.decide() == ["p0 goes"]


def test_a_cancelled_ask_leaves_nothing_and_may_come_again() -> None:
    bench = web()
    bench.declare("EvictionPause", "all")
    bench.ask("p0", "Node/n0", revision=3)
    bench.decide()
    bench.hear(key(0), None)
    assert bench.decide() == []
    assert bench.slot(key(0)) is None
    bench.ask("p0", "Node/n0", revision=7)
    assert bench.decide() == ["p0 held by EvictionPause/all"]
    assert bench.answers[-1].asked == 7


def test_an_ask_that_is_repeated_is_answered_again_and_counts_once() -> None:
    bench = web()
    budget(bench, maxConcurrent=1)
    for _ in range(3):
        bench.ask("p0", "Node/n0", due=0)
        assert bench.decide() == ["p0 goes"]
    assert [answer.revision for answer in bench.answers] == [1, 1, 1]
    bench.ask("p1", "Node/n1")
    assert bench.decide() == ["p1 held by EvictionBudget/slow"]


def test_an_ask_with_other_labels_or_another_zone_is_held_by_other_guards() -> None:
    """The revision is the same. An eviction service of an earlier version asks again in this way."""
    bench = web(2)
    pdb(bench, minAvailable=2)
    budget(bench, maxConcurrent=0, scope={"zones": ["b"]})
    for zone, labels, expected in (
        ("b", {"app": "canary"}, ["p0 held by EvictionBudget/slow"]),
        ("b", LABELS, []),
        ("a", LABELS, ["p0 held by PodDisruptionBudget/shop/web"]),
        ("a", LABELS, ["p0 held by PodDisruptionBudget/shop/web"]),
        ("a", {"app": "canary"}, ["p0 goes"]),
        ("b", LABELS, []),
    ):
        bench.bind("p0", "Node/n0", owner=WEB, labels=labels)
        bench.ask("p0", "Node/n0", due=0, zone=zone)
        assert bench.decide() == expected, (zone, labels)
        bench.restart()
        assert bench.decide() == []
    bench.requested(key(0))
    assert bench.decide() == []


def test_leave_that_is_repeated_late_has_kept_its_place() -> None:
    """Its answer was lost or will still be read. In both cases one eviction happens, and the next a window later."""
    bench = web()
    budget(bench, maxInWindow=1, windowSeconds=10)
    bench.ask("p0", "Node/n0", due=0)
    bench.ask("p1", "Node/n1", due=1)
    assert bench.advance(60) == ["p0 goes", "p1 held by EvictionBudget/slow"]
    bench.ask("p0", "Node/n0", due=0)
    assert bench.decide() == ["p0 goes"]
    bench.requested(key(0))
    assert bench.advance(9.999) == []
    assert bench.advance(0.001) == ["p1 goes"]


def test_leave_that_is_not_used_keeps_its_place_in_the_window() -> None:
    """The eviction service may be away. Evictions granted in the meantime would all happen at once when it is back."""
    bench = web()
    budget(bench, maxInWindow=1, windowSeconds=10)
    for number in (0, 1):
        bench.ask(f"p{number}", f"Node/n{number}", due=number)
    assert bench.advance(60) == ["p0 goes", "p1 held by EvictionBudget/slow"]
    bench.restart()
    assert bench.advance(60) == []
    bench.requested(key(0))
    assert bench.advance(9.999) == []
    bench.restart()
    assert bench.advance(0) == [], "it is not counted from the restart on"
    assert bench.advance(0.001) == ["p1 goes"]
    bench.time += 1.5
    bench.requested(key(1))
    slot = bench.slot(key(1))
    assert bench.decide() == []
    assert bench.slot(key(1)) == slot, "a moment is nothing"


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("requested", [False, True])
def test_what_was_requested_while_the_governor_was_away_counts_from_when_it_is_read(
    *, requested: bool, restarts: bool
) -> None:
    """Its record may be compacted away, so that only its end is read."""
    bench = web()
    budget(bench, maxInWindow=1, windowSeconds=10)
    for number in (0, 1):
        bench.ask(f"p{number}", f"Node/n{number}", due=number)
    assert bench.decide() == ["p0 goes", "p1 held by EvictionBudget/slow"]
    if restarts:
        bench.restart()
    bench.time += 30
    if requested:
        bench.requested(key(0))
    bench.unbind("p0", "Node/n0")
    bench.hear(key(0), None)
    assert bench.advance(9.999) == []
    assert bench.advance(0.001) == ["p1 goes"]


def test_leave_that_is_asked_for_anew_counts_for_windows_from_then() -> None:
    """An unused grant has evicted nothing, so its place is free for the request that came due first."""
    bench = web()
    budget(bench, maxInWindow=1, windowSeconds=10)
    for number in (1, 0):
        bench.ask(f"p{number}", f"Node/n{number}", due=number)
        bench.decide()
    bench.time += 5
    for number in (0, 1):
        bench.ask(f"p{number}", f"Node/n{number}", due=number, revision=2)
    assert bench.decide() == ["p0 goes", "p1 held by EvictionBudget/slow"]
    bench.requested(key(0))
    assert bench.advance(9.999) == []
    assert bench.advance(0.001) == ["p1 goes"]


def test_the_rate_waits_for_what_was_let_go_and_did_not_go() -> None:
    bench = Bench(resource_eviction_rate=0.5)
    keys = [f"ResourceBinding/shop/p{number}|Cluster/c1|1" for number in range(3)]
    for number in range(3):
        bench.bind(f"p{number}", "Cluster/c1", kind="ResourceBinding", owner=WEB)
        bench.ask(f"p{number}", "Cluster/c1")
    held = "held by resource-eviction-rate"
    assert bench.advance(60) == ["p0 goes", f"p1 {held}", f"p2 {held}"]
    bench.restart()
    assert bench.advance(60) == []
    bench.requested(keys[0])
    assert bench.advance(1.999) == []
    assert bench.advance(0.001) == ["p1 goes"]
    bench.requested(keys[1])
    assert bench.advance(1.999) == []
    assert bench.advance(0.001) == ["p2 goes"]


def test_an_ask_waits_for_its_binding_to_be_seen() -> None:
    bench = web()
    bench.bind("p0", "Node/n0", owner=WEB, generation=2)
    bench.ask("p0", "Node/n0")
    bench.restart()
    bench.unbind("p0", "Node/n0")
    assert bench.decide() == []
    bench.bind("p0", "Node/n0", owner=WEB, generation=2)
    assert bench.decide() == ["p0 goes"]


def test_evictions_from_clusters_keep_to_the_rate() -> None:
    bench = Bench(resource_eviction_rate=0.5)
    for number in range(3):
        bench.bind(f"p{number}", "Cluster/c1", kind="ResourceBinding", owner=WEB)
        bench.ask(f"p{number}", "Cluster/c1")
    bench.bind("pod", "Node/n1")
    bench.ask("pod", "Node/n1")
    held = "held by resource-eviction-rate"
    assert bench.decide() == ["pod goes", "p0 goes", f"p1 {held}", f"p2 {held}"]
    bench.requested("ResourceBinding/shop/p0|Cluster/c1|1")
    assert bench.advance(1.999) == []
    bench.restart()
    assert bench.advance(0.001) == ["p1 goes"]
    bench.requested("ResourceBinding/shop/p1|Cluster/c1|1")
    assert bench.advance(10) == ["p2 goes"]
    assert bench.count("resource-eviction-rate").tokens == 0


@pytest.mark.parametrize(("rate", "go"), [(0, 0), (float("inf"), 20)])
def test_a_rate_of_zero_stops_and_without_limit_all_go(rate: float, go: int) -> None:
    bench = Bench(resource_eviction_rate=rate)
    for number in range(20):
        bench.bind(f"p{number}", "Cluster/c1", kind="ResourceBinding", owner=WEB)
        bench.ask(f"p{number}", "Cluster/c1")
    bench.advance(1000)
    assert sum(answer.granted for answer in bench.answers) == go


def template(**labels: str) -> dict[str, Any]:
    return {"template": {"metadata": {"labels": labels}}}


def test_a_controller_of_which_all_pods_wait_for_a_node_counts_in_what_is_expected() -> None:
    bench = web(4)
    pdb(bench, maxUnavailable="50%")

    def counted() -> tuple[int, int]:
        pods, guard = bench.view.selected(PDB), bench.view.guards.disruptions[PDB]
        found = disruptions(guard, pods=pods.pods, healthy=pods.pods - pods.unhealthy, scale=pods.scale)
        return found.expected, found.allowed

    assert counted() == (4, 2)
    bench.declare("Deployment", "waits", "shop", replicas=4, **template(app="web"))
    assert counted() == (8, 0)
    bench.bind("w", "Cluster/c1", kind="ResourceBinding", owner="Deployment/shop/waits")
    assert counted() == (4, 2), "it is placed on clusters, so it makes no pods here"
    bench.unbind("w", "Cluster/c1", kind="ResourceBinding")
    assert counted() == (8, 0)
    bench.declare("Deployment", "waits", "shop", replicas=4, **template(app="other"))
    assert counted() == (4, 2)
    bench.declare("StatefulSet", "waits", "shop", replicas=2, **template(app="web", tier="a"))
    assert counted() == (6, 1)
    pdb(bench, maxUnavailable="50%", unhealthyPodEvictionPolicy="AlwaysAllow")
    assert counted() == (6, 1), "of a budget that is declared anew"
    bench.delete("StatefulSet", "waits", "shop")
    assert counted() == (4, 2)
    bench.declare("DaemonSet", "waits", "shop", **template(app="web"))
    assert counted() == (4, 2), "it does not state how many, and has none yet"


def test_budgets_are_shown() -> None:
    bench = web()
    pdb(bench, minAvailable=2)
    budget(bench, maxConcurrent=2, maxInWindow=5)
    for number in (0, 1):
        bench.ask(f"p{number}", f"Node/n{number}")
    bench.decide()
    shown = bench.count("EvictionBudget//slow")
    assert (shown.allowed, shown.in_progress, shown.in_window, shown.held) == (1, 1, 1, 0)
    shown = bench.count("PodDisruptionBudget/shop/web")
    assert (shown.allowed, shown.in_progress, shown.held, shown.expected, shown.healthy) == (0, 1, 1, 3, 2)
    leave(bench, 0)
    bench.advance(1)
    shown = bench.count("EvictionBudget//slow")
    assert (shown.allowed, shown.in_progress, shown.in_window, shown.held) == (1, 1, 2, 0)
    bench.delete("EvictionBudget", "slow")
    bench.advance(1)
    assert "EvictionBudget//slow" not in bench.tables[BUDGETS]
    before = len(bench.written)
    bench.restart()
    bench.advance(5)
    assert bench.written[before:] == []


def test_thousands_go_in_portions() -> None:
    bench = web(1200)
    bench.declare("EvictionPause", "all")
    for number in range(1200):
        bench.ask(f"p{number}", f"Node/n{number}")
    assert len(bench.decide()) == 1200
    bench.delete("EvictionPause", "all")
    sizes = []
    for _ in range(5):
        before = len(bench.answers)
        bench.book.decide(bench.view, bench.now, bench._write)
        sizes.append(len(bench.answers) - before)
    # Two calls check the requests, the second of them and a third one the slots; then the answers are written.
    assert sizes == [0, 0, 500, 500, 200]
    assert bench.decide() == []


def test_nothing_is_granted_before_all_requests_are_checked() -> None:
    bench = web(2500)
    bench.declare("EvictionPause", "all")
    bench.time = 10_000
    for number in range(2500):
        bench.ask(f"p{number}", f"Node/n{number}", due=2500 - number)  # the last is due first
    bench.decide()
    budget(bench, maxConcurrent=3)
    bench.delete("EvictionPause", "all")
    before = len(bench.answers)
    bench.book.decide(bench.view, bench.now, bench._write)
    assert len(bench.answers) == before
    wake = bench.book.next_wake()
    assert wake is not None
    assert wake <= bench.now, "the next portion is due at once"
    bench.decide()
    granted = [answer.workload.name for answer in bench.answers[before:] if answer.granted]
    assert granted == ["p2499", "p2498", "p2497"]


def test_causes_are_kept_while_requests_are_checked() -> None:
    bench = web(1500)
    bench.declare("EvictionPause", "all")
    for number in range(1500):
        bench.ask(f"p{number}", f"Node/n{number}")
    for _ in range(4):
        bench.book.decide(bench.view, bench.now, bench._write)
    first = [cause for topic, _, _, cause in bench.written if topic is EVICTION_ANSWERS][:500]
    assert len(first) == 500
    assert all(cause.type == EVICTION_ASKS.event_type for cause in first), "each names its request as its cause"


def test_many_patiences_that_end_at_once_are_checked_in_portions() -> None:
    bench = web(1500, disruption_budget_patience=3000)
    pdb(bench, minAvailable=1500)
    for number in range(1500):
        bench.ask(f"p{number}", f"Node/n{number}", due=1500 - number)
    bench.time = 1500.0
    bench.decide()
    assert not any(answer.granted for answer in bench.answers)
    bench.time = 5000.0
    before = len(bench.answers)
    bench.book.decide(bench.view, bench.now, bench._write)
    assert len(bench.answers) == before
    bench.decide()
    granted = [answer.workload.name for answer in bench.answers[before:] if answer.granted]
    assert granted == [f"p{number}" for number in reversed(range(1500))]


def test_causes_are_named_and_ids_are_never_used_twice() -> None:
    bench = web()
    budget(bench, maxConcurrent=1)
    for number in (0, 1):
        bench.ask(f"p{number}", f"Node/n{number}")
    bench.decide()
    leave(bench, 0)
    answers = [(name, cause) for topic, name, _, cause in bench.written if topic is EVICTION_ANSWERS]
    asked = dict(answers[:2])
    assert answers[-1][0] == key(1)
    assert answers[-1][1].correlation == asked[key(1)].correlation
    seen = [(cause.id, topic.short, name) for topic, name, _, cause in bench.written]
    assert len(seen) == len(set(seen))


def test_thousands_of_asks_with_a_hundred_at_a_time() -> None:
    bench = Bench()
    budget(bench, maxConcurrent=100)
    for number in range(5_000):
        bench.bind(f"p{number}", f"Node/n{number % 500}")
        bench.ask(f"p{number}", f"Node/n{number % 500}")
    bench.decide()
    granted = [answer for answer in bench.answers if answer.granted]
    assert len(granted) == 100
    done = 0
    while done < 1_000:
        batch = [answer for answer in bench.answers if answer.granted][done : done + 50]
        for answer in batch:
            name, node = answer.workload.name, answer.target.key
            bench.requested(eviction_key(answer.workload, answer.target, 1))
            bench.unbind(name, node)
            bench.hear(eviction_key(answer.workload, answer.target, 1), None)
        done += len(batch)
        bench.decide()
    assert len([answer for answer in bench.answers if answer.granted]) == done + 100
    assert len(bench.answers) == done + 100 + 4_900, "nobody is told twice that it is held"


# Comparison with a model.

NODES = {"Node/n0": "a/1", "Node/n1": "a/1", "Node/n2": "a/2"}
OWNERS = {
    "Deployment/shop/web": {"app": "web"},
    "StatefulSet/shop/db": {"app": "db"},
    "DaemonSet/shop/ds": {"app": "ds"},
    "": {"app": "web"},
}
AMOUNTS: tuple[int | str, ...] = (0, 1, 1, 2, "10%", "50%")
SCOPES: tuple[dict[str, Any], ...] = (
    {},
    {},
    {"zones": ["a/1"]},
    {"targets": ["Node/n2"]},
    {"workloads": [WEB]},
    {"selector": {"matchLabels": LABELS}},
)


@dataclass
class Model:
    """The expected result, computed from the present state. Only grants are remembered."""

    bench: Bench
    grants: dict[str, EvictionSlot] = field(default_factory=dict)
    over: set[str] = field(default_factory=set)
    requested: set[str] = field(default_factory=set)

    def guards(self) -> Guards:
        guards = Guards()
        for name, event in self.bench.tables.items():
            if name is RESOURCES:
                for resource, declared in event.items():
                    guards.put(resource, declared.object)  # type: ignore[attr-defined]  # they are ResourceDeclared
        return guards

    def bindings(self) -> dict[str, WorkloadBound]:
        return self.bench.tables.get(BINDINGS, {})  # type: ignore[return-value]  # the table holds these

    def asks(self) -> dict[str, EvictionAsked]:
        return self.bench.tables.get(EVICTION_ASKS, {})  # type: ignore[return-value]  # the table holds these

    def wanted(self, owner: str) -> int | None:
        declared = self.bench.tables.get(RESOURCES, {}).get(owner)
        if declared is None or owner.startswith("DaemonSet"):
            return None
        return int(declared.object["spec"]["replicas"])  # type: ignore[attr-defined]  # they are ResourceDeclared

    def makers(self, guard: Disruption) -> set[str]:
        """The declared controllers whose pods a disruption budget selects."""
        found = set()
        for key, event in self.bench.tables.get(RESOURCES, {}).items():
            if key.startswith(("Deployment/shop/", "StatefulSet/shop/")):
                spec = event.object["spec"]  # type: ignore[attr-defined]  # they are ResourceDeclared
                if guard.selects(spec.get("template", {}).get("metadata", {}).get("labels", {})):
                    found.add(key)
        return found

    def ill(self, binding: str) -> bool:
        bound = self.bench.view.bound(binding)
        return bound is not None and bound.unhealthy

    def stands(self, one: str) -> bool:
        bound = self.bindings().get(one.rpartition("|")[0])
        return one in self.asks() or (bound is not None and bound.generation == self.grants[one].generation)

    def under_way(self) -> list[str]:
        found = []
        for owner in {slot.owner.key for slot in self.grants.values()}:
            mine = [one for one, slot in self.grants.items() if slot.owner.key == owner and one not in self.over]
            standing = [one for one in mine if self.stands(one)]
            ended = sorted((one for one in mine if one not in standing), key=lambda o: (self.grants[o].granted_time, o))
            bound = [b for b, event in self.bindings().items() if event.owner.key == owner]
            wanted, going = self.wanted(owner), {one.rpartition("|")[0] for one in standing}
            lacks = 0 if wanted is None else max(0, wanted - sum(b in going or not self.ill(b) for b in bound))
            still = ended[max(0, len(ended) - lacks) :]
            self.over |= set(ended) - set(still)
            found += standing + still
        return found

    def subject(self, event: WorkloadBound | EvictionAsked | EvictionSlot) -> Subject:
        zone = NODES[event.target.key]
        return Subject(event.workload.key, event.owner.key, event.target.key, zone, event.labels)

    def holders(self, one: str) -> set[str]:
        """Everything that holds a request."""
        ask, guards = self.asks()[one], self.guards()
        subject, under_way = self.subject(ask), self.under_way()
        waited = self.bench.now - ask.due_time
        found = {pause.name for pause in guards.pauses_of(subject)}
        found |= {
            budget.name
            for budget in guards.budgets_of(subject)
            if (budget.patience is None or waited < timedelta(seconds=budget.patience))
            and self.is_spent(guards, budget, budget.part(subject), under_way)
        }
        if waited < timedelta(seconds=self.bench.settings.disruption_budget_patience):
            ill = self.ill(one.rpartition("|")[0])
            near = guards.disruptions_of(subject.workload, subject.labels)
            found |= {guard.name for guard in near if not self.allows(guards, guard, under_way, ill=ill)}
        return found

    def is_spent(self, guards: Guards, budget: Budget, part: str, under_way: list[str]) -> bool:
        """Whether a budget grants no more evictions."""

        def mine(event: WorkloadBound | EvictionSlot) -> bool:
            other = self.subject(event)
            return budget.key in {one.key for one in guards.budgets_of(other)} and budget.part(other) == part

        base = sum(mine(event) for event in self.bindings().values())
        going = sum(mine(self.grants[other]) for other in under_way)
        after = self.bench.now - timedelta(seconds=budget.window)
        gone = sum(mine(slot) for one, slot in self.grants.items() if slot.granted_time > after or self.is_unused(one))
        return (budget.concurrent is not None and going >= budget.concurrent.limit(base)) or (
            budget.in_window is not None and gone >= budget.in_window.limit(base)
        )

    def allows(self, guards: Guards, guard: Disruption, under_way: list[str], *, ill: bool) -> bool:
        """Whether a disruption budget lets a pod be evicted."""
        pods = {
            b: event
            for b, event in self.bindings().items()
            if guard.key in {one.key for one in guards.disruptions_of(event.workload.key, event.labels)}
        }
        leaving = {other.rpartition("|")[0] for other in under_way if self.stands(other)}
        healthy = sum(b not in leaving and not self.ill(b) for b in pods)
        owners = {e.owner.key for e in pods.values() if e.owner != e.workload} | self.makers(guard)
        wanted = [self.wanted(owner) for owner in owners]
        scale = None if None in wanted else sum(one or 0 for one in wanted)
        count = disruptions(guard, pods=len(pods), healthy=healthy, scale=scale)
        return count.lets_go_unhealthy(always=guard.always_allow_unhealthy) if ill else count.allowed > 0

    def is_unused(self, one: str) -> bool:
        """Whether a granted eviction has not been requested yet."""
        ask = self.asks().get(one)
        return ask is not None and not ask.requested

    def use(self, one: str) -> None:
        """A grant is requested. If the grant is old, it counts in windows from now on."""
        if one in self.grants and self.bench.now - self.grants[one].granted_time >= LEAVE_LASTS:
            slot = self.grants[one]
            if any(budget.in_window is not None for budget in self.guards().budgets_of(self.subject(slot))):
                self.grants[one] = slot.model_copy(update={"granted_time": self.bench.now})

    def open(self) -> list[str]:
        asks = self.asks()
        return sorted(
            (
                one
                for one, ask in asks.items()
                if one not in self.grants
                and (bound := self.bindings().get(one.rpartition("|")[0])) is not None
                and bound.generation == ask.generation
            ),
            key=lambda one: (asks[one].due_time, one),
        )

    def forget(self, one: str) -> None:
        """The request of a grant has ended. If the eviction was never requested, it never happened."""
        if one in self.grants and one not in self.requested and one.rpartition("|")[0] in self.bindings():
            del self.grants[one]

    def prune(self) -> None:
        """Forget evictions that are over and in no window. A later budget does not count them."""
        self.under_way()
        guards, now = self.guards(), self.bench.now
        for one in self.over & self.grants.keys():
            slot = self.grants[one]
            windows = [budget for budget in guards.budgets_of(self.subject(slot)) if budget.in_window is not None]
            if not any(slot.granted_time + timedelta(seconds=budget.window) > now for budget in windows):
                del self.grants[one]

    def decide(self) -> list[str]:
        """The evictions that are granted now, in order."""
        gone: list[str] = []
        while True:
            self.prune()
            one = next((one for one in self.open() if not self.holders(one)), None)
            if one is None:
                return gone
            ask = self.asks()[one]
            self.grants[one] = EvictionSlot(
                workload=ask.workload,
                owner=ask.owner,
                target=ask.target,
                generation=ask.generation,
                labels=ask.labels,
                zone=ask.zone,
                granted_time=self.bench.now,
                revision=1,
            )
            gone.append(one)


class World:
    """A random history that budgets and model both see."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.bench = Bench(disruption_budget_patience=40)
        self.model = Model(self.bench)
        self.pods = 0
        for node, zone in NODES.items():
            region, name = zone.split("/")
            labels = {"topology.kubernetes.io/region": region, "topology.kubernetes.io/zone": name}
            self.bench.declare("Node", node.partition("/")[2], labels=labels)
        for owner in (WEB, "StatefulSet/shop/db", "DaemonSet/shop/ds"):
            kind, _, name = owner.split("/")
            self.bench.declare(kind, name, "shop", replicas=2)
        self.revisions: dict[str, int] = {}

    def flip(self) -> bool:
        return self.rng.random() < 0.5

    def step(self) -> None:
        acts = [
            "bind",
            *["ask"] * 4,
            *["leave"] * 8,
            "cancel",
            "health",
            "health",
            "wanted",
            "guard",
            "time",
            "time",
            "restart",
        ]
        act = self.rng.choice(acts)
        getattr(self, act)()
        self.check()

    def check(self) -> None:
        before = len(self.bench.answers)
        self.bench.decide()
        expected = self.model.decide()
        answers = self.bench.answers[before:]
        found = [eviction_key(a.workload, a.target, a.generation) for a in answers if a.granted]
        assert found == expected
        for one in self.model.open():
            holders = self.model.holders(one)
            slot = self.bench.slot(one)
            assert slot is not None, f"{one} was told nothing"
            assert not slot.granted
            pauses = {name for name in holders if name.startswith("EvictionPause/")}
            assert {name for name in slot.held_by if name.startswith("EvictionPause/")} == pauses
            assert set(slot.held_by) & holders, f"{one} is held by {holders}, and was told {slot.held_by}"

    def bind(self) -> None:
        owner = self.rng.choice(sorted(OWNERS))
        self.add(owner, self.rng.choice(sorted(NODES)))

    def add(self, owner: str, node: str) -> None:
        self.pods += 1
        self.bench.bind(f"p{self.pods}", node, owner=owner, labels=OWNERS[owner])

    def ask(self) -> None:
        asked = {one.rpartition("|")[0] for one in self.model.asks()}
        free = [b for b in self.model.bindings() if b not in asked and f"{b}|1" not in self.model.grants]
        if not free:
            return
        binding = self.rng.choice(free)
        name, node = binding.split("|")[0].rpartition("/")[2], binding.split("|")[1]
        due = self.bench.time - self.rng.randint(0, 50)
        revision = self.revisions[binding] = self.revisions.get(binding, 0) + 1
        self.bench.ask(name, node, due=due, revision=revision, zone=NODES[node])

    def leave(self) -> None:
        """Advance a granted eviction by a step: it is requested, its binding or task ends, or another pod is bound."""
        going = [one for one in self.model.grants if one in self.model.asks()]
        if not going:
            return
        one = self.rng.choice(sorted(going))
        event = self.model.asks()[one]
        if not event.requested:
            self.model.requested.add(one)
            self.model.use(one)
            self.bench.requested(one)
            self.revisions[one.rpartition("|")[0]] = self.model.asks()[one].revision
            if self.flip():
                return
        self.bench.unbind(event.workload.name, event.target.key)
        if self.flip():
            self.check()
        self.bench.hear(one, None)
        if event.owner != event.workload and self.flip():
            if self.flip():
                self.check()
            self.add(event.owner.key, self.rng.choice(sorted(NODES)))

    def cancel(self) -> None:
        asks = [one for one, event in self.model.asks().items() if not event.requested]
        if asks:
            one = self.rng.choice(asks)
            event = self.model.asks()[one]
            if self.flip():
                self.bench.unbind(event.workload.name, event.target.key)
            self.bench.hear(one, None)
            self.model.forget(one)
            self.model.use(one)

    def health(self) -> None:
        bindings = list(self.model.bindings())
        if bindings:
            binding = self.rng.choice(bindings)
            workload, _, node = binding.partition("|")
            self.bench.report(workload.rpartition("/")[2], node, healthy=self.flip())

    def wanted(self) -> None:
        kind, name = self.rng.choice([("Deployment", "web"), ("StatefulSet", "db"), ("DaemonSet", "ds")])
        if self.rng.randint(0, 4):
            template = {"metadata": {"labels": self.rng.choice([{}, {"app": "web"}, {"app": "other"}])}}
            self.bench.declare(kind, name, "shop", replicas=self.rng.randint(0, 4), template=template)
        else:
            self.bench.delete(kind, name, "shop")

    def guard(self) -> None:
        kind = self.rng.choice(["EvictionBudget", "EvictionBudget", "PodDisruptionBudget", "EvictionPause"])
        name = self.rng.choice(["x", "y"])
        namespace = "shop" if kind == "PodDisruptionBudget" else ""
        if not self.rng.randint(0, 2):
            self.bench.delete(kind, name, namespace)
        elif kind == "EvictionPause":
            self.bench.declare(kind, name, scope=self.rng.choice(SCOPES))
        elif kind == "EvictionBudget":
            spec: dict[str, Any] = {"scope": self.rng.choice(SCOPES), "windowSeconds": self.rng.choice([10, 30])}
            spec["per"] = self.rng.choice(["Fleet", "Zone", "Namespace", "Workload"])
            which = self.rng.randint(1, 3)
            if which & 1:
                spec["maxConcurrent"] = self.rng.choice(AMOUNTS)
            if which & 2:
                spec["maxInWindow"] = self.rng.choice(AMOUNTS)
            if self.flip():
                spec["patienceSeconds"] = self.rng.choice([0, 20, 60])
            self.bench.declare(kind, name, **spec)
        else:
            field_name = self.rng.choice(["minAvailable", "maxUnavailable"])
            policy = self.rng.choice(["IfHealthyBudget", "AlwaysAllow"])
            selector = self.rng.choice([{}, {"matchLabels": {"app": "web"}}])
            amount = self.rng.choice(AMOUNTS)
            spec = {field_name: amount, "selector": selector, "unhealthyPodEvictionPolicy": policy}
            self.bench.declare(kind, name, "shop", **spec)

    def time(self) -> None:
        """Let time pass. At each wake the model decides too, because nothing else can change for it."""
        end = self.bench.time + self.rng.choice([0.5, 5, 10, 25])
        while (wake := self.bench.book.next_wake()) is not None and wake <= at(end):
            self.bench.time = max(self.bench.time, (wake - at(0)).total_seconds())
            self.check()
        self.bench.time = end

    def restart(self) -> None:
        self.bench.restart()

    def finish(self) -> None:
        """Remove all guards. Everything is granted then."""
        for event in (
            list(self.model.guards().pauses),
            list(self.model.guards().budgets),
            list(self.model.guards().disruptions),
        ):
            for one in event:
                kind, namespace, name = one.split("/")
                self.bench.delete(kind, name, namespace)
        self.check()
        assert self.model.open() == []


@settings(max_examples=120)
@given(st.integers(0, 2**32))
def test_the_book_decides_as_a_model_that_remembers_nothing(seed: int) -> None:
    world = World(random.Random(seed))  # noqa: S311 - the random choices must be repeatable
    for _ in range(6):
        world.bind()
        world.ask()
    world.check()
    for _ in range(40):
        world.step()
    world.finish()
