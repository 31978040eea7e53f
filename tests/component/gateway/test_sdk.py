"""The SDK's reports over HTTP at a real gateway: what counts, what is refused, and tokens that are replaced."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest
from tests.component.gateway.double import NOW, Fixture, node
from tests.support.waiting import until

from moorage.runtime.settings.process_settings import Settings
from moorage_schemas.condition import ConditionReported
from moorage_sdk import Connection, Probe, Refusal
from moorage_sdk.senders import HttpSender


def probe_at(gateway: Fixture, connection: Connection, told: list[Refusal]) -> Probe:
    sender = HttpSender(connection, httpx.ASGITransport(app=gateway.app))
    return Probe("probe/x", sender=sender, heartbeat=0, on_refusal=told.append, clock=lambda: NOW)


def reported(gateway: Fixture) -> list[ConditionReported]:
    return [write.event for write in gateway.log.reported if isinstance(write.event, ConditionReported)]


async def test_reports_reach_the_topic_and_refusals_the_probe() -> None:
    gateway, told = Fixture(), list[Refusal]()
    await gateway.ok("POST", "/api/v1/nodes", node("n1"))
    async with probe_at(gateway, Connection(server="http://localhost"), told) as probe:
        identity = await probe.report("Node/n1", "DiskPressure", "True", reason="Full")
        await probe.report("Node/nobody", "Ready", "True")
        await probe.flush()
    (report,) = reported(gateway)
    assert (report.type, report.reason, report.source) == ("DiskPressure", "Full", "probe/x")
    assert gateway.log.reported[0].meta.id == identity
    assert [(one.reason, one.subject) for one in told] == [("UnknownTarget", "Node/nobody Ready")]


async def test_a_batch_of_refused_reports_alone_is_told_one_by_one() -> None:
    gateway, told = Fixture(), list[Refusal]()
    async with probe_at(gateway, Connection(server="http://localhost"), told) as probe:
        await probe.report("Node/a", "Ready", "True")
        await probe.report("Node/b", "Ready", "True")
        await probe.flush()
    assert [one.subject for one in told] == ["Node/a Ready", "Node/b Ready"]


async def test_a_probe_waits_until_its_token_counts(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    tokens, own = tmp_path / "tokens.csv", tmp_path / "token"
    tokens.write_text('good-token,probe,1,"system:masters"\n')
    tokens.chmod(0o600)
    own.write_text("expired-token")
    gateway = Fixture(settings=Settings(token_auth_file=str(tokens), loopback_admin=False))
    headers = {"authorization": "Bearer good-token"}
    created = await gateway.call("POST", "/api/v1/nodes", node("n1"), headers=headers)
    assert created.status_code == 201, created.text
    told: list[Refusal] = []
    async with probe_at(gateway, Connection(server="http://localhost", token_file=str(own)), told) as probe:
        await probe.report("Node/n1", "Ready", "True")
        await until(lambda: "the gateway answers 401 Unauthorized" in caplog.text)
        assert probe.waiting == 1
        own.write_text("good-token\n")
        await until(lambda: probe.waiting == 0)
    assert len(reported(gateway)) == 1
    assert told == []
