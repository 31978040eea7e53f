"""The clock of the runtime; the core never asks for the time."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Protocol

_STEP = 10.0  # seconds


class Clock(Protocol):
    """Where the runtime takes the time from."""

    def now(self) -> datetime:
        """The present instant, UTC."""

    async def sleep_until(self, when: datetime) -> None:
        """Return at or after `when`, never before."""


class WallClock:
    """The machine's clock."""

    def now(self) -> datetime:
        """The present instant, UTC."""
        return datetime.now(UTC)

    async def sleep_until(self, when: datetime) -> None:
        """Return at or after `when`, never before."""
        while (left := (when - self.now()).total_seconds()) > 0:  # noqa: ASYNC110 - time is what is waited for
            # In steps, so that a clock that is set forward, or a machine that slept, is seen soon.
            await asyncio.sleep(min(left, _STEP))
