"""Stray records in every topic: bytes, keys, partitions and events that no service has written.

Whatever they are, each partition goes on, and the way of an event is whole afterwards.
"""

from __future__ import annotations

import random
from datetime import timedelta
from typing import Final

import pytest
import structlog
from tests.support.stray_records import Stray, Strays
from tests.support.worlds.flow import START, Record
from tests.support.worlds.nodes import NodeWorld, pod_spec
from tests.support.worlds.owners import Owners
from tests.support.worlds.world import PARTITIONS, TEMPLATE, WITNESS, World, every_service, lifted

from moorage_schemas.topics import (
    BINDINGS,
    EVICTIONS,
    TAINTS,
    TOPICS,
)

NOT_READY = "node.kubernetes.io/not-ready"
SOME: Final = 400
"""Stray records of one seed."""


class StrayWorld(NodeWorld):
    """Nodes and pods, with owners that begin anew."""

    def __init__(self) -> None:
        settings = lifted(partitions=PARTITIONS)
        flow = Owners(every_service(settings), partitions=PARTITIONS, start=START)
        self.settings = settings
        World.__init__(self, flow)
        self.owners = flow

    def check(self) -> None:
        """Stray bindings have no pods."""


def declare_budget(world: StrayWorld) -> None:
    world.declare("PodDisruptionBudget", "web", {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}})


def lived(world: StrayWorld) -> None:
    """Let the world write records of every kind."""
    for name in ("n1", "n2", "n3", WITNESS):
        world.node(name, zone="a")
        world.report(name, status="True")
    world.declare("Deployment", "web", {"replicas": 3, "selector": {}, "template": TEMPLATE})
    declare_budget(world)
    world.declare("Pod", "alone", pod_spec(), labels={"app": "web"})
    world.configure(world.settings)
    world.run()
    for bound in world.flow.table(BINDINGS).values():
        world.report(bound.target.name, "Healthy", "True", binding=bound, source="deployer")
    world.run()
    world.report("n1", status="False")
    world.advance(10)
    world.taint("n2", "bad")
    world.advance(400)
    world.report("n1", status="True")
    world.untaint("n2", "bad")
    world.advance(60)


def whole(world: StrayWorld, name: str = "") -> None:
    """A node that is not ready gets its taint, its pods leave in time, and a new pod is placed."""
    flow = world.owners
    lost, safe = f"lost{name}", f"safe{name}"
    for known in ("n1", "n2", "n3", WITNESS):
        world.node(known, zone="a")
        world.report(known, status="True")
    declare_budget(world)
    world.node(lost, zone="z", labels={"pool": lost})
    world.report(lost, status="True")
    stays = {"key": NOT_READY, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
    world.declare("Pod", f"here{name}", pod_spec(nodeSelector={"pool": lost}, tolerations=[stays]))
    world.advance(5)
    placed = world.pods()[f"here{name}"]
    assert placed.target is not None, placed.message
    assert placed.target.name == lost
    world.report(lost, status="False")
    world.advance(30)
    tainted = flow.table(TAINTS)[f"Node/{lost}"]
    assert NOT_READY in {one.key for one in tainted.taints if one.effect == "NoExecute"}
    world.node(safe, zone="z", labels={"pool": safe})
    world.report(safe, status="True")
    world.declare("Pod", f"new{name}", pod_spec(nodeSelector={"pool": safe}))
    world.advance(290)
    key = next(key for key in flow.table(EVICTIONS) if key.startswith(f"Pod/default/here{name}|"))
    (task,) = (one for other, one in flow.table(EVICTIONS).items() if other == key)
    assert task.requested_time is not None, task
    since = task.requested_time - min(one.time_added for one in tainted.taints if one.effect == "NoExecute")
    assert timedelta(seconds=300) <= since <= timedelta(seconds=305)
    assert world.pods()[f"new{name}"].target is not None


def stray(world: StrayWorld, record: Stray) -> None:
    topic, partition, key, value, headers = record
    world.flow.produce_raw(topic, partition, key=key, value=value, headers=headers)


def known_of(world: StrayWorld) -> list[Record]:
    return [record for topic in TOPICS for record in world.flow.records(topic)]


@pytest.mark.parametrize("seed", range(6))
def test_the_way_of_an_event_is_whole_whatever_is_in_the_topics(seed: int) -> None:
    rng = random.Random(seed)  # noqa: S311 - the random choices must be repeatable
    world = StrayWorld()
    lived(world)
    with structlog.testing.capture_logs():  # the tracebacks of what is skipped take most of the time
        go_astray(world, rng)


def go_astray(world: StrayWorld, rng: random.Random) -> None:
    for record in Strays(rng, known_of(world), PARTITIONS).some(SOME):
        stray(world, record)
    world.advance(1_000)
    before = len(world.owners.failures)
    whole(world)
    world.flow.reconcile()
    assert world.owners.failures[before:] == [], "no wake fails again and again"
    for service in world.flow.services:
        world.flow.crash_process(service)
    whole(world, "-again")
