"""Sends one signed event to the receiver of a webhook, once, at an address that was checked."""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import hmac
import socket
import ssl
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from pathlib import Path
from typing import Final

import httpx

from moorage.runtime.process.clock import Clock
from moorage.workers.webhooks.deliveries import Delivery
from moorage.workers.webhooks.delivery_spans import DeliverySpan
from moorage_schemas.resources.webhook import WebhookSpec

Resolve = Callable[[str, int], Awaitable[list[str]]]
"""Looks up the addresses of a host."""

# These carry an IPv4 address, which may be a private one.
_TRANSLATED: Final = (ip_network("64:ff9b::/96"), ip_network("64:ff9b:1::/48"), ip_network("2002::/16"))


class AddressError(Exception):
    """A host has no address that may be connected to."""


async def resolve(host: str, port: int) -> list[str]:
    """Return the addresses of a host, from the system's resolver. Raises OSError if it has none."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(address[0]) for *_, address in found]


async def address_of(host: str, port: int, *, allow_private: bool, look_up: Resolve = resolve) -> str:
    """Return the address to connect to.

    Raises:
        AddressError: the host is unknown, or one of its addresses is not public and only public ones are allowed.
    """
    try:
        found = await look_up(host, port)
    except (OSError, UnicodeError) as error:
        raise AddressError(f"{host} cannot be resolved: {error}") from None
    if not found:
        raise AddressError(f"{host} has no address")
    if not allow_private:
        for address in found:
            if not is_public(ip_address(address.partition("%")[0])):
                raise AddressError(f"{host} has the address {address}, which needs allowPrivate")
    return found[0]


def is_public(address: IPv4Address | IPv6Address) -> bool:
    """Return whether an address is public."""
    if isinstance(address, IPv6Address):
        if address.ipv4_mapped is not None:
            return is_public(address.ipv4_mapped)
        if any(address in network for network in _TRANSLATED):
            return False
    return address.is_global and not address.is_multicast


PREFIX: Final = "whsec_"
"""The prefix of a secret. The key follows in base64."""

_LEAST, _MOST = 24, 64  # bytes of a key


class SecretError(ValueError):
    """A secret cannot be used. The message does not contain it."""


def keys_of(text: str) -> tuple[bytes, ...]:
    """Return the keys in the content of a file of secrets: one a line, the newest first.

    Raises:
        SecretError: there is none, or a line is not a secret.
    """
    keys = []
    for number, line in enumerate(text.splitlines(), 1):
        if not (secret := line.strip()) or secret.startswith("#"):
            continue
        if not secret.startswith(PREFIX):
            raise SecretError(f"line {number}: must begin with {PREFIX}")
        try:
            key = base64.b64decode(secret.removeprefix(PREFIX), validate=True)
        except binascii.Error:
            raise SecretError(f"line {number}: must be base64 after {PREFIX}") from None
        if not _LEAST <= len(key) <= _MOST:
            raise SecretError(f"line {number}: must have {_LEAST} to {_MOST} bytes, not {len(key)}")
        keys.append(key)
    if not keys:
        raise SecretError("has no secret")
    return tuple(keys)


def signature(keys: Sequence[bytes], message_id: str, timestamp: int, body: bytes) -> str:
    """Return the value of `webhook-signature`: a signature by each key, so that any of them verifies it."""
    signed = f"{message_id}.{timestamp}.".encode() + body
    return " ".join(f"v1,{base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()}" for key in keys)


_CONTENT_TYPE: Final = "application/cloudevents+json"
_MAX_RETRY_AFTER: Final = 3600.0  # seconds
_RETRY_LATER: Final = frozenset({HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE})
_PORTS: Final = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of an attempt."""

    delivered: bool
    message: str = ""
    retry_after: float = 0.0
    """The seconds that the receiver requested to wait; 0 without a request."""

    gone: bool = False
    """Whether the receiver has answered 410 Gone."""


class Sender:
    """Sends events to one webhook.

    Args:
        folder: the folder with the files of secrets.
        ca_file: a PEM file with the authorities of receivers; empty for those of the system.
        look_up: looks up the addresses of a host.
    """

    def __init__(
        self, spec: WebhookSpec, folder: str, clock: Clock, *, ca_file: str = "", look_up: Resolve = resolve
    ) -> None:
        self._spec = spec
        self._url = httpx.URL(spec.url)
        self._secret = Path(folder) / spec.secret_file
        self._clock = clock
        self._look_up = look_up
        self._client = httpx.AsyncClient(
            verify=ssl.create_default_context(cafile=ca_file or None),
            trust_env=False,  # a proxy would connect to addresses that were not checked
            follow_redirects=False,
            timeout=None,  # noqa: S113 - each attempt has a limit for all of its steps together
        )

    async def send(self, delivery: Delivery) -> Outcome:
        """Try once. Every failure is an outcome."""
        span = DeliverySpan(delivery, self._url.host, self._clock.now())
        outcome = await self._try(delivery, span.traceparent)
        span.ended(self._clock.now(), outcome.message)
        return outcome

    async def _try(self, delivery: Delivery, traceparent: str) -> Outcome:
        try:
            async with asyncio.timeout(self._spec.timeout_seconds):
                return await self._send(delivery, traceparent)
        except TimeoutError:
            return Outcome(delivered=False, message=f"no answer within {self._spec.timeout_seconds} s")
        except (AddressError, SecretError) as error:
            return Outcome(delivered=False, message=str(error))
        except httpx.HTTPError as error:
            return Outcome(delivered=False, message=f"{type(error).__name__}: {error}")
        except OSError as error:
            return Outcome(delivered=False, message=f"{type(error).__name__}: {error.strerror or error}")

    async def close(self) -> None:
        """Close the connections."""
        await self._client.aclose()

    async def _send(self, delivery: Delivery, traceparent: str) -> Outcome:
        keys = await asyncio.to_thread(self._keys)
        now = int(self._clock.now().timestamp())
        url = self._url
        port = url.port or _PORTS[url.scheme]
        address = await address_of(url.host, port, allow_private=self._spec.allow_private, look_up=self._look_up)
        headers = {
            "host": url.netloc.decode("ascii"),
            "content-type": _CONTENT_TYPE,
            "user-agent": "moorage",
            "webhook-id": delivery.id,
            "webhook-timestamp": str(now),
            "webhook-signature": signature(keys, delivery.id, now, delivery.body),
        }
        if traceparent:
            headers["traceparent"] = traceparent
        # The certificate is verified for the name; the connection goes to the checked address.
        async with self._client.stream(
            "POST",
            url.copy_with(host=address),
            content=delivery.body,
            headers=headers,
            extensions={"sni_hostname": url.host},
        ) as response:
            # The body is not read: it may be endless.
            return self._outcome(response)

    def _keys(self) -> tuple[bytes, ...]:
        """Read the secrets anew, because they are rotated."""
        try:
            return keys_of(self._secret.read_text("utf-8"))
        except OSError as error:
            raise SecretError(f"secretFile {self._spec.secret_file}: {error.strerror}") from None
        except UnicodeDecodeError:
            raise SecretError(f"secretFile {self._spec.secret_file}: must be UTF-8 text") from None
        except SecretError as error:
            raise SecretError(f"secretFile {self._spec.secret_file}: {error}") from None

    def _outcome(self, response: httpx.Response) -> Outcome:
        if response.is_success:
            return Outcome(delivered=True)
        wait = 0.0
        if response.status_code in _RETRY_LATER:
            wait = retry_after(response.headers.get("retry-after", ""), self._clock.now())
        return Outcome(
            delivered=False,
            message=f"the receiver answered {response.status_code}",
            retry_after=wait,
            gone=response.status_code == HTTPStatus.GONE,
        )


def retry_after(text: str, now: datetime) -> float:
    """Return the seconds that a `Retry-After` requests, at most an hour; 0 if it cannot be read."""
    if text.strip().isdecimal():
        return min(float(text), _MAX_RETRY_AFTER)
    try:
        when = parsedate_to_datetime(text)
        return min(max(0.0, (when - now).total_seconds()), _MAX_RETRY_AFTER)
    except (TypeError, ValueError):
        return 0.0
