"""The proxy between services and brokers does what its faults say."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from tests.chaos.faults.proxy import Proxy


@asynccontextmanager
async def echoing() -> AsyncIterator[Proxy]:
    """A proxy before a server that sends back what it gets."""

    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(1000):
            writer.write(data)
        writer.close()

    server = await asyncio.start_server(echo, "127.0.0.1", 0)
    async with server, Proxy(server.sockets[0].getsockname()[1]) as proxy:
        yield proxy


async def call(proxy: Proxy) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    return await asyncio.open_connection("127.0.0.1", proxy.port)


async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, text: bytes) -> bytes:
    writer.write(text)
    return await reader.readexactly(len(text))


async def test_carries_both_ways_and_an_end() -> None:
    async with echoing() as proxy:
        reader, writer = await call(proxy)
        assert await answer(reader, writer, b"hello") == b"hello"
        assert proxy.connections == 1
        writer.close()


async def test_a_cut_link_resets_and_heals() -> None:
    async with echoing() as proxy:
        reader, writer = await call(proxy)
        await answer(reader, writer, b"hello")
        await proxy.cut()
        with pytest.raises(OSError, match="reset"):
            await answer(reader, writer, b"again")
        reader, writer = await call(proxy)
        with pytest.raises((OSError, asyncio.IncompleteReadError)):
            await answer(reader, writer, b"again")
        await proxy.heal()
        assert await answer(*await call(proxy), b"again") == b"again"


@pytest.mark.parametrize("reset", [False, True])
async def test_a_silent_link_looks_open(*, reset: bool) -> None:
    async with echoing() as proxy:
        reader, writer = await call(proxy)
        await answer(reader, writer, b"hello")
        proxy.silence()
        fresh_reader, fresh_writer = await call(proxy)
        fresh_writer.write(b"fresh")
        writer.write(b"late!")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await reader.read(1)
        await proxy.heal(reset=reset)
        if reset:
            with pytest.raises(OSError, match="reset"):
                await reader.readexactly(5)
        else:
            assert await reader.readexactly(5) == b"late!"
            assert await fresh_reader.readexactly(5) == b"fresh"


async def test_a_slow_link_takes_its_time() -> None:
    async with echoing() as proxy:
        reader, writer = await call(proxy)
        clock = asyncio.get_running_loop().time
        proxy.slow(latency=0.1)
        began = clock()
        await answer(reader, writer, b"hello")
        assert clock() - began >= 0.2
        proxy.slow(bandwidth=1000)
        began = clock()
        await answer(reader, writer, b"x" * 200)
        await answer(reader, writer, b"y")
        assert clock() - began >= 0.2


async def test_a_server_that_is_away_ends_the_connection() -> None:
    async with Proxy(1) as proxy:
        reader, _ = await call(proxy)
        with pytest.raises((OSError, asyncio.IncompleteReadError)):
            await reader.readexactly(1)
