"""Limits the requests of a client, as client-go does: so many a second, and so many at once after a pause."""

from __future__ import annotations

import asyncio


class RequestLimiter:
    """A token bucket. Those who wait are served in order.

    Args:
        qps: the tokens that are added in a second. 0 sets no limit.
        burst: the number of tokens that it holds.
    """

    def __init__(self, qps: float, burst: int) -> None:
        self._qps = qps
        self._burst = float(max(1, burst))
        self._tokens = self._burst
        self._at: float | None = None

    async def take(self) -> None:
        """Take a token, or wait for it."""
        if not self._qps:
            return
        now = asyncio.get_running_loop().time()
        if self._at is not None:
            self._tokens = min(self._burst, self._tokens + (now - self._at) * self._qps)
        self._at = now
        self._tokens -= 1  # below zero it is a place in the queue
        if self._tokens < 0:
            await asyncio.sleep(-self._tokens / self._qps)
