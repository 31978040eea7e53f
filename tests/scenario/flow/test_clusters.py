"""Clusters that are mirrored under names: each is a fleet of its own, whatever names its objects have."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.worlds.mirrored import BRIDGE, MirroredWorld, controller
from tests.support.worlds.world import TEMPLATE, lifted

from moorage.runtime.settings.process_settings import Settings
from moorage_schemas.condition import EVICTED
from moorage_schemas.eviction import EvictionState
from moorage_schemas.placement import PlacementState
from moorage_schemas.topics import (
    BINDINGS,
    BUDGETS,
    CONDITIONS,
    EVICTIONS,
    PLACEMENTS,
    TAINTS,
    ZONE_GRANTS,
    ZONE_MEMBERS,
    ZONES,
    Topic,
)

CLUSTERS = ("", "east", "west")
TABLES = (CONDITIONS, TAINTS, ZONE_MEMBERS, ZONES, ZONE_GRANTS, PLACEMENTS, BINDINGS, EVICTIONS, BUDGETS)
OF_CHAINS = {"reportId", "earlierReports", "correlationId", "traceparent"}
"""Ids that are made from keys, and differ with them."""

OF_BUDGETS = {"generation", "countedTime", "allowedSince"}
"""The status of all budgets is written at most once a second."""

NODES, PODS = ("n1", "n2", "n3"), ("web-0", "web-1", "web-2")

Step = tuple[str, ...]


# One fleet beside others is as it is alone.


def node(world: MirroredWorld, name: str, zone: str) -> None:
    world.node(name, zone=zone, allocatable={"cpu": "1", "pods": "5"})


def report(world: MirroredWorld, name: str, status: str) -> None:
    world.report(name, "Ready", status, source=BRIDGE)


def taint(world: MirroredWorld, name: str, effect: str) -> None:
    if name in declared(world):
        world.taint(name, effect=effect)


def untaint(world: MirroredWorld, name: str) -> None:
    if name in declared(world):
        world.untaint(name)


def pod(world: MirroredWorld, name: str, on: str, cpu: str) -> None:
    world.pod(name, on=on, cpu=cpu, schedulerName="moorage")
    world.own("Pod", name, controller("ReplicaSet", "web"))


def gone(world: MirroredWorld, name: str) -> None:
    if world.bindings(name):
        bound = world.bound(name)
        world.report(bound.target.key, EVICTED, "True", source=BRIDGE, binding=bound)


def scale(world: MirroredWorld, replicas: str) -> None:
    world.mirror("ReplicaSet", "web", {"replicas": int(replicas), "template": TEMPLATE})


def budget(world: MirroredWorld, amount: str) -> None:
    spec = {"selector": {"matchLabels": {"app": "web"}}, "maxUnavailable": int(amount)}
    world.mirror("PodDisruptionBudget", "web", spec)


def declared(world: MirroredWorld) -> set[str]:
    return {found["metadata"]["name"] for found in world.objects.values() if found["kind"] == "Node"}


def ready(world: MirroredWorld, name: str, status: str) -> None:
    if world.bindings(name):
        world.ready(name, status=status)


DEEDS: dict[str, Callable[..., object]] = {
    "node": node,
    "lose": MirroredWorld.delete_target,
    "report": report,
    "taint": taint,
    "untaint": untaint,
    "pod": pod,
    "delete": lambda world, name: world.delete("Pod", name),
    "gone": gone,
    "ready": ready,
    "scale": scale,
    "budget": budget,
}


def table(world: MirroredWorld, topic: Topic) -> dict[str, Any]:
    """What was decided in a world, without its cluster."""
    cluster = world.within
    leave_out = OF_CHAINS | (OF_BUDGETS if topic is BUDGETS else set())
    found = {}
    for key, event in world.flow.table(topic).items():
        head, colon, _ = key.partition(":")
        if (head if colon else "") != cluster:
            continue
        values = {name: value for name, value in event.model_dump(mode="json").items() if name not in leave_out}
        text = json.dumps([key, without_cluster(values)])
        own_key, own_values = json.loads(text.replace(f"{cluster}:", "") if cluster else text)
        found[own_key] = own_values
    return found


def without_cluster(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: without_cluster(one) for name, one in value.items() if name != "cluster"}
    return [without_cluster(one) for one in value] if isinstance(value, list) else value


def worlds(clusters: Sequence[str], limits: Settings) -> list[MirroredWorld]:
    """Worlds that share their services."""
    first = MirroredWorld(settings=limits, cluster=clusters[0])
    return [first, *(MirroredWorld(settings=limits, cluster=one, beside=first) for one in clusters[1:])]


def play(found: Sequence[MirroredWorld], steps: Sequence[tuple[int, Step]], numbers: Sequence[int]) -> None:
    """Play the steps of some of the worlds, by their numbers. Time passes for all."""
    for number, step in steps:
        if step[0] == "wait":
            found[0].flow.advance(int(step[1]))
        elif number in numbers:
            DEEDS[step[0]](found[numbers.index(number)], *step[1:])
        for world in found:
            world.run()


names, pods = st.sampled_from(NODES), st.sampled_from(PODS)
STEPS = st.one_of(
    st.tuples(st.just("node"), names, st.sampled_from(["a", "b"])),
    st.tuples(st.just("lose"), names),
    st.tuples(st.just("report"), names, st.sampled_from(["True", "False", "Unknown"])),
    st.tuples(st.just("taint"), names, st.sampled_from(["NoSchedule", "NoExecute"])),
    st.tuples(st.just("untaint"), names),
    st.tuples(st.just("pod"), pods, st.sampled_from(["", *NODES]), st.sampled_from(["", "400m", "900m"])),
    st.tuples(st.just("delete"), pods),
    st.tuples(st.just("gone"), pods),
    st.tuples(st.just("ready"), pods, st.sampled_from(["True", "False"])),
    st.tuples(st.just("scale"), st.sampled_from(["1", "3"])),
    st.tuples(st.just("budget"), st.sampled_from(["0", "1"])),
    st.tuples(st.just("wait"), st.sampled_from(["1", "6", "60", "400"])),
)


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 2), STEPS), min_size=5, max_size=30),
    st.sampled_from([Settings(partitions=3), lifted(partitions=3)]),
)
def test_a_cluster_beside_others_is_as_it_would_be_alone(
    steps: list[tuple[int, tuple[str, ...]]], limits: Settings
) -> None:
    beginning: list[tuple[int, Step]] = [(number, ("node", name, "a")) for number in range(3) for name in NODES]
    steps = [*beginning, *steps, (0, ("wait", "10"))]
    together = worlds(CLUSTERS, limits)
    play(together, steps, (0, 1, 2))
    for number, world in enumerate(together):
        alone = MirroredWorld(settings=limits)
        play([alone], steps, (number,))
        for topic in TABLES:
            assert table(world, topic) == table(alone, topic), (world.within, topic.short)


# The same, one rule after the other.


def two() -> tuple[MirroredWorld, MirroredWorld]:
    """Two clusters with nodes of the same names, n1 and n2."""
    east, west = worlds(("east", "west"), lifted(partitions=3))
    for world in (east, west):
        world.node("n1")
        world.node("n2")
    east.run()
    return east, west


def test_a_pod_goes_to_a_node_of_its_cluster() -> None:
    east, west = worlds(("east", "west"), lifted(partitions=3))
    west.node("n1")
    home = MirroredWorld("n1", beside=east)
    east.pod("web", schedulerName="moorage")
    east.run()
    assert east.pods()["web"].state is PlacementState.PENDING
    assert east.pods()["web"].message.startswith("0/0 nodes are available")
    east.node("n1")
    east.run()
    assert str(east.bound("web").target) == "east:Node/n1"
    assert (west.pods(), home.pods()) == ({}, {})


def test_a_taint_evicts_from_its_cluster_alone() -> None:
    east, west = two()
    for world in (east, west):
        world.pod("web", on="n1")
    east.run()
    east.taint("n1")
    east.run()
    (task,) = east.flow.table(EVICTIONS).values()
    assert (str(task.workload), str(task.target), task.state) == (
        "east:Pod/default/web",
        "east:Node/n1",
        EvictionState.REQUESTED,
    )
    east.acknowledge("web")
    assert east.bindings("web") == []
    assert len(west.bindings("web")) == 1


def test_the_last_ready_node_of_a_cluster_stops_its_taints_and_no_others() -> None:
    east, west = two()
    for name in ("n1", "n2"):
        east.report(name, "Ready", "False", source=BRIDGE)
    west.report("n1", "Ready", "False", source=BRIDGE)
    east.run()
    evicting = {
        key: any(taint.effect == "NoExecute" for taint in event.taints)
        for key, event in east.flow.table(TAINTS).items()
    }
    assert evicting == {
        "east:Node/n1": False,
        "east:Node/n2": False,
        "west:Node/n1": True,
        "west:Node/n2": False,
    }
    assert {key: zone.stopped for key, zone in east.flow.table(ZONES).items()} == {"east:/": True, "west:/": False}


@pytest.mark.parametrize("seed", range(3))
def test_everything_goes_on_after_a_restart_in_each_cluster(seed: int) -> None:
    first = MirroredWorld("n1", cluster="east", seed=seed)
    second = MirroredWorld("n1", cluster="west", beside=first)
    for world in (first, second):
        world.node("n2")
        world.pod("web", schedulerName="moorage")
    first.run()
    for service in ("condition-ingest", "taint-manager", "governor", "eviction", "timer", "placement"):
        first.flow.crash_process(service)
    first.taint(first.bound("web").target.key)
    first.run()
    assert first.task(first.bound("web")).state is EvictionState.REQUESTED
    assert len(first.flow.table(EVICTIONS)) == 1
    second.pod("more", schedulerName="moorage")
    second.run()
    assert second.bound("more").target != second.bound("web").target, "the room that was taken is known"


def evictions(world: MirroredWorld) -> dict[str, str]:
    return {str(one.workload): one.state.value for one in world.flow.table(EVICTIONS).values()}


def test_a_disruption_budget_selects_pods_of_its_cluster_alone() -> None:
    east, west = two()
    spec = {"selector": {"matchLabels": {"app": "web"}}, "minAvailable": 1}
    east.mirror("PodDisruptionBudget", "web", spec)
    for world in (east, west):
        world.pod("web", on="n1")
    east.run()
    for world in (east, west):
        world.taint("n1")
    east.run()
    assert evictions(east) == {"east:Pod/default/web": "Held", "west:Pod/default/web": "Requested"}
    (held,) = [one for one in east.flow.table(EVICTIONS).values() if one.held_by]
    assert held.held_by == ("east:PodDisruptionBudget/default/web",)


SCOPES: list[tuple[dict[str, Any], set[str]]] = [
    ({}, {"east", "west"}),
    ({"namespaces": ["default"]}, {"east", "west"}),
    ({"zones": ["east:/a"]}, {"east"}),
    ({"targets": ["east:Node/n1"]}, {"east"}),
    ({"workloads": ["east:Pod/default/web"]}, {"east"}),
    ({"workloads": ["Pod/default/web"]}, set()),
]


@pytest.mark.parametrize(("scope", "held"), SCOPES)
def test_pauses_of_the_home_fleet_hold_all_clusters_unless_they_name_one(scope: dict[str, Any], held: set[str]) -> None:
    east, west = two()
    home = MirroredWorld(beside=east)
    home.declare("EvictionPause", "all", {"scope": scope})
    for world in (east, west):
        world.node("n1", zone="a")
        world.pod("web", on="n1")
    east.run()
    for world in (east, west):
        world.taint("n1")
    east.run()
    assert {key.partition(":")[0] for key, state in evictions(east).items() if state == "Held"} == held


def test_an_eviction_budget_counts_namespaces_of_clusters_apart() -> None:
    east, west = two()
    home = MirroredWorld(beside=east)
    home.declare("EvictionBudget", "slow", {"per": "Namespace", "maxConcurrent": 1})
    for world in (east, west):
        for name in ("web-0", "web-1"):
            world.pod(name, on="n1")
    east.run()
    for world in (east, west):
        world.taint("n1")
    east.run()
    assert sorted(evictions(east).values()) == ["Held", "Held", "Requested", "Requested"]
    home.declare("EvictionBudget", "slow", {"per": "Fleet", "maxConcurrent": 1})
    for world in (east, west):
        world.pod("web-2", on="n1")
    east.run()
    assert sorted(evictions(east).values()) == ["Held", "Held", "Held", "Held", "Requested", "Requested"]


def test_rules_of_the_home_fleet_for_dedicated_nodes_do_not_reach_into_a_cluster() -> None:
    east, _ = two()
    home = MirroredWorld(beside=east)
    home.declare("DedicatedNodes", "gpu", {"value": "gpu"})
    east.taint("n1", "dedicated", "NoSchedule", "gpu")
    east.taint("n2", "dedicated", "NoSchedule", "gpu")
    east.pod("web", schedulerName="moorage")
    east.run()
    assert east.pods()["web"].state is PlacementState.PENDING


Change = Callable[[MirroredWorld], object]


@pytest.mark.parametrize("kind", ["Deployment", "DaemonSet", "StatefulSet"])
def test_a_controller_that_a_cluster_declares_has_its_pods_there(kind: str) -> None:
    east, west = two()
    east.declare(kind, "web", {"replicas": 2, "template": TEMPLATE})
    east.run()
    assert {str(one.target) for one in east.pods().values()} == {"east:Node/n1", "east:Node/n2"}
    assert {one.owner.cluster for one in east.pods().values()} == {"east"}
    assert west.pods() == {}
    east.delete(kind, "web")
    east.run()
    assert east.pods() == {}
