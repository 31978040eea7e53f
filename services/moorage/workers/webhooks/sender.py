"""Sends one event to the receiver of a webhook, once."""

from __future__ import annotations

import asyncio
import ssl
from dataclasses import dataclass
from datetime import datetime
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from pathlib import Path
from typing import Final

import httpx

from moorage.runtime.process.clock import Clock
from moorage.workers.webhooks.addresses import AddressError, Resolve, address_of, resolve
from moorage.workers.webhooks.deliveries import Delivery
from moorage.workers.webhooks.signing import SecretError, keys_of, signature
from moorage_schemas.resources.webhook import WebhookSpec

_CONTENT_TYPE: Final = "application/cloudevents+json"
_MAX_RETRY_AFTER: Final = 3600.0  # seconds
_ASKS_TO_WAIT: Final = frozenset({HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE})
_PORTS: Final = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of an attempt."""

    delivered: bool
    message: str = ""
    retry_after: float = 0.0
    """Seconds for which the receiver has asked to wait. 0 if it has not."""

    gone: bool = False
    """Whether the receiver is gone for good, and wants nothing more."""


class Sender:
    """Sends events to one webhook.

    Args:
        spec: where to, and how.
        folder: the folder with the files of secrets.
        clock: the source of the time.
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
        try:
            async with asyncio.timeout(self._spec.timeout_seconds):
                return await self._send(delivery)
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

    async def _send(self, delivery: Delivery) -> Outcome:
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
        # The certificate is checked for the name, the connection is made to the address that was checked.
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
        if response.status_code in _ASKS_TO_WAIT:
            wait = retry_after(response.headers.get("retry-after", ""), self._clock.now())
        return Outcome(
            delivered=False,
            message=f"the receiver answered {response.status_code}",
            retry_after=wait,
            gone=response.status_code == HTTPStatus.GONE,
        )


def retry_after(text: str, now: datetime) -> float:
    """Return the seconds that a `Retry-After` asks to wait, at most an hour. 0 if it cannot be read."""
    if text.strip().isdecimal():
        return min(float(text), _MAX_RETRY_AFTER)
    try:
        when = parsedate_to_datetime(text)
        return min(max(0.0, (when - now).total_seconds()), _MAX_RETRY_AFTER)
    except (TypeError, ValueError):
        return 0.0
