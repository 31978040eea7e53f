"""A deployer that keeps to the rule of the contract runs what it should, in whatever order it reads the topics.

The topics are recorded from all services under random changes of a fleet, and read again by deployers that are killed,
lag behind in one topic or the other, and find topics compacted.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from tests.support.deploying import NaiveDeployer, RecordedDeployer, decisions_of, event_of, recorded
from tests.support.worlds.flow import Record
from tests.support.worlds.karmada import KarmadaWorld
from tests.support.worlds.nodes import NodeWorld, pod_spec
from tests.support.worlds.world import WITNESS

from moorage_schemas.eviction import EvictionDecided
from moorage_schemas.topics import BINDINGS, EVICTIONS, PLACEMENTS
from moorage_sdk.decisions import Remove, must_leave

NODES = ("n1", "n2", "n3")
CLUSTERS = ("paris", "oslo", "rome")


def fleet_of_nodes(seed: int, changes: int = 100) -> list[Record]:
    """A history of pods on nodes. Pods come back under their names, and so do nodes."""
    rng = random.Random(seed)  # noqa: S311 - the history must be repeatable
    world = NodeWorld(*NODES, WITNESS, seed=seed)
    world.taint(WITNESS, "keep-out", "NoSchedule")
    short: dict[str, Any] = {"tolerations": [{"key": "bad", "operator": "Exists", "tolerationSeconds": 20}]}
    world.declare("Pod", "a", pod_spec())
    world.run()
    for _ in range(changes):
        name, node = rng.choice(("a", "b")), rng.choice(NODES)
        match rng.randrange(12):
            case 0 | 1 | 8:
                world.declare("Pod", name, pod_spec(**(short if name == "b" else {})))
            case 2:
                world.delete("Pod", name)
            case 3 | 9 if f"Node//{node}" in world.objects:
                world.taint(node)
            case 4 if f"Node//{node}" in world.objects:
                world.untaint(node)
            case 5:
                world.delete_target(node)
            case 6 | 10 | 11:
                world.node(node)
            case _:
                template = {"metadata": {"labels": {"app": "web"}}, "spec": pod_spec()}
                world.declare("Deployment", "web", {"replicas": rng.randrange(3), "template": template})
        world.run()
        if rng.random() < 0.4:
            world.advance(rng.choice((5, 30)))
    return recorded(world.flow)


def fleet_of_clusters(seed: int, changes: int = 100) -> list[Record]:
    """A history of workloads on clusters, with divided replicas and both purge modes."""
    rng = random.Random(seed)  # noqa: S311 - the history must be repeatable
    world = KarmadaWorld(*CLUSTERS, seed=seed)
    for name in CLUSTERS:
        world.ready(name, "True")
    divided = {"replicaScheduling": {"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted"}}
    one = {"spreadConstraints": [{"spreadByField": "cluster", "minGroups": 1, "maxGroups": 1}]}
    world.policy("p", divided, failover={"cluster": {"purgeMode": "Directly"}})
    world.deploy("web", 4)
    world.run()
    for step in range(changes):
        cluster = rng.choice(CLUSTERS)
        match rng.randrange(8):
            case 0:
                world.deploy("web", rng.randrange(1, 6))
            case 1:
                mode = rng.choice(("Directly", "Gracefully"))
                grace = {"gracePeriodSeconds": 60} if mode == "Gracefully" else {}
                failover = {"cluster": {"purgeMode": mode, **grace}}
                world.policy("p", rng.choice((divided, one, {})), failover=failover)
            case 2 | 3:
                world.taint(cluster)
            case 4 | 5:
                world.untaint(cluster)
            case 6 if step % 3 == 0:
                world.delete("Deployment", "web")
                world.run()
                world.deploy("web", 2)
            case 7 if "ResourceBinding/default/web-deployment" in world.flow.table(PLACEMENTS):
                world.healthy(cluster)
            case _:
                world.advance(rng.choice((5, 70)))
        world.run()
    return recorded(world.flow)


def justified(records: Sequence[Record], removal: Remove, written: int) -> bool:
    """Whether a removal follows from what was written by then: what was removed is not to run."""
    present = decisions_of(records[:written])
    wanted = present.wanted(removal.running.key)
    return wanted is None or (wanted.uid, wanted.generation) != (removal.running.uid, removal.running.generation)


@pytest.mark.parametrize("fleet", [fleet_of_nodes, fleet_of_clusters])
@pytest.mark.parametrize("seed", range(6))
def test_every_order_of_reading_ends_with_what_is_to_run(fleet: Callable[[int], list[Record]], seed: int) -> None:
    records = fleet(seed)
    requested = [event for event in map(event_of, records) if isinstance(event, EvictionDecided) and must_leave(event)]
    assert requested, "the history has evictions"
    final = decisions_of(records)
    wanted = {key: (one.uid, one.generation, one.revision) for key in final.keys if (one := final.wanted(key))}
    for turn in range(30):
        rng = random.Random(1000 * seed + turn)  # noqa: S311 - as above
        removed: list[Remove] = []

        def remove(removal: Remove, written: int, removed: list[Remove] = removed) -> None:
            assert justified(records, removal, written), removal
            removed.append(removal)

        deployer = RecordedDeployer(records, rng, remove)
        deployer.write(rng.randrange(len(records)))
        deployer.start()
        while not deployer.is_done:
            deployer.write(rng.randrange(1, 20))
            deployer.read(rng.randrange(30))
            if rng.random() < 0.15:
                deployer.start()
                present = decisions_of(records[: deployer._written])
                now_wanted = {key: one.uid for key in present.keys if (one := present.wanted(key))}
                now_running = {key: one.uid for key, one in deployer.running.items()}
                assert now_running == now_wanted, "right after a start nothing is missing, and nothing is left"
        deployer.read_all()
        assert {key: (one.uid, one.generation, one.revision) for key, one in deployer.running.items()} == wanted


def history_with_a_namesake(*, elsewhere: bool) -> list[Record]:
    """A pod is evicted from n1, and one of the same name is created again: on the same node, or on another."""
    world = NodeWorld("n1", WITNESS)
    world.taint(WITNESS, "keep-out", "NoSchedule")
    world.declare("Pod", "web", pod_spec())
    world.run()
    world.taint("n1")
    world.run()
    world.delete("Pod", "web")
    world.run()
    if elsewhere:
        world.node("n2")
        world.delete_target("n1")
    else:
        world.untaint("n1")
    world.declare("Pod", "web", pod_spec())
    world.run()
    (bound,) = world.flow.table(BINDINGS).values()
    assert bound.target.name == ("n2" if elsewhere else "n1")
    return recorded(world.flow)


def test_acting_on_requested_alone_removes_a_newer_pod_on_replay() -> None:
    records = history_with_a_namesake(elsewhere=False)
    naive = NaiveDeployer()
    for topic in (BINDINGS, EVICTIONS):
        for record in (one for one in records if one.topic is topic):
            naive.read(record)
    assert naive.running == {}, "the old eviction has removed the new pod"


def test_acting_on_each_record_reports_healthy_for_nodes_long_gone() -> None:
    naive = NaiveDeployer()
    for record in history_with_a_namesake(elsewhere=True):
        naive.read(record)
    assert naive.reported == ["n1", "n2"], "n1 has been deleted"


@pytest.mark.parametrize("elsewhere", [False, True])
def test_the_rule_keeps_the_newer_pod_and_only_touches_where_it_is(elsewhere: bool) -> None:  # noqa: FBT001 - a case
    records = history_with_a_namesake(elsewhere=elsewhere)
    for turn in range(50):
        removed: list[Remove] = []

        def remove(removal: Remove, _: int, removed: list[Remove] = removed) -> None:
            removed.append(removal)

        rng = random.Random(turn)  # noqa: S311 - as above
        deployer = RecordedDeployer(records, rng, remove)
        deployer.write(len(records))
        deployer.start()
        ((key, running),) = deployer.running.items()
        assert key.endswith("Node/n2" if elsewhere else "Node/n1")
        assert (running.uid, removed) == (decisions_of(records).binding(key).uid, [])  # type: ignore[union-attr]  # it is bound
