"""Checks over the network: an HTTP request, a TCP connection."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import httpx

from moorage.cli.probes.results import CheckOutcome, CheckResult


@dataclass(frozen=True, slots=True)
class HttpCheck:
    """Requests an address. Each check opens a connection, so that what opens it is checked as well.

    Redirects are not followed.
    """

    url: str
    timeout: float
    first_code: int = 200
    last_code: int = 399
    headers: Mapping[str, str] = field(default_factory=dict)
    bearer_file: str = ""
    """A file with a token. It is read for each request."""

    verify: ssl.SSLContext | bool = True
    transport: httpx.AsyncBaseTransport | None = None
    """Replaces the network, in tests."""

    async def __call__(self) -> CheckResult:
        """Check once."""
        began = time.monotonic()
        try:
            headers = dict(self.headers)
            if self.bearer_file:
                headers["authorization"] = f"Bearer {await asyncio.to_thread(_text, self.bearer_file)}"
            async with (
                asyncio.timeout(self.timeout),
                httpx.AsyncClient(verify=self.verify, transport=self.transport, timeout=self.timeout) as client,
                # The body is not read: it may have no end.
                client.stream("GET", self.url, headers=headers) as answer,
            ):
                seconds = time.monotonic() - began
        except (TimeoutError, httpx.TimeoutException):
            return CheckResult(CheckOutcome.PROBLEM, f"no answer within {self.timeout:g} s", "Timeout")
        except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
            return CheckResult(CheckOutcome.PROBLEM, str(error) or type(error).__name__, "ConnectionFailed")
        if self.first_code <= answer.status_code <= self.last_code:
            return CheckResult(CheckOutcome.OK, f"HTTP {answer.status_code}", seconds=seconds)
        return CheckResult(CheckOutcome.PROBLEM, f"HTTP {answer.status_code}", "UnexpectedStatus", seconds)


@dataclass(frozen=True, slots=True)
class TcpCheck:
    """Opens a connection, and closes it."""

    host: str
    port: int
    timeout: float

    async def __call__(self) -> CheckResult:
        """Check once."""
        began = time.monotonic()
        try:
            async with asyncio.timeout(self.timeout):
                _, writer = await asyncio.open_connection(self.host, self.port)
        except TimeoutError:
            return CheckResult(CheckOutcome.PROBLEM, f"no connection within {self.timeout:g} s", "Timeout")
        except OSError as error:
            return CheckResult(CheckOutcome.PROBLEM, error.strerror or str(error), "ConnectionFailed")
        seconds = time.monotonic() - began
        writer.close()
        with contextlib.suppress(OSError, TimeoutError):
            async with asyncio.timeout(self.timeout):
                await writer.wait_closed()
        return CheckResult(CheckOutcome.OK, "connected", seconds=seconds)


def latency_of(result: CheckResult, limit: float) -> CheckResult:
    """Return the result of a check of the latency: a problem if the answer took longer than a limit in seconds."""
    if not result.seconds:
        return CheckResult(CheckOutcome.UNKNOWN, result.message, "NoAnswer")
    if result.seconds > limit:
        return CheckResult(CheckOutcome.PROBLEM, f"answers take longer than {limit:g} s", "LatencyOverLimit")
    return CheckResult(CheckOutcome.OK, f"answers take at most {limit:g} s", "LatencyWithinLimit")


def _text(file: str) -> str:
    return Path(file).read_text("utf-8").strip()
