"""Services that run as a chain, and a fleet that changes from one form to the other."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

import pytest
from tests.chaos.seeded.checker import check
from tests.chaos.seeded.kafka.inputs import tolerate
from tests.chaos.seeded.kafka.world import CHAINED, SERVICES, World
from tests.chaos.seeded.replay import problems, replayed
from tests.chaos.seeded.stories import Play, draw

from moorage.runtime.chains import CHAINS
from moorage.runtime.service import Input
from moorage.runtime.wire.codec import Outgoing, decode, decode_written
from moorage_schemas.base import Model
from moorage_schemas.envelope import Meta
from moorage_schemas.topics import Topic

BOTH = ("targets", *SERVICES)
"""Chains and their services, of which each test runs one form at a time, or the other one beside it."""


def test_what_is_handed_over_is_what_a_reader_decodes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise a restart, a replay or a service alone would decide by something else."""
    seen: set[str] = set()
    written = decode_written

    def compared(topic: Topic, record: Outgoing, offset: int, event: Model | None, meta: Meta | None) -> Input:
        handed = written(topic, record, offset, event, meta)
        consumed: Any = SimpleNamespace(
            partition=record.partition, offset=offset, key=record.key, value=record.value, headers=tuple(record.headers)
        )
        assert handed == decode(topic, consumed)
        seen.add(topic.short)
        return handed

    monkeypatch.setattr("moorage.runtime.engine.chain.decode_written", compared)
    for seed in range(8):
        play = Play(draw(seed))
        play.world(services=CHAINED).play(play)
    assert seen == {"conditions", "workload-conditions", "taints", "timers", "timer-fired"}


def run_only(world: World, wanted: Iterable[str]) -> None:
    """Say which replicas are to run; those that are not wanted are stopped as a kill does."""
    wanted = set(wanted)
    for replica in world.replicas:
        was, replica.wanted = replica.wanted, replica.service in wanted
        if replica.wanted and not was:
            replica.start()
        elif was and not replica.wanted:
            replica.process.crash()


async def begun(world: World, services: Iterable[str]) -> None:
    """Start some of the services only, and let a few pods be bound."""
    wanted = set(services)
    for replica in world.replicas:
        replica.wanted = replica.service in wanted
        if replica.wanted:
            replica.start()
    for number in range(3):
        world.people.node(f"n{number}")
        world.people.report("Node", f"n{number}", status="True")
    for number in range(6):
        world.people.pod(f"p{number}", [tolerate("maint", 6)] if number % 2 else [])
    await world.settle()


ALONE = tuple(SERVICES)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("first", [ALONE, CHAINED], ids=["to a chain", "to services alone"])
def test_a_fleet_changes_its_form_while_evictions_are_on_their_way(first: tuple[str, ...], seed: int) -> None:
    then = CHAINED if first is ALONE else ALONE

    async def story(world: World) -> None:
        await begun(world, first)
        people = world.people
        people.taint("Node", "n0", "maint")
        await asyncio.sleep(world.rng.uniform(0, 2))
        run_only(world, {*first, *then})
        await asyncio.sleep(world.rng.uniform(0, 4))
        people.taint("Node", "n1", "maint")
        await asyncio.sleep(world.rng.uniform(0, 2))
        run_only(world, then)
        await asyncio.sleep(world.rng.uniform(0, 2))
        people.report("Node", "n2", status="False")
        await asyncio.sleep(10)
        await world.settle(quiet=8)

    world = World(f"forms-{seed}", workers=1, services=BOTH)
    history = world.play(story, start=False)
    assert check(history) == []
    assert problems(replayed(world.cluster)) == []
    assert {one.key.split("|")[1] for one in history.entries if b'"Requested"' in (one.value or b"")} >= {
        "Node/n0",
        "Node/n1",
    }


@pytest.mark.parametrize("seed", range(4))
def test_services_alone_wait_while_their_chain_runs(seed: int) -> None:
    """They neither write nor fence it; when it has ended, they go on."""

    async def story(world: World) -> None:
        await begun(world, {*CHAINED})
        run_only(world, BOTH)
        world.people.taint("Node", "n0", "maint")
        await asyncio.sleep(20)
        alone = [replica for replica in world.replicas if replica.service in CHAINS["targets"]]
        assert all(replica.worker is not None and not replica.worker.ready for replica in alone)
        assert all(replica.ready for replica in world.replicas if replica.service in CHAINED)
        assert not world.ended
        started.extend(replica.starts for replica in world.replicas)
        run_only(world, ALONE)
        world.people.taint("Node", "n1", "maint")
        await asyncio.sleep(20)
        await world.settle(quiet=8)

    started: list[int] = []
    world = World(f"waits-{seed}", workers=1, services=BOTH)
    assert check(world.play(story, start=False)) == []
    assert set(started) == {1}


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("first", [ALONE, CHAINED], ids=["services alone", "a chain"])
def test_the_other_form_that_stood_still_writes_nothing_more(first: tuple[str, ...], seed: int) -> None:
    then = CHAINED if first is ALONE else ALONE

    async def story(world: World) -> None:
        await begun(world, first)
        world.people.taint("Node", "n0", "maint")
        await asyncio.sleep(world.rng.uniform(0, 0.3))
        stands = [replica for replica in world.replicas if replica.wanted and replica.service not in then]
        for replica in stands:
            replica.pause(world.rng.choice([4, 30]))
        run_only(world, {*first, *then})
        await asyncio.sleep(40)
        world.people.taint("Node", "n1", "maint")
        await asyncio.sleep(10)
        run_only(world, then)
        await asyncio.sleep(10)
        await world.settle(quiet=8)

    world = World(f"stands-{seed}", workers=1, services=BOTH)
    history = world.play(story, start=False)
    assert check(history) == []
    assert problems(replayed(world.cluster)) == []
