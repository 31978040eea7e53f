"""A bridge that is killed at any moment: what had to go is gone, nothing else is, and taints of others stay."""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from itertools import groupby
from pathlib import Path
from typing import Final

import pytest
import pytest_asyncio
from tests.conftest import RUN
from tests.planes.bridges import Bridge
from tests.planes.cluster import Document, connected
from tests.planes.kubernetes.engines import SILENT, Moorage
from tests.planes.kubernetes.no_execute_taint_manager import TAINT, TOLERATION
from tests.planes.kubernetes.world import World, followed, tolerated
from tests.planes.plane import started
from tests.support.brokers import Broker
from tests.support.commands import moorage
from tests.support.waiting import until

KILLS: Final = int(os.environ.get("MOORAGE_BRIDGE_KILLS", "4"))
"""How often it is killed. `MOORAGE_BRIDGE_KILLS=50` is the long run."""

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(900 + 90 * KILLS)]

LEAVING: Final = 6
"""The pods that have to leave in each round."""

EVER: Final = {"operator": "Exists"}
"""A toleration of every taint for ever."""

_OTHERS: Final = {"key": "example.com/others", "value": "theirs", "effect": "NoSchedule"}
_STAGES: Final = ("http.listening", "topics.ready", "bridge.ready", "process.ready")
"""What a bridge logs while it starts."""

_PRESSURE: Final = ("node.kubernetes.io/memory-pressure", "NoSchedule")


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def bridged(broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[tuple[World, Bridge]]:
    """A part of a plane for which Moorage decides, and the bridge."""
    async with AsyncExitStack() as stack:
        plane = await stack.enter_async_context(started(tmp_path_factory.mktemp("plane")))
        engine = Moorage(broker.bootstrap, f"{RUN}-killed-", tmp_path_factory.mktemp("moorage"))
        bridge = await stack.enter_async_context(engine.bridged(plane))
        cluster = await stack.enter_async_context(connected(plane.folder))
        followers = await stack.enter_async_context(followed(cluster))
        world = World("killed", plane, cluster, followers, engine)
        await world.open()
        yield world, bridge


async def test_nothing_is_lost_and_nothing_else_leaves(bridged: tuple[World, Bridge]) -> None:
    world, bridge = bridged
    dice = random.Random(os.environ.get("MOORAGE_SEED", RUN))  # noqa: S311 - a repeatable choice of moments
    nodes = [await world.node(f"n{number}") for number in range(3)]
    since = [(await world.taint(node, _OTHERS)).strftime("%Y-%m-%dT%H:%M:%SZ") for node in nodes]
    theirs = tolerated(_OTHERS["key"], effect="NoSchedule")
    kept = []
    for kill in range(KILLS):
        node, other = dice.sample(nodes, 2)
        leaving = [f"leaves-{kill}-{number}" for number in range(LEAVING)]
        for name in leaving:
            await world.run_pod(name, node=node, tolerations=[theirs])
        await world.run_pod(f"apart-{kill}", node=other, tolerations=[theirs])
        kept.append(f"tolerates-{kill}")
        await world.run_pod(kept[-1], node=node, tolerations=[theirs, TOLERATION])
        pressed = dice.random() < 0.5
        await world.condition(other, "MemoryPressure", "True" if pressed else "False")
        await world.taint(node, TAINT)
        for name in leaving[: dice.randint(0, LEAVING)]:
            await world.leaving(name)
        await bridge.kill()
        await bridge.start()
        for name in leaving:
            await world.leaving(name)
        await world.tainted(other, (_OTHERS["key"], "NoSchedule"), *([_PRESSURE] if pressed else []))
        await world.untaint(node, TAINT)
        await world.condition(other, "MemoryPressure", "False")
        for one in nodes:
            await world.tainted(one, (_OTHERS["key"], "NoSchedule"))
        for name in [*kept, f"apart-{kill}"]:
            await world.stays(name)
        await world.delete_pod(f"apart-{kill}")  # its node may be next
    for node, time in zip(nodes, since, strict=True):
        versions = [
            [taint for taint in seen.object["spec"].get("taints", ()) if taint["key"] == _OTHERS["key"]]
            for seen in world.versions_of_node(node)
        ]
        begun = next(number for number, found in enumerate(versions) if found)
        assert all(found == [{**_OTHERS, "timeAdded": time}] for found in versions[begun:])


async def test_of_two_bridges_the_other_goes_on(bridged: tuple[World, Bridge], tmp_path: Path) -> None:
    """Whichever leads is killed, and some again while they start. Nothing is lost, and nothing is done twice."""
    world, first = bridged
    dice = random.Random(os.environ.get("MOORAGE_SEED", RUN))  # noqa: S311 - a repeatable choice of moments
    nodes = [await world.node(f"pair{number}") for number in range(2)]
    second = Bridge(world.plane, first.live, tmp_path, ("kubernetes", *SILENT))
    await second.launch()
    try:
        await second.said("process.ready")
        kept = []
        for kill in range(KILLS):
            node, other = dice.sample(nodes, 2)
            leaving = [f"pair-leaves-{kill}-{number}" for number in range(LEAVING)]
            for name in leaving:
                await world.run_pod(name, node=node)
            kept.append(f"pair-tolerates-{kill}")
            await world.run_pod(kept[-1], node=node, tolerations=[TOLERATION])
            began = len(world.versions_of_node(other))
            await world.condition(other, "MemoryPressure", "True")
            await world.taint(node, TAINT)
            placed = f"pair-placed-{kill}"
            await world.start_pod(placed, scheduler=world.engine.scheduler, node=other, tolerations=[EVER])
            for name in leaving[: dice.randint(0, LEAVING)]:
                await world.leaving(name)
            killed = await _leader(first, second)
            await killed.kill()
            await killed.launch()
            if dice.random() < 0.5:
                await killed.said(dice.choice(_STAGES))
                await killed.kill()
                await killed.launch()
            for name in leaving:
                await world.leaving(name)
            assert await world.bound(placed) == other
            await world.tainted(other, _PRESSURE)
            await world.condition(other, "MemoryPressure", "False")
            await world.untaint(node, TAINT)
            for one in nodes:
                await world.tainted(one)
            for name in [*kept, placed]:
                await world.stays(name)
            await world.delete_pod(placed)
            for name in leaving:
                told = world.events_of(name, "TaintManagerEviction")
                assert told <= 1, f"{name} was evicted {told} times"  # who is killed may owe an event
            had = [_PRESSURE in _taints(seen.object) for seen in world.versions_of_node(other)[began:]]
            assert [there for there, _ in groupby(had) if there] == [True], "it was set once, and removed once"
            await killed.said("process.ready")
    finally:
        await second.stop()


async def _leader(*bridges: Bridge) -> Bridge:
    """The one of several bridges that acts."""

    def one_leads() -> bool:
        for one in bridges:
            one.must_run()
        return any(one.leads for one in bridges)

    await until(one_leads, 30, "none of them leads")
    return next(one for one in bridges if one.leads)


def _taints(node: Document) -> set[tuple[str, str]]:
    return {(one["key"], one["effect"]) for one in node["spec"].get("taints", ())}


async def test_what_differs_is_shown_until_a_bridge_is_there_again(bridged: tuple[World, Bridge]) -> None:
    world, bridge = bridged
    node = await world.node("differs")
    compare = ("diff", "cluster", "--kubeconfig", str(world.plane.kubeconfig))
    async with asyncio.timeout(world.engine.patience):
        while (await moorage(*compare, env=bridge.live.env)).code:
            bridge.must_run()
    await bridge.kill()
    await world.taint(node, TAINT)
    done = await moorage(*compare, env=bridge.live.env)
    assert done.code == 1, done.err
    (line,) = done.out.splitlines()[1:]
    value = f"={TAINT['value']}" if TAINT.get("value") else ""
    taint = f"{TAINT['key']}{value}:{TAINT['effect']}"
    assert line.startswith(f"node/{node}")
    assert f"has the taint {taint}" in line
    assert "no bridge has reported it yet" in line
    await bridge.start()
    async with asyncio.timeout(world.engine.patience):
        while (await moorage(*compare, env=bridge.live.env)).code:
            bridge.must_run()
