"""The HTTP protocol of a connection."""

from __future__ import annotations

import asyncio

from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from moorage.gateway.authentication.certificates import EXTENSION, ClientCertificate, client_certificate

HEAD_SECONDS = 32.0
"""Seconds within which the line and the headers of a request must come, as in Kubernetes. A client that sends a byte
now and then would hold a connection for ever."""


def _with_certificate(app: ASGIApp, certificate: ClientCertificate) -> ASGIApp:
    """Return an application that finds the client's certificate in the scope."""

    async def with_certificate(scope: Scope, receive: Receive, send: Send) -> None:
        scope["extensions"] = {**scope.get("extensions", {}), EXTENSION: certificate}
        await app(scope, receive, send)

    return with_certificate


class Protocol(H11Protocol):
    """uvicorn's protocol, with a limit of the time that a request takes to begin.

    uvicorn itself limits the time for which nothing comes between two requests.
    """

    _head: asyncio.TimerHandle | None = None
    """Ends the connection, unless a request begins before."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as in uvicorn
        """See `asyncio.Protocol`."""
        super().connection_made(transport)
        # The handshake is over, so the certificate was checked. It is the same for all requests of the connection.
        if (certificate := client_certificate(transport.get_extra_info("ssl_object"))) is not None:
            self.app = _with_certificate(self.app, certificate)
        self._expect_head()

    def data_received(self, data: bytes) -> None:
        """See `asyncio.Protocol`."""
        super().data_received(data)
        if self._answers:
            self._cancel()
        else:
            self._expect_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """See `asyncio.Protocol`."""
        self._cancel()
        super().connection_lost(exc)

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
