"""What the console does before anybody looks, so that the first page is as quick as any other."""

from __future__ import annotations

from typing import Any

from tests.console.world import ConsoleWorld, KeptFront
from tests.support.waiting import until

from moorage.console.fleet_index import MANY
from moorage.console.watches import settle


def node(name: str, status: str = "True") -> dict[str, Any]:
    """A node as the API shows it."""
    conditions = [{"type": "Ready", "status": status}]
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": {"conditions": conditions}}


def names(front: KeptFront, state: str) -> set[str]:
    """The nodes that are in a state as far as the console has read."""
    return {row.name for row in front.console.fleet.targets() if row.state == state}


async def test_a_console_reads_the_fleet_as_soon_as_the_gateway_is_ready() -> None:
    front = KeptFront()
    world = ConsoleWorld(front=front, ready=False)
    async with world.served():
        world.node("n1")
        assert front.console.fleet.notes == 0
        world.begin()
        await until(lambda: names(front, "Unreported") == {"n1"})
        assert front.console.fleet.notes == 0


async def test_a_few_changes_wait_for_the_next_look() -> None:
    front = KeptFront()
    world = ConsoleWorld(front=front)
    world.shown(node("n1"))
    async with world.served():
        await until(lambda: names(front, "Ready") == {"n1"})
        world.shown(node("n1", "False"))
        assert (await world.page("/console/targets?state=NotReady")).text.count("/console/targets/Node/n1") == 1
        assert names(front, "NotReady") == {"n1"}


async def test_many_changes_do_not_wait_for_a_look() -> None:
    front = KeptFront()
    world = ConsoleWorld(front=front)
    world.shown(node("first"))
    async with world.served():
        await until(lambda: names(front, "Ready") == {"first"})
        for number in range(MANY - 1):
            world.shown(node(f"n{number}"))
        world.store.history.wake()
        await until(lambda: front.console.fleet.notes == MANY - 1)
        world.shown(node("last"))
        await until(lambda: not front.console.fleet.notes)
        assert len(names(front, "Ready")) == MANY + 1


async def test_all_templates_are_compiled_before_anybody_looks() -> None:
    front = KeptFront()
    world = ConsoleWorld(front=front)
    async with world.served():
        compiled = front.console._pages._environment.cache
        await until(lambda: {"zones/list.html", "zones/zone.html"} <= {key[1] for key in compiled})
        count = len(compiled)
        for path in ("/", "/console/targets", "/console/zones", "/console/objects", "/console/pauses"):
            (await world.page(path)).raise_for_status()
        assert len(compiled) == count


async def test_preparation_ends_with_the_gateway() -> None:
    front = KeptFront()
    world = ConsoleWorld(front=front)
    world.shown(node("n1"))
    async with world.served():
        await until(lambda: names(front, "Ready") == {"n1"})
        fleet = front.console.fleet
    await until(lambda: fleet.is_over)
    for number in range(2 * MANY):
        world.shown(node(f"n{number}"))
    world.store.history.wake()
    await settle()
    assert (fleet.notes, [row.name for row in fleet.targets()]) == (0, ["n1"])
