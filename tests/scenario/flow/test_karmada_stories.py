"""Long histories of clusters that fail, are added and removed. With any order and crashes, the result is correct."""

from __future__ import annotations

import random
from datetime import datetime
from typing import Any

from tests.support.tables import table
from tests.support.worlds.flow import Crash
from tests.support.worlds.karmada import ONE, KarmadaWorld

from moorage_schemas.placement import PlacementState
from moorage_schemas.topics import BINDINGS, EVICTIONS, PLACEMENTS, TAINTS


def story(world: KarmadaWorld) -> datetime:
    """Clusters with many resources are added, fail and are removed."""
    world.policy(placement={**ONE, "clusterTolerations": []}, failover={"cluster": {"gracePeriodSeconds": 60}})
    world.policy("cm", kind="ConfigMap")
    for index in range(6):
        world.deploy(f"web{index}", index + 1)
        world.declare("ConfigMap", f"cm{index}")
    world.advance(1)
    world.taint("c1")
    world.advance(1)
    world.taint("c2")
    world.taint("c3")
    world.advance(30)
    world.cluster("c4")
    world.untaint("c2")
    world.advance(45)
    world.delete("Cluster", "c4")
    world.advance(100)
    return world.flow.now


def outcome(world: KarmadaWorld) -> dict[str, Any]:
    table = world.flow.table(PLACEMENTS)
    return {
        key: (event.state, event.reason, [(t.target.name, t.replicas) for t in event.targets], event.leaving)
        for key, event in table.items()
    }


def test_decisions_survive_crashes_of_the_service() -> None:
    plain = KarmadaWorld("c1", "c2", "c3")
    story(plain)
    for seed in range(6):
        rng = random.Random(seed)  # noqa: S311 - the random choices must be repeatable
        world = KarmadaWorld("c1", "c2", "c3")

        def crash(service: str, _partition: int, rng: random.Random = rng) -> Crash | None:
            if service != "placement":
                return None
            return rng.choice([None, None, Crash.BEFORE_COMMIT, Crash.AFTER_COMMIT])

        world.flow.crash_when = crash
        story(world)
        assert outcome(world) == outcome(plain)


def test_whatever_the_order_everything_is_bound_once_and_the_reconciler_finds_nothing() -> None:
    for seed in range(6):
        world = KarmadaWorld("c1", "c2", "c3", seed=seed)
        story(world)
        assert world.flow.reconcile("placement") == []
        for key, event in world.flow.table(PLACEMENTS).items():
            tainted = {t.target.name for t in world.flow.table(TAINTS).values() if t.taints}
            assert event.state is PlacementState.PLACED
            assert not {one.target.name for one in event.targets} & tainted, key


def test_the_same_story_gives_the_same_bytes() -> None:
    first, second = KarmadaWorld("c1", "c2", "c3"), KarmadaWorld("c1", "c2", "c3")
    story(first)
    story(second)
    for topic in (PLACEMENTS, BINDINGS, EVICTIONS):
        assert [r.content for r in first.flow.records(topic)] == [r.content for r in second.flow.records(topic)]


def test_what_is_restored_from_compacted_topics_is_what_was_there() -> None:
    world = KarmadaWorld("c1", "c2", "c3")
    story(world)
    world.taint("c3", "worse")
    world.run()
    before, written = outcome(world), len(world.flow.records(PLACEMENTS))
    assert any(leaving for *_, leaving in before.values())
    world.flow.compact()
    count = len(world.flow.records(PLACEMENTS))
    assert count < written
    world.flow.crash_process("placement")
    world.run()
    assert len(world.flow.records(PLACEMENTS)) == count, "nothing is decided anew"
    assert world.flow.reconcile("placement") == []
    world.advance(600)
    assert not any(leaving for *_, leaving in outcome(world).values())


DIVIDED = {"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted"}
PLACEMENTS_OF_STORIES: tuple[dict[str, Any], ...] = (
    {},
    ONE,
    {"spreadConstraints": [{"spreadByField": "cluster", "minGroups": 2, "maxGroups": 2}]},
    {"replicaScheduling": {**DIVIDED, "weightPreference": {"dynamicWeight": "AvailableReplicas"}}},
    {"replicaScheduling": DIVIDED},
    {"replicaScheduling": {**DIVIDED, "replicaDivisionPreference": "Aggregated"}},
)


class Weather:
    """Random changes of clusters and of a resource."""

    def __init__(self, world: KarmadaWorld, rng: random.Random) -> None:
        self.world, self.rng = world, rng
        self.there, self.tainted, self.replicas = {"c0", "c1", "c2"}, set[str](), 4
        self._things = [self.taint, self.taint, self.untaint, self.untaint, self.join, self.go, self.scale]
        self._things += [self.healthy, self.wait, self.crash]

    def happen(self) -> None:
        self.rng.choice(self._things)()

    def taint(self) -> None:
        for name in self._one_of(self.there - self.tainted):
            self.tainted.add(name)
            self.world.taint(name)

    def untaint(self) -> None:
        for name in self._one_of(self.tainted):
            self.tainted.discard(name)
            self.world.untaint(name)

    def join(self) -> None:
        for name in self._one_of({"c0", "c1", "c2", "c3"} - self.there):
            self.there.add(name)
            self.world.cluster(name, uid=f"{name}-{self.world.flow.now}")

    def go(self) -> None:
        for name in self._one_of(self.there) if len(self.there) > 1 else []:
            self.there.discard(name)
            self.tainted.discard(name)
            self.world.delete("Cluster", name)

    def scale(self) -> None:
        self.replicas = self.rng.randint(1, 6)
        self.world.deploy("web", self.replicas)

    def healthy(self) -> None:
        for name in self.world.where():
            self.world.healthy(name)

    def wait(self) -> None:
        self.world.flow.advance(self.rng.choice([1, 15, 30]))

    def crash(self) -> None:
        self.world.flow.crash_process("placement")

    def clear(self) -> None:
        while self.tainted:
            self.untaint()

    def _one_of(self, names: set[str]) -> list[str]:
        return [self.rng.choice(sorted(names))] if names else []


@table("seed", range(12))
def test_whatever_happens_it_is_somewhere_as_long_as_it_can_be(seed: int) -> None:
    rng = random.Random(seed)  # noqa: S311 - the random choices must be repeatable
    world = KarmadaWorld("c0", "c1", "c2", seed=seed)
    weather = Weather(world, rng)
    placement = rng.choice(PLACEMENTS_OF_STORIES)
    mode = rng.choice(["Directly", "Gracefully"])
    world.policy(placement=placement, failover={"cluster": {"purgeMode": mode, "gracePeriodSeconds": 20}})
    world.deploy("web", weather.replicas)
    world.run()
    for _ in range(40):
        was = set(world.bound())
        weather.happen()
        world.advance(1)
        placed, counts = world.placed(), world.where()
        assert set(world.bound()) <= weather.there
        if was & weather.there:
            assert world.bound(), "it was somewhere, and may stay there"
        if placed.reason == "Scheduled":
            copies = 1 if "replicaScheduling" in placement else len(counts)
            assert sum(counts.values()) == weather.replicas * copies
            assert not set(counts) & weather.tainted, "what is whole is on sound clusters alone"
    weather.clear()
    world.advance(1200)
    assert (world.placed().leaving, sorted(world.where())) == ((), sorted(world.bound()))
    assert world.flow.reconcile("placement") == []
