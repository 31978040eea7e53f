"""A TCP proxy that can cut a link, slow it down, and let it fall silent while it looks open."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from types import TracebackType
from typing import Self

_CHUNK = 65_536
_QUEUE = 64  # chunks that one direction holds back before it reads no more, as a socket's buffer would


class Proxy:
    """One link: everything that comes in on `port` goes to the port of a server on the same machine, and back.

    Args:
        target: the server's port on the loopback interface.
        port: the port to listen on; 0 takes a free one.
    """

    def __init__(self, target: int, port: int = 0) -> None:
        self.target = target
        self.port = port
        self.connections = 0
        """How many were made through it."""

        self._latency = 0.0
        self._bandwidth = 0.0
        self._flows = asyncio.Event()
        self._flows.set()
        self._cut = False
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Listen. Does nothing when it listens already."""
        if self._server is None:
            self._server = await asyncio.start_server(self._accepted, "127.0.0.1", self.port)
            self.port = int(self._server.sockets[0].getsockname()[1])

    async def stop(self) -> None:
        """Close everything."""
        server, self._server = self._server, None
        if server is not None:
            server.close()
        await self._drop()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    async def cut(self) -> None:
        """Reset every connection, and every new one at once."""
        self._cut = True
        await self._drop()

    def silence(self) -> None:
        """Carry nothing more: what is open stays open, new connections are taken, and no byte comes through."""
        self._flows.clear()

    def slow(self, *, latency: float = 0.0, bandwidth: float = 0.0) -> None:
        """Let every byte come later.

        Args:
            latency: seconds on the way, in each direction.
            bandwidth: bytes per second of each connection and direction; 0 for no limit.
        """
        self._latency, self._bandwidth = latency, bandwidth

    async def heal(self, *, reset: bool = False) -> None:
        """Be a plain link again.

        Args:
            reset: connections that fell silent are reset; else what they hold back comes through late.
        """
        self._cut = False
        self._latency = self._bandwidth = 0.0
        if reset:
            await self._drop()
        self._flows.set()

    async def _drop(self) -> None:
        tasks = list(self._open)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._open.add(task)
        self.connections += 1
        try:
            if not self._cut:
                await self._carry(reader, writer)
        except asyncio.CancelledError:
            pass  # the link was cut, or the proxy stopped; the connection ends with this task, whoever cancelled it
        finally:
            self._open.discard(task)
            _reset(writer)

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            there_reader, there_writer = await asyncio.open_connection("127.0.0.1", self.target)
        except OSError:
            return  # the server is away, and so is its port
        try:
            ways = [
                asyncio.create_task(self._one_way(reader, there_writer)),
                asyncio.create_task(self._one_way(there_reader, writer)),
            ]
            try:
                # Kafka's protocol needs both ways: when one end closes, the connection is over.
                await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for way in ways:
                    way.cancel()
                await asyncio.gather(*ways, return_exceptions=True)
        finally:
            _reset(there_writer)

    async def _one_way(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        held: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(_QUEUE)
        clock = asyncio.get_running_loop().time
        sender = asyncio.create_task(self._send(held, writer))
        try:
            with contextlib.suppress(OSError):
                while data := await reader.read(_CHUNK):
                    await held.put((clock() + self._latency, data))
            # An end is held back as well as what came before it.
            await held.put((clock() + self._latency, b""))
            await sender
        finally:
            sender.cancel()
            await asyncio.gather(sender, return_exceptions=True)

    async def _send(self, held: asyncio.Queue[tuple[float, bytes]], writer: asyncio.StreamWriter) -> None:
        clock = asyncio.get_running_loop().time
        with contextlib.suppress(OSError):
            while True:
                due, data = await held.get()
                if (wait := due - clock()) > 0:
                    await asyncio.sleep(wait)
                await self._flows.wait()
                if not data:
                    return
                writer.write(data)
                await writer.drain()
                if self._bandwidth:
                    await asyncio.sleep(len(data) / self._bandwidth)


def _reset(writer: asyncio.StreamWriter) -> None:
    """Close a connection at once, so that the other end sees an error and not an orderly end."""
    with contextlib.suppress(OSError, AttributeError):
        sock = writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00")
    writer.transport.abort()
