"""Tasks in the background that never end silently."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final

import structlog

log = structlog.get_logger(__name__)

_BACKOFF_FIRST: Final = 1.0
_BACKOFF_MAX: Final = 60.0  # seconds; an error that comes back each time must not fill the log


async def restarted(name: str, work: Callable[[], Awaitable[None]]) -> None:
    """Do something until it returns or is cancelled. After an error it is logged, and begins again after a while.

    Args:
        name: what is done, for the log.
        work: begins it. It must be able to begin again after any error.
    """
    loop, backoff = asyncio.get_running_loop(), _BACKOFF_FIRST
    while True:
        began = loop.time()
        try:
            await work()
        except Exception:
            if loop.time() - began > _BACKOFF_MAX:
                backoff = _BACKOFF_FIRST
            log.exception("task.failed", task=name, again_in=backoff)
            await asyncio.sleep(backoff)
            backoff = min(2 * backoff, _BACKOFF_MAX)
        else:
            return


def log_failure(task: asyncio.Future[Any]) -> None:
    """Log the error with which a task has ended, if any. For `add_done_callback` of a task that nobody waits for."""
    if not task.cancelled() and (error := task.exception()) is not None:
        name = task.get_name() if isinstance(task, asyncio.Task) else repr(task)
        log.error("task.failed", task=name, exc_info=error)
