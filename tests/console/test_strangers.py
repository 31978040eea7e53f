"""Forms of people who have not logged in: they end soon, and hold nothing that others need."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path

import pytest
from tests.component.gateway.test_slow_clients import NODES, PLENTY, of_length, request, served
from tests.console.test_sessions import log_in, world_of
from tests.support.waiting import until

from moorage.console import application

FORM = ("Content-Type: application/x-www-form-urlencoded", "Content-Length: 1000")


async def test_logins_that_trickle_end_and_keep_no_administrator_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = await world_of(tmp_path, max_requests_in_flight=2, max_mutating_requests_in_flight=2)
    body = b'{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "new"}}'
    async with served(world) as server, contextlib.AsyncExitStack() as slow, asyncio.timeout(PLENTY):
        for _ in range(20):
            _, writer = await slow.enter_async_context(server.connected())
            writer.write(request("POST", "/console/login", b"token=", *FORM))
        await until(lambda: world.app.state.in_flight.held == 20 * len(b"token="))
        sent = request("POST", NODES, body, *of_length(len(body)), "Authorization: Bearer root")
        assert b" 201 " in (await server.answer(sent)).splitlines()[0]
        monkeypatch.setattr(application, "LOGIN_SECONDS", 0.05)
        answer = await server.answer(request("POST", "/console/login", b"token=", *FORM))
        assert b" 408 " in answer.splitlines()[0]
        assert b"the form did not come within 0.05 s" in answer
        assert (await log_in(world, "ann")).status_code == 303
    await until(lambda: world.app.state.in_flight.held == 0)


async def test_a_login_is_short(tmp_path: Path) -> None:
    world = await world_of(tmp_path)
    answer = await world.http.post("/console/login", data={"token": "x" * 20_000})
    assert answer.status_code == 413


async def test_logins_have_a_small_share_of_the_bytes(tmp_path: Path) -> None:
    world = await world_of(tmp_path, max_body_bytes_in_flight=16_000)  # 1,000 for strangers, 500 for each address
    assert (await log_in(world, "x" * 600)).status_code == 429
    assert (await log_in(world, "ann")).status_code == 303
