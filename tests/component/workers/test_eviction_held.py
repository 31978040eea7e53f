"""eviction: an eviction that may be held asks the governor, and uses its answer only if it is still valid."""

from __future__ import annotations

from typing import Any

import pytest
from tests.component.workers.eviction_bench import K1, Bench
from tests.support.records import at, decide, record
from tests.support.worlds.world import tolerate

from moorage.runtime.service import child_id
from moorage_schemas.refs import TargetKind, TargetRef
from moorage_schemas.taint import TaintOrigin, TaintRecord, TargetTainted
from moorage_schemas.topics import (
    BINDINGS,
    EVICTIONS,
    RESOURCES,
    TAINTS,
    Topic,
)

CLUSTER = TargetRef(kind=TargetKind.CLUSTER, name="c1")
OPEN: dict[str, Any] = {"feature_gates": "Failover=true", "enable_no_execute_taint_eviction": True}


def test_what_nothing_may_hold_goes_and_nobody_is_asked() -> None:
    bench = Bench(pause={"namespaces": ["other"]})
    bench.guard("EvictionBudget", "slow", scope={"zones": ["eu/eu-2"]}, maxConcurrent=1)
    bench.guard("PodDisruptionBudget", "web", "other", minAvailable=1, selector={})
    bench.guard("PodDisruptionBudget", "db", "default", minAvailable=1, selector={"matchLabels": {"app": "db"}})
    bench.bind()
    assert bench.taints(K1) == ["Requested#1 UntoleratedTaint"]
    assert bench.decided.asked == 0
    assert bench.unbind() == ["Completed#2 BindingEnded"]


@pytest.mark.parametrize(
    ("kind", "namespace", "spec"),
    [
        ("EvictionPause", "", {}),
        ("EvictionPause", "", {"scope": {"workloads": ["Deployment/default/web"], "targets": ["Node/n1"]}}),
        ("EvictionBudget", "", {"scope": {"zones": ["eu/eu-1"]}, "maxInWindow": 1}),
        ("PodDisruptionBudget", "default", {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}}),
    ],
)
def test_what_may_be_held_asks_and_is_held_until_the_answer(kind: str, namespace: str, spec: dict[str, Any]) -> None:
    bench = Bench()
    bench.guard(kind, "g", namespace, **spec)
    bench.bind()
    bench.time = 2
    assert bench.taints(K1) == ["Held#1 Held", "ask#1"]
    assert (bench.decided.deadline, bench.decided.held_by, bench.decided.asked) == (at(2), (), 1)
    ask = bench.asked
    assert (ask.due_time, ask.labels, ask.zone, ask.owner.key) == (
        at(2),
        {"app": "web"},
        "eu/eu-1",
        "Deployment/default/web",
    )
    bench.time = 5
    if kind == "EvictionPause":
        assert bench.answer(asked=1) == ["Held#2 by EvictionPause/g Held", "ask#2"], "here the pause is not over yet"
        return
    assert bench.answer(asked=1, message="is granted despite it") == ["Requested#2 UntoleratedTaint", "ask#2 requested"]
    assert bench.decided.message == "untolerated taint k1:NoExecute; is granted despite it"
    assert bench.decided.decided_time == at(5)
    bench.restart()
    assert bench.answer(asked=1) == [], "it is requested already"
    assert bench.unbind() == ["eviction-asks tombstone", "Completed#3 BindingEnded"]


def test_an_answer_that_holds_is_told_once_each() -> None:
    bench = Bench(budget=True)
    bench.bind()
    bench.taints(K1)
    held = ["Held#2 by EvictionPause/all Held"]
    assert bench.answer("EvictionPause/all", asked=1, message="held by EvictionPause/all: night") == held
    assert bench.decided.message == "held by EvictionPause/all: night"
    assert bench.decided.deadline == at(0)
    assert bench.answer("EvictionPause/all", asked=1) == []
    assert bench.answer("EvictionBudget/slow", asked=1) == ["Held#3 by EvictionBudget/slow Held"]
    assert bench.answer(asked=1) == ["Requested#4 UntoleratedTaint", "ask#4 requested"]


def test_a_deadline_that_passes_is_due_and_waits_from_then() -> None:
    bench = Bench(budget=True)
    bench.bind(tolerate("k1", 3))
    assert bench.taints(K1) == ["Scheduled#1 TolerationEnds", "timer 3"]
    bench.time = 3.5
    assert bench.fire(1, 3) == ["Held#2 Held", "timer off", "ask#2"]
    assert bench.decided.deadline == bench.asked.due_time == at(3)
    bench.time = 9
    assert bench.answer(asked=2) == ["Requested#3 TolerationExpired", "timers tombstone", "ask#3 requested"]


def test_a_taint_that_goes_while_it_is_held_cancels_it() -> None:
    bench = Bench(budget=True)
    bench.bind()
    bench.taints(K1)
    assert bench.taints() == ["eviction-asks tombstone", "Cancelled#2 TaintRemoved"]
    assert bench.answer(asked=1) == [], "the leave comes too late"
    assert bench.taints(K1) == ["Held#3 Held", "ask#3"]
    assert bench.answer(asked=1) == [], "it was for another ask"
    assert bench.answer(asked=3) == ["Requested#4 UntoleratedTaint", "ask#4 requested"]


def test_a_toleration_that_grows_makes_it_scheduled_again() -> None:
    bench = Bench(budget=True)
    bench.bind(tolerate("k1", 3))
    bench.taints(K1)
    bench.time = 3
    bench.fire(1, 3)
    assert bench.bind(tolerate("k1", 10), revision=2) == [
        "eviction-asks tombstone",
        "Scheduled#3 TolerationEnds",
        "timer 10",
    ]
    bench.restart()
    assert bench.answer(asked=2) == []
    bench.time = 10
    assert bench.fire(3, 10) == ["Held#4 Held", "timer off", "ask#4"]
    assert bench.bind(tolerate("k1"), revision=3) == ["eviction-asks tombstone", "Cancelled#5 Tolerated"]


def test_an_untolerated_taint_that_joins_makes_a_scheduled_one_due() -> None:
    bench = Bench(budget=True)
    bench.bind(tolerate("k1", 30))
    bench.taints(K1)
    bench.time = 4
    assert bench.taints(K1, ("k2", 4)) == ["Held#2 Held", "timer off", "ask#2"]
    assert bench.asked.due_time == at(4)
    assert bench.fire(1, 30) == []
    assert bench.taints(K1) == ["eviction-asks tombstone", "Scheduled#3 TolerationEnds", "timer 30"]


def test_leave_to_go_is_looked_at_again() -> None:
    bench = Bench(budget=True)
    bench.bind()
    bench.taints(K1)
    target = bench.state.targets["Node/n1"]
    target.taints = ()
    assert bench.answer(asked=1) == ["eviction-asks tombstone", "Cancelled#2 TaintRemoved"]


def test_a_pause_that_came_after_the_leave_to_go_holds() -> None:
    """Thousands may be granted at once, or while no eviction service runs. A later pause applies to them, too."""
    bench = Bench(budget=True)
    bench.bind()
    bench.taints(K1)
    leave = bench.time
    bench.time += 10
    bench.guard("EvictionPause", "stop", scope={"namespaces": ["default"]})
    bench.guard("EvictionPause", "other", scope={"namespaces": ["other"]})
    bench.time, now = leave, bench.time
    assert bench.answer(asked=1) == ["Held#2 by EvictionPause/stop Held", "ask#2"]
    assert bench.asked.due_time == bench.decided.deadline
    bench.restart()
    asks_anew = ["Held#3 by EvictionPause/stop Held", "ask#3"]
    assert bench.answer(asked=1) == asks_anew, "that was for the ask before; after a restart it asks again"
    bench.time = now
    assert bench.answer("EvictionPause/stop", asked=3) == []
    assert bench.answer(asked=3) == ["Held#4 by EvictionPause/stop Held", "ask#4"], "the pause's end is yet to be read"
    bench.unguard("EvictionPause", "stop")
    assert bench.answer(asked=4) == ["Requested#5 UntoleratedTaint", "ask#5 requested"]


def test_a_binding_that_ends_while_it_is_held_ends_the_task() -> None:
    bench = Bench(budget=True)
    bench.bind()
    bench.taints(K1)
    assert bench.unbind() == ["eviction-asks tombstone", "Cancelled#2 BindingEnded"]
    assert bench.answer(asked=1) == []
    assert bench.bind(generation=2)[0] == "Held#1 Held"
    assert bench.answer(asked=1) == [], "it was for the binding before"
    assert bench.answer(asked=1, generation=2)[0] == "Requested#2 UntoleratedTaint"


def test_the_reconciler_asks_again_when_no_answer_comes() -> None:
    bench = Bench(budget=True)
    bench.bind()
    bench.taints(K1)
    assert bench.reconcile(9) == []
    assert bench.reconcile(59) == [], "it was asked not long ago"
    assert bench.reconcile(60) == ["ask#1"]
    assert bench.reconcile(61) == []
    bench.answer("EvictionBudget/slow", asked=1)
    assert bench.reconcile(119) == []
    assert bench.reconcile(120) == ["ask#1"], "leave to go may have been lost since"
    assert bench.answer(asked=1) == ["Requested#3 UntoleratedTaint", "ask#3 requested"]


def test_a_held_eviction_asks_anew_when_its_labels_are_others() -> None:
    bench = Bench(budget=True)
    bench.bind(app="canary")
    bench.taints(K1)
    bench.answer("EvictionBudget/slow", asked=1)
    assert bench.bind(revision=2, app="canary") == [], "nothing that a guard looks at"
    assert bench.bind(revision=3) == ["Held#3 by EvictionBudget/slow Held", "ask#3"]
    assert (bench.asked.labels, bench.asked.due_time) == ({"app": "web"}, at(0))
    assert bench.answer(asked=1) == [], "that leave was for another"
    assert bench.bind(revision=4) == []
    assert bench.answer(asked=3) == ["Requested#4 UntoleratedTaint", "ask#4 requested"]
    assert bench.bind(revision=5, app="canary") == [], "it has gone"


def test_a_held_eviction_asks_anew_when_its_target_moves_to_another_zone() -> None:
    bench = Bench(budget=True)
    bench.bind()
    bench.taints(K1)
    assert bench.taints(K1) == []
    assert bench.taints(K1, zone="eu/eu-2") == ["Held#2 Held", "ask#2"]
    assert bench.asked.zone == "eu/eu-2"
    assert bench.taints() == ["eviction-asks tombstone", "Cancelled#3 TaintRemoved"]


def test_leave_to_go_with_other_labels_is_not_used() -> None:
    """The labels change while it waits for the taint-manager and has a grant."""
    bench = Bench(budget=True)
    bench.bind(app="canary")
    bench.taints(K1)
    bench.lagging = ["Node/n1"]
    assert bench.answer(asked=1) == []
    assert bench.bind(revision=2) == []
    bench.lagging = []
    assert bench.wake(0.5) == ["Held#2 Held", "ask#2"]
    assert bench.asked.labels == {"app": "web"}


def test_after_a_restart_it_asks_anew_and_no_leave_from_before_counts() -> None:
    """Other evictions may have happened, budgets may have changed, and the age of the answer is unknown."""
    bench = Bench(budget=True)
    bench.bind()
    bench.taints(K1)
    bench.answer("EvictionBudget/slow", asked=1)
    bench.restart()
    bench.time = 60
    assert bench.answer(asked=1) == ["Held#3 by EvictionBudget/slow Held", "ask#3"], "it was given while nobody heard"
    assert bench.decided.message == "held by EvictionBudget/slow; waits for a new grant after a restart"
    assert (bench.decided.asked, bench.asked.due_time) == (3, at(0))
    assert bench.answer("EvictionBudget/slow", asked=3) == [], "that is told already"
    assert bench.reconcile(90) == []
    assert bench.answer(asked=1) == []
    assert bench.answer(asked=3) == ["Requested#4 UntoleratedTaint", "ask#4 requested"]


def test_after_a_restart_it_asks_anew_though_no_answer_comes() -> None:
    bench = Bench(budget=True)
    bench.bind()
    bench.taints(K1)
    bench.restart()
    assert bench.reconcile(1) == ["Held#2 Held", "ask#2"]
    assert bench.decided.message == "waits for a new grant after a restart"
    assert bench.reconcile(2) == []


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (1.75, ["Requested#2 UntoleratedTaint", "ask#2 requested"]),
        (2.0, ["Held#2 Held", "ask#2"]),
        (600.0, ["Held#2 Held", "ask#2"]),
    ],
)
def test_leave_that_waits_for_the_taint_manager_is_good_for_a_moment(seconds: float, expected: list[str]) -> None:
    bench = Bench(budget=True)
    bench.bind()
    bench.taints(K1)
    bench.time, bench.lagging = 10, ["Node/n1"]
    assert bench.answer(asked=1) == []
    for step in range(1, int(seconds / 0.25)):
        assert bench.wake(10 + step * 0.25) == [], "it asks when it can go, not while it waits"
    bench.lagging = []
    assert bench.wake(10 + seconds) == expected
    if expected[0].startswith("Held"):
        assert bench.decided.message == "the grant has expired; waits for a new one"
        assert bench.answer(asked=1) == []
        assert bench.answer(asked=2) == ["Requested#3 UntoleratedTaint", "ask#3 requested"]


def test_leave_is_not_old_because_its_eviction_had_waited_before() -> None:
    """The answer comes while it waits to ask again."""
    bench = Bench(budget=True)
    bench.bind()
    bench.taints(K1)
    bench.lagging = ["Node/n1"]
    assert bench.service.reconcile(bench.state, at(60)) == []
    assert bench.wake(60) == []
    bench.time = 100
    assert bench.answer(asked=1) == []
    bench.lagging = []
    assert bench.wake(101) == ["Requested#2 UntoleratedTaint", "ask#2 requested"]


def test_work_waits_while_the_taint_manager_lags_behind() -> None:
    bench = Bench()
    bench.bind(tolerate("k1", 3))
    bench.taints(K1)
    bench.time, bench.lagging = 3, ["Node/n2", "Node/n1"]
    assert bench.fire(1, 3) == []
    assert bench.wake(3.1) == [], "it is not looked at all the time"
    assert bench.wake(4) == [], "for a moment nobody is told"
    assert bench.wake(5.5) == ["Held#2 by UpstreamLag Held"]
    assert bench.wake(9) == []
    bench.lagging = ["Node/n2"]
    assert bench.wake(10) == ["Requested#3 TolerationExpired", "timers tombstone"]
    assert bench.decided.decided_time == at(10)


@pytest.mark.parametrize("late", [TAINTS, BINDINGS], ids=["taints", "bindings"])
def test_what_waits_stays_due_though_what_is_read_then_was_decided_before(late: Topic) -> None:
    """Kafka hung. After the timer has fired, a record can be read that was decided before the deadline."""
    bench = Bench()
    bench.bind(tolerate("k1", 3), tolerate("k2", 8))
    bench.taints(K1, ("k2", 0))
    bench.time, bench.lagging = 3, ["Node/n1"]
    assert bench.fire(1, 3) == []
    bench.time = 1
    assert (bench.taints(K1) if late is TAINTS else bench.bind(tolerate("k1", 3), tolerate("k2", 7), revision=2)) == []
    bench.lagging = []
    assert bench.wake(4) == ["Requested#2 TolerationExpired", "timers tombstone"]


def test_work_waits_while_the_taint_manager_has_not_done_what_time_asks_of_it() -> None:
    """A removal was held, its time has come, and the taint-manager is not running."""
    bench = Bench()
    bench.bind(tolerate("k1", 3))
    bench.taints(K1, settles_at=2.5)
    bench.time = 3
    assert bench.fire(1, 3) == []
    assert bench.wake(5.5) == ["Held#2 by UpstreamLag Held"]
    bench.time = 6
    assert bench.taints() == ["Cancelled#3 TaintRemoved", "timer off"]


def test_what_time_will_change_of_the_taints_holds_nobody_before_that_time() -> None:
    bench = Bench()
    bench.bind(tolerate("k1", 3))
    bench.taints(K1, settles_at=3.5)
    bench.time = 3
    assert bench.fire(1, 3) == ["Requested#2 TolerationExpired", "timers tombstone"]


def test_what_waits_for_the_taint_manager_is_taken_back_by_what_that_writes() -> None:
    bench = Bench()
    bench.bind()
    bench.lagging = None
    assert bench.taints(K1) == []
    assert bench.wake(5) == ["Held#1 by UpstreamLag Held"]
    bench.restart()
    assert bench.wake(5) == []
    bench.lagging = []
    bench.time = 6
    assert bench.taints() == ["Cancelled#2 TaintRemoved"]
    assert bench.wake(20) == []


def test_what_waits_for_the_taint_manager_asks_when_a_guard_concerns_it() -> None:
    bench = Bench(budget=True)
    bench.bind()
    bench.lagging = None
    assert bench.taints(K1) == []
    assert bench.wake(5) == ["Held#1 by UpstreamLag Held"]
    bench.lagging = []
    assert bench.wake(6) == ["Held#2 Held", "ask#2"]
    assert bench.answer(asked=2) == ["Requested#3 UntoleratedTaint", "ask#3 requested"]


def test_the_governor_s_clock_does_not_make_what_is_due_wait_again() -> None:
    """The timer's clock is ahead of the governor's, so its answers seem to come before the deadline."""
    bench = Bench(budget=True)
    bench.bind(tolerate("k1", 30))
    bench.taints(K1)
    bench.time = 30
    assert bench.fire(1, 30) == ["Held#2 Held", "timer off", "ask#2"]
    bench.time = 25
    assert bench.answer("EvictionBudget/slow", asked=2) == ["Held#3 by EvictionBudget/slow Held"]
    assert bench.answer(asked=2) == ["Requested#4 TolerationExpired", "timers tombstone", "ask#4 requested"]


def test_an_old_set_of_taints_that_comes_with_a_newer_one_evicts_nobody() -> None:
    bench = Bench()
    bench.bind(tolerate("k1", 10))
    sets = [
        TargetTainted(
            target=bench.target,
            generation=number,
            taints=tuple(
                TaintRecord(key=k, effect="NoExecute", time_added=at(s), origins=(TaintOrigin.EXPLICIT,))
                for k, s in taints
            ),
        )
        for number, taints in enumerate([[K1], []], start=1)
    ]
    batch = [record(TAINTS, bench.target.key, event, id=f"s{event.generation}", time=at(12)) for event in sets]
    assert decide(bench.service, bench.state, batch, at(12)) == []


def test_the_reconciler_leaves_a_held_one_whose_deadline_is_past_alone() -> None:
    bench = Bench(budget=True)
    bench.bind(tolerate("k1", 3))
    bench.taints(K1)
    bench.time = 3
    bench.fire(1, 3)
    assert bench.reconcile(4) == []


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, []),
        ({"feature_gates": "Failover=true"}, []),
        ({"enable_no_execute_taint_eviction": True}, []),
        (OPEN, ["Held#1 Held", "ask#1"]),
        ({**OPEN, "resource_eviction_rate": 0}, ["Held#1 Held", "ask#1"]),
        ({**OPEN, "resource_eviction_rate": float("inf")}, ["Requested#1 UntoleratedTaint"]),
    ],
)
def test_work_leaves_a_cluster_only_when_both_switches_are_on(options: dict[str, Any], expected: list[str]) -> None:
    bench = Bench(target=CLUSTER, **options)
    bench.bind(purge_mode="Gracefully")
    assert bench.taints(K1) == expected
    if expected:
        assert bench.decided.purge_mode == "Gracefully"


def test_nothing_leaves_a_managed_cluster_by_its_taints() -> None:
    bench = Bench(target=TargetRef(kind=TargetKind.MANAGED_CLUSTER, name="m"), **OPEN)
    bench.bind()
    assert bench.taints(K1) == []


def test_equal_labels_are_kept_once() -> None:
    bench = Bench()
    bench.bind()
    other = Bench()
    other.bind()
    kept = bench.state.targets["Node/n1"].bindings["Pod/default/web"].traits
    assert kept.labels == {"app": "web"}
    bench.bind(generation=2)
    assert bench.state.targets["Node/n1"].bindings["Pod/default/web"].traits is kept


def test_a_wrong_guard_is_told_apart_and_guards_nothing() -> None:
    bench = Bench()
    with pytest.raises(ValueError, match=r"spec.maxConcurrent: Invalid value: 'x%'"):
        bench.guard("EvictionBudget", "slow", maxConcurrent="x%")
    bench.bind()
    assert bench.taints(K1) == ["Requested#1 UntoleratedTaint"]
    assert not bench.view.wants(RESOURCES, "Pod/default/web")
    assert EVICTIONS in bench.service.changelogs


def test_every_record_of_one_cause_has_an_id_of_its_own() -> None:
    """A reader that skips ids that it has seen must not skip the next state."""
    lags = Bench()
    lags.bind(tolerate("k1", 3))
    lags.taints(K1)
    lags.time, lags.lagging = 3, None
    lags.fire(1, 3)
    assert lags.wake(3) == []
    assert lags.wake(6) == ["Held#2 by UpstreamLag Held"]
    lags.lagging = []
    assert lags.wake(9) == ["Requested#3 TolerationExpired", "timers tombstone"]
    asks = Bench(budget=True)
    asks.bind()
    asks.taints(K1)
    assert [asks.reconcile(60), asks.reconcile(120)] == [["ask#1"], ["ask#1"]]
    for bench in (lags, asks):
        ids = [child_id(emit, 0) for emit in bench.written]
        assert len(set(ids)) == len(ids)
