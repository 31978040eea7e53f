"""The HTTP protocol of a connection."""

from __future__ import annotations

import asyncio
from typing import ClassVar

from starlette.types import ASGIApp, Receive, Scope, Send
from typing_extensions import override
from uvicorn.protocols.http.h11_impl import H11Protocol

from moorage.apiserver.authentication.certificates import EXTENSION, ClientCertificate, client_certificate

HEAD_SECONDS = 32.0
"""Seconds within which the line and the headers of a request must come, as in Kubernetes. A client that sends a byte
now and then would hold a connection for ever."""


STALLED_SECONDS = 60.0
"""Seconds for which a client may take nothing of an answer that waits for it. One that reads slowly goes on; one that
does not read at all would hold the answer for ever. A watch without changes has nothing that waits."""


def _with_certificate(app: ASGIApp, certificate: ClientCertificate) -> ASGIApp:
    """Return an application that finds the client's certificate in the scope."""

    async def with_certificate(scope: Scope, receive: Receive, send: Send) -> None:
        scope["extensions"] = {**scope.get("extensions", {}), EXTENSION: certificate}
        await app(scope, receive, send)

    return with_certificate


class Protocol(H11Protocol):
    """uvicorn's protocol, with limits of the time that a request takes to begin, and that an answer waits to be read.

    uvicorn itself limits the time for which nothing comes between two requests.
    """

    most_connections: ClassVar[int] = 0
    """The number of connections that are kept. 0 means any."""

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

    @override
    def connection_lost(self, exc: Exception | None) -> None:
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
