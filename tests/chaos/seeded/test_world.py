"""All services in the simulation: they do their work, they survive, and the same seed is the same run."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Any

import orjson
import pytest
from tests.chaos.seeded.history import History
from tests.chaos.seeded.kafka.cluster import Faults
from tests.chaos.seeded.kafka.disturb import FAULTS, disturb
from tests.chaos.seeded.kafka.inputs import tolerate
from tests.chaos.seeded.kafka.world import World, dump
from tests.support.tables import table

HARD = Faults(
    slow=0.02, timeout=0.001, answer_lost=0.01, straggling=0.2, fetch_slow=0.1, fetch_small=0.1, duplicated=0.02
)


def events(history: History, topic: str) -> list[Mapping[str, Any]]:
    return [orjson.loads(entry.value) for entry in history.entries if entry.topic == topic and entry.value is not None]


def last(history: History, topic: str) -> dict[str, Mapping[str, Any]]:
    """A topic's table."""
    table: dict[str, Any] = {}
    for entry in history.entries:
        if entry.topic == topic:
            table[entry.key] = None if entry.value is None else orjson.loads(entry.value)
    return {key: value for key, value in table.items() if value is not None}


async def drained(world: World) -> None:
    """Twenty nodes with forty pods; two are tainted, and an evictor dies on the way."""
    people = world.people
    for number in range(20):
        people.node(f"n{number}")
    for number in range(40):
        people.pod(f"p{number}", [tolerate("maint", 5)] if number % 2 else [])
    await world.settle()
    for number in range(2):
        people.taint("Node", f"n{number}", "maint")
    await asyncio.sleep(world.rng.random())
    world.of("eviction")[world.rng.randrange(2)].crash(back_after=2.0)
    await world.settle(quiet=8)


@pytest.mark.parametrize("seed", range(4))
def test_a_drained_node_is_empty_though_an_evictor_dies(seed: int) -> None:
    world = World(seed)
    history = world.play(drained)
    assert not world.loop.unhandled
    assert history.quiet
    assert len(history.acknowledged) == 62
    bound = Counter(event["target"]["name"] for event in last(history, "bindings").values())
    assert not bound.keys() & {"n0", "n1"}
    states = Counter((event["workload"]["name"], event["state"]) for event in events(history, "evictions"))
    gone = {name for name, state in states if state == "Completed"}
    assert sum(bound.values()) == 40 - len(gone)
    assert gone
    assert {states[name, "Requested"] for name in gone} == {1}, "each is asked to go once"
    taints = last(history, "taints")
    for event in events(history, "evictions"):
        if event["state"] == "Requested" and int(event["workload"]["name"][1:]) % 2:
            (taint,) = taints[f"Node/{event['target']['name']}"]["taints"]
            waited = datetime.fromisoformat(event["decidedTime"]) - datetime.fromisoformat(taint["timeAdded"])
            assert waited >= timedelta(seconds=5)


def disturbed_story(kinds: Mapping[str, float]) -> Any:
    async def story(world: World) -> None:
        people = world.people
        for number in range(8):
            people.node(f"n{number}", zone=f"z{number % 2}")
        for number in range(10):
            people.pod(f"p{number}", [tolerate("maint", 5)] if number % 2 else [])
        people.deploy("web", 4)
        for number in range(2):
            people.declare("Cluster", f"c{number}")
        people.declare("ManagedCluster", "m0")

        async def live() -> None:
            for number in range(3):
                await asyncio.sleep(world.rng.uniform(1, 15))
                people.taint("Node", f"n{number}", "maint")
            people.untaint("Node", "n0", "maint")
            people.report("Node", "n4", "Ready", "False")
            await asyncio.sleep(world.rng.uniform(1, 15))
            people.report("Node", "n4", "Ready", "True")

        living = world.outside.spawn(live())
        await disturb(world, 60, kinds, every=5)
        await living
        await world.settle(quiet=8)

    return story


@table("kind", FAULTS)
def test_the_world_comes_to_rest_after_each_kind_of_fault(kind: str) -> None:
    world = World(f"{kind}-1", faults=HARD, settings={"reconcile_interval": 20.0})
    history = world.play(disturbed_story({kind: 1.0}))
    assert not world.loop.unhandled
    assert history.quiet
    tables = last(history, "taints")
    assert {taint["key"] for taint in tables["Node/n1"]["taints"]} == {"maint"}
    assert tables["Node/n0"]["taints"] == []
    assert tables["Node/n4"]["taints"] == []
    placed = {event["target"]["name"] for event in last(history, "bindings").values()}
    assert not placed & {"n1", "n2"}


def test_the_same_seed_is_the_same_run() -> None:
    everything = dict.fromkeys(FAULTS, 1.0)
    one, two, other = (World(seed, faults=HARD) for seed in (3, 3, 4))
    histories = [dump(world.play(disturbed_story(everything))) for world in (one, two, other)]
    assert histories[0] == histories[1]
    assert histories[0] != histories[2]
    assert one.loop.steps == two.loop.steps


def fingerprint(seed: int) -> str:
    world = World(seed, faults=HARD)
    return sha256(dump(world.play(disturbed_story(dict.fromkeys(FAULTS, 1.0))))).hexdigest()


def test_the_same_seed_is_the_same_run_in_another_process() -> None:
    """Nothing hangs on the order of sets, on addresses, or on what ran before."""
    code = "from tests.chaos.seeded.test_world import fingerprint; print(fingerprint(5))"
    found = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed},
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        for seed in ("0", "1")
    }
    assert found == {fingerprint(5) + "\n"}


def test_the_watchdog_ends_a_worker_that_hears_nothing_any_more() -> None:
    async def story(world: World) -> None:
        world.people.node("n0")
        await world.settle()
        (replica,) = world.of("taint-manager")
        (deaf,) = (one for one in world.cluster.consumers if one.process is replica.process and one.member_id)
        deaf.deaf = True
        world.people.taint("Node", "n0", "maint")
        await asyncio.sleep(150)
        await world.settle()

    world = World(1, workers=1, watchdog=True)
    history = world.play(story)
    (ended,) = world.ended
    assert "does not receive what Kafka has" in ended
    assert [taint["key"] for taint in last(history, "taints")["Node/n0"]["taints"]] == ["maint"]
