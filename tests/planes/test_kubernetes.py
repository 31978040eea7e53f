"""Scenarios of Kubernetes' own tests, on a real API server, with upstream's controllers and with Moorage."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Final

import pytest
import pytest_asyncio
from tests.conftest import RUN
from tests.planes import scenarios
from tests.planes.cluster import connected
from tests.planes.engines import name
from tests.planes.kubernetes import no_execute_taint_manager, node_lifecycle, scheduling, taint_node_by_condition
from tests.planes.kubernetes.deviations import DEVIATIONS
from tests.planes.kubernetes.engines import KubernetesEngine, Moorage, Nobody, Upstream
from tests.planes.kubernetes.world import World, followed
from tests.planes.plane import Plane, started
from tests.planes.scenarios import Scenario, Tasks
from tests.support.brokers import Broker

pytestmark = pytest.mark.kafka

SCENARIOS: Final[list[Scenario[World]]] = [
    *no_execute_taint_manager.SINGLE.scenarios,
    *no_execute_taint_manager.MULTIPLE.scenarios,
    *node_lifecycle.BY_USER.scenarios,
    *node_lifecycle.TAINT_BASED.scenarios,
    *node_lifecycle.SILENCE.scenarios,
    *taint_node_by_condition.SUITE.scenarios,
    *scheduling.PREDICATES.scenarios,
    *scheduling.FILTERS.scenarios,
    *scheduling.WAITING.scenarios,
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
) -> AsyncIterator[tuple[KubernetesEngine, Tasks]]:
    """An engine, and what becomes of the scenarios."""
    engine: KubernetesEngine
    if request.param is Moorage:
        engine = Moorage(broker.bootstrap, f"{RUN}-planes-", tmp_path_factory.mktemp("moorage"))
    else:
        engine = request.param()
    wanted = scenarios.chosen(request, __file__, SCENARIOS)
    async with engine.deciding(plane), connected(plane.folder) as cluster, followed(cluster) as followers:

        def world(number: int) -> World:
            return World(f"{engine.name}-{number:02}", plane, cluster, followers, engine)

        async with scenarios.running(wanted, world) as tasks:
            yield engine, tasks


@pytest.mark.parametrize("scenario", SCENARIOS, ids=IDS)
async def test_scenario(decided: tuple[KubernetesEngine, Tasks], scenario: Scenario[World]) -> None:
    """It passes with each engine but for named deviations, and fails where nobody decides."""
    engine, tasks = decided
    deviates = isinstance(engine, Moorage) and scenario.name in DEVIATIONS
    await (scenarios.passes if engine.decides and not deviates else scenarios.fails)(tasks[scenario.name])


def test_each_deviation_is_of_a_scenario() -> None:
    assert set(DEVIATIONS) <= set(IDS)
