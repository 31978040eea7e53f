"""`moorage up` and `moorage run`: ready, found by other commands, kept running, stopped with their parent."""

from __future__ import annotations

import json
import os
import signal
import ssl
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.support import console
from tests.support.accounts import token_of_new_account
from tests.support.brokers import Broker
from tests.support.commands import moorage
from tests.support.forks import ROOT
from tests.support.up import started
from tests.support.waiting import until

pytestmark = pytest.mark.kafka

TUTORIAL = (ROOT / "docs" / "tutorial.md").read_text("utf-8")
TOGETHER = {"condition-ingest", "gateway"}
"""The processes of services, by the first service of each."""

SERVICES = {
    "condition-ingest",
    "taint-manager",
    "governor",
    "placement",
    "eviction",
    "timer",
    "gateway",
    "query",
    "webhooks",
}


async def gone(pids: dict[str, int]) -> bool:
    return not any(_lives(pid) for pid in pids.values())


def _lives(pid: int) -> bool:
    try:
        return (Path("/proc") / str(pid) / "stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


async def test_up_serves_starts_again_and_stops_in_order(broker: Broker, topic_prefix: str, tmp_path: Path) -> None:
    flags = (
        "--separate",
        "--node-eviction-rate=inf",
        "--allow-no-execute-taint-policy",
        "--feature-gates",
        "Failover=true",
    )
    async with started(broker, topic_prefix, tmp_path, *flags) as up:
        running: dict[str, Any] = json.loads(up.run_file.read_text())
        assert running["bootstrap"] == broker.bootstrap
        assert running["server"] in "".join(up.said)
        (shown,) = (one for one in console.steps(TUTORIAL) if one.command == "moorage up")
        assert console.missing(shown.output, up.said) == []
        (told,) = (line for line in up.said if line.startswith("health and metrics: "))
        health = dict(pair.split(" ") for pair in told.strip().removeprefix("health and metrics: ").split(", "))
        assert set(health) == SERVICES
        async with httpx.AsyncClient(trust_env=False) as http:
            assert {(await http.get(f"{address}/healthz")).status_code for address in health.values()} == {200}
        # Another command finds it by the run file alone, and a second `up` is refused.
        alone = {"MOORAGE_STATE_DIR": str(tmp_path), "MOORAGE_BOOTSTRAP_SERVERS": "", "MOORAGE_SERVER": ""}
        node = '{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}}'
        done = await moorage("apply", "-f", "-", env=alone, text=node)
        assert (done.code, done.out) == (0, "node/n1 created\n"), done.err
        done = await moorage("topics", "list", "-o", "name", env=alone)
        assert topic_prefix in done.out
        second = await moorage("up", env=up.env)
        assert second.code == 1
        assert f"is already running as process {up.process.pid}" in second.err
        before = up.children()
        assert set(before) == SERVICES
        for pid in before.values():
            variables = (Path("/proc") / str(pid) / "environ").read_text().split("\0")
            assert "MOORAGE_NODE_EVICTION_RATE=inf" in variables
            assert "MOORAGE_ALLOW_NO_EXECUTE_TAINT_POLICY=true" in variables
            assert "MOORAGE_FEATURE_GATES=Failover=true" in variables
        os.kill(before["timer"], signal.SIGKILL)
        assert "timer ended with SIGKILL; restarting" in await up.wait_for("timer ended")

        async def back() -> bool:
            return up.children().get("timer", before["timer"]) != before["timer"]

        await until(back)
        children = up.children()
        assert {name: pid for name, pid in children.items() if name != "timer"} == {
            name: pid for name, pid in before.items() if name != "timer"
        }
        up.process.send_signal(signal.SIGTERM)
        await up.wait_for("stopped")
        assert await up.process.wait() == 0
        assert await gone(children)
        assert not up.run_file.exists()


async def test_the_services_share_a_process_that_is_started_again(
    broker: Broker, topic_prefix: str, tmp_path: Path
) -> None:
    async with started(broker, topic_prefix, tmp_path) as up:
        (told,) = (line for line in up.said if line.startswith("health and metrics: "))
        health = dict(pair.split(" ") for pair in told.strip().removeprefix("health and metrics: ").split(", "))
        assert set(health) == {"services", "gateway"}
        before = up.children()
        assert set(before) == TOGETHER
        os.kill(before["condition-ingest"], signal.SIGKILL)
        assert "services ended with SIGKILL; restarting" in await up.wait_for("services ended")

        async def back() -> bool:
            return up.children().get("condition-ingest", before["condition-ingest"]) != before["condition-ingest"]

        await until(back)
        assert up.children()["gateway"] == before["gateway"]

        async def ready() -> bool:
            try:
                async with httpx.AsyncClient(trust_env=False) as http:
                    return (await http.get(f"{health['services']}/readyz")).status_code == 200
            except httpx.TransportError:
                return False

        await until(ready)


async def test_up_names_the_flags_that_the_configuration_overrules(
    broker: Broker, topic_prefix: str, tmp_path: Path
) -> None:
    async with started(broker, topic_prefix, tmp_path, "--node-eviction-rate=0.2") as up:
        first = "".join(up.said)
        up.process.send_signal(signal.SIGINT)
        first += (await up.process.communicate())[0].decode()
    assert "MoorageConfiguration" not in first, "its flags are the configuration's first content"
    async with started(broker, topic_prefix, tmp_path, "--node-eviction-rate=0.4", "--taint-add-hold=5s") as up:
        said = await up.wait_for("MoorageConfiguration has other values than this start for")
        assert "nodeEvictionRate" in said
        assert "taintAddHold" in said
        assert "moorage edit moorageconfiguration cluster" in said


async def test_children_end_when_the_parent_is_killed(broker: Broker, topic_prefix: str, tmp_path: Path) -> None:
    async with started(broker, topic_prefix, tmp_path) as up:
        children = up.children()
        assert set(children) == TOGETHER
        up.process.kill()
        await up.process.wait()
        await until(lambda: gone(children))
        # What it left behind points nowhere, and does not mislead.
        alone = {"MOORAGE_STATE_DIR": str(tmp_path), "MOORAGE_BOOTSTRAP_SERVERS": "", "MOORAGE_SERVER": ""}
        done = await moorage("watch", env=alone)
        assert done.code == 1
        assert "`moorage up` is not running" in done.err


async def test_up_fresh_deletes_the_fleet_of_earlier_runs(tmp_path: Path) -> None:
    alone = {"MOORAGE_STATE_DIR": str(tmp_path), "MOORAGE_BOOTSTRAP_SERVERS": "", "MOORAGE_SERVER": ""}
    node = '{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}}'
    async with started(None, "moorage", tmp_path):
        assert (await moorage("apply", "-f", "-", env=alone, text=node)).code == 0
    async with started(None, "moorage", tmp_path):
        assert (await moorage("get", "nodes", "-o", "name", env=alone)).out == "node/n1\n"
    async with started(None, "moorage", tmp_path, "--fresh") as up:
        assert "deleted the fleet of earlier runs" in "".join(up.said)
        assert (await moorage("get", "nodes", "-o", "name", env=alone)).out == ""
    elsewhere = {**alone, "MOORAGE_BOOTSTRAP_SERVERS": "127.0.0.1:9"}
    refused = await moorage("up", "--fresh", env=elsewhere)
    assert (refused.code, "--fresh: only for the embedded Kafka" in refused.err) == (2, True), refused.err


async def test_up_says_when_kafka_is_not_there(tmp_path: Path) -> None:
    env = {"MOORAGE_STATE_DIR": str(tmp_path), "MOORAGE_BOOTSTRAP_SERVERS": "127.0.0.1:9", "MOORAGE_GATEWAY_PORT": "0"}
    done = await moorage("up", env=env)
    assert done.code == 1
    assert "Kafka at 127.0.0.1:9 does not answer" in done.err
    assert "Traceback" not in done.err


async def test_a_secure_gateway_asks_who_calls_and_commands_say_it(
    broker: Broker, topic_prefix: str, tmp_path: Path
) -> None:
    async with started(broker, topic_prefix, tmp_path, "--secure-gateway") as up:
        running: dict[str, Any] = json.loads(up.run_file.read_text())
        assert running["server"].startswith("https://127.0.0.1:")
        folder = tmp_path / "gateway-identities"
        token = (folder / "admin.token").read_text().strip()
        assert token not in "".join(up.said) + up.run_file.read_text()
        alone = {"MOORAGE_STATE_DIR": str(tmp_path), "MOORAGE_BOOTSTRAP_SERVERS": "", "MOORAGE_SERVER": ""}
        done = await moorage("auth", "whoami", "-o", "json", env=alone)
        assert json.loads(done.out)["status"]["userInfo"]["username"] == "moorage:admin", done.err
        trusted = ssl.create_default_context(cafile=str(folder / "ca.crt"))
        async with httpx.AsyncClient(base_url=running["server"], verify=trusted, trust_env=False) as http:
            assert (await http.get("/readyz")).status_code == 200
            assert (await http.get("/api/v1/nodes")).status_code == 403
            bad = await http.get("/api/v1/nodes", headers={"authorization": "Bearer x"})
            assert bad.status_code == 401
        probe = {
            **alone,
            "MOORAGE_TOKEN": await token_of_new_account(running["server"], tmp_path, "probe", "moorage:probe"),
        }
        node = '{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}}'
        refused = await moorage("apply", "-f", "-", env=probe, text=node)
        assert (refused.code, '"system:serviceaccount:default:probe" cannot' in refused.err) == (1, True), refused.err
        assert (await moorage("apply", "-f", "-", env=alone, text=node)).code == 0
        reported = await moorage("report", "node/n1", "DiskPressure=True", env=probe)
        assert (reported.code, reported.out) == (0, "node/n1 reported DiskPressure=True\n"), reported.err
        explained = await moorage("get", "node", "n1", "--as", "eve", env=alone)
        assert 'User "eve" cannot get resource "nodes"' in explained.err
        written = await moorage("kubeconfig", env=alone)
        config = tmp_path / "config"
        config.write_text(written.out)
        elsewhere = {**alone, "MOORAGE_STATE_DIR": str(tmp_path / "other"), "KUBECONFIG": str(config)}
        assert (await moorage("get", "nodes", "-o", "name", env=elsewhere)).out == "node/n1\n"
        for log in (tmp_path / "logs").iterdir():
            assert token not in log.read_text(), "no token is ever logged"
