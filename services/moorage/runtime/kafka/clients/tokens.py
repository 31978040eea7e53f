"""Tokens for `OAUTHBEARER`: from a file that another program renews, or from an OAuth 2.0 server."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Callable
from typing import Any, Final

import httpx
from aiokafka.abc import AbstractTokenProvider
from aiokafka.errors import KafkaError
from typing_extensions import override

from moorage.runtime.kafka.clients.passwords import read_secret

_TIMEOUT: Final = 10.0
_RENEWED_AT: Final = 0.8
"""The part of a token's life after which a new one is requested."""

_LIFE: Final = 300.0
"""Seconds that a token is used if its server states no lifetime (RFC 6749 only recommends that it does)."""


class TokenError(KafkaError):  # type: ignore[misc]  # aiokafka publishes no types
    """There is no token. aiokafka expects its own errors while it connects, and tries again."""

    retriable = True


class TokenFile(AbstractTokenProvider):  # type: ignore[misc]  # as above
    """Reads the token from its file for each connection."""

    def __init__(self, file: str) -> None:
        self._file = file

    @override
    async def token(self) -> str:
        try:
            return _checked(await asyncio.to_thread(read_secret, self._file), f"the file {self._file}")
        except OSError as error:
            raise TokenError(f"the token of Kafka cannot be read: {error}") from None


class ClientCredentials(AbstractTokenProvider):  # type: ignore[misc]  # as above
    """Gets tokens by the grant `client_credentials` (RFC 6749, section 4.4), and uses each for most of its life.

    Args:
        endpoint: the address of the server's token endpoint.
        secret_file: the file with its secret. It is read for each token.
        scope: the scope of the tokens. Empty for the server's default.
        ca_file: the certificates that sign the server's. Empty for those that the system trusts.
        transport: carries the requests, for tests.
        now: returns seconds that only grow.
    """

    def __init__(
        self,
        endpoint: str,
        *,
        client_id: str,
        secret_file: str,
        scope: str = "",
        ca_file: str = "",
        transport: httpx.AsyncBaseTransport | None = None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._endpoint = endpoint
        self._client_id = client_id
        self._secret_file = secret_file
        self._scope = scope
        self._ca_file = ca_file
        self._transport = transport
        self._now = now
        self._fetching: asyncio.Future[str] | None = None
        self._token = ""
        self._until = 0.0

    @override
    async def token(self) -> str:
        # connections that are opened at the same time share a request
        if self._now() < self._until:
            return self._token
        if self._fetching is None or self._fetching.done():
            self._fetching = asyncio.ensure_future(self._fetch())
        return await asyncio.shield(self._fetching)

    async def _fetch(self) -> str:
        began = self._now()
        found = await self._send()
        token = _checked(str(found.get("access_token") or ""), self._endpoint)
        try:
            life = float(found.get("expires_in") or _LIFE)
        except (TypeError, ValueError):
            life = _LIFE
        self._token, self._until = token, began + life * _RENEWED_AT
        return token

    async def _send(self) -> dict[str, Any]:
        form = {"grant_type": "client_credentials"} | ({"scope": self._scope} if self._scope else {})
        try:
            secret = await asyncio.to_thread(read_secret, self._secret_file)
            verify = await asyncio.to_thread(ssl.create_default_context, cafile=self._ca_file or None)
            # A proxy of the environment is used for addresses outside, as httpx does it, and no .netrc.
            async with httpx.AsyncClient(timeout=_TIMEOUT, transport=self._transport, verify=verify) as http:
                answer = await http.post(
                    self._endpoint, data=form, auth=httpx.BasicAuth(self._client_id, secret), follow_redirects=False
                )
            found = answer.json() if answer.is_success else None
        except (httpx.HTTPError, OSError, ValueError) as error:
            why = str(error) or type(error).__name__
            raise TokenError(f"{self._endpoint} gave no token to {self._client_id}: {why}") from None
        if not isinstance(found, dict):
            raise TokenError(f"{self._endpoint} gave no token to {self._client_id}: {_reason(answer)}")
        return found


def _reason(answer: httpx.Response) -> str:
    """Return why a server refuses: the status, and its error by RFC 6749. The rest of the answer may hold secrets."""
    try:
        found = answer.json()
        error = f" {found['error']}: {found.get('error_description', '')}".rstrip(": ")
    except (ValueError, KeyError, TypeError):
        error = ""
    return f"status {answer.status_code}{error}"


def _checked(token: str, origin: str) -> str:
    """Return a token of which the frame of SASL stays whole (RFC 6750, section 2.1)."""
    token = token.strip()
    if not token or not all("!" <= character <= "~" for character in token):
        raise TokenError(f"{origin} holds no token: it must be one word of printable ASCII characters")
    return token
