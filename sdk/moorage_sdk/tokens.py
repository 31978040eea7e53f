"""Tokens of `OAUTHBEARER` for Kafka: from a file that another program renews, or from an OAuth 2.0 server."""

from __future__ import annotations

import asyncio
import ssl
import time
from pathlib import Path
from typing import Any

import httpx
from aiokafka.abc import AbstractTokenProvider
from aiokafka.errors import KafkaError

_TIMEOUT = 10.0  # seconds that the server may take
_RENEWED_AT = 0.8  # the part of a token's life after which a new one is requested
_LIFE = 300.0  # seconds that a token is used whose server does not say how long it lives


class TokenError(KafkaError):  # type: ignore[misc]  # aiokafka publishes no types
    """There is no token. aiokafka expects its own errors while it connects, and they are tried again."""

    retriable = True


class TokenFile(AbstractTokenProvider):  # type: ignore[misc]  # as above
    """Reads the token from its file for each connection."""

    def __init__(self, file: str) -> None:
        self._file = file

    async def token(self) -> str:
        """The token as of now.

        Raises:
            TokenError: the file cannot be read, or does not hold a token.
        """
        return _checked(await asyncio.to_thread(_secret, self._file), f"the file {self._file}")


class ClientCredentials(AbstractTokenProvider):  # type: ignore[misc]  # as above
    """Gets tokens by the grant `client_credentials` (RFC 6749, section 4.4), and uses each for most of its life.

    Args:
        endpoint: the address of the server's token endpoint.
        client_id: the client's name there.
        secret_file: the file with its secret. It is read for each token.
        scope: the scope of the tokens. Empty for the server's default.
        ca_file: the certificates that sign the server's. Empty for those that the system trusts.
    """

    def __init__(self, endpoint: str, *, client_id: str, secret_file: str, scope: str = "", ca_file: str = "") -> None:
        self._endpoint = endpoint
        self._client_id = client_id
        self._secret_file = secret_file
        self._scope = scope
        self._ca_file = ca_file
        self._lock = asyncio.Lock()
        self._token = ""
        self._until = 0.0

    async def token(self) -> str:
        """A token that is valid for a while. Connections that are opened at the same time share a request.

        Raises:
            TokenError: the server does not answer, or refuses.
        """
        async with self._lock:
            if time.monotonic() >= self._until:
                asked = time.monotonic()
                found = await self._ask()
                self._token = _checked(str(found.get("access_token") or ""), self._endpoint)
                self._until = asked + _life(found.get("expires_in")) * _RENEWED_AT
            return self._token

    async def _ask(self) -> dict[str, Any]:
        form = {"grant_type": "client_credentials"} | ({"scope": self._scope} if self._scope else {})
        secret = await asyncio.to_thread(_secret, self._secret_file)
        try:
            verify = await asyncio.to_thread(ssl.create_default_context, cafile=self._ca_file or None)
            async with httpx.AsyncClient(timeout=_TIMEOUT, verify=verify) as http:
                answer = await http.post(self._endpoint, data=form, auth=httpx.BasicAuth(self._client_id, secret))
            found = answer.json()
        except (httpx.HTTPError, OSError, ValueError) as error:
            why = str(error) or type(error).__name__
            raise TokenError(f"{self._endpoint} gave no token to {self._client_id}: {why}") from None
        if not answer.is_success or not isinstance(found, dict):
            # The rest of the answer may hold secrets.
            reason = found.get("error", "") if isinstance(found, dict) else ""
            raise TokenError(f"{self._endpoint} gave no token to {self._client_id}: {answer.status_code} {reason}")
        return found


def _life(said: object) -> float:
    try:
        return float(str(said or _LIFE))
    except ValueError:
        return _LIFE


def _secret(file: str) -> str:
    try:
        return Path(file).read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise TokenError(f"{file!r} must be a file that can be read: {error}") from None


def _checked(token: str, origin: str) -> str:
    """Return a token of which the frame of SASL stays whole (RFC 6750, section 2.1)."""
    if not token or not all("!" <= character <= "~" for character in token):
        raise TokenError(f"{origin} holds no token: it must be one word of printable ASCII characters")
    return token
