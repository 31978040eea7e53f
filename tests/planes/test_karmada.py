"""Scenarios of Karmada's own end-to-end tests, on a real API server, with upstream's controllers and with Moorage."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Final

import pytest
import pytest_asyncio
from tests.conftest import RUN
from tests.planes import scenarios
from tests.planes.cluster import connected
from tests.planes.engines import Engine, name
from tests.planes.karmada import cluster_propagation, cluster_taint_policy, events, failover
from tests.planes.karmada.engines import Moorage, Nobody, Upstream
from tests.planes.karmada.world import World, followed
from tests.planes.plane import Plane, started
from tests.planes.scenarios import Scenario, Tasks
from tests.support.brokers import Broker

pytestmark = pytest.mark.kafka

SCENARIOS: Final[list[Scenario[World]]] = [
    *cluster_taint_policy.SUITE.scenarios,
    *cluster_propagation.BASIC.scenarios,
    *cluster_propagation.FAILOVER.scenarios,
    *failover.CLUSTER.scenarios,
    *failover.TOLERATION.scenarios,
    *events.SUITE.scenarios,
]
IDS: Final = [scenario.name for scenario in SCENARIOS]


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def plane(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Plane]:
    """The control plane of all scenarios. Which of its controllers run follows from the engine."""
    async with started(tmp_path_factory.mktemp("plane")) as plane:
        yield plane


@pytest_asyncio.fixture(scope="module", loop_scope="session", params=[Upstream, Nobody, Moorage], ids=name)
async def decided(
    request: pytest.FixtureRequest, plane: Plane, broker: Broker, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[tuple[Engine, Tasks]]:
    """An engine, and what becomes of the scenarios."""
    engine: Engine
    if request.param is Moorage:
        engine = Moorage(broker.bootstrap, f"{RUN}-karmada-", tmp_path_factory.mktemp("moorage"))
    else:
        engine = request.param()
    wanted = scenarios.chosen(request, __file__, SCENARIOS)
    async with engine.deciding(plane), connected(plane.folder) as cluster, followed(cluster) as followers:

        def world(number: int) -> World:
            return World(f"{engine.name}-{number:02}", cluster, followers, engine)

        async with scenarios.running(wanted, world) as tasks:
            yield engine, tasks


@pytest.mark.parametrize("scenario", SCENARIOS, ids=IDS)
async def test_scenario(decided: tuple[Engine, Tasks], scenario: Scenario[World]) -> None:
    """It passes with each engine, and fails where nobody decides."""
    engine, tasks = decided
    await (scenarios.passes if engine.decides else scenarios.fails)(tasks[scenario.name])
