"""Clients of the gateway."""

from __future__ import annotations

from collections.abc import Generator

import httpx

from moorage_sdk.errors import SdkError, TransportError
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


def no_answer(connection: Connection, error: Exception) -> TransportError:
    """Return the error of a request without an answer, in few words."""
    text = str(error)
    if "CERTIFICATE_VERIFY_FAILED" in text:
        why = "its certificate is not trusted: MOORAGE_CA_FILE names the certificates that sign it"
    elif isinstance(error, httpx.TimeoutException):
        why = f"does not answer within {TIMEOUT:g} s"
    elif isinstance(error, httpx.ConnectError):
        why = f"does not answer ({text or 'no connection'}); MOORAGE_SERVER names the gateway"
    else:
        why = f"the connection broke ({text or type(error).__name__})"
    return TransportError(f"{connection.base_url}: {why}")


_NO_GATEWAY = frozenset({httpx.codes.OK, httpx.codes.NOT_FOUND, httpx.codes.METHOD_NOT_ALLOWED})
_NO_RIGHT = frozenset({httpx.codes.UNAUTHORIZED, httpx.codes.FORBIDDEN})


def refused_request(
    connection: Connection, answer: httpx.Response, message: str, *, has_worked: bool
) -> SdkError | TransportError:
    """Return the error of a request that was refused as a whole.

    If nothing has worked before, a token that does not count and an address without a gateway are final. Otherwise a
    token may have expired that is about to be renewed. A right that is missing may be granted, but not to a program
    that shows no identity.
    """
    code = answer.status_code
    text = f"the gateway answers {code}: {message}"
    if not has_worked and (code == httpx.codes.UNAUTHORIZED or (code in _NO_RIGHT and connection.is_anonymous)):
        expected = "a token" if connection.is_anonymous else "a token that is valid"
        return SdkError(f"{text}: expected {expected} in MOORAGE_TOKEN or MOORAGE_TOKEN_FILE")
    if not has_worked and code in _NO_GATEWAY:
        return SdkError(f"{text}: expected the address of a gateway in MOORAGE_SERVER, which is {connection.base_url}")
    return TransportError(text, retry_after(answer))


def retry_after(answer: httpx.Response) -> float | None:
    """The seconds after which the gateway asks to try again. None if it does not say."""
    text = answer.headers.get("retry-after", "")
    return float(text) if text.isdigit() else None
