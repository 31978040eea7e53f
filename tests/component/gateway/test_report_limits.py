"""Limits of reports at the gateway: 429 with the time to wait, 413, each source and user on its own, and the SDK."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.component.gateway.double import NOW, Fixture, node
from tests.component.gateway.test_access import call
from tests.component.gateway.test_probe_grants import BATCH, DISK, event, gateway_of, sent
from tests.support.waiting import until

from moorage.runtime.settings.process_settings import Settings
from moorage_sdk import Connection, Probe, Refusal
from moorage_sdk.senders import HttpSender

LIMITED = DISK | {"limits": {"qps": 2, "burst": 3}}


async def outcomes(gateway: Fixture, token: str, events: list[Any]) -> list[str]:
    answer = await call(gateway, token, "POST", "/v1/conditions", events, content_type=BATCH["content-type"])
    return [item["outcome"] for item in answer.json()["items"]]


async def test_what_is_too_much_is_answered_429_with_source_limit_rule_and_time(tmp_path: Path) -> None:
    gateway = await gateway_of(tmp_path, LIMITED | {"limits": {"qps": 1, "burst": 3}})
    for _ in range(3):
        assert (await sent(gateway, "ann", event())).status_code == 202
    answer = await sent(gateway, "ann", event())
    status = answer.json()
    assert (answer.status_code, status["reason"], answer.headers["retry-after"]) == (429, "TooManyRequests", "1")
    assert status["message"] == (
        "source: invalid value 'probe/disk/1': must report at most 1 times per second, and 3 times at once, "
        "by the ProbeGrant 'g0'"
    )
    assert status["details"]["retryAfterSeconds"] == 1
    (cause,) = status["details"]["causes"]
    assert cause["field"] == "source"
    assert len(gateway.log.reported) == 3
    shown = await gateway.call("GET", "/metrics", headers={"authorization": "Bearer root"})
    assert 'moorage_gateway_reports_limited_total{limit="g0"} 1.0' in shown.text
    gateway.clock.time += timedelta(seconds=1)
    assert (await sent(gateway, "ann", event())).status_code == 202
    assert (await sent(gateway, "ann", event())).status_code == 429


async def test_each_source_and_user_has_a_limit_of_its_own(tmp_path: Path) -> None:
    gateway = await gateway_of(tmp_path, LIMITED)
    flood = [event() for _ in range(100)]
    assert (await outcomes(gateway, "ann", flood)).count("Accepted") == 3
    for number in range(10):
        assert (await sent(gateway, "ann", event(source=f"probe/disk/quiet{number}"))).status_code == 202
    assert (await sent(gateway, "bob", event())).status_code == 202
    # What is refused for another reason costs nothing.
    wrong = [event(source="probe/disk/2", condition="Fan")] * 10
    assert set(await outcomes(gateway, "ann", wrong)) == {"Refused"}
    assert (await sent(gateway, "ann", event(source="probe/disk/2"))).status_code == 202


async def test_a_batch_says_which_reports_are_too_many(tmp_path: Path) -> None:
    gateway = await gateway_of(tmp_path, LIMITED)
    answer = await call(gateway, "ann", "POST", "/v1/conditions", [event()] * 5, content_type=BATCH["content-type"])
    assert answer.status_code == 207
    assert answer.headers["retry-after"] == "1"
    assert [item.get("status", {}).get("code") for item in answer.json()["items"]] == [None, None, None, 429, 429]
    answer = await call(gateway, "ann", "POST", "/v1/conditions", [event()] * 2, content_type=BATCH["content-type"])
    assert (answer.status_code, answer.headers["retry-after"]) == (429, "1")


async def test_a_report_that_is_too_large_for_its_grant(tmp_path: Path) -> None:
    gateway = await gateway_of(tmp_path, DISK | {"limits": {"maxBytes": 300}})
    answer = await sent(gateway, "ann", event(message="x" * 300))
    assert (answer.status_code, answer.json()["reason"]) == (413, "TooLarge")
    assert "must have at most 300 bytes, by the ProbeGrant 'g0'" in answer.json()["message"]
    assert (await sent(gateway, "ann", event())).status_code == 202


async def test_the_default_limits_sources_to_which_no_grant_sets_a_limit() -> None:
    gateway = Fixture(settings=Settings(report_qps=1, report_burst=2))
    await gateway.ok("POST", "/api/v1/nodes", node("n1"))
    structured = {"content-type": "application/cloudevents+json"}
    found = [
        await gateway.call("POST", "/v1/conditions", event(source=source), headers=structured)
        for source in ("a", "a", "a", "b")
    ]
    assert [answer.status_code for answer in found] == [202, 202, 429, 202]
    assert "by the limit of all sources" in found[2].json()["message"]


async def test_a_probe_sends_again_what_was_too_much_and_only_that(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    gateway = await gateway_of(tmp_path, DISK | {"limits": {"qps": 1000, "burst": 4}})
    token = tmp_path / "token"
    token.write_text("ann")
    told: list[Refusal] = []
    connection = Connection(server="http://localhost", token_file=str(token))
    sender = HttpSender(connection, httpx.ASGITransport(app=gateway.app))
    probe = Probe("probe/disk/1", sender=sender, heartbeat=0, on_refusal=told.append, clock=lambda: NOW)
    async with probe:
        for number in range(10):
            await probe.report("Node/n1", f"Disk{number}", "True")
        await until(lambda: "6 of 10 reports are too many now" in caplog.text)
        assert probe.waiting == 6
        gateway.clock.time += timedelta(seconds=1)
        await until(lambda: "2 of 6 reports are too many now" in caplog.text)
        gateway.clock.time += timedelta(seconds=1)
        await probe.flush()
    assert [write.event.type for write in gateway.log.reported] == [f"Disk{number}" for number in range(10)]  # type: ignore[union-attr]  # reports have one
    assert told == []
