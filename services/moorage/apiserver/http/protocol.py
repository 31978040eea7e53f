"""The HTTP protocol of a connection."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from typing import ClassVar

import h11
from starlette.types import ASGIApp, Receive, Scope, Send
from typing_extensions import override
from uvicorn.protocols.http.h11_impl import H11Protocol

from moorage.apiserver.authentication.certificates import EXTENSION, ClientCertificate, client_certificate

HEAD_SECONDS = 32.0
"""Seconds within which the line and the headers of a request must come, as in Kubernetes. A client that sends a byte
now and then would hold a connection for ever."""


HEAD_BYTES = 32_000_000
"""Bytes of heads that have not come to their end, of all connections together. Beyond them, the oldest of these
connections end: the head of an honest client comes at once."""

STALLED_SECONDS = 60.0
"""Seconds for which a client may take nothing of an answer that waits for it. One that reads slowly goes on; one that
does not read at all would hold the answer for ever. A watch without changes has nothing that waits."""


def _with_certificate(app: ASGIApp, certificate: ClientCertificate) -> ASGIApp:
    """Return an application that finds the client's certificate in the scope."""

    async def with_certificate(scope: Scope, receive: Receive, send: Send) -> None:
        scope["extensions"] = {**scope.get("extensions", {}), EXTENSION: certificate}
        await app(scope, receive, send)

    return with_certificate


class IncompleteHeads:
    """The connections of which a part of a head has come, the oldest first, with its size in bytes."""

    def __init__(self) -> None:
        self._sizes: OrderedDict[Protocol, int] = OrderedDict()
        self._total = 0

    def note(self, connection: Protocol, size: int) -> None:
        """Note what has come of a head. 0 stands for nothing, because it is complete."""
        self._total += size - self._sizes.get(connection, 0)
        if size:
            self._sizes[connection] = size
        else:
            self._sizes.pop(connection, None)
        while self._total > HEAD_BYTES:
            oldest, _ = next(iter(self._sizes.items()))
            self.note(oldest, 0)
            oldest.transport.abort()


class Protocol(H11Protocol):
    """uvicorn's protocol, with limits of the time that a request takes to begin, and that an answer waits to be read.

    uvicorn itself limits the time for which nothing comes between two requests.
    """

    most_connections: ClassVar[int] = 0
    """The number of connections that are kept. 0 means any."""

    heads: ClassVar[IncompleteHeads]
    """The incomplete heads on all connections of the server."""

    _stalled: asyncio.TimerHandle | None = None
    """Ends the connection, unless the client takes something before."""

    _head: asyncio.TimerHandle | None = None
    """Ends the connection, unless a request begins before."""

    @override
    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as in uvicorn
        super().connection_made(transport)
        if 0 < self.most_connections < len(self.connections):
            transport.abort()
            return
        # The handshake has ended, so the certificate was checked. It is the same for all requests of the connection.
        if (certificate := client_certificate(transport.get_extra_info("ssl_object"))) is not None:
            self.app = _with_certificate(self.app, certificate)
        self._expect_head()

    @override
    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._answers:
            self._cancel()
        else:
            self._expect_head()
        is_head = not self._answers and self.conn.their_state is h11.IDLE
        self.heads.note(self, len(self.conn.trailing_data[0]) if is_head else 0)

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        self.heads.note(self, 0)
        self._cancel()
        self._stop_watching()
        super().connection_lost(exc)

    @override
    def pause_writing(self) -> None:
        super().pause_writing()
        self._watch()

    @override
    def resume_writing(self) -> None:
        self._stop_watching()
        super().resume_writing()

    @override
    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.transport.is_closing():  # which waits until all is sent
            self._watch()

    @override
    def timeout_keep_alive_handler(self) -> None:
        super().timeout_keep_alive_handler()
        self._watch()

    def _watch(self) -> None:
        """End the connection if the client takes nothing of what waits for it."""
        self._stop_watching()
        waiting = self.transport.get_write_buffer_size()
        if waiting:
            self._stalled = self.loop.call_later(STALLED_SECONDS, self._look, waiting)

    def _stop_watching(self) -> None:
        if self._stalled is not None:
            self._stalled.cancel()
            self._stalled = None

    def _look(self, waiting: int) -> None:
        self._stalled = None
        if self.transport.get_write_buffer_size() < waiting:
            self._watch()
        else:
            self.transport.abort()

    @property
    def _answers(self) -> bool:
        """Whether a request has begun that is not answered yet."""
        return bool(self.cycle) and not self.cycle.response_complete

    def _expect_head(self) -> None:
        if self._head is None:
            self._head = self.loop.call_later(HEAD_SECONDS, self._end)

    def _cancel(self) -> None:
        if self._head is not None:
            self._head.cancel()
            self._head = None

    def _end(self) -> None:
        self._head = None
        if not self._answers:
            self.transport.close()
