"""Histories of `bindings` and `evictions`, as all services write them under random changes of a fleet."""

from __future__ import annotations

import random
from typing import Any

from tests.support.deploying import recorded
from tests.support.worlds.flow import Record
from tests.support.worlds.karmada import KarmadaWorld
from tests.support.worlds.nodes import NodeWorld, pod_spec
from tests.support.worlds.world import WITNESS

from moorage_schemas.topics import PLACEMENTS

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
