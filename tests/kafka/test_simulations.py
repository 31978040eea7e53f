"""Simulations over HTTP on a broker: the query worker runs them on a copy, and nothing is changed."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest
from tests.kafka.test_query import Kafka, kafka
from tests.support.worlds.world import TEMPLATE

from moorage.apiserver.http.filters.request_attributes import SIMULATE_PATH
from moorage.insight.diff.question import SimulationError, parse
from moorage.insight.query import simulations
from moorage.insight.query.http import Endpoint
from moorage.insight.query.simulations import BusyError, Simulator
from moorage.runtime.process.health import health_app
from moorage.runtime.settings.process_settings import Settings

pytestmark = pytest.mark.kafka

__all__ = ["kafka"]

MERGE = "application/merge-patch+json"
TAINT = {"spec": {"taints": [{"key": "maintenance", "value": "yes", "effect": "NoExecute"}]}}


def tainted(name: str = "n1", **more: Any) -> dict[str, Any]:
    write = {"method": "PATCH", "path": f"/api/v1/nodes/{name}", "body": TAINT, "contentType": MERGE}
    return {"writes": [write], "seconds": 600, **more}


async def fleet(kafka: Kafka) -> None:
    """Three nodes with two pods."""
    kafka.world.declare("Deployment", "web", {"replicas": 2, "template": TEMPLATE})
    for name in ("n1", "n2", "n3"):
        kafka.world.report(name, status="True")
    kafka.world.run()
    await kafka.write()


async def test_a_taint_that_evicts_a_failing_node_and_a_deletion(kafka: Kafka) -> None:
    await fleet(kafka)
    endpoint = Endpoint(Settings())
    endpoint.make(kafka.settings)
    transport = httpx.ASGITransport(app=health_app(list, endpoint.routes))
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost", timeout=120) as client:
        first = await client.post(SIMULATE_PATH, json=tainted())
        assert first.status_code == 200, first.text
        found = first.json()
        assert (found["kind"], found["changes"]) == ("Simulation", ["patch nodes/n1"])
        (leaving,) = found["leaving"]
        assert (leaving["target"], leaving["state"]) == ("Node/n1", "Completed")
        assert found["summary"]["moved"] == 1
        silent = (await client.post(SIMULATE_PATH, json={"failing": ["Node/n1"], "seconds": 900})).json()
        assert silent["changes"] == ["Node/n1 fails: Unknown"]
        assert [one["target"] for one in silent["leaving"]] == ["Node/n1"]
        gone = {"writes": [{"method": "DELETE", "path": "/api/v1/nodes/n1"}], "seconds": 600}
        deleted = (await client.post(SIMULATE_PATH, json=gone)).json()
        assert deleted["changes"] == ["delete nodes/n1"]
        assert deleted["summary"]["moved"] == 1
        refused = await client.post(SIMULATE_PATH, json=tainted("none"))
        assert refused.status_code == 422
        assert 'nodes "none" not found' in refused.json()["message"]


async def test_one_after_the_other_and_none_for_too_long(kafka: Kafka, monkeypatch: pytest.MonkeyPatch) -> None:
    await fleet(kafka)
    monkeypatch.setattr(simulations, "WAITING", 1)
    simulator = Simulator(kafka.settings.model_copy(update={"simulation_timeout": 0.01}))
    found = await asyncio.gather(
        simulator.answer(parse(tainted())), simulator.answer(parse(tainted())), return_exceptions=True
    )
    told = "the simulation took longer than 0.01 s (MOORAGE_SIMULATION_TIMEOUT)"
    assert sorted(map(str, found)) == ["1 simulations are already waiting", told]
    assert all(isinstance(one, BusyError) for one in found)
    unreachable = Simulator(kafka.settings.model_copy(update={"bootstrap_servers": "127.0.0.1:9"}))
    with pytest.raises(BusyError, match="Kafka does not answer"):
        await unreachable.answer(parse(tainted()))


@pytest.mark.parametrize(
    ("document", "why"),
    [
        ([], "must be"),
        ({}, "writes: invalid value"),
        ({"writes": [{"method": "GET", "path": "/api/v1/nodes"}]}, "writes[0].method"),
        ({"writes": [{"method": "POST", "path": "/v1/conditions"}]}, "writes[0].path"),
        ({"failing": ["n1"]}, "failing: invalid value 'n1'"),
        ({"failing": ["Node/n1"], "status": "True"}, "must be Unknown or False"),
        ({"failing": ["Node/n1"], "seconds": 0}, "seconds"),
        ({"failing": ["Node/n1"], "files": []}, "files"),
    ],
)
def test_a_question_that_is_wrong_is_refused(document: Any, why: str) -> None:
    with pytest.raises(SimulationError) as error:
        parse(document)
    assert why in str(error.value)
