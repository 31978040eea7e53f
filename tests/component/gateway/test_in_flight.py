"""Places of requests in flight: whoever sends slowly holds none, and strangers take none from users."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from tests.component.gateway.double import Fixture, Json, node
from tests.component.gateway.test_access import allow
from tests.component.gateway.test_slow_clients import BODY, NODES, PLENTY, of_length, request, sample, served
from tests.support.identities import written
from tests.support.tables import table
from tests.support.waiting import until

from moorage.apiserver.http import protocol
from moorage.apiserver.http.app import Gateway, create_app
from moorage.apiserver.http.forwarding import Forwarding
from moorage.apiserver.http.in_flight import (
    READING,
    WRITING,
    ClientShare,
    CountedClient,
    RequestLimits,
    RequestsInFlight,
)
from moorage.apiserver.machinery.api_errors import StatusError
from moorage.runtime.settings.process_settings import Settings
from moorage_schemas.shown import GatewayLeader

TOKENS = 'root,root,0,"system:masters"\nann,ann,1\nbob,bob,2\n'
WRITES = {"verbs": ["*"], "apiGroups": [""], "resources": ["nodes"]}
IN_FLIGHT = "moorage_gateway_requests_in_flight"


def users(folder: Path, **settings: Any) -> Fixture:
    """A gateway with tokens of `root`, and of `ann` and `bob`, who may write nodes."""
    return Fixture(settings=Settings(token_auth_file=written(folder, "tokens.csv", TOKENS), **settings))


async def permit(gateway: Fixture) -> None:
    subjects = [{"kind": "User", "name": name} for name in ("ann", "bob")]
    await allow(gateway, "nodes", subjects, WRITES)


def as_user(name: str) -> str:
    return f"Authorization: Bearer {name}"


ROOT, ANN, BOB = (
    CountedClient(ClientShare.ADMINISTRATORS, "root"),
    CountedClient(ClientShare.USERS, "ann"),
    CountedClient(ClientShare.USERS, "bob"),
)
LOCAL, HERE, THERE = (
    CountedClient(ClientShare.USERS),
    CountedClient(ClientShare.STRANGERS, "10.0.0.1"),
    CountedClient(ClientShare.STRANGERS, "10.0.0.2"),
)


@table(
    ("limit", "taken", "client", "admitted"),
    [
        (8, {}, ANN, 6),  # three quarters
        (8, {ANN: 6}, BOB, 2),
        (8, {ANN: 6, BOB: 2}, ROOT, 100),
        (8, {}, LOCAL, 8),
        (40, {}, HERE, 3),
        (40, {HERE: 3}, THERE, 1),
        (40, {HERE: 3, THERE: 1}, ANN, 30),
        (1, {}, ANN, 1),
        (1, {ANN: 1}, HERE, 1),
        (0, {ANN: 1_000}, ANN, 100),
        (0, {HERE: 1_000}, HERE, 100),
    ],
)
def test_places(limit: int, taken: dict[CountedClient, int], client: CountedClient, admitted: int) -> None:
    shown: dict[str, int] = {}
    flight = RequestsInFlight(RequestLimits(limit, limit, 0), shown.__setitem__)
    for one, count in taken.items():
        for _ in range(count):
            flight.enter(READING, one)
    count = 0
    with contextlib.suppress(StatusError):
        for _ in range(100):
            flight.enter(READING, client)
            count += 1
    assert count == admitted
    assert shown == {READING: sum(taken.values()) + admitted}
    flight.enter(WRITING, client)
    for _ in range(count):
        flight.leave(READING, client)
    assert shown[READING] == sum(taken.values())


@table(
    ("client", "most"),
    [(ROOT, 1_600), (ANN, 800), (LOCAL, 1_600), (HERE, 50)],
)
def test_bytes(client: CountedClient, most: int) -> None:
    flight = RequestsInFlight(RequestLimits(0, 0, 1_600))
    flight.hold(client, most)
    with pytest.raises(StatusError, match="Too many request bodies at a time"):
        flight.hold(client, 1)
    flight.drop(client, most)
    flight.hold(client, most)


async def test_a_body_that_comes_slowly_keeps_nobody_out(tmp_path: Path) -> None:
    gateway = users(tmp_path, max_mutating_requests_in_flight=1)
    await permit(gateway)
    async with served(gateway) as server, contextlib.AsyncExitStack() as slow, asyncio.timeout(PLENTY):
        connections = []
        for _ in range(5):
            reader, writer = await slow.enter_async_context(server.connected())
            writer.write(request("POST", NODES, BODY[:5], *of_length(len(BODY)), as_user("ann")))
            connections.append((reader, writer))
        held = gateway.app.state.in_flight
        await until(lambda: held.held == 25)
        assert sample(gateway, IN_FLIGHT, kind="writing") == 0
        other = json.dumps(node("n2")).encode()
        answer = await server.answer(request("POST", NODES, other, *of_length(len(other)), as_user("bob")))
        assert b" 201 " in answer.splitlines()[0]
        reader, writer = connections[0]
        writer.write(BODY[5:])
        assert b" 201 " in (await reader.read()).splitlines()[0]
    await until(lambda: held.held == 0)


async def test_after_a_slow_body_there_may_be_no_place(tmp_path: Path) -> None:
    gateway = users(tmp_path, max_mutating_requests_in_flight=1)
    await permit(gateway)
    async with served(gateway) as server, server.connected() as (reader, writer), asyncio.timeout(PLENTY):
        writer.write(request("POST", NODES, BODY[:5], *of_length(len(BODY)), as_user("ann")))
        await until(lambda: gateway.app.state.in_flight.held == 5)
        gateway.log.open.clear()  # writes wait
        other = json.dumps(node("n2")).encode()
        waiting = asyncio.create_task(
            server.answer(request("POST", NODES, other, *of_length(len(other)), as_user("bob")))
        )
        await until(lambda: sample(gateway, IN_FLIGHT, kind="writing") == 1)
        writer.write(BODY[5:])
        refused = await reader.read()
        assert b" 429 " in refused.splitlines()[0]
        assert b"retry-after: 1" in refused.lower()
        gateway.log.open.set()
        assert b" 201 " in (await waiting).splitlines()[0]


async def test_bodies_are_bounded_by_their_bytes(tmp_path: Path) -> None:
    gateway = users(tmp_path, max_body_bytes_in_flight=10_000)
    await permit(gateway)
    async with served(gateway) as server, server.connected() as (_, writer), asyncio.timeout(PLENTY):
        writer.write(request("POST", NODES, b"{" + b" " * 3_999, *of_length(8_000), as_user("ann")))
        await until(lambda: gateway.app.state.in_flight.held == 4_000)
        large = BODY + b" " * 2_000
        refused = await server.answer(request("POST", NODES, large, *of_length(len(large)), as_user("ann")))
        assert b" 429 " in refused.splitlines()[0], "a user has half of the room"
        answer = await server.answer(request("POST", NODES, large, *of_length(len(large)), as_user("bob")))
        assert b" 201 " in answer.splitlines()[0]
    await until(lambda: gateway.app.state.in_flight.held == 0)


async def called(app: Any, path: str, *, query: str = "", bearer: str = "") -> tuple[asyncio.Task[None], list[Json]]:
    """A request in flight: its answer begins, and its client takes nothing of it."""
    sent: list[Json] = []

    async def receive() -> Json:
        await asyncio.Event().wait()
        raise AssertionError

    async def send(message: Json) -> None:
        sent.append(message)
        await asyncio.Event().wait()

    headers = [(b"host", b"localhost"), *([(b"authorization", f"Bearer {bearer}".encode())] if bearer else [])]
    scope = {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.4"},
        "http_version": "1.1",
        "method": "GET",
        "path": path,
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "headers": headers,
        "client": ("10.0.0.9", 1),
        "server": ("localhost", 80),
        "scheme": "http",
    }
    task = asyncio.create_task(app(scope, receive, send))
    await until(lambda: bool(sent))
    return task, sent


@table(
    ("path", "query", "is_watch"),
    [
        (NODES, "", False),
        (NODES, "watch=1", True),
        ("/api/v1/watch/nodes", "", True),
        (f"{NODES}/n1", "watch=1", False),
        (f"{NODES}/watch/x", "", False),
        ("/api/v1/namespaces/watch/pods", "", False),
        ("/apis/apps/v1/namespaces/watch/deployments", "watch=1", True),
        ("/v1/decisions", "", True),
        ("/v1/watch/x", "", False),
    ],
)
async def test_a_watch_is_what_is_answered_as_one(path: str, query: str, is_watch: bool) -> None:  # noqa: FBT001 - a column
    gateway = Fixture()
    await gateway.ok("POST", NODES, node("n1"))
    task, _ = await called(gateway.app, path, query=query)
    assert sample(gateway, IN_FLIGHT, kind="reading") == (0 if is_watch else 1)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert sample(gateway, IN_FLIGHT, kind="reading") == 0


async def test_strangers_take_no_place_of_users(tmp_path: Path) -> None:
    gateway = users(tmp_path, max_requests_in_flight=10)
    await permit(gateway)
    await allow(gateway, "all", [{"kind": "User", "name": "system:anonymous"}], WRITES)
    held, _ = await called(gateway.app, NODES)
    assert (await gateway.call("GET", NODES)).status_code == 429, "a tenth of ten"
    async with contextlib.AsyncExitStack() as ends:
        ends.callback(held.cancel)
        for number in range(10):
            bearer = "ann" if number < 7 else "bob"
            task, _ = await called(gateway.app, NODES, bearer=bearer)
            ends.callback(task.cancel)
        codes = {
            name: (await gateway.call("GET", NODES, headers={"authorization": f"Bearer {name}"})).status_code
            for name in ("ann", "bob", "root")
        }
        assert codes == {"ann": 429, "bob": 429, "root": 200}


class Follows:
    """A gateway that does not lead."""

    leads = False
    obstacle = ""
    failing = False


def follower(leader: Fixture, **settings: Any) -> Starlette:
    """A gateway that shows what `leader` shows, and forwards writes to it."""
    own = GatewayLeader(instance="b", address="http://b")
    leader.store.leader = GatewayLeader(instance="a", address="http://localhost")
    forwarding = Forwarding(leader.store, own, Follows(), transport=httpx.ASGITransport(app=leader.app))
    its = leader.gateway.settings.model_copy(update=settings)
    return create_app(Gateway(leader.store, leader.log, leader.clock, settings=its, forwarding=forwarding))


def client_of(app: Starlette) -> httpx.AsyncClient:
    return httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://localhost")


@table(
    ("path", "bearer", "code"),
    [
        (NODES, "", 403),
        (NODES, "nobody", 401),
        ("/v1/mirror", "", 403),
        ("/v1/mirror", "bob", 403),
        ("/clusters/c1/api/v1/nodes", "", 403),
        ("/nothing", "", 403),
        ("/healthz", "", 404),
        ("/healthz/x", "", 404),
    ],
)
async def test_a_gateway_that_forwards_reads_nothing_of_what_it_refuses(
    tmp_path: Path, path: str, bearer: str, code: int
) -> None:
    leader = users(tmp_path)
    await permit(leader)
    parts = 0

    async def body() -> AsyncIterator[bytes]:
        nonlocal parts
        while True:
            parts += 1
            yield b" " * 100_000

    headers = {"authorization": f"Bearer {bearer}"} if bearer else {}
    async with client_of(follower(leader)) as http:
        answer = await http.post(path, content=body(), headers=headers)
    assert (answer.status_code, parts) == (code, 0)


async def test_a_gateway_that_forwards_bounds_the_bytes_of_bodies(tmp_path: Path) -> None:
    leader = users(tmp_path)
    await permit(leader)
    app = follower(leader, max_body_bytes_in_flight=1_000, max_mutating_requests_in_flight=1)
    waits = asyncio.Event()

    async def slow() -> AsyncIterator[bytes]:
        yield BODY
        await waits.wait()

    headers = {"authorization": "Bearer ann", "content-type": "application/json"}
    async with client_of(app) as http:
        first = asyncio.create_task(http.post(NODES, content=slow(), headers=headers))
        await until(lambda: app.state.in_flight.held == len(BODY))
        refused = await http.post(NODES, content=BODY + b" " * 500, headers=headers)
        assert (refused.status_code, refused.headers["retry-after"]) == (429, "1")
        waits.set()
        assert (await first).status_code == 201
        assert app.state.in_flight.held == 0


async def test_the_oldest_heads_end_when_there_are_too_many_bytes_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocol, "HEAD_BYTES", 100_000)
    async with served(Fixture()) as server, contextlib.AsyncExitStack() as slow, asyncio.timeout(PLENTY):
        first, writer = await slow.enter_async_context(server.connected())
        writer.write(b"GET /livez HTTP/1.1\r\nX-A: " + b"y" * 40_000)
        for _ in range(2):
            _, writer = await slow.enter_async_context(server.connected())
            writer.write(b"GET /livez HTTP/1.1\r\nX-A: " + b"y" * 40_000)
        with contextlib.suppress(ConnectionError):
            assert await first.read() == b""
        for _ in range(2):
            assert (await server.get(NODES))["kind"] == "NodeList"


async def test_an_upgrade_is_an_ordinary_request() -> None:
    async with served(Fixture()) as server:
        headers = ("Upgrade: websocket", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==", "Sec-WebSocket-Version: 13")
        sent = request("GET", NODES, b"", *headers).replace(b"Connection: close", b"Connection: Upgrade, close")
        answer = await server.answer(sent)
        assert b" 200 " in answer.splitlines()[0]
