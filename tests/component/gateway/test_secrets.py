"""A token that is sent in a wrong place is found in no log line, answer, audit record or metric."""

from __future__ import annotations

import io
import logging
from collections.abc import Iterator
from typing import Any

import pytest
import structlog
from prometheus_client import generate_latest
from tests.component.gateway.double import Fixture, Json, node
from tests.support.waiting import until

from moorage.apiserver.http.discovery import groups
from moorage.runtime.process.logs import configure_logs
from moorage.runtime.settings.process_settings import Settings

TOKEN = "eyJhbGciOiJFZERTQSJ9.eyJzdWIiOiJzM2NyM3R2NGx1ZSJ9.c2lnbmF0dXJlLW9mLWFkYQ"  # noqa: S105 - nobody's
PATHS = ("/api/v1/nodes", "/api/v1/nodes/n1", "/apis/nothing/v1/x", "/nothing", "/v1/conditions", "/version", "/livez")

HEADERS: tuple[Json, ...] = (
    {"authorization": f"Bearer {TOKEN}"},
    {"authorization": f"bearer  {TOKEN} "},
    {"authorization": f"Basic {TOKEN}"},
    {"authorization": TOKEN},
    {"proxy-authorization": f"Bearer {TOKEN}"},
    {"cookie": f"session={TOKEN}"},
    {"x-auth-token": TOKEN},
    {"sec-websocket-protocol": f"base64url.bearer.authorization.k8s.io.{TOKEN}"},
)


@pytest.fixture
def log() -> Iterator[io.StringIO]:
    """What is logged, of every level."""
    out = io.StringIO()
    root = logging.getLogger()
    before = structlog.get_config(), root.handlers[:], root.level
    configure_logs(Settings(log_format="json", log_level="debug"), stream=out)
    yield out
    structlog.configure(**before[0])
    root.handlers[:] = before[1]
    root.setLevel(before[2])


def secret_in(*texts: str) -> bool:
    parts = TOKEN.split(".")
    return any(part in text for text in texts for part in parts)


@pytest.mark.parametrize("headers", HEADERS, ids="+".join)
@pytest.mark.parametrize("method", ["GET", "POST", "PATCH", "DELETE"])
async def test_a_header(log: io.StringIO, headers: Json, method: str) -> None:
    gateway = Fixture()
    async with gateway.running():
        for path in PATHS:
            answer = await gateway.http.request(method, path, headers={**headers, "content-type": "application/json"})
            assert not secret_in(answer.text, str(answer.headers))
        await until(lambda: not secret_in(generate_latest(gateway.gateway.metrics.registry).decode()))
    assert not secret_in(log.getvalue(), *(str(write) for write in gateway.log.written))


@pytest.mark.parametrize("name", ["token", "access_token", "authorization", "watch", "limit", "resourceVersion"])
async def test_a_query(log: io.StringIO, name: str) -> None:
    gateway = Fixture()
    async with gateway.running():
        for path in PATHS:
            for method in ("GET", "POST") if name != "watch" else ("POST",):  # any value but `false` begins a watch
                await gateway.http.request(method, path, params={name: TOKEN})
        assert not secret_in(generate_latest(gateway.gateway.metrics.registry).decode())
    assert not secret_in(log.getvalue(), *(str(write) for write in gateway.log.written))


@pytest.mark.parametrize(
    "body",
    [
        TOKEN,
        {"token": TOKEN},
        {"metadata": {"name": TOKEN}},
        {"metadata": {"name": "n1", "labels": {TOKEN: TOKEN}}},
        {"kind": "Node", "apiVersion": "v1", "spec": TOKEN},
    ],
)
async def test_a_body_that_is_refused(log: io.StringIO, body: Any) -> None:
    gateway = Fixture()
    async with gateway.running():
        answer = await gateway.http.post("/api/v1/nodes", json=body)
        assert 400 <= answer.status_code < 500
        assert not secret_in(generate_latest(gateway.gateway.metrics.registry).decode())
    assert not secret_in(log.getvalue(), *(str(write) for write in gateway.log.written))


async def test_a_failure_of_the_gateway_is_logged_without_it(log: io.StringIO, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails() -> Json:
        raise RuntimeError(f"failed on Bearer {TOKEN}")

    monkeypatch.setattr(groups, "server_version", fails)
    gateway = Fixture()
    answer = await gateway.http.get(f"/version?token={TOKEN}", headers={"authorization": f"Bearer {TOKEN}"})
    assert answer.status_code in {401, 500}
    answer = await gateway.http.get(f"/version?token={TOKEN}", headers={"x-token": TOKEN})
    assert answer.status_code == 500
    assert not secret_in(log.getvalue(), answer.text)
    assert "gateway.request_failed" in log.getvalue()
    assert (await gateway.ok("POST", "/api/v1/nodes", node()))["kind"] == "Node"
