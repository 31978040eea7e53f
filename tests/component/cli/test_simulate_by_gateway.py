"""`moorage simulate` with nothing but a gateway: its query worker is asked with the requests of the other commands."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.component.cli.fake_gateway import invoke
from tests.console.simulated import SimulatedWorld

from moorage.apiserver.kinds.status.records import ObjectId

MERGE = "application/merge-patch+json"


@pytest.fixture
def world() -> SimulatedWorld:
    return SimulatedWorld()


async def simulated(world: SimulatedWorld, *words: str, form: str = "json") -> Any:
    """What the command says of a change."""
    async with world.served() as address:
        result = await asyncio.to_thread(invoke, "--server", address, "simulate", *words, "-o", form)
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout) if form == "json" else result.stdout


async def refused(world: SimulatedWorld, *words: str) -> str:
    """Why the command refuses to ask."""
    async with world.served() as address:
        result = await asyncio.to_thread(invoke, "--server", address, "simulate", *words)
    assert result.exit_code == 1, result.output
    return result.stderr


async def test_a_taint(world: SimulatedWorld) -> None:
    found = await simulated(world, "--taint", "node/n1=maintenance=yes:NoExecute", "--for", "10m")
    assert found["changes"] == ["node/n1 tainted"]
    assert [one["target"] for one in found["leaving"]] == ["Node/n1"]
    (asked,) = world.asked
    assert (asked["failing"], asked["seconds"]) == ([], 600)
    (write,) = asked["writes"]
    assert (write["method"], write["path"], write["contentType"]) == ("PATCH", "/api/v1/nodes/n1", MERGE)
    assert "resourceVersion" not in json.dumps(write), "the copy has versions of its own"
    node = world.store.get(ObjectId("Node", "", "n1"))
    assert node is not None
    assert b"maintenance" not in node.json, "nothing was changed"


async def test_files_are_applied_and_objects_deleted(world: SimulatedWorld, tmp_path: Path) -> None:
    file = tmp_path / "nodes.yaml"
    more = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n9"}}
    known = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n2", "labels": {"disk": "fast"}}}
    file.write_text(yaml.safe_dump_all([more, known]))
    found = await simulated(world, "-f", str(file), "--delete", "node/n1")
    assert found["changes"] == ["node/n9 created", "node/n2 configured", "node/n1 deleted"]
    assert [write["method"] for write in world.asked[0]["writes"]] == ["PATCH", "PATCH", "DELETE"]
    assert found["summary"]["moved"] == 1


async def test_an_outage_as_a_table(world: SimulatedWorld) -> None:
    text = await simulated(world, "--outage", "node=n1", "--for", "15m", form="table")
    assert world.asked[0]["failing"] == ["Node/n1"]
    assert "outage of node=n1: node/n1 Unknown" in text
    assert "nothing was changed" in text


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--condition", "node/n1=Ready=False"), "--condition needs access to Kafka"),
        (("--outage", "zone=nowhere"), "--outage zone=nowhere: no node or cluster matches"),
        (("--delete", "node/none"), 'nodes "none" not found'),
        (("--taint", "node/none=a:NoExecute"), 'nodes "none" not found'),
        (("--outage", "node=n1", "--node-monitor-period", "1s"), "settings can be tried only with access to Kafka"),
        (("--outage", "node=n1", "--for", "48h"), "seconds: "),
    ],
)
async def test_what_cannot_be_asked_is_refused(world: SimulatedWorld, words: tuple[str, ...], why: str) -> None:
    assert why in await refused(world, *words)


async def test_without_a_change_nobody_is_asked(world: SimulatedWorld) -> None:
    world.declare({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n7"}, "spec": {"unschedulable": True}})
    file = yaml.safe_dump({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n7"}})
    async with world.served() as address:
        first = await asyncio.to_thread(invoke, "--server", address, "apply", "-f", "-", text=file)
        assert first.exit_code == 0, first.output
        result = await asyncio.to_thread(invoke, "--server", address, "simulate", "-f", "-", text=file)
    assert "nothing would be changed: node/n7 unchanged" in result.stderr
    assert world.asked == []


def test_without_kafka_and_without_a_gateway_it_says_so() -> None:
    result = invoke("simulate", "--outage", "node=n1")
    assert result.exit_code == 1
    assert "the address of Kafka is not known" in result.stderr
