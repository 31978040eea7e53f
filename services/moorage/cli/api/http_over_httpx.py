"""Requests over a transport of httpx. The gateway of a simulation has one, because it is in the same process."""

from __future__ import annotations

from collections.abc import Iterator

import httpx

from moorage.cli.api.http import HttpError, RefusedError, Request, Response


class HttpxTransport:
    """Carries requests over a transport of httpx.

    Args:
        transport: answers each request.
        server: the address in the requests.
    """

    def __init__(self, transport: httpx.BaseTransport, server: str = "http://localhost") -> None:
        self._transport = transport
        self._server = server

    def send(self, request: Request) -> Response:
        """Send a request and return the whole answer."""
        sent = httpx.Request(
            request.method, self._server + request.path, headers=dict(request.headers), content=request.content
        )
        try:
            given = self._transport.handle_request(sent)
            content = given.read()
        except httpx.TransportError as error:
            raise HttpError(str(error) or type(error).__name__) from error
        return Response(
            given.status_code, tuple((name.lower(), text) for name, text in given.headers.multi_items()), content
        )

    def lines(self, request: Request, *, silence: float) -> Iterator[bytes]:  # noqa: ARG002 - the answer arrives as a whole
        """Return the lines of an answer when it has arrived as a whole."""
        answer = self.send(request)
        if answer.is_error:
            raise RefusedError(answer)
        return iter(answer.content.splitlines())

    def close(self) -> None:
        """Leave the transport open, because others may use it."""
