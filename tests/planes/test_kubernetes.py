"""Scenarios of Kubernetes' own tests, on a real API server, with upstream's controllers and with Moorage."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Final

import pytest
import pytest_asyncio
from tests.planes.cluster import Cluster, NotSeenError, connected
from tests.planes.engines import Engine, Nobody, Upstream
from tests.planes.kubernetes import no_execute_taint_manager
from tests.planes.kubernetes.world import World, followed
from tests.planes.plane import Plane, started
from tests.planes.scenarios import Scenario

SCENARIOS: Final[list[Scenario[World]]] = [
    *no_execute_taint_manager.SINGLE.scenarios,
    *no_execute_taint_manager.MULTIPLE.scenarios,
]
IDS: Final = [scenario.name for scenario in SCENARIOS]


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def plane(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Plane]:
    """The control plane of all scenarios. Which of its controllers run follows from the engine."""
    async with started(tmp_path_factory.mktemp("plane")) as plane:
        yield plane


@asynccontextmanager
async def outcomes(engine: Engine, plane: Plane, chosen: list[object]) -> AsyncIterator[dict[str, asyncio.Task[None]]]:
    """These scenarios, which run at the same time, each in its own part of the cluster."""
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(engine.deciding(plane))
        cluster: Cluster = await stack.enter_async_context(connected(plane.folder))
        followers = await stack.enter_async_context(followed(cluster))
        tasks = {}
        for number, scenario in enumerate(SCENARIOS):
            if scenario in chosen:
                name = f"{engine.name}-{number:02}"
                world = World(name, plane, cluster, followers, engine)
                tasks[scenario.name] = asyncio.create_task(_run(scenario, world), name=scenario.name)
        yield tasks
        for task in tasks.values():
            task.cancel()
        await asyncio.gather(*tasks.values(), return_exceptions=True)


async def _run(scenario: Scenario[World], world: World) -> None:
    await world.open()
    try:
        await scenario.run(world)
    finally:
        await world.close()


def _name(engine: Engine) -> str:
    return engine.name


@pytest_asyncio.fixture(scope="module", loop_scope="session", params=[Upstream(), Nobody()], ids=_name)
async def decided(
    request: pytest.FixtureRequest, plane: Plane
) -> AsyncIterator[tuple[Engine, dict[str, asyncio.Task[None]]]]:
    """An engine, and what becomes of the scenarios that this run has chosen."""
    items = [one for one in request.session.items if isinstance(one, pytest.Function) and one.path == Path(__file__)]
    chosen = [one.callspec.params["scenario"] for one in items if one.callspec.params["decided"] is request.param]
    async with outcomes(request.param, plane, chosen) as tasks:
        yield request.param, tasks


@pytest.mark.parametrize("scenario", SCENARIOS, ids=IDS)
async def test_scenario(decided: tuple[Engine, dict[str, asyncio.Task[None]]], scenario: Scenario[World]) -> None:
    """It passes with each engine, and fails where nobody decides."""
    engine, tasks = decided
    if isinstance(engine, Nobody):
        with pytest.raises(NotSeenError):
            await tasks[scenario.name]
    else:
        await tasks[scenario.name]
