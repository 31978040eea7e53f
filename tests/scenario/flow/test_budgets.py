"""Evictions that are held by budgets, pauses and rates, through all services on a virtual clock."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from datetime import datetime, timedelta
from typing import Any

import pytest
from tests.support.tables import table
from tests.support.worlds.flow import Crash, Record
from tests.support.worlds.nodes import NodeWorld
from tests.support.worlds.world import lifted

from moorage_schemas.budget import EvictionAnswered
from moorage_schemas.eviction import EvictionDecided, EvictionState
from moorage_schemas.placement import WorkloadBound
from moorage_schemas.refs import TargetKind, TargetRef, WorkloadRef
from moorage_schemas.taint import TaintOrigin, TaintRecord, TargetTainted
from moorage_schemas.topics import (
    BINDINGS,
    BUDGETS,
    EVICTION_ANSWERS,
    EVICTION_ASKS,
    EVICTION_SLOTS,
    EVICTIONS,
    RESOURCES,
    TAINTS,
    TIMERS,
)

PDB = "PodDisruptionBudget/default/web"


class GuardedWorld(NodeWorld):
    """All services, with guards."""

    def deployment(self, name: str, replicas: int, **spec: Any) -> Record:
        template = {"metadata": {"labels": {"app": name}}, "spec": {"containers": [{"name": "c"}], **spec}}
        return self.declare("Deployment", name, {"replicas": replicas, "template": template})

    def guard(self, kind: str, name: str, **spec: Any) -> Record:
        return self.declare(kind, name, spec)

    def pdb(self, **spec: Any) -> Record:
        return self.guard("PodDisruptionBudget", "web", selector={"matchLabels": {"app": "web"}}, **spec)

    def nodes_of(self, owner: str) -> list[str]:
        return [event.target.name for event in self.flow.table(BINDINGS).values() if event.owner.name == owner]

    def least_bound(self, owner: str, since: int) -> int:
        """The lowest number of an owner's pods that were bound at any time after this number of records."""
        bound: set[str] = set()
        least = 10**6
        for number, record in enumerate(self.flow.records(BINDINGS)):
            if record.event is not None and record.event.owner.name == owner:
                bound.add(record.name)
            else:
                bound.discard(record.name)
            if number >= since:
                least = min(least, len(bound))
        return least

    def requested(self) -> list[str]:
        return [e.workload.name for e in self.flow.events(EVICTIONS) if e.state is EvictionState.REQUESTED]

    def states(self) -> Counter[EvictionState]:
        return Counter(event.state for event in self.flow.table(EVICTIONS).values())

    def assert_whole(self) -> None:
        """Check that nothing waits, nothing is remembered, and nothing was requested twice."""
        assert self.flow.table(EVICTION_ASKS) == {}
        assert self.flow.table(EVICTION_SLOTS) == {}
        assert self.flow.table(TIMERS) == {}
        again = Counter(record.name for record in self.flow.records(EVICTIONS) if is_request(record))
        assert set(again.values()) <= {1}


def is_request(record: Record) -> bool:
    return isinstance(record.event, EvictionDecided) and record.event.state is EvictionState.REQUESTED


def web_on(*nodes: str, spare: tuple[str, ...] = (), seed: int | None = None, **settings: Any) -> GuardedWorld:
    """A pod of a deployment on each node, and spare nodes for replacements."""
    world = GuardedWorld(*nodes, seed=seed, settings=lifted(partitions=3, **settings))
    world.deployment("web", len(nodes))
    world.run()
    assert sorted(world.nodes_of("web")) == sorted(nodes)
    for name in spare:
        world.node(name)
    world.run()
    return world


def test_a_pod_on_a_lost_node_is_not_healthy() -> None:
    """Kubernetes sets the pods of such a node to not ready. The last living pod stays."""
    world = web_on("n1", "n2")
    world.pdb(minAvailable=1)
    world.report("n1", status="Unknown")
    world.flow.advance(5)
    assert world.flow.table(BUDGETS)[PDB].healthy == 1
    world.taint("n2", "bad")
    world.flow.advance(5)
    assert world.requested() == []
    (held,) = [event for event in world.flow.table(EVICTIONS).values() if event.held_by]
    assert held.held_by == (PDB,)
    world.flow.crash_process("governor")
    world.flow.advance(5)
    assert world.requested() == [], "after a restart, too"
    world.report("n1", status="True")
    world.flow.advance(5)
    assert len(world.requested()) == 1


def test_two_of_three_stay_while_two_nodes_are_tainted_at_once() -> None:
    world = web_on("n1", "n2", "n3", spare=("s1", "s2"))
    world.pdb(minAvailable=2)
    world.flow.run()
    since = len(world.flow.records(BINDINGS))
    for name in ("n1", "n2"):
        world.taint(name, "bad")
    world.run()
    assert len(world.requested()) == 2
    assert world.least_bound("web", since) == 2
    assert sorted(world.nodes_of("web")) == ["n3", "s1", "s2"]
    held = [event for event in world.flow.events(EVICTIONS) if event.held_by]
    assert [event.held_by for event in held] == [(PDB,)]
    assert held[0].message == f"held by {PDB}: 2 of 2 needed pods are healthy"
    world.assert_whole()


def test_when_patience_is_over_it_goes_and_says_so() -> None:
    world = web_on("n1", spare=("s1",), disruption_budget_patience=60)
    world.pdb(maxUnavailable=0)
    world.flow.run()
    world.taint("n1", "bad")
    world.flow.advance(59.999)
    assert world.requested() == []
    assert world.states() == {EvictionState.HELD: 1}
    world.flow.advance(0.001)
    assert len(world.requested()) == 1
    assert world.nodes_of("web") == ["s1"]
    (event,) = (e for e in world.flow.events(EVICTIONS) if e.state is EvictionState.REQUESTED)
    assert f"is granted despite {PDB}: its patience of 60 s is over" in event.message
    world.assert_whole()


def test_a_pause_holds_while_deadlines_pass_and_all_go_at_once_after_it() -> None:
    world = GuardedWorld("n1", settings=lifted(partitions=3))
    tolerations = [{"key": "bad", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 30}]
    world.deployment("web", 2, tolerations=tolerations)
    world.run()
    world.guard("EvictionPause", "all", reason="night")
    world.flow.run()
    world.taint("n1", "bad")
    world.flow.advance(29)
    world.node("s1")
    assert world.states() == {EvictionState.SCHEDULED: 2}
    began = world.flow.now + timedelta(seconds=1)
    world.flow.advance(1000)
    assert world.states() == {EvictionState.HELD: 2}
    assert {e.deadline for e in world.flow.table(EVICTIONS).values()} == {began}
    assert {e.message for e in world.flow.table(EVICTIONS).values()} == {"held by EvictionPause/all: night"}
    world.delete("EvictionPause", "all")
    world.run()
    assert len(world.requested()) == 2
    assert world.nodes_of("web") == ["s1", "s1"]
    world.assert_whole()


def test_a_pause_that_comes_while_leave_to_go_is_on_its_way_holds() -> None:
    world = web_on("n1", "n2", spare=("s1", "s2"))
    world.guard("EvictionPause", "first")
    world.flow.run()
    for name in ("n1", "n2"):
        world.taint(name, "bad")
    world.run()
    world.delete("EvictionPause", "first")
    while any([world.flow.step("governor", p) for p in range(3)]):  # noqa: C419 - every partition gets its turn
        pass
    assert sum(event.granted for event in world.flow.events(EVICTION_ANSWERS)) == 2
    world.flow.now += timedelta(seconds=1)
    world.guard("EvictionPause", "second")
    world.flow.run()
    assert (world.requested(), world.states()) == ([], Counter({EvictionState.HELD: 2}))
    assert {event.held_by for event in world.flow.table(EVICTIONS).values()} == {("EvictionPause/second",)}
    world.delete("EvictionPause", "second")
    world.run()
    assert len(world.requested()) == 2
    world.assert_whole()


def test_what_is_cancelled_while_it_is_held_never_goes() -> None:
    world = web_on("n1", spare=("s1",))
    world.guard("EvictionPause", "all")
    world.flow.run()
    world.taint("n1", "bad")
    world.flow.advance(10)
    world.untaint("n1", "bad")
    world.flow.advance(10)
    assert world.states() == {EvictionState.CANCELLED: 1}
    world.delete("EvictionPause", "all")
    world.flow.advance(10)
    assert world.requested() == []
    assert world.nodes_of("web") == ["n1"]
    world.assert_whole()


def test_what_no_guard_concerns_is_not_asked_for() -> None:
    world = web_on("n1", spare=("s1",))
    world.guard("EvictionPause", "other", scope={"namespaces": ["other"]})
    world.flow.run()
    world.taint("n1", "bad")
    world.run()
    assert len(world.requested()) == 1
    assert world.flow.records(EVICTION_ASKS) == []


def test_a_budget_by_zone_and_in_a_window() -> None:
    world = GuardedWorld(settings=lifted(partitions=3))
    for name, zone in (("n1", "a"), ("n2", "a"), ("n3", "b"), ("n4", "b")):
        world.node(
            name,
            allocatable={"cpu": "8"},
            labels={"topology.kubernetes.io/region": "r", "topology.kubernetes.io/zone": zone},
        )
    world.deployment("web", 4)
    world.run()
    assert sorted(world.nodes_of("web")) == ["n1", "n2", "n3", "n4"]
    world.node("s1")
    world.guard("EvictionBudget", "slow", per="Zone", maxInWindow=1, windowSeconds=600)
    world.flow.run()
    for event in world.flow.table(RESOURCES).values():
        if event.kind == "Node" and event.name.startswith("n"):
            world.flow.produce(
                TAINTS,
                f"Node/{event.name}",
                TargetTainted(
                    target=TargetRef(kind=TargetKind.NODE, name=event.name),
                    target_uid=event.uid,
                    generation=99,
                    zone="r/a" if event.name in {"n1", "n2"} else "r/b",
                    taints=(record(world.flow.now),),
                ),
            )
    world.flow.run()
    assert len(world.requested()) == 2
    went = {e.target.name for e in world.flow.events(EVICTIONS) if e.state is EvictionState.REQUESTED}
    assert len(went & {"n1", "n2"}) == len(went & {"n3", "n4"}) == 1
    world.flow.advance(599.999)
    assert len(world.requested()) == 2
    world.flow.advance(0.001)
    assert len(world.requested()) == 4
    world.flow.advance(600)
    world.assert_whole()


def record(now: datetime) -> TaintRecord:
    return TaintRecord(key="bad", effect="NoExecute", time_added=now, origins=(TaintOrigin.EXPLICIT,))


def test_bindings_of_an_earlier_version_get_their_labels() -> None:
    """They had none. Without labels no disruption budget would select the pods that still run."""
    world = web_on("n1", "n2", spare=("s1", "s2"))
    for record in world.flow.records(BINDINGS):
        old = record.event.model_copy(update={"labels": {}})
        world.flow.produce(BINDINGS, record.name, old, partition_key=old.target.key)
    for service in world.flow.services:
        world.flow.crash_process(service)
    world.run()
    bindings = world.flow.table(BINDINGS).values()
    assert [event.labels["app"] for event in bindings] == ["web", "web"]
    assert [(event.generation, event.revision) for event in bindings] == [(1, 2), (1, 2)]
    assert world.flow.reconcile("placement") == []
    world.pdb(minAvailable=1)
    world.flow.run()
    since = len(world.flow.records(BINDINGS))
    for name in ("n1", "n2"):
        world.taint(name, "bad")
    world.run()
    assert (sorted(world.nodes_of("web")), world.least_bound("web", since)) == (["s1", "s2"], 1)


def test_budgets_are_shown_to_people() -> None:
    world = web_on("n1", "n2", spare=("s1",))
    world.pdb(minAvailable=2)
    world.guard("EvictionBudget", "slow", maxConcurrent="50%")
    world.flow.run()
    world.taint("n1", "bad")
    world.flow.advance(2)
    shown = world.flow.table(BUDGETS)
    assert shown["PodDisruptionBudget/default/web"].held == 1
    assert shown["PodDisruptionBudget/default/web"].expected == 2
    assert shown["EvictionBudget//slow"].allowed == 1
    assert len({record.partition for record in world.flow.records(BUDGETS)}) == 1


def test_work_leaves_clusters_at_the_rate() -> None:
    world = GuardedWorld(
        settings=lifted(
            partitions=3,
            feature_gates="Failover=true",
            enable_no_execute_taint_eviction=True,
            resource_eviction_rate=0.5,
        )
    )
    cluster = TargetRef(kind=TargetKind.CLUSTER, name="c1")
    for number in range(4):
        ref = WorkloadRef(kind="ResourceBinding", namespace="shop", name=f"web-{number}")
        event = WorkloadBound(
            workload=ref, uid=str(ref), owner=ref, target=cluster, generation=1, bound_time=world.flow.now
        )
        world.flow.produce(BINDINGS, f"{ref}|{cluster}", event, partition_key=cluster.key)
    world.flow.run()
    tainted = TargetTainted(target=cluster, generation=1, taints=(record(world.flow.now),))
    world.flow.produce(TAINTS, cluster.key, tainted)
    began = world.flow.now
    world.flow.advance(60)
    times = [e.decided_time - began for e in world.flow.events(EVICTIONS) if e.state is EvictionState.REQUESTED]
    assert times == [timedelta(seconds=seconds) for seconds in (0, 2, 4, 6)]


def bare(count: int, **settings: Any) -> GuardedWorld:
    """Bare pods on one node."""
    world = GuardedWorld("n1", settings=lifted(partitions=3, **settings))
    for number in range(count):
        world.declare("Pod", f"p{number}", {"containers": [{"name": "c"}]}, labels={"app": "web"})
    world.run()
    return world


def watch(world: GuardedWorld, seconds: int) -> list[int]:
    """Advance the clock. Returns how many more were requested at each second, starting now.

    A record contains the time of its cause, such as an answer, and not the time at which it was written.
    """
    counts = [len(world.requested())]
    for _ in range(seconds):
        world.flow.advance(0)
        counts.append(len(world.requested()))
        world.flow.advance(1)
    world.flow.run()
    return [after - before for before, after in itertools.pairwise([*counts, len(world.requested())])]


def in_windows(counts: list[int], width: int) -> int:
    """The highest number of them in any window of this width."""
    return max(sum(counts[first : first + width]) for first in range(len(counts)))


@pytest.mark.parametrize("seconds", [1, 15, 60, 600])
def test_a_window_holds_though_eviction_was_away_while_it_granted(seconds: int) -> None:
    """Grants do not accumulate while it is away, and an old grant is not used."""
    world = bare(6)
    world.guard("EvictionBudget", "slow", maxInWindow=1, windowSeconds=10)
    world.flow.run()
    world.taint("n1", "bad")
    world.flow.run()
    assert world.states() == {EvictionState.COMPLETED: 1, EvictionState.HELD: 5}
    world.flow.stop("eviction")
    world.flow.advance(seconds)
    assert sum(event.granted for event in world.flow.events(EVICTION_ANSWERS)) == (1 if seconds < 10 else 2)
    world.flow.start("eviction")
    counts = watch(world, 60)
    assert len(world.requested()) == 6
    assert in_windows(counts, 10) == 1
    world.flow.advance(10)
    world.assert_whole()


def test_a_window_holds_though_the_taint_manager_was_away_while_it_granted() -> None:
    """A granted eviction waits until the taints are known, and then asks again, once."""
    world = bare(4)
    world.guard("EvictionBudget", "slow", maxInWindow=1, windowSeconds=10)
    world.flow.run()
    world.taint("n1", "bad")
    world.flow.run()
    world.flow.stop("taint-manager")
    world.taint("n1", "worse")
    world.flow.advance(120)
    assert len(world.requested()) == 1
    assert {event.revision for event in world.flow.events(EVICTION_ASKS) if event is not None} == {1, 2}
    world.flow.start("taint-manager")
    counts = watch(world, 60)
    assert len(world.requested()) == 4
    assert in_windows(counts, 10) == 1
    world.flow.advance(10)
    world.assert_whole()


def relabel(world: GuardedWorld, name: str, **labels: str) -> None:
    world.declare("Pod", name, {"containers": [{"name": "c"}]}, labels=labels)


def test_a_held_eviction_is_held_by_what_concerns_its_present_labels() -> None:
    world = bare(2, disruption_budget_patience=1e6)
    relabel(world, "p1", app="canary")
    world.run()
    world.pdb(minAvailable=2)
    world.guard("EvictionPause", "all")
    world.flow.run()
    world.taint("n1", "bad")
    world.flow.run()
    relabel(world, "p1", app="web")
    world.flow.run()
    world.delete("EvictionPause", "all")
    world.flow.advance(5)
    assert (world.requested(), world.states()) == ([], Counter({EvictionState.HELD: 2}))
    assert {event.held_by for event in world.flow.table(EVICTIONS).values()} == {(PDB,)}
    relabel(world, "p1", app="canary")
    world.flow.advance(5)
    assert world.requested() == ["p1"]


@pytest.mark.parametrize("kind", ["EvictionBudget", "EvictionPause"])
def test_a_held_eviction_is_let_go_by_a_selector_that_selects_it_no_more(kind: str) -> None:
    world = bare(1)
    spec = {"maxConcurrent": 0} if kind == "EvictionBudget" else {}
    world.guard(kind, "some", scope={"selector": {"matchLabels": {"app": "web"}}}, **spec)
    world.flow.run()
    world.taint("n1", "bad")
    world.flow.advance(100)
    assert world.states() == {EvictionState.HELD: 1}
    relabel(world, "p0", app="other")
    world.flow.run()
    assert world.requested() == ["p0"]


@pytest.mark.parametrize("kind", ["EvictionBudget", "PodDisruptionBudget"])
def test_a_budget_that_came_after_the_leave_to_go_holds_when_eviction_is_back(kind: str) -> None:
    world = bare(2, disruption_budget_patience=1e6)
    world.guard("EvictionPause", "all")
    world.flow.run()
    world.taint("n1", "bad")
    world.flow.run()
    world.flow.stop("eviction")
    world.delete("EvictionPause", "all")
    world.flow.advance(5)
    assert sum(event.granted for event in world.flow.events(EVICTION_ANSWERS)) == 2
    if kind == "EvictionBudget":
        world.guard(kind, "slow", maxConcurrent=0)
    else:
        world.pdb(minAvailable=2)
    world.flow.advance(5)
    world.flow.start("eviction")
    world.flow.advance(120)
    assert (world.requested(), world.states()) == ([], Counter({EvictionState.HELD: 2}))
    name = {"EvictionBudget": "EvictionBudget/slow", "PodDisruptionBudget": PDB}[kind]
    assert {event.held_by for event in world.flow.table(EVICTIONS).values()} == {(name,)}


@table("seed", range(25))
def test_crashes_and_any_order_change_nothing(seed: int) -> None:
    rng = random.Random(seed)  # noqa: S311 - the random choices must be repeatable
    world = web_on("n1", "n2", "n3", "n4", "n5", "n6", spare=("s1", "s2", "s3"), seed=seed)
    world.pdb(minAvailable=4)
    world.guard("EvictionBudget", "slow", maxConcurrent=1, scope={"namespaces": ["default"]})
    world.flow.run()
    since = len(world.flow.records(BINDINGS))

    def crash(_service: str, _partition: int) -> Crash | None:
        return rng.choice(list(Crash)) if rng.random() < 0.1 else None

    world.flow.crash_when = crash
    for number in range(1, 5):
        world.taint(f"n{number}", "bad")
        if rng.random() < 0.5:
            world.flow.run()
        if rng.random() < 0.3:
            world.flow.crash_process(rng.choice(sorted(world.flow.services)))
    if paused := rng.random() < 0.5:
        world.guard("EvictionPause", "all")
    world.flow.advance(5)
    if paused:
        world.delete("EvictionPause", "all")
    world.flow.advance(5)
    world.check()
    assert Counter(world.nodes_of("web")).total() == 6
    assert not set(world.nodes_of("web")) & {"n1", "n2", "n3", "n4"}
    assert len(world.requested()) == 4
    assert world.least_bound("web", since) >= 5, "one at a time"
    world.assert_whole()
    used = {(r.name, r.event.asked) for r in world.flow.records(EVICTIONS) if is_request(r)}
    granted = Counter(
        name
        for name, *_ in {
            (r.name, r.event.asked, r.event.revision)  # the same answer may be told again
            for r in world.flow.records(EVICTION_ANSWERS)
            if isinstance(r.event, EvictionAnswered) and r.event.granted and (r.name, r.event.asked) in used
        }
    )
    assert set(granted.values()) == {1}
