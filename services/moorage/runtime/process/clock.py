"""The clock of the runtime. The core has no clock."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Protocol

_STEP = 10.0  # seconds


class Clock(Protocol):
    """The source of the time for the runtime."""

    def now(self) -> datetime:
        """Return the present instant, UTC."""

    async def sleep_until(self, when: datetime) -> None:
        """Return at or after `when`, never before."""


class WallClock:
    """The machine's clock."""

    def now(self) -> datetime:
        """Return the present instant, UTC."""
        return datetime.now(UTC)

    async def sleep_until(self, when: datetime) -> None:
        """Return at or after `when`, never before."""
        while (left := (when - self.now()).total_seconds()) > 0:  # noqa: ASYNC110 - the condition is the time itself
            # Sleep in steps, so that a clock that is set forward, or a machine that slept, is noticed soon.
            await asyncio.sleep(min(left, _STEP))
