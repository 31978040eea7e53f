"""A load balancer before several gateways, as clusters have one: each new connection goes to another gateway."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator, Callable, Sequence
from urllib.parse import urlsplit

_CHUNK = 65_536


@contextlib.asynccontextmanager
async def balancing(addresses: Callable[[], Sequence[str]]) -> AsyncIterator[str]:
    """The address of a balancer. A connection goes to the next gateway that takes it, and ends with it.

    Args:
        addresses: of the gateways.
    """
    turns, under_way = itertools.count(), set[asyncio.Task[None]]()

    async def opened() -> tuple[asyncio.StreamReader, asyncio.StreamWriter] | None:
        there, first = addresses(), next(turns)
        for at in range(len(there)):
            url = urlsplit(there[(first + at) % len(there)])
            with contextlib.suppress(OSError):
                return await asyncio.open_connection(url.hostname, url.port)
        return None

    async def accepted(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        under_way.add(task)
        try:
            if (there := await opened()) is not None:
                await _carried(reader, writer, *there)
        finally:
            under_way.discard(task)
            writer.transport.abort()

    server = await asyncio.start_server(accepted, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        for task in under_way:
            task.cancel()
        await asyncio.gather(*under_way, return_exceptions=True)


async def _carried(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    there_reader: asyncio.StreamReader,
    there_writer: asyncio.StreamWriter,
) -> None:
    ways = [
        asyncio.create_task(_one_way(reader, there_writer)),
        asyncio.create_task(_one_way(there_reader, writer)),
    ]
    try:
        await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        # What a gateway has sent before it ended still comes through.
        if ways[1].done():
            with contextlib.suppress(OSError):
                await writer.drain()
    finally:
        for way in ways:
            way.cancel()
        await asyncio.gather(*ways, return_exceptions=True)
        there_writer.transport.abort()


async def _one_way(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(_CHUNK):
            writer.write(data)
            await writer.drain()
