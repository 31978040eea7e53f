"""Clients of the gateway."""

from __future__ import annotations

from collections.abc import Generator

import httpx

from moorage_sdk.settings import Connection

TIMEOUT = 30.0
"""Seconds for which an answer is waited for."""


class _Bearer(httpx.Auth):
    """Adds the token as of now, so that a token that is renewed in its file is used at once."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        """See `httpx.Auth`."""
        if token := self._connection.bearer():
            request.headers["authorization"] = f"Bearer {token}"
        yield request


def client(connection: Connection, transport: httpx.AsyncBaseTransport | None = None) -> httpx.AsyncClient:
    """A client of the gateway. The caller closes it.

    Args:
        connection: the address and the identity.
        transport: replaces the network, in tests.
    """
    return httpx.AsyncClient(
        base_url=connection.base_url,
        verify=connection.tls(),
        timeout=TIMEOUT,
        auth=_Bearer(connection),
        transport=transport,
        trust_env=False,
    )


def retry_after(answer: httpx.Response) -> float | None:
    """The seconds after which the gateway asks to try again. None if it does not say."""
    text = answer.headers.get("retry-after", "")
    return float(text) if text.isdigit() else None
