"""When what is decided on a fleet may be mirrored."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from tests.support.virtual_time import virtual_time
from tests.support.waiting import until

from moorage.bridges.engine.loop import FleetGate


class Fleet:
    """What is there, and what the topics know of it."""

    def __init__(self) -> None:
        self.there = ["a", "b"]
        self.known: set[str] = set()
        self.may_send = True
        self.openings = 0

    def opened(self) -> None:
        self.openings += 1

    def unknown(self) -> Callable[[], list[str]]:
        first = list(self.there)
        return lambda: [name for name in first if name not in self.known]


@asynccontextmanager
async def running(fleet: Fleet, patience: float | None = 30.0) -> AsyncIterator[FleetGate]:
    gate = FleetGate(lambda: fleet.may_send, fleet.unknown, fleet.opened, patience=patience)
    task = asyncio.create_task(gate.run())
    try:
        yield gate
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


@virtual_time
async def test_it_opens_when_everything_of_the_beginning_is_known() -> None:
    fleet = Fleet()
    async with running(fleet) as gate:
        await asyncio.sleep(5)
        assert not gate.is_open
        fleet.there.append("later")
        fleet.known |= {"a", "b"}
        await until(lambda: gate.is_open)
        assert fleet.openings == 1


@virtual_time
async def test_it_opens_after_a_while_although_something_is_not_known() -> None:
    fleet = Fleet()
    async with running(fleet) as gate:
        await asyncio.sleep(29)
        assert not gate.is_open
        await asyncio.sleep(2)
        assert gate.is_open


@virtual_time
async def test_without_patience_it_waits() -> None:
    fleet = Fleet()
    async with running(fleet, patience=None) as gate:
        await asyncio.sleep(90)
        assert (gate.is_open, fleet.openings) == (False, 0)
        fleet.known |= {"a", "b"}
        await until(lambda: gate.is_open)


@virtual_time
async def test_what_is_there_and_the_patience_count_from_when_this_process_sends() -> None:
    fleet = Fleet()
    fleet.may_send = False
    async with running(fleet) as gate:
        fleet.known |= {"a", "b"}
        await asyncio.sleep(90)
        assert not gate.is_open
        fleet.there.append("c")
        await asyncio.sleep(1)
        fleet.may_send = True
        await asyncio.sleep(29)
        assert not gate.is_open
        fleet.known.add("c")
        await until(lambda: gate.is_open)


@virtual_time
async def test_it_begins_anew_when_it_is_closed() -> None:
    fleet = Fleet()
    fleet.known |= {"a", "b"}
    async with running(fleet) as gate:
        await until(lambda: gate.is_open)
        fleet.there.append("c")
        gate.close()
        await asyncio.sleep(5)
        assert not gate.is_open
        fleet.known.add("c")
        await until(lambda: gate.is_open)
        assert fleet.openings == 2
