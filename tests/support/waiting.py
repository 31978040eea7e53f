"""Waiting for what no event tells of: a condition is looked at again and again, until a deadline."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

_FIRST, _MOST = 0.02, 0.1  # seconds between two looks, which take processor time from what is waited for
_GROWTH = 1.5


async def until(
    holds: Callable[[], Awaitable[bool] | bool], seconds: float = 30.0, message: str = "it did not come to pass"
) -> None:
    """Return when a condition holds.

    Args:
        holds: the condition.
        seconds: how long it is looked at.
        message: what to say when it did not hold in time.

    Raises:
        TimeoutError: it did not hold in time.
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
