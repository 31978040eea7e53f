"""Clients that send or read slowly, or not what they announce. They end, they cost little, and others go on."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import socket
import tracemalloc
from collections.abc import AsyncIterator

import pytest
from tests.component.gateway.double import Fixture, Json, node
from tests.support.waiting import until

from moorage.apiserver import server
from moorage.apiserver.http import protocol
from moorage.apiserver.http.messages import bodies
from moorage.apiserver.server import http_server, listen
from moorage.runtime.settings.process_settings import Settings

NODES = "/api/v1/nodes"
PLENTY = 60.0  # seconds within which an answer comes on a busy machine


class Served:
    """A gateway on a socket."""

    def __init__(self, port: int) -> None:
        self._port = port

    async def listens(self) -> bool:
        """Whether it takes connections."""
        try:
            async with self.connected():
                return True
        except ConnectionRefusedError:
            return False

    @contextlib.asynccontextmanager
    async def connected(self, limit: int = 2**20) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
        """A connection. It takes no more than a few times `limit` bytes that nobody reads."""
        sock = socket.socket()
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, limit)
        sock.settimeout(0)
        try:
            await asyncio.get_running_loop().sock_connect(sock, ("127.0.0.1", self._port))
        except OSError:
            sock.close()
            raise
        reader, writer = await asyncio.open_connection(sock=sock, limit=limit)
        try:
            yield reader, writer
        finally:
            writer.transport.abort()

    async def answer(self, sent: bytes) -> bytes:
        """All that comes back for these bytes until the connection ends."""
        async with self.connected() as (reader, writer), asyncio.timeout(PLENTY):
            writer.write(sent)
            return await reader.read()

    async def get(self, path: str) -> Json:
        """Read a document."""
        head, _, body = (await self.answer(request("GET", path))).partition(b"\r\n\r\n")
        assert b" 200 " in head, head
        found: Json = json.loads(body)
        return found


@contextlib.asynccontextmanager
async def served(gateway: Fixture, *, most_connections: int = 0) -> AsyncIterator[Served]:
    sock = listen("127.0.0.1", 0)
    async with http_server(gateway.app, sock, most_connections=most_connections):
        found = Served(sock.getsockname()[1])
        await until(found.listens)
        yield found


def request(method: str, path: str, body: bytes = b"", *headers: str) -> bytes:
    lines = [f"{method} {path} HTTP/1.1", "Host: localhost", "Connection: close", *headers]
    return "\r\n".join([*lines, "", ""]).encode() + body


def of_length(length: int | str) -> tuple[str, str]:
    return "Content-Type: application/json", f"Content-Length: {length}"


BODY = json.dumps(node()).encode()


@pytest.mark.parametrize("length", ["-1", "abc", "1, 2", "9" * 30, ""])
async def test_a_length_that_is_none_is_refused(length: str) -> None:
    async with served(Fixture()) as server:
        got = await server.answer(request("POST", NODES, BODY, *of_length(length)))
    assert got.split(b" ")[1] in {b"400", b"413"}, got


async def test_a_body_that_is_longer_than_announced_is_cut() -> None:
    gateway = Fixture()
    async with served(gateway) as server:
        got = await server.answer(request("POST", NODES, BODY, *of_length(10)))
    assert got.split(b" ")[1] == b"400", got
    assert gateway.log.written == []


async def test_a_body_that_ends_early_is_no_write() -> None:
    gateway = Fixture()
    async with served(gateway) as server:
        async with server.connected() as (_, writer):
            writer.write(request("POST", NODES, BODY, *of_length(len(BODY) + 1)))
            await writer.drain()
        await server.get(NODES)
    assert gateway.log.written == []


async def test_the_sender_of_a_body_that_is_too_large_sees_the_answer() -> None:
    body = b"x" * (3 * bodies.BODY_LIMIT)
    async with served(Fixture()) as server:
        got = await server.answer(request("POST", NODES, body, *of_length(len(body))))
        chunked = b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)
        headers = ("Content-Type: application/json", "Transfer-Encoding: chunked")
        in_chunks = await server.answer(request("POST", NODES, chunked, *headers))
    for one in (got, in_chunks):
        assert (one.split(b" ")[1], json.loads(one.partition(b"\r\n\r\n")[2])["code"]) == (b"413", 413)


async def test_a_head_that_trickles_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocol, "HEAD_SECONDS", 0.2)
    async with served(Fixture()) as server:
        assert await server.answer(b"GET /api/v1/nodes HTTP/1.1\r\nHost: local") == b""
        assert (await server.get(NODES))["kind"] == "NodeList"


async def test_heads_are_bounded() -> None:
    async with served(Fixture()) as server:
        for head in ("\r\n".join(f"X-{n}: {'y' * 1000}" for n in range(2000)), "X-A: " + "y" * 2_000_000):
            async with server.connected() as (reader, writer), asyncio.timeout(PLENTY):
                with contextlib.suppress(ConnectionError):
                    writer.write(request("GET", NODES, b"", head))
                    got = await reader.read()
                    assert got.split(b" ")[1:2] in ([b"400"], []), got
        assert (await server.get(NODES))["kind"] == "NodeList"


async def test_watches_that_nobody_reads_take_little_and_disturb_nobody() -> None:
    """Their events are those of the history that all share, and the socket's buffer fills only once."""
    gateway = Fixture(kept=20)
    text = "x" * 100_000
    async with served(gateway) as server, contextlib.AsyncExitStack() as stalled:
        await gateway.ok("POST", NODES, node("n1"))
        for _ in range(10):
            _, writer = await stalled.enter_async_context(server.connected(limit=1))
            writer.write(request("GET", f"{NODES}?watch=true&resourceVersion=0"))
        count = gateway.gateway.metrics.registry.get_sample_value
        await until(lambda: count("moorage_gateway_watches") == 10)

        async def changed(numbers: range) -> None:
            for number in numbers:
                annotations = {"number": str(number), "text": text}
                await gateway.ok("PATCH", f"{NODES}/n1", {"metadata": {"annotations": annotations}})
                await server.get("/version")

        await changed(range(40))  # fills the buffers, the history, and what watches share of it
        gc.collect()
        tracemalloc.start()
        try:
            before = tracemalloc.get_traced_memory()[0]
            await changed(range(40, 140))
            gc.collect()
            grown = tracemalloc.get_traced_memory()[0] - before
        finally:
            tracemalloc.stop()
        assert grown < 40_000_000, "one copy for each watch would be 100 MB"
        assert (await server.get(f"{NODES}/n1"))["metadata"]["annotations"]["number"] == "139"


async def test_an_idle_connection_ends_after_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "_IDLE", 0)
    async with served(Fixture()) as gateway, gateway.connected() as (reader, writer), asyncio.timeout(PLENTY):
        writer.write(b"GET /livez HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n")
        assert b" 200 " in await reader.readline()
        await reader.read()  # until the connection ends, though the client wants to go on


def sample(gateway: Fixture, name: str, **labels: str) -> float | None:
    return gateway.gateway.metrics.registry.get_sample_value(name, labels)


async def test_who_does_not_read_an_answer_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """The answer, and its place among the requests in flight, would be held for ever."""
    monkeypatch.setattr(protocol, "STALLED_SECONDS", 0.3)
    gateway = Fixture(settings=Settings(max_requests_in_flight=1))
    for number in range(40):
        await gateway.ok("POST", NODES, node(f"n{number}", podCIDR="10.0.0.0/24"))
        annotations = {"text": "x" * 200_000}
        await gateway.ok("PATCH", f"{NODES}/n{number}", {"metadata": {"annotations": annotations}})
    async with served(gateway) as server, server.connected(limit=1) as (reader, writer), asyncio.timeout(PLENTY):
        writer.write(request("GET", NODES))
        in_flight = "moorage_gateway_requests_in_flight"
        await until(lambda: sample(gateway, in_flight, kind="reading") == 1)
        assert b" 429 " in (await server.answer(request("GET", NODES))).splitlines()[0]
        assert b" 200 " in (await server.answer(request("GET", "/livez"))).splitlines()[0], "it is alive"
        await until(lambda: sample(gateway, in_flight, kind="reading") == 0)
        assert (await server.get("/version"))["major"]
        with contextlib.suppress(ConnectionError):
            await reader.read()  # what was on its way, and the end


async def test_who_reads_slowly_gets_the_whole_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocol, "STALLED_SECONDS", 0.5)
    gateway = Fixture()
    await gateway.ok("POST", NODES, node())
    await gateway.ok("PATCH", f"{NODES}/n1", {"metadata": {"annotations": {"text": "x" * 250_000}}})
    took = asyncio.get_running_loop().time()
    async with served(gateway) as server, server.connected(limit=1) as (reader, writer), asyncio.timeout(PLENTY):
        writer.write(request("GET", f"{NODES}/n1"))
        got = bytearray()
        while part := await reader.read(4096):
            got += part
            await asyncio.sleep(0.02)  # it is the test's subject that time passes between two reads
    assert json.loads(got.partition(b"\r\n\r\n")[2])["metadata"]["name"] == "n1"
    assert asyncio.get_running_loop().time() - took > 2 * protocol.STALLED_SECONDS


async def test_requests_in_flight_are_limited_by_what_they_do() -> None:
    gateway = Fixture(settings=Settings(max_requests_in_flight=2, max_mutating_requests_in_flight=1))
    gateway.log.open.clear()  # writes wait
    async with served(gateway) as server, asyncio.timeout(PLENTY):
        length = of_length(len(BODY))
        waiting = asyncio.create_task(server.answer(request("POST", NODES, BODY, *length)))
        await until(lambda: sample(gateway, "moorage_gateway_requests_in_flight", kind="writing") == 1)
        refused = await server.answer(request("POST", NODES, BODY, *length))
        head, _, body = refused.partition(b"\r\n\r\n")
        assert b" 429 " in head.splitlines()[0]
        assert b"retry-after: 1" in head.lower()
        assert (json.loads(body)["reason"], json.loads(body)["code"]) == ("TooManyRequests", 429)
        assert (await server.get(NODES))["kind"] == "NodeList", "reading goes on"
        gateway.log.open.set()
        assert b" 201 " in await waiting
        assert b" 409 " in await server.answer(request("POST", NODES, BODY, *length))


async def test_a_thousand_watches_are_no_requests_in_flight_and_a_user_may_have_so_many() -> None:
    gateway = Fixture(settings=Settings(max_requests_in_flight=1, max_watches_per_user=1_000))
    async with served(gateway, most_connections=1_100) as server, contextlib.AsyncExitStack() as open_ones:
        await gateway.ok("POST", NODES, node("n1"))
        readers = []
        for _ in range(1_000):
            reader, writer = await open_ones.enter_async_context(server.connected())
            writer.write(request("GET", f"{NODES}?watch=1&resourceVersion=0"))
            readers.append(reader)
        await until(lambda: sample(gateway, "moorage_gateway_watches") == 1_000)
        refused = await server.answer(request("GET", f"{NODES}?watch=true"))
        assert b" 429 " in refused.splitlines()[0]
        assert b"too many watches: a user may have 1000 at a time" in refused
        await gateway.ok("POST", NODES, node("n2"))
        async with asyncio.timeout(PLENTY):
            for reader in readers:
                await reader.readuntil(b'"n2"')
        assert (await server.get(NODES))["kind"] == "NodeList"
    await until(lambda: sample(gateway, "moorage_gateway_watches") == 0)


async def test_streams_of_decisions_are_watches() -> None:
    gateway = Fixture(settings=Settings(max_requests_in_flight=1, max_watches_per_user=2))
    async with served(gateway) as server, contextlib.AsyncExitStack() as open_ones, asyncio.timeout(PLENTY):
        for _ in range(2):
            reader, writer = await open_ones.enter_async_context(server.connected())
            writer.write(request("GET", "/v1/decisions"))
            await reader.readuntil(b"event: present")
        assert (await server.get(NODES))["kind"] == "NodeList", "they are no requests in flight"
        refused = await server.answer(request("GET", "/v1/decisions"))
        assert b" 429 " in refused.splitlines()[0]
        assert b"too many watches: a user may have 2 at a time" in refused
    await until(lambda: sample(gateway, "moorage_gateway_watches") == 0)


async def test_connections_are_limited() -> None:
    async with served(Fixture(), most_connections=3) as server, contextlib.AsyncExitStack() as open_ones:
        for _ in range(3):
            _, writer = await open_ones.enter_async_context(server.connected())
            writer.write(b"GET ")
        async with asyncio.timeout(PLENTY):
            with contextlib.suppress(ConnectionError):
                assert await server.answer(request("GET", "/livez")) == b""


async def test_a_url_that_is_too_long_is_refused() -> None:
    async with served(Fixture()) as server:
        with contextlib.suppress(ConnectionError):
            answer = await server.answer(request("GET", f"{NODES}?labelSelector=" + "a,b!=c," * 20_000))
            assert answer.split(b" ")[1:2] in ([b"400"], []), answer[:100]
        assert (await server.get(NODES))["kind"] == "NodeList"
