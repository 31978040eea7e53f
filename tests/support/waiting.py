"""Waits for a condition that no event signals: it is checked repeatedly until a deadline."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

_FIRST, _MOST = 0.02, 0.1  # seconds between two checks, which take CPU time
_GROWTH = 1.5


async def until(
    holds: Callable[[], Awaitable[bool] | bool], seconds: float = 120.0, message: str = "the condition was not true"
) -> None:
    """Return when a condition holds.

    Args:
        holds: the condition.
        seconds: the maximum time to wait.
        message: the message of the error.

    Raises:
        TimeoutError: the condition was not true in time.
    """
    loop = asyncio.get_running_loop()
    deadline, pause = loop.time() + seconds, _FIRST
    while True:
        held = holds()
        if not isinstance(held, bool):
            held = await held
        if held:
            return
        if loop.time() > deadline:
            raise TimeoutError(f"{message} within {seconds:g} s")
        await asyncio.sleep(pause)
        pause = min(_GROWTH * pause, _MOST)
