"""A changed configuration takes effect at once, in every service, and is named in what the services decide by it."""

from __future__ import annotations

from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest
from tests.support.worlds.flow import START
from tests.support.worlds.karmada import GATES, KarmadaWorld
from tests.support.worlds.nodes import NodeWorld
from tests.support.worlds.world import PARTITIONS, World, flow_of, lifted

from moorage.runtime.engine.portions import CHECKS
from moorage.runtime.settings.process_settings import Settings
from moorage.workers import condition_ingest, taint_manager
from moorage_schemas.condition import ConditionReported, ConditionStatus
from moorage_schemas.eviction import EvictionState
from moorage_schemas.taint import TaintRecord
from moorage_schemas.topics import (
    BINDINGS,
    CONDITION_REPORTS,
    CONDITIONS,
    DEAD_LETTERS,
    EVICTIONS,
    TAINTS,
    TIMERS,
    ZONE_GRANTS,
    ZONES,
    Topic,
)

NOT_READY = "node.kubernetes.io/not-ready"
ONE = {"spreadConstraints": [{"spreadByField": "cluster", "minGroups": 1, "maxGroups": 1}]}
DIRECT = {"cluster": {"purgeMode": "Directly"}}


def settings(**changes: Any) -> Settings:
    return Settings(partitions=PARTITIONS, **changes)


def evicting(world: World, name: str) -> list[TaintRecord]:
    found = world.flow.table(TAINTS).get(world.ref(name).key)
    return [] if found is None else [taint for taint in found.taints if taint.effect == "NoExecute"]


def named(world: World, topic: Topic) -> list[int]:
    """The generation of the configuration that each record of a topic names."""
    return [record.meta.configuration for record in world.flow.records(topic)]


def states(world: World) -> list[EvictionState]:
    return [event.state for event in world.flow.events(EVICTIONS)]


# Nodes and zones.


def test_the_eviction_rate_of_zones() -> None:
    world = NodeWorld("n1", "n2", "n3", "witness", settings=lifted(partitions=PARTITIONS, node_eviction_rate=0))
    for name in ("n1", "n2"):
        world.report(name)
    world.report("witness", status="True")
    world.run().advance(3600)
    assert not evicting(world, "n1")
    assert not evicting(world, "n2")
    world.configure(lifted(node_eviction_rate=0.1))
    world.run()
    assert {zone.rate for zone in world.flow.table(ZONES).values()} == {0.1}
    granted = [name for name in ("n1", "n2") if evicting(world, name)]
    assert granted == [], "the bucket of a rate of 0 is empty, so the first token comes after ten seconds"
    world.advance(10)
    assert [name for name in ("n1", "n2") if evicting(world, name)] == ["n1"]
    world.configure(lifted())
    world.run()
    assert evicting(world, "n2")
    assert named(world, ZONE_GRANTS) == [1, 2]


def test_the_threshold_and_the_size_of_zones() -> None:
    world = NodeWorld(*(f"n{number}" for number in range(6)), settings=settings(node_monitor_grace_period=0))
    for number in range(6):
        world.report(f"n{number}", status="False" if number < 3 else "True")
    world.run().advance(60)
    assert {zone.state.value for zone in world.flow.table(ZONES).values()} == {"Normal"}
    world.configure(settings(node_monitor_grace_period=0, unhealthy_zone_threshold=0.5))
    world.run()
    (zone,) = world.flow.table(ZONES).values()
    assert (zone.state.value, zone.rate) == ("PartialDisruption", 0)
    world.configure(settings(node_monitor_grace_period=0, unhealthy_zone_threshold=0.5, large_cluster_size_threshold=5))
    world.run()
    (zone,) = world.flow.table(ZONES).values()
    assert (zone.state.value, zone.rate) == ("PartialDisruption", 0.01)


def test_the_time_that_a_node_waits() -> None:
    world = NodeWorld("n1", "witness", settings=lifted(partitions=PARTITIONS, node_monitor_period=3600))
    world.report("n1")
    world.report("witness", status="True")
    world.run().advance(60)
    assert not evicting(world, "n1")
    world.configure(lifted(node_monitor_period=30))
    world.run()
    assert evicting(world, "n1")


@pytest.mark.parametrize(("hold", "tainted"), [(30, True), (90, False)])
def test_the_hold_of_a_taint_that_waits(hold: float, *, tainted: bool) -> None:
    world = NodeWorld("n1", "witness", settings=lifted(partitions=PARTITIONS, taint_add_hold=3600))
    world.report("n1", "DiskPressure", "True")
    world.run().advance(60)
    (before,) = (event for event in world.flow.table(TAINTS).values() if event.target.name == "n1")
    assert not before.taints
    changed = world.configure(lifted(taint_add_hold=hold))
    world.run()
    (after,) = (event for event in world.flow.table(TAINTS).values() if event.target.name == "n1")
    assert bool(after.taints) is tainted
    if not tainted:
        assert after.settles_at == START + timedelta(seconds=hold)
        world.advance(30)
        (after,) = (event for event in world.flow.table(TAINTS).values() if event.target.name == "n1")
    assert [taint.key for taint in after.taints] == ["node.kubernetes.io/disk-pressure"]
    assert after.taints[0].time_added == START + timedelta(seconds=max(hold, 60)), "no deadline counts from earlier"
    written = [record for record in world.flow.records(TAINTS) if record.name == "Node/n1"]
    if tainted:
        assert written[-1].meta.causation_id == changed.meta.id
    assert written[-1].meta.configuration == 1


def test_the_hold_of_a_taint_that_stays() -> None:
    world = NodeWorld("n1", "witness", settings=lifted(partitions=PARTITIONS, taint_remove_hold=3600))
    world.report("n1", "DiskPressure", "True")
    world.run()
    world.report("n1", "DiskPressure", "False")
    world.run().advance(60)
    assert world.flow.table(TAINTS)["Node/n1"].taints
    world.configure(lifted())
    world.run()
    assert not world.flow.table(TAINTS)["Node/n1"].taints


# Heartbeats and reports.


def status(world: World, name: str = "n1") -> ConditionStatus:
    found: ConditionStatus = world.flow.table(CONDITIONS)[f"Node/{name}|Ready"].status
    return found


def deadlines(world: World) -> list[datetime | None]:
    return [event.deadline for event in world.flow.table(TIMERS).values()]


def test_a_shorter_grace_period() -> None:
    world = NodeWorld("n1", settings=settings(node_monitor_grace_period=86_400))
    world.report("n1", status="True")
    world.run().advance(30)
    world.configure(settings(node_monitor_grace_period=40))
    world.run()
    assert deadlines(world) == [START + timedelta(seconds=40)]
    world.advance(9)
    assert status(world) is ConditionStatus.TRUE
    world.advance(1)
    assert status(world) is ConditionStatus.UNKNOWN


def test_a_longer_grace_period() -> None:
    world = NodeWorld("n1", settings=settings(node_monitor_grace_period=40))
    world.report("n1", status="True")
    world.run().advance(30)
    world.configure(settings(node_monitor_grace_period=90))
    world.run().advance(59)
    assert status(world) is ConditionStatus.TRUE
    world.advance(1)
    assert status(world) is ConditionStatus.UNKNOWN


def test_a_grace_period_that_is_switched_on_and_off() -> None:
    world = NodeWorld("n1", settings=settings(node_monitor_grace_period=0))
    world.report("n1", status="True")
    world.run().advance(30)
    world.configure(settings(node_monitor_grace_period=40))
    world.run()
    assert deadlines(world) == [START + timedelta(seconds=40)]
    world.configure(settings(source_grace_periods="Node:probe=0"))
    world.run().advance(3600)
    assert status(world) is ConditionStatus.TRUE


def test_the_limits_of_reports() -> None:
    world = NodeWorld("n1", settings=settings(clock_skew=10))
    world.report("n1", at=START + timedelta(seconds=60))
    world.run()
    assert [letter.field for letter in world.flow.events(DEAD_LETTERS)] == ["observedTime"]
    world.configure(settings(clock_skew=120, report_max_bytes=1024))
    world.report("n1", at=START + timedelta(seconds=60))
    world.run()
    assert status(world) is ConditionStatus.FALSE
    world.advance(61)
    large = ConditionReported(
        target=world.ref("n1"),
        type="Ready",
        status=ConditionStatus.TRUE,
        observed_time=world.flow.now,
        message="x" * 2000,
    )
    world.flow.produce(CONDITION_REPORTS, "Node/n1", large)
    world.run()
    assert [letter.reason for letter in world.flow.events(DEAD_LETTERS)][1:] == ["TooLarge"]
    world.configure(settings(report_max_bytes=65_536))
    world.flow.produce(CONDITION_REPORTS, "Node/n1", large)
    world.run()
    assert status(world) is ConditionStatus.TRUE


# Evictions.


def leaving() -> KarmadaWorld:
    """Work on a cluster that has a taint that evicts, while evictions from clusters are off."""
    world = KarmadaWorld("c1", "c2", feature_gates="", enable_no_execute_taint_eviction=False)
    world.deploy("web")
    world.policy(placement={**ONE, "clusterAffinity": {"clusterNames": ["c1", "c2"]}}, failover=DIRECT)
    world.run()
    (name,) = world.where()
    world.taint(name)
    world.run().advance(60)
    assert states(world) == []
    return world


def test_evictions_from_clusters_are_switched_on() -> None:
    world = leaving()
    (before,) = world.where()
    world.configure(settings(**GATES))
    world.run()
    assert states(world) == [EvictionState.REQUESTED, EvictionState.COMPLETED]
    assert before not in world.where()
    assert named(world, EVICTIONS) == [1, 1]
    assert named(world, BINDINGS)[0] == 0
    assert named(world, BINDINGS)[-1] == 1


def test_evictions_from_clusters_are_switched_off() -> None:
    world = leaving()
    world.configure(settings(**{**GATES, "resource_eviction_rate": 0}))
    world.run()
    assert states(world)[-1] is EvictionState.HELD
    world.configure(settings())
    world.run()
    assert states(world)[-1] is EvictionState.CANCELLED
    assert world.flow.reconcile() == []


def test_the_rate_of_evictions_from_clusters() -> None:
    world = leaving()
    world.configure(settings(**{**GATES, "resource_eviction_rate": 0}))
    world.run().advance(3600)
    assert states(world)[-1] is EvictionState.HELD
    world.configure(settings(**{**GATES, "resource_eviction_rate": 0.5}))
    world.run().advance(2)
    assert states(world)[-1] is EvictionState.COMPLETED


def test_a_rate_that_is_lifted() -> None:
    world = leaving()
    world.configure(settings(**{**GATES, "resource_eviction_rate": 0}))
    world.run()
    world.configure(settings(**GATES))
    world.run()
    assert states(world)[-1] is EvictionState.COMPLETED


def test_the_patience_of_disruption_budgets() -> None:
    world = NodeWorld("n1", "n2", settings=lifted(partitions=PARTITIONS))
    labels = {"app": "web"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c"}]}}
    world.declare("Deployment", "web", {"replicas": 1, "template": template})
    world.declare("PodDisruptionBudget", "web", {"selector": {"matchLabels": labels}, "maxUnavailable": 0})
    world.run()
    (where,) = world.where()
    world.taint(where)
    world.run().advance(60)
    assert states(world)[-1] is EvictionState.HELD
    world.configure(lifted(disruption_budget_patience=90))
    world.run().advance(29)
    assert states(world)[-1] is EvictionState.HELD
    world.advance(1)
    assert EvictionState.COMPLETED in states(world)


# Policies and placement.


@pytest.mark.parametrize("effect", ["NoSchedule", "NoExecute"])
def test_cluster_taint_policies_are_switched_on(effect: str) -> None:
    world = KarmadaWorld("c1", feature_gates="")
    condition = {"conditionType": "Ready", "operator": "NotIn", "statusValues": ["True"]}
    world.declare(
        "ClusterTaintPolicy", "p", {"addOnConditions": [condition], "taints": [{"key": "hot", "effect": effect}]}
    )
    world.ready("c1", "False")
    world.run()
    assert "hot" not in {taint.key for taint in world.flow.table(TAINTS)["Cluster/c1"].taints}
    world.configure(settings(**GATES, allow_no_execute_taint_policy=True))
    world.run()
    assert "hot" in {taint.key for taint in world.flow.table(TAINTS)["Cluster/c1"].taints}


def test_a_changed_hold_does_not_bring_back_what_a_person_has_removed() -> None:
    silent = {"cluster_monitor_grace_period": 0}
    world = KarmadaWorld("c1", **silent)
    condition = {"conditionType": "Ready", "operator": "NotIn", "statusValues": ["True"]}
    taint = {"key": "hot", "effect": "NoSchedule"}
    world.declare("ClusterTaintPolicy", "p", {"addOnConditions": [condition], "taints": [taint]})
    world.ready("c1", "False")
    world.run()
    world.untaint("c1", "hot", "NoSchedule")
    world.run().advance(60)
    assert "hot" not in {taint.key for taint in world.flow.table(TAINTS)["Cluster/c1"].taints}
    world.configure(settings(**GATES, **silent, taint_add_hold=1))
    world.run().advance(10)
    assert "hot" not in {taint.key for taint in world.flow.table(TAINTS)["Cluster/c1"].taints}


def test_work_that_may_leave_without_a_replacement() -> None:
    world = KarmadaWorld("c1")
    world.deploy("web")
    world.policy(placement=ONE, failover=DIRECT)
    world.run()
    world.taint("c1")
    world.run().advance(60)
    assert world.placed().reason == "NoReplacement"
    world.configure(settings(**GATES, evict_without_replacement=True))
    world.run()
    assert world.where() == {}


def test_the_purge_mode_of_bindings() -> None:
    world = KarmadaWorld("c1")
    world.deploy("web")
    world.policy(placement=ONE)
    world.run()
    assert world.binding("c1").purge_mode == "Gracefully"
    world.configure(settings(**GATES, no_execute_taint_eviction_purge_mode="Directly"))
    world.run()
    assert world.binding("c1").purge_mode == "Directly"


# What holds for all of them.


def test_the_services_own_settings_do_not_count_once_there_is_a_configuration() -> None:
    """Two fleets whose processes have different settings decide alike, byte for byte."""
    worlds = [
        NodeWorld("n1", "n2", "witness", settings=own)
        for own in (settings(), lifted(partitions=PARTITIONS, taint_add_hold=60, disruption_budget_patience=1))
    ]
    for world in worlds:
        world.configure(settings(node_monitor_period=1, node_monitor_grace_period=20))
        world.declare("Deployment", "web", {"replicas": 3, "template": {"spec": {"containers": [{"name": "c"}]}}})
        for name in ("n1", "n2", "witness"):
            world.report(name, status="True")
        world.run().advance(10)
        world.report("witness", status="True")
        world.run().advance(15)
        world.report("n1", status="True")
        world.run().advance(3600)
    for topic in (CONDITIONS, TAINTS, ZONES, ZONE_GRANTS, EVICTIONS, BINDINGS, TIMERS):
        one, other = ([record.content for record in world.flow.records(topic)] for world in worlds)
        assert one == other, topic.short


def test_a_restart_decides_by_the_configuration() -> None:
    world = NodeWorld("n1", "witness", settings=lifted(partitions=PARTITIONS, taint_add_hold=3600))
    world.configure(lifted())
    world.run()
    for service in list(world.flow.services):
        world.flow.crash_process(service)
    world.report("n1")
    world.run()
    assert evicting(world, "n1")
    assert set(named(world, TAINTS)[-2:]) == {1}


def test_a_configuration_that_came_while_a_service_was_down() -> None:
    world = NodeWorld("n1", settings=settings(node_monitor_grace_period=86_400, taint_add_hold=3600))
    world.report("n1", status="True")
    world.report("n1", "DiskPressure", "True")
    world.run()
    for service in list(world.flow.services):
        world.flow.crash_process(service)
    world.configure(settings(node_monitor_grace_period=40, taint_add_hold=10))
    world.advance(20)
    assert world.flow.table(TAINTS)["Node/n1"].taints
    world.advance(20 + 300)  # for five minutes heartbeats did not have to be recorded
    assert status(world) is ConditionStatus.UNKNOWN


def test_records_name_no_configuration_while_there_is_none() -> None:
    world = NodeWorld("n1", settings=lifted(partitions=PARTITIONS))
    world.report("n1")
    world.run()
    assert {*named(world, TAINTS), *named(world, CONDITIONS)} == {0}
    assert all(name != "ce_configuration" for name, _ in world.flow.records(TAINTS)[-1].headers)


def test_a_change_is_applied_a_portion_at_a_time() -> None:
    """No transaction grows with the number of targets that a change concerns."""
    count = CHECKS + 100
    own = Settings(partitions=1, taint_add_hold=3600, node_monitor_grace_period=86_400)
    world = World(flow_of([module.service(own) for module in (condition_ingest, taint_manager)], partitions=1))
    for number in range(count):
        world.node(f"n{number}")
        world.report(f"n{number}", "DiskPressure", "True")
    world.run()
    world.configure(settings(node_monitor_grace_period=40))
    for service, topic in (("condition-ingest", TIMERS), ("taint-manager", TAINTS)):
        written = [len(world.flow.records(topic))]
        while world.flow.step(service, 0):
            written.append(len(world.flow.records(topic)))
        assert [after - before for before, after in pairwise(written) if after > before] == [CHECKS, 100]
        assert set(named(world, topic)[-count:]) == {1}
