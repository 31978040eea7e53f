"""What goes wrong in a run, drawn from its seed: when, what, to whom, and for how long."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Final

from aiokafka import TopicPartition
from tests.chaos.seeded.kafka.world import World

Fault = Callable[[World], str]
"""Does something to a world and tells what."""


def _crash(world: World) -> str:
    replica = world.rng.choice(world.replicas)
    back = world.rng.choice([0.1, 1.0, 5.0, 20.0])
    replica.crash(back_after=back)
    return f"crash {replica.name}, back after {back:g} s"


def _crash_all(world: World) -> str:
    service = world.rng.choice([replica.service for replica in world.replicas])
    back = world.rng.choice([0.5, 5.0, 30.0])
    for replica in world.of(service):
        replica.crash(back_after=back + world.rng.random())
    return f"crash every {service}, back after {back:g} s"


def _crash_at_step(world: World) -> str:
    """In the middle of whatever it does: after that many more steps of anybody."""
    replica, left = world.rng.choice(world.replicas), world.rng.randint(1, 400)
    process, loop = replica.process, world.loop
    before = loop.before_step
    if before is not None:
        return "nothing: another crash is to come"

    def count() -> None:
        nonlocal left
        left -= 1
        if left <= 0:
            loop.before_step = None
            if replica.process is process and process.alive:
                replica.crash()

    loop.before_step = count
    return f"crash {replica.name} in {left} steps"


def _pause(world: World) -> str:
    replica = world.rng.choice(world.replicas)
    seconds = world.rng.choice([0.2, 2.0, 8.0, 15.0, 40.0])
    replica.pause(seconds)
    return f"pause {replica.name} for {seconds:g} s"


def _cut(world: World) -> str:
    replica = world.rng.choice(world.replicas)
    seconds = world.rng.choice([0.5, 5.0, 15.0, 40.0])
    replica.cut(seconds)
    return f"cut {replica.name} off for {seconds:g} s"


def _skew(world: World) -> str:
    replica = world.rng.choice(world.replicas)
    seconds = world.rng.uniform(-2.0, 2.0)
    replica.skew(seconds)
    return f"set the clock of {replica.name} by {seconds:+.3f} s"


def _clean(world: World) -> str:
    return f"clean: {world.cluster.clean()} entries went"


def _freeze(world: World) -> str:
    cluster, seconds = world.cluster, world.rng.choice([0.5, 5.0, 20.0])
    if not cluster.answers:
        return "nothing: the broker is away"
    cluster.freeze()
    world.loop.call_later(seconds, _thaw, world, context=cluster.context)
    return f"freeze the broker for {seconds:g} s"


def _thaw(world: World) -> None:
    if world.cluster.frozen:
        world.cluster.thaw()


def _stop(world: World) -> str:
    cluster, seconds = world.cluster, world.rng.choice([1.0, 5.0, 20.0])
    if not cluster.answers:
        return "nothing: the broker is away"
    cluster.stop()
    world.loop.call_later(seconds, _start, world, context=cluster.context)
    return f"stop the broker for {seconds:g} s"


def _start(world: World) -> None:
    if not world.cluster.up:
        world.cluster.start()


def _lose_markers(world: World) -> str:
    """The broker hangs for so long that its partitions lose their leaders, and with them markers that are due then.

    A transaction that is ended in that moment has been waiting for the broker, so who ended it knows that it took long.
    """
    cluster, seconds = world.cluster, world.rng.uniform(6.5, 15.0)
    if not cluster.answers:
        return "nothing: the broker is away"
    cluster.freeze()
    leaderless = {tp for tp in cluster.logs if world.rng.random() < 0.5}
    world.loop.call_later(seconds, _thaw_without_leaders, world, leaderless, context=cluster.context)
    return f"freeze the broker for {seconds:.1f} s, and lose markers"


def _thaw_without_leaders(world: World, leaderless: set[TopicPartition]) -> None:
    cluster = world.cluster
    if cluster.frozen:
        cluster.transactions.losing = leaderless
        cluster.transactions.losing_begun_before = world.loop.time()
        cluster.thaw()
        world.loop.call_later(0.5, _find_leaders, world, context=cluster.context)


def _find_leaders(world: World) -> None:
    world.cluster.transactions.losing = None
    world.cluster.transactions.losing_begun_before = float("inf")


FAULTS: Final[Mapping[str, Fault]] = {
    "crash": _crash,
    "crash-all": _crash_all,
    "crash-at-step": _crash_at_step,
    "pause": _pause,
    "cut": _cut,
    "skew": _skew,
    "clean": _clean,
    "freeze": _freeze,
    "stop": _stop,
    "lose-markers": _lose_markers,
}


async def disturb(
    world: World, seconds: float, weights: Mapping[str, float], *, every: float = 5.0
) -> list[tuple[float, str]]:
    """Let things go wrong for a while, and tell what did; `World.settle` mends what lasts.

    Args:
        world: whose.
        seconds: how long.
        weights: how often each kind of fault is drawn, by its name in `FAULTS`.
        every: seconds between two, on average.
    """
    told = []
    loop, rng = world.loop, world.rng
    end = loop.time() + seconds
    kinds = [kind for kind in FAULTS if weights.get(kind)]
    while kinds:
        await asyncio.sleep(min(rng.expovariate(1 / every), max(0.0, end - loop.time())))
        if loop.time() >= end:
            break
        (kind,) = rng.choices(kinds, [weights[kind] for kind in kinds])
        told.append((round(loop.time(), 6), FAULTS[kind](world)))
    return told
