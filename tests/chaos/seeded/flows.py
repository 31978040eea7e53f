"""Sound runs of the services on topics in memory, as histories for the checker."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from tests.chaos.seeded.from_flow import history_of
from tests.chaos.seeded.history import History
from tests.scenario.flow.test_budgets import GuardedWorld, web_on
from tests.scenario.flow.test_heartbeats import beat, make_flow
from tests.scenario.flow.test_ocm_whole_way import GRACE, WholeWorld
from tests.scenario.flow.test_zones import Outage
from tests.support.worlds.flow import Flow
from tests.support.worlds.karmada import GATES, KarmadaWorld
from tests.support.worlds.world import WITNESS, World, lifted, tolerate

from moorage.runtime.settings.process_settings import Settings
from moorage.workers import condition_ingest, eviction, governor, taint_manager, timer
from moorage_schemas.condition import EVICTED, HEALTHY
from moorage_schemas.topics import BINDINGS

LIFTED: dict[str, object] = {
    "node_monitor_grace_period": 0,
    "node_eviction_rate": "inf",
    "secondary_node_eviction_rate": "inf",
    "large_cluster_size_threshold": 0,
    "node_monitor_period": 0,
}
"""As `lifted` has them."""


def _services(settings: Settings) -> Flow:
    modules = (condition_ingest, taint_manager, governor, eviction, timer)
    return Flow([module.service(settings) for module in modules], partitions=3)


@lru_cache
def patience() -> History:
    """Three pods on a node: one goes at once, one after its time, one stays; another is let off in time.

    A node becomes not ready, for which one pod waits 30 s and one longer than the run.
    """
    flow = _services(lifted(partitions=3))
    fleet = World(flow)
    for name in ("n1", "n2", "n3", WITNESS):
        fleet.node(name)
    fleet.bind("bare", "n1")
    fleet.bind("patient", "n1", [tolerate("bad", 30)])
    fleet.bind("loyal", "n1", [tolerate("bad")])
    fleet.bind("lucky", "n2", [tolerate("bad", 30)])
    fleet.bind("slow", "n3", [tolerate("node.kubernetes.io/not-ready", 30)])
    fleet.bind("waiting", "n3", [tolerate("node.kubernetes.io/not-ready", 600)])
    flow.advance(10)
    for name in ("n1", "n2"):
        fleet.taint(name, "bad")
    flow.advance(20)
    fleet.untaint("n2", "bad")
    flow.advance(5)
    fleet.unbind("bare", "n1")
    flow.advance(60)
    fleet.report("n3", "Ready", "False")
    fleet.report("n2", "DiskPressure", "True")
    flow.advance(60)
    return history_of(flow, settings=LIFTED)


@lru_cache
def deployed() -> History:
    """A deployer runs two pods on a node that both have to leave. It acknowledges one, and the other waits for it."""
    flow = _services(lifted(partitions=3))
    fleet = World(flow)
    for name in ("n1", WITNESS):
        fleet.node(name)
    for name in ("done", "kept"):
        fleet.bind(name, "n1")
    flow.run()
    bound = {one.workload.name: one for one in flow.table(BINDINGS).values()}
    for one in bound.values():
        fleet.report("n1", HEALTHY, "True", source="deployer", binding=one)
    flow.advance(10)
    fleet.taint("n1", "bad")
    flow.advance(5)
    fleet.report("n1", EVICTED, "True", source="deployer", binding=bound["done"])
    flow.advance(5)
    fleet.unbind("done", "n1")
    flow.advance(60)
    return history_of(flow, settings=LIFTED)


@lru_cache
def outage() -> History:
    """A zone is lost node by node, and comes back."""
    world = Outage({"a": 8, "b": 8}, replicas=16)
    world.flow.advance(20)
    world.ready("True", *world.zone_of)
    world.ready("Unknown", *world.of("a"))
    world.flow.advance(60)
    world.ready("True", *world.of("a"))
    world.flow.advance(60)
    return history_of(world.flow, settings={"node_monitor_grace_period": 0})


@lru_cache
def budgets() -> History:
    """Four pods leave by a budget, a disruption budget and a pause."""
    world: GuardedWorld = web_on("n1", "n2", "n3", "n4", spare=("s1", "s2", "s3", "s4"))
    world.guard("EvictionBudget", "slow", maxInWindow=1, windowSeconds=60, maxConcurrent=1)
    world.pdb(minAvailable=3)
    world.guard("EvictionPause", "all")
    world.flow.advance(5)
    for name in ("n1", "n2", "n3", "n4"):
        world.taint(name, "bad")
    world.flow.advance(30)
    world.delete("EvictionPause", "all")
    world.flow.advance(300)
    return history_of(world.flow, settings=LIFTED)


@lru_cache
def heartbeats() -> History:
    """Two sources; one of them falls silent."""
    flow = make_flow()
    fleet = World(flow)
    fleet.node("n1")
    fleet.node("n2")
    flow.run()
    beat(flow, "n1 n2", 60)
    beat(flow, "n1", 120)
    return history_of(flow)


def _clusters(**settings: Any) -> KarmadaWorld:
    world = KarmadaWorld("c0", "c1", "c2", **settings)
    world.policy(placement={"spreadConstraints": [{"spreadByField": "cluster", "minGroups": 1, "maxGroups": 3}]})
    for name in ("a", "b", "c"):
        world.deploy(name)
    return world.run()


@lru_cache
def clusters() -> History:
    """Work leaves a Karmada cluster at two seconds apart; another cluster is not ready."""
    world = _clusters(resource_eviction_rate=0.5)
    world.advance(10)
    world.taint("c0")
    world.ready("c1", "False")
    world.advance(30)
    for name in ("a", "b", "c"):
        for cluster in world.where(f"{name}-deployment"):
            world.healthy(cluster, f"{name}-deployment")
    world.advance(30)
    gates = {**GATES, "resource_eviction_rate": 0.5}
    return history_of(world.flow, settings=gates)


@lru_cache
def managed() -> History:
    """Managed clusters come and go by their availability and a person's taint."""
    world = WholeWorld("c1", "c2", "c3")
    world.placement()
    world.run()
    for name in ("c1", "c2", "c3"):
        world.available(name)
    world.advance(10)
    world.taint("c3", "mine")
    world.available("c1", "False")
    world.advance(10)
    return history_of(world.flow, settings={"managed_cluster_monitor_grace_period": GRACE})


SOUND = (patience, outage, budgets, heartbeats, clusters, managed)
