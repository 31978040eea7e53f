"""The SDK's reports over HTTP at a real gateway: what counts, what is refused, and tokens that are replaced."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest
from pydantic import SecretStr
from tests.component.gateway.double import NOW, Fixture, node
from tests.support.waiting import until

from moorage.runtime.settings.process_settings import Settings
from moorage_schemas.condition import ConditionReported
from moorage_sdk import Connection, Probe, Refusal, SdkError, TransportError
from moorage_sdk.senders import HttpSender


def probe_at(gateway: Fixture, connection: Connection, told: list[Refusal]) -> Probe:
    sender = HttpSender(connection, httpx.ASGITransport(app=gateway.app))
    return Probe("probe/x", sender=sender, heartbeat=0, on_refusal=told.append, clock=lambda: NOW)


async def report_once(probe: Probe) -> None:
    async with probe:
        await probe.report("Node/n1", "Ready", "True")
        await probe.flush()


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


async def test_a_probe_waits_for_a_new_token_if_its_token_has_counted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    tokens, own = tmp_path / "tokens.csv", tmp_path / "token"
    tokens.write_text('good-token,probe,1,"system:masters"\n')
    tokens.chmod(0o600)
    own.write_text("good-token")
    gateway = Fixture(settings=Settings(token_auth_file=str(tokens), loopback_admin=False))
    headers = {"authorization": "Bearer good-token"}
    created = await gateway.call("POST", "/api/v1/nodes", node("n1"), headers=headers)
    assert created.status_code == 201, created.text
    told: list[Refusal] = []
    async with probe_at(gateway, Connection(server="http://localhost", token_file=str(own)), told) as probe:
        await probe.report("Node/n1", "Ready", "True")
        await probe.flush()
        own.write_text("expired-token")
        await probe.report("Node/n1", "Ready", "False")
        await until(lambda: "the gateway answers 401" in caplog.text)
        assert probe.waiting == 1
        own.write_text("good-token\n")
        await until(lambda: probe.waiting == 0)
    assert len(reported(gateway)) == 2
    assert told == []


@pytest.mark.parametrize(("token", "expected"), [("wrong", "a token that is valid"), ("", "a token")])
async def test_a_token_that_never_counted_is_an_error(tmp_path: Path, token: str, expected: str) -> None:
    tokens = tmp_path / "tokens.csv"
    tokens.write_text('good-token,probe,1,"system:masters"\n')
    tokens.chmod(0o600)
    gateway = Fixture(settings=Settings(token_auth_file=str(tokens), loopback_admin=False))
    error = f"the gateway answers 40[13]: .*: expected {expected} in MOORAGE_TOKEN or MOORAGE_TOKEN_FILE"
    probe = probe_at(gateway, Connection(server="http://localhost", token=SecretStr(token)), [])
    with pytest.raises(SdkError, match=error):
        await report_once(probe)


@pytest.mark.parametrize("code", [200, 404, 405])
async def test_a_server_that_is_no_gateway_is_an_error(code: int) -> None:
    def answered(_: httpx.Request) -> httpx.Response:
        return httpx.Response(code, text="<html>It works!</html>")

    connection = Connection(server="http://elsewhere")
    sender = HttpSender(connection, httpx.MockTransport(answered))
    error = f"the gateway answers {code}: .*: expected the address of a gateway in MOORAGE_SERVER, which is http://else"
    with pytest.raises(SdkError, match=error):
        await report_once(Probe("probe/x", sender=sender))


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (httpx.ConnectError("refused"), r"http://gw: does not answer \(refused\); MOORAGE_SERVER names the gateway"),
        (httpx.ReadTimeout(""), "http://gw: does not answer within 30 s"),
        (httpx.ConnectError("[SSL: CERTIFICATE_VERIFY_FAILED] x"), "its certificate is not trusted: MOORAGE_CA_FILE"),
        (httpx.RemoteProtocolError("cut"), r"http://gw: the connection broke \(cut\)"),
    ],
)
async def test_errors_of_the_network_are_short(error: httpx.HTTPError, text: str) -> None:
    def failing(_: httpx.Request) -> httpx.Response:
        raise error

    sender = HttpSender(Connection(server="http://gw"), httpx.MockTransport(failing))
    await sender.start()
    with pytest.raises(TransportError, match=text) as raised:
        await sender.send([])
    assert raised.value.__suppress_context__
    await sender.stop()
