"""Managed clusters and their add-ons, from declaration and reports to taints and labels, on a virtual clock."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any, ClassVar

import pytest
from tests.support.worlds.flow import START, Crash, Record
from tests.support.worlds.world import PARTITIONS, World, flow_of

from moorage.runtime.settings.process_settings import Settings
from moorage.workers import condition_ingest, eviction, governor, taint_manager, timer
from moorage_schemas.condition import ConditionChanged
from moorage_schemas.keys import binding_key
from moorage_schemas.placement import WorkloadBound
from moorage_schemas.refs import TargetKind, TargetRef, WorkloadRef
from moorage_schemas.taint import TargetTainted
from moorage_schemas.times import format_time
from moorage_schemas.topics import (
    BINDINGS,
    CONDITIONS,
    DEAD_LETTERS,
    EVICTIONS,
    RESOURCES,
    TAINTS,
    TIMERS,
    ZONE_GRANTS,
    ZONE_MEMBERS,
)

GRACE = timedelta(minutes=5)
AVAILABLE = "ManagedClusterConditionAvailable"
UNREACHABLE = "cluster.open-cluster-management.io/unreachable"
UNAVAILABLE = "cluster.open-cluster-management.io/unavailable"


class AgentWorld(World):
    """The services that keep taints, the cluster `c1`, and what people, agents and add-ons write."""

    kind: ClassVar[TargetKind] = TargetKind.MANAGED_CLUSTER
    effect: ClassVar[str] = "NoSelect"

    def __init__(self, *, seed: int | None = None, **settings: Any) -> None:
        chosen = Settings(partitions=PARTITIONS, **settings)
        modules = (condition_ingest, timer, taint_manager, governor, eviction)
        super().__init__(flow_of([module.service(chosen) for module in modules], seed=seed))

    def cluster(self, name: str = "c1", **spec: Any) -> Record:
        return self.target(name, **spec)

    def enable(self, name: str = "manager", cluster: str = "c1", **status: Any) -> None:
        self.declare("ManagedClusterAddOn", name, namespace=cluster, status=status)

    def renew(self, name: str = "manager", cluster: str = "c1", **spec: Any) -> None:
        spec = {"renewTime": format_time(self.flow.now), **spec}
        self.declare("Lease", name, spec, namespace=cluster)

    def say(self, status: str = "True", *, cluster: str = "c1", source: str = "agent") -> None:
        self.report(cluster, AVAILABLE, status, source=source)

    def live(self, seconds: float, *addons: str, every: float = 60) -> datetime:
        """The cluster reports and these add-ons renew their leases again and again; gives the last time."""
        end, last = self.flow.now + timedelta(seconds=seconds), self.flow.now
        while self.flow.now < end:
            last = self.flow.now
            self.say()
            for name in addons:
                self.renew(name)
            self.flow.advance(every)
        return last

    def heard_until(self) -> datetime:
        """The latest time at which the agent of `c1` may have been heard, as the record of its condition says."""
        found = self.flow.table(CONDITIONS)[f"ManagedCluster/c1|{AVAILABLE}"]
        assert isinstance(found, ConditionChanged)
        assert found.accepted_time is not None
        return found.accepted_time + timedelta(milliseconds=found.unrecorded_heartbeats_ms)

    def event(self, cluster: str = "c1") -> TargetTainted:
        found: TargetTainted = self.flow.table(TAINTS)[f"ManagedCluster/{cluster}"]
        return found

    def taints(self, cluster: str = "c1") -> dict[str, datetime]:
        return {taint.key: taint.time_added for taint in self.event(cluster).taints}

    def labels(self, cluster: str = "c1") -> dict[str, str]:
        prefix = "feature.open-cluster-management.io/addon-"
        found = self.event(cluster).labels
        assert all(key.startswith(prefix) for key in found)
        return {key.removeprefix(prefix): state for key, state in found.items()}

    def lose_all(self) -> None:
        for service in self.flow.services:
            self.flow.crash_process(service)
        self.flow.compact()

    def quiet(self) -> None:
        """Check that nothing about nodes was written, and that the reconcilers find nothing to repair."""
        self.flow.run()
        for topic in (ZONE_MEMBERS, ZONE_GRANTS, EVICTIONS, DEAD_LETTERS):
            assert self.flow.records(topic) == []
        assert self.flow.reconcile() == []


def nothing() -> None:
    pass


@pytest.mark.parametrize("restart", [False, True])
def test_the_life_of_a_cluster(*, restart: bool) -> None:
    world = AgentWorld()
    disturb: Callable[[], None] = world.lose_all if restart else nothing
    world.cluster()
    world.flow.run()
    assert world.taints() == {UNREACHABLE: START}, "nobody has said anything yet"
    world.flow.advance(100)
    disturb()
    assert world.taints() == {UNREACHABLE: START}
    world.say()
    world.flow.run()
    assert world.taints() == {}
    disturb()
    last = world.live(900)
    disturb()
    end = (world.heard_until() if restart else last) + GRACE
    assert last + GRACE <= end < last + GRACE * 1.5
    world.flow.advance_to(end - timedelta(microseconds=1))
    assert world.taints() == {}
    world.flow.advance(timedelta(microseconds=1))
    assert world.taints() == {UNREACHABLE: end}, "silent for five times a minute"
    disturb()
    world.flow.advance(1000)
    world.say("False")
    world.flow.run()
    down = world.flow.now
    assert world.taints() == {UNAVAILABLE: down}
    world.flow.advance(10)
    world.say("False")
    disturb()
    world.flow.run()
    assert world.taints() == {UNAVAILABLE: down}
    world.say("Unknown")
    world.flow.advance(7)
    assert world.taints() == {UNREACHABLE: down + timedelta(seconds=10)}
    world.say()
    world.flow.run()
    assert world.taints() == {}
    assert world.event().generation == 6
    world.quiet()


def test_people_s_taints_stay_beside_the_built_in_ones() -> None:
    world = AgentWorld()
    world.cluster()
    world.taint("c1", "gpu", "NoSelectIfNew")
    world.flow.advance(5)
    world.taint("c1", "gpu", "PreferNoSelect")
    world.untaint("c1", UNREACHABLE)
    world.flow.run()
    assert [(t.key, t.effect, t.time_added) for t in world.event().taints] == [
        (UNREACHABLE, "NoSelect", START),
        ("gpu", "NoSelectIfNew", START),
        ("gpu", "PreferNoSelect", START + timedelta(seconds=5)),
    ]
    world.say()
    world.flow.run()
    assert [t.key for t in world.event().taints] == ["gpu", "gpu"]
    world.quiet()


@pytest.mark.parametrize("restart", [False, True])
def test_the_life_of_an_add_on(*, restart: bool) -> None:
    world = AgentWorld()
    disturb: Callable[[], None] = world.lose_all if restart else nothing
    world.cluster()
    world.enable()
    world.flow.run()
    assert world.labels() == {}, "nothing was reported of its cluster"
    world.say()
    world.flow.run()
    assert world.labels() == {"manager": "unreachable"}, "it has no lease"
    disturb()
    world.renew()
    world.flow.run()
    assert world.labels() == {"manager": "available"}
    before = len(world.flow.records(TAINTS))
    renewed = world.live(1200, "manager")
    disturb()
    world.say()
    world.flow.advance_to(renewed + GRACE - timedelta(microseconds=1))
    world.say()
    world.flow.run()
    assert world.labels() == {"manager": "available"}
    if not restart:
        assert len(world.flow.records(TAINTS)) == before, "a lease that is renewed is not worth a record"
    disturb()
    world.flow.advance(timedelta(microseconds=1))
    assert world.labels() == {"manager": "unhealthy"}
    world.say()
    disturb()
    world.renew()
    world.flow.run()
    assert world.labels() == {"manager": "available"}
    world.quiet()


@pytest.mark.parametrize("restart", [False, True])
def test_an_add_on_whose_cluster_is_away_and_that_is_disabled(*, restart: bool) -> None:
    world = AgentWorld()
    disturb: Callable[[], None] = world.lose_all if restart else nothing
    world.cluster()
    world.enable()
    world.say()
    world.renew()
    world.flow.run()
    assert world.labels() == {"manager": "available"}
    generation = world.event().generation
    world.flow.advance(1)
    world.say("Unknown")
    world.flow.run()
    assert (world.labels(), world.event().generation) == ({"manager": "unreachable"}, generation + 1)
    assert [*world.taints()] == [UNREACHABLE], "in the same record"
    world.renew()
    disturb()
    world.flow.advance(10)
    assert world.labels() == {"manager": "unreachable"}
    world.say()
    disturb()
    world.flow.run()
    assert world.labels() == {"manager": "available"}
    disturb()
    world.delete("Lease", "manager", namespace="c1")
    world.flow.run()
    assert world.labels() == {"manager": "unreachable"}
    world.delete("ManagedClusterAddOn", "manager", namespace="c1")
    disturb()
    world.flow.run()
    assert world.labels() == {}
    world.quiet()


def test_two_add_ons_end_each_at_its_own_instant_and_a_restart_does_not_put_it_off() -> None:
    world = AgentWorld(managed_cluster_monitor_grace_period=0)
    world.cluster()
    world.say()
    for name, seconds in (("a", 2), ("b", 4)):
        world.enable(name)
        world.renew(name, leaseDurationSeconds=seconds)
    world.flow.advance(9)
    assert world.labels() == {"a": "available", "b": "available"}
    world.flow.advance(1)
    assert world.labels() == {"a": "unhealthy", "b": "available"}
    world.lose_all()
    assert world.flow.next_wake("taint-manager", world.flow.partition("ManagedCluster/c1")) is None
    world.flow.run()
    assert world.flow.next_wake("taint-manager", world.flow.partition("ManagedCluster/c1")) == START + 2 * timedelta(
        seconds=10
    )
    world.flow.crash_process("taint-manager")
    world.flow.now = START + timedelta(seconds=60)
    world.flow.run()
    assert world.labels() == {"a": "unhealthy", "b": "unhealthy"}
    world.quiet()


def test_a_restart_that_finds_only_the_newest_of_everything_lets_no_label_flicker() -> None:
    world = AgentWorld()
    world.cluster()
    world.enable("a")
    world.enable("b")
    world.live(120, "a", "b")
    before = len(world.flow.records(TAINTS))
    world.flow.crash_process("taint-manager")
    world.say()
    world.renew("a")
    world.enable("b")
    world.renew("b")
    world.flow.step("condition-ingest", world.flow.partition("ManagedCluster/c1"))
    world.flow.compact([RESOURCES, CONDITIONS])
    partition = world.flow.partition("ManagedCluster/c1")
    assert world.flow.state("taint-manager", partition).addons["ManagedCluster/c1"].leases == {}
    assert world.flow.reconcile("taint-manager") == [], "what is missing changes nothing"
    world.flow.run()
    assert world.labels() == {"a": "available", "b": "available"}
    assert len(world.flow.records(TAINTS)) == before


def test_an_end_that_was_compacted_away_unread_is_found_by_the_reconciler() -> None:
    world = AgentWorld(managed_cluster_monitor_grace_period=0)
    world.cluster()
    world.say()
    for name in ("a", "b", "c"):
        world.enable(name)
        world.renew(name, leaseDurationSeconds=1000)
    world.flow.advance(1)
    world.flow.crash_process("taint-manager")
    world.delete("ManagedClusterAddOn", "a", namespace="c1")
    world.delete("Lease", "b", namespace="c1")
    world.flow.compact([RESOURCES], keep_tombstones=False)
    world.flow.advance(1)
    assert world.labels() == {"a": "available", "b": "available", "c": "available"}
    assert len(world.flow.reconcile()) == 1
    assert world.labels() == {"b": "unreachable", "c": "available"}
    world.quiet()


def test_add_ons_that_come_before_their_cluster_are_kept_until_it_is_declared() -> None:
    world = AgentWorld()
    world.renew()
    world.enable()
    world.enable("never", cluster="other")
    world.flow.advance(10)
    assert world.flow.records(TAINTS) == []
    world.lose_all()
    world.cluster()
    world.say()
    world.flow.run()
    assert world.labels() == {"manager": "available"}
    world.delete("ManagedCluster", "c1")
    world.flow.run()
    assert world.flow.table(TAINTS) == {}
    world.renew()
    world.enable()
    world.flow.advance(1000)
    assert world.flow.table(TAINTS) == {}
    assert world.flow.table(CONDITIONS) == {}
    assert world.flow.table(TIMERS) == {}
    world.cluster()
    world.flow.run()
    assert (world.labels(), world.taints()) == ({}, {UNREACHABLE: world.flow.now})
    world.say()
    world.flow.run()
    assert world.labels() == {"manager": "unhealthy"}, "its lease is the old one"
    world.quiet()


def test_an_add_on_that_looks_after_its_own_health() -> None:
    world = AgentWorld()
    world.cluster()
    world.say()
    word = {"type": "Available", "status": "True"}
    world.enable(healthCheck={"mode": "Customized"}, conditions=[word])
    world.flow.run()
    assert world.labels() == {"manager": "available"}
    world.enable(healthCheck={"mode": "Customized"}, conditions=[{**word, "status": "False"}])
    world.flow.run()
    assert world.labels() == {"manager": "unhealthy"}
    world.enable(healthCheck={"mode": "Lease"}, conditions=[word])
    world.flow.run()
    assert world.labels() == {"manager": "unreachable"}, "now it goes by its lease, and has none"
    world.quiet()


def test_a_cluster_says_how_often_its_agent_reports() -> None:
    world = AgentWorld()
    world.cluster("c1", leaseDurationSeconds=10)
    world.cluster("c2", leaseDurationSeconds=0)
    world.say()
    world.say(cluster="c2")
    world.flow.advance(49)
    assert world.taints() == {}
    world.flow.advance(1)
    assert world.taints() == {UNREACHABLE: START + timedelta(seconds=50)}
    assert world.taints("c2") == {}
    world.flow.advance(250)
    assert world.taints("c2") == {UNREACHABLE: START + GRACE}
    world.say()
    world.flow.advance(10)
    world.cluster(leaseDurationSeconds=4)
    world.flow.advance(9)
    assert world.taints() == {}
    world.flow.advance(1)
    assert world.taints() == {UNREACHABLE: world.flow.now}, "it has shortened the time that runs"
    world.say()
    world.flow.advance(10)
    world.cluster(leaseDurationSeconds=60)
    world.flow.advance(200)
    assert world.taints() == {}
    world.lose_all()
    world.cluster(leaseDurationSeconds=1)
    world.flow.run()
    assert world.taints() == {UNREACHABLE: world.flow.now}, "and by more than was left of it"
    world.quiet()


def test_a_person_s_report_stands_and_one_about_an_unknown_cluster_is_refused() -> None:
    world = AgentWorld()
    world.cluster()
    world.say(source="cli/ann")
    world.flow.advance(100_000)
    assert world.taints() == {}
    world.say(cluster="nobody")
    world.flow.run()
    (letter,) = world.flow.events(DEAD_LETTERS)
    assert (letter.reason.value, letter.value) == ("UnknownTarget", "ManagedCluster/nobody")


def test_a_cluster_that_is_made_again_is_not_available_by_an_old_report() -> None:
    world = AgentWorld()
    world.cluster()
    world.flow.run()
    world.flow.stop("condition-ingest")
    world.say()
    world.flow.advance(5)
    world.delete("ManagedCluster", "c1")
    world.cluster()
    world.flow.start("condition-ingest")
    world.flow.advance(5)
    assert set(world.taints()) == {UNREACHABLE}, "nobody has ever reported on this one"
    world.say()
    world.flow.advance(5)
    assert world.taints() == {}


def test_zones_policies_and_evictions_keep_out_of_managed_clusters() -> None:
    world = AgentWorld(
        feature_gates="Failover=true",
        allow_no_execute_taint_policy=True,
        enable_no_execute_taint_eviction=True,
    )
    terms = [{"conditionType": AVAILABLE, "operator": "In", "statusValues": ["True", "False"]}]
    taints = [{"key": "policy", "effect": "NoExecute"}]
    world.declare("ClusterTaintPolicy", "all", spec={"addOnConditions": terms, "taints": taints})
    world.cluster()
    world.enable()
    world.renew()
    work = WorkloadRef(kind="Pod", namespace="default", name="p")
    target = TargetRef(kind=TargetKind.MANAGED_CLUSTER, name="c1")
    bound = WorkloadBound(workload=work, uid="p", owner=work, target=target, generation=1, bound_time=world.flow.now)
    world.flow.produce(BINDINGS, binding_key(work, target), bound, partition_key=target.key)
    for effect in ("NoExecute", "NoSelect"):
        world.taint("c1", "mine", effect)
    world.live(200, "manager")
    assert [*world.taints()] == ["mine"]
    world.say("False")
    world.flow.advance(1000)
    assert [*world.taints()] == ["mine", UNREACHABLE]
    world.quiet()


@pytest.mark.parametrize("seed", range(6))
def test_crashes_at_any_step_do_not_change_what_becomes_of_it(seed: int) -> None:
    """The result at the end of each phase is the same with any crashes."""
    rng = random.Random(seed)  # noqa: S311 - drawn to be repeated
    world = AgentWorld(seed=seed)
    world.flow.crash_when = lambda _service, _partition: rng.choice((None, None, *Crash))
    world.cluster()
    for name in ("a", "b"):
        world.enable(name)
    world.flow.run()
    assert (world.labels(), [*world.taints()]) == ({}, [UNREACHABLE])
    world.live(300, "a", "b")
    assert (world.labels(), world.taints()) == ({"a": "available", "b": "available"}, {})
    world.live(300, "b")
    world.flow.compact([RESOURCES, CONDITIONS], keep_tombstones=False)
    world.live(60, "b")
    assert (world.labels(), world.taints()) == ({"a": "unhealthy", "b": "available"}, {})
    world.flow.advance(GRACE * 1.5)
    assert (world.labels(), [*world.taints()]) == ({"a": "unreachable", "b": "unreachable"}, [UNREACHABLE])
    world.live(60, "a")
    assert (world.labels(), world.taints()) == ({"a": "available", "b": "unhealthy"}, {})
    last: TargetTainted | None = None
    for event in world.flow.events(TAINTS):
        assert event.generation == (last.generation if last is not None else 0) + 1
        assert last is None or (last.taints, last.labels, last.held) != (event.taints, event.labels, event.held)
        last = event
    world.flow.crash_when = lambda _service, _partition: None
    world.quiet()
