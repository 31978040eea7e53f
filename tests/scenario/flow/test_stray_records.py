"""Stray records in every topic: bytes, keys, partitions and events that no service has written.

Whatever they are, each partition goes on, and the way of an event is whole afterwards.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, Final

import orjson
import pytest
import structlog
from tests.support.worlds.flow import START, Record
from tests.support.worlds.nodes import NodeWorld, pod_spec
from tests.support.worlds.owners import Owners
from tests.support.worlds.world import PARTITIONS, TEMPLATE, WITNESS, World, every_service, lifted

from moorage_schemas.envelope import Meta, to_headers
from moorage_schemas.topics import (
    BINDINGS,
    CONFIGURATION,
    EVICTIONS,
    TAINTS,
    TOPICS,
    Topic,
    partition_of,
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


Stray = tuple[Topic, int, bytes | None, bytes | None, tuple[tuple[str, bytes], ...]]

ODD_KEYS: Final = (
    b"",
    b"Node/",
    b"/",
    b"|",
    b"||",
    b"Node/n1|",
    b"|Node/n1",
    b"Node//n1",
    b"Node//",
    b"Pod/default/x",
    b"Pod/default/x|Node/",
    b"Pod/default/x|Node/n1|",
    b"Pod/default/x|Node/n1|-1",
    b"Pod//|Node/n1|1",
    b"paris:Node/n1",
    b"paris:Node//n1",
    b":Node/n1",
    b"PARIS:Node/",
    b"Thing/n1",
    b"Nodes",
    b"a" * 5_000,
    b"\xff\xfe",
    "Node/ü".encode(),
    b"zone",
    b"fleet",
    b"cluster",
    b"0",
    b"999",
)
ODD_VALUES: Final[tuple[Any, ...]] = (
    None,
    True,
    -1,
    0,
    10**30,
    1e300,
    "",
    "x",
    "x" * 70_000,
    [],
    {},
    [None],
    {"": None},
    "2026-13-01T00:00:00Z",
)


def headers_of(topic: Topic, number: int, *, source: str = "stray") -> tuple[tuple[str, bytes], ...]:
    return tuple(to_headers(Meta(id=f"stray-{number}", source=source, type=topic.event_type, time=START)))


def changed(rng: random.Random, value: Any) -> Any:
    """A value that differs at a random place."""
    if isinstance(value, dict) and value and rng.random() < 0.85:
        name = rng.choice(sorted(value))
        return {**value, name: changed(rng, value[name])}
    if isinstance(value, list) and value and rng.random() < 0.7:
        place = rng.randrange(len(value))
        return [*value[:place], changed(rng, value[place]), *value[place + 1 :]]
    return rng.choice(ODD_VALUES)


class Strays:
    """Makes records that no service would write, most of them from those that one has written."""

    def __init__(self, rng: random.Random, known: Sequence[Record]) -> None:
        self._rng = rng
        self._known = list(known)
        self._of_topic = {topic.short: [one for one in known if one.topic is topic] for topic in TOPICS}
        self._values = [one.value for one in known if one.value]
        self._keys = [one.key for one in known]
        self._kinds: list[Callable[[Topic, int], Stray]] = [
            self.garbage,
            self.tombstone,
            self.wrong_value,
            *[self.elsewhere, self.wrong_key] * 2,
            *[self.mutated] * 3,
        ]

    def some(self, count: int) -> list[Stray]:
        """Records of all topics in turn."""
        found = []
        for number in range(count):
            topic, kind = TOPICS[number % len(TOPICS)], self._rng.choice(self._kinds)
            if topic is CONFIGURATION and kind == self.mutated:
                kind = self.wrong_key  # a sound declaration of other rules counts: it is no stray record
            found.append(kind(topic, number))
        return found

    def garbage(self, topic: Topic, number: int) -> Stray:
        """Bytes."""
        rng = self._rng
        value = rng.choice([rng.randbytes(rng.randrange(200)), b"{}", b"null", b"[]", b"x" * 100_000, None])
        return topic, rng.randrange(PARTITIONS), self._odd_key(topic), value, self._odd_headers(topic, number)

    def tombstone(self, topic: Topic, number: int) -> Stray:
        """A tombstone of any key anywhere."""
        place = self._rng.randrange(PARTITIONS)
        return topic, place, self._odd_key(topic), None, self._odd_headers(topic, number)

    def elsewhere(self, topic: Topic, number: int) -> Stray:
        """A sound record in any partition."""
        one = self._one(topic)
        return topic, self._rng.randrange(PARTITIONS), one.key, one.value, headers_of(topic, number)

    def wrong_key(self, topic: Topic, number: int) -> Stray:
        """A sound value under another key."""
        one, key = self._one(topic), self._odd_key(topic)
        own = partition_of(key.decode(errors="replace"), PARTITIONS) if key else one.partition
        return topic, self._rng.choice([own, one.partition]), key, one.value, headers_of(topic, number)

    def wrong_value(self, topic: Topic, number: int) -> Stray:
        """An event of another topic."""
        one = self._one(topic)
        return topic, one.partition, one.key, self._rng.choice(self._values), self._odd_headers(topic, number)

    def mutated(self, topic: Topic, number: int) -> Stray:
        """A sound record with other values at a few places."""
        one = self._one(topic)
        value = orjson.loads(one.value) if one.value else {}
        for _ in range(self._rng.randint(1, 3)):
            value = changed(self._rng, value)
        return topic, one.partition, one.key, json.dumps(value).encode(), headers_of(topic, number)

    def _one(self, topic: Topic) -> Record:
        return self._rng.choice(self._of_topic[topic.short] or self._known)

    def _odd_key(self, topic: Topic) -> bytes | None:
        own = [one.key for one in self._of_topic[topic.short]] or self._keys
        choose = self._rng.choice
        return choose([None, choose(ODD_KEYS), choose(self._keys), choose(own), self._rng.randbytes(8)])

    def _odd_headers(self, topic: Topic, number: int) -> tuple[tuple[str, bytes], ...]:
        good, rng = headers_of(topic, number), self._rng
        return rng.choice(
            [
                *[good] * 3,
                (),
                good[: rng.randrange(len(good))],
                (*good, ("ce_time", b"yesterday")),
                (*good, ("moorage-sources", b"resources=99999999999,conditions=-1,x=y")),
                headers_of(topic, number, source="moorage/eviction"),
                tuple((name, rng.randbytes(5)) for name, _ in good),
                headers_of(rng.choice(TOPICS), number),
            ]
        )


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
    for record in Strays(rng, known_of(world)).some(SOME):
        stray(world, record)
    world.advance(1_000)
    before = len(world.owners.failures)
    whole(world)
    world.flow.reconcile()
    assert world.owners.failures[before:] == [], "no wake fails again and again"
    for service in world.flow.services:
        world.flow.crash_process(service)
    whole(world, "-again")
