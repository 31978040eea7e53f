"""Scenarios of upstream's tests, which run at the same time, each in its own part of a cluster."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, Protocol, TypeVar

import pytest
from tests.planes.cluster import NotSeenError


class Part(Protocol):
    """The part of a cluster that a scenario has for itself."""

    async def open(self) -> None:
        """Create what every scenario needs."""

    async def close(self) -> None:
        """Delete everything."""


World = TypeVar("World", bound=Part)
AnyWorld = TypeVar("AnyWorld", bound=Part)

Tasks = dict[str, "asyncio.Task[None]"]
"""What becomes of scenarios, by their names."""


Run = Callable[[World], Awaitable[None]]


@dataclass(frozen=True)
class Scenario(Generic[World]):
    """A scenario of one of upstream's tests."""

    name: str
    """Upstream's name of the test, with that of its suite or function before it."""

    run: Run[World]
    """Sets it up and checks it through the API server alone. What the engine does not do raises `NotSeenError`."""

    alone: bool = False
    """Whether it needs the whole cluster, and runs after all that do not."""


class Suite(Generic[World]):
    """The scenarios of one of upstream's suites."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.scenarios: list[Scenario[World]] = []

    def scenario(self, name: str, *, alone: bool = False) -> Callable[[Run[World]], Run[World]]:
        """Add a function as the scenario of this name."""

        def add(run: Run[World]) -> Run[World]:
            self.add(name, run, alone=alone)
            return run

        return add

    def add(self, name: str, run: Run[World], *, alone: bool = False) -> None:
        """Add a scenario."""
        self.scenarios.append(Scenario(f"{self.name}: {name}", run, alone))


def chosen(request: pytest.FixtureRequest, module: str, scenarios: Sequence[Scenario[World]]) -> list[Scenario[World]]:
    """The scenarios of a module that the run has chosen for the parameter of a fixture."""
    name = request.fixturename or ""
    items = (one for one in request.session.items if isinstance(one, pytest.Function) and one.path == Path(module))
    given = [one.callspec.params for one in items if hasattr(one, "callspec")]  # only those with parameters have it
    wanted = [params["scenario"] for params in given if params.get(name) is request.param]
    return [one for one in scenarios if one in wanted]


@asynccontextmanager
async def running(scenarios: Sequence[Scenario[World]], world: Callable[[int], World]) -> AsyncIterator[Tasks]:
    """Scenarios that run.

    Args:
        scenarios: all of them.
        world: makes the part of the cluster that the scenario of this number has.
    """
    tasks: Tasks = {}
    numbers = {scenario.name: number for number, scenario in enumerate(scenarios)}
    for scenario in sorted(scenarios, key=lambda one: one.alone):
        before = list(tasks.values()) if scenario.alone else []
        running = _run(scenario, world(numbers[scenario.name]), before)
        tasks[scenario.name] = asyncio.create_task(running, name=scenario.name)
    try:
        yield tasks
    finally:
        for task in tasks.values():
            task.cancel()
        await asyncio.gather(*tasks.values(), return_exceptions=True)


async def _run(scenario: Scenario[AnyWorld], world: AnyWorld, before: Sequence[asyncio.Task[None]]) -> None:
    if before:
        await asyncio.wait(before)
    await world.open()
    try:
        await scenario.run(world)
    finally:
        await world.close()


async def passes(task: asyncio.Task[None]) -> None:
    """A scenario passes."""
    await task


async def fails(task: asyncio.Task[None]) -> None:
    """A scenario fails because the API server does not show what an engine is to do."""
    with pytest.raises(NotSeenError):
        await task
