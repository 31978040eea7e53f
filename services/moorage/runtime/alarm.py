"""An alarm on a clock. It has one setting at a time, which can be changed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime

from moorage.runtime.clock import Clock


class Alarm:
    """Calls a function at or after an instant, never before.

    Args:
        clock: the clock.
        ring: the function to call.
    """

    def __init__(self, clock: Clock, ring: Callable[[], None]) -> None:
        self._clock = clock
        self._ring = ring
        self._when: datetime | None = None
        self._task: asyncio.Task[None] | None = None

    def set(self, when: datetime | None) -> None:
        """Ring at this time, in place of any earlier setting; None for never."""
        if when == self._when and self._task is not None and not self._task.done():
            return
        self.cancel()
        self._when = when
        if when is not None:
            self._task = asyncio.create_task(self._wait(when))

    def cancel(self) -> None:
        """Cancel the present setting."""
        task, self._task, self._when = self._task, None, None
        if task is not None:
            task.cancel()

    async def _wait(self, when: datetime) -> None:
        await self._clock.sleep_until(when)
        self._ring()
