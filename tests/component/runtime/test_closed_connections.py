"""A Kafka client on uvloop whose connection is closed before it notices."""

from __future__ import annotations

import asyncio
import contextlib
import struct
from collections.abc import Awaitable, Callable

import pytest
import uvloop
from aiokafka.conn import AIOKafkaConnection, CloseReason, create_conn
from aiokafka.errors import KafkaConnectionError
from aiokafka.protocol.admin import ApiVersionRequest

from moorage.runtime.kafka.clients import clients

_NO_VERSIONS = struct.pack(">hi", 0, 0)  # no error, and no APIs are listed


async def _answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """A broker that answers only the first request, which is about its versions."""
    (size,) = struct.unpack(">i", await reader.readexactly(4))
    correlation = (await reader.readexactly(size))[4:8]
    writer.write(struct.pack(">i", len(correlation + _NO_VERSIONS)) + correlation + _NO_VERSIONS)
    await reader.read()
    writer.close()


async def _lost(connection: AIOKafkaConnection) -> None:
    """Return when the transport is closed but aiokafka's reader has not run yet, so aiokafka does not know."""
    connection._writer.transport.abort()
    await asyncio.sleep(0)
    assert connection._writer is not None


def connected(story: Callable[[AIOKafkaConnection, list[CloseReason | None]], Awaitable[None]]) -> None:
    """Run a story with a connection and the list of the reasons why it was closed."""
    assert clients.FETCH_MAX_WAIT_MS, "clients are made there"

    async def main() -> None:
        gone = asyncio.Event()

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            with contextlib.suppress(OSError):
                await _answer(reader, writer)
            gone.set()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        reasons: list[CloseReason | None] = []
        try:
            port = server.sockets[0].getsockname()[1]
            connection = await create_conn("127.0.0.1", port, on_close=lambda _, reason: reasons.append(reason))
            await story(connection, reasons)
            await connection.close()
            await gone.wait()
        finally:
            server.close()

    uvloop.run(main())


def test_a_write_to_a_closed_connection_is_an_error_that_aiokafka_knows() -> None:
    async def story(connection: AIOKafkaConnection, reasons: list[CloseReason | None]) -> None:
        await _lost(connection)
        with pytest.raises(KafkaConnectionError, match="broken: unable to perform operation"):
            connection.send(ApiVersionRequest())
        assert not connection.connected()
        assert reasons == [CloseReason.CONNECTION_BROKEN]

    connected(story)


def test_what_waits_on_it_is_told() -> None:
    async def story(connection: AIOKafkaConnection, _: list[CloseReason | None]) -> None:
        waiting = asyncio.ensure_future(connection.send(ApiVersionRequest()))
        await _lost(connection)
        with pytest.raises(KafkaConnectionError, match="broken"):
            connection.send(ApiVersionRequest())
        with pytest.raises(KafkaConnectionError, match="closed"):
            await waiting

    connected(story)


def test_errors_of_aiokafka_stay_what_they_are() -> None:
    async def story(connection: AIOKafkaConnection, _: list[CloseReason | None]) -> None:
        connection.close()
        with pytest.raises(KafkaConnectionError, match="No connection to broker"):
            connection.send(ApiVersionRequest())

    connected(story)
