"""A receiver of webhooks on loopback, which answers as a test wants."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hashlib
import hmac
import json
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"  # noqa: S105 - the public one of the specification's vector
HANG = 0
"""An answer that never comes."""


@dataclass(frozen=True)
class Received:
    """One request."""

    headers: dict[str, str]
    body: bytes

    @property
    def id(self) -> str:
        return self.headers["webhook-id"]

    @property
    def event(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.body)
        return found

    @property
    def workload(self) -> str:
        return str(self.event["data"]["workload"]["name"])

    def is_signed(self, secret: str = SECRET) -> bool:
        """Whether a signature is that of a secret, computed as the specification has it."""
        key = base64.b64decode(secret.removeprefix("whsec_"))
        text = f"{self.id}.{self.headers['webhook-timestamp']}.".encode() + self.body
        wanted = "v1," + base64.b64encode(hmac.new(key, text, hashlib.sha256).digest()).decode()
        return wanted in self.headers["webhook-signature"].split(" ")


Answer = Callable[[Received], int | tuple[int, dict[str, str]]]


class Receiver:
    """Keeps what it is sent, and whether it has taken it."""

    def __init__(self) -> None:
        self.answer: Answer = lambda _: 204
        self.requests: list[Received] = []
        self.taken: list[Received] = []
        self.port = 0
        self.scheme = "http"

    @property
    def url(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self.port}/hook"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                pairs = (line.split(": ", 1) for line in head.split("\r\n")[1:] if line)
                headers = {name.lower(): value for name, value in pairs}
                received = Received(headers, await reader.readexactly(int(headers["content-length"])))
                self.requests.append(received)
                answer = self.answer(received)
                status, extra = answer if isinstance(answer, tuple) else (answer, {})
                if status == HANG:
                    await reader.read()
                    break
                if status < 300:
                    self.taken.append(received)
                lines = "".join(f"{name}: {value}\r\n" for name, value in extra.items())
                writer.write(f"HTTP/1.1 {status} Said\r\ncontent-length: 0\r\n{lines}\r\n".encode())
                await writer.drain()
        writer.close()


@asynccontextmanager
async def receiving(port: int = 0, tls: ssl.SSLContext | None = None) -> AsyncIterator[Receiver]:
    """A receiver that listens. Leaving closes it, so that connections are refused."""
    receiver = Receiver()
    receiver.scheme = "http" if tls is None else "https"
    server = await asyncio.start_server(receiver.serve, "127.0.0.1", port, ssl=tls)
    receiver.port = server.sockets[0].getsockname()[1]
    try:
        yield receiver
    finally:
        server.close()
        if hasattr(server, "close_clients"):
            server.close_clients()
