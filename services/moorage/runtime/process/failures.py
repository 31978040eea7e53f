"""The runtime's errors, and tasks in the background that never end silently."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final

import structlog

EXIT_STUCK = 75
"""The exit code of a process that its watchdog ended because it made no progress. It should be started again."""

EXIT_FAILED = 70
"""The exit code of a process that ended itself after an error that it cannot handle."""


class RuntimeFailure(Exception):  # noqa: N818 - the name states what happened, not a mistake
    """The runtime cannot start, or cannot continue. The message states the reason and a remedy."""


class TopicsError(RuntimeFailure):
    """The topics in the cluster are not usable: some are missing, or their partition counts differ."""


class EncodeError(Exception):
    """An emitted record cannot be written: it is too large, or its partition is not the task's."""


class TablesTooOld(Exception):  # noqa: N818 - a request inside the runtime, not an error
    """Deletions may have been missed, so everything must be read again (`table_age`)."""


class StartAfresh(Exception):  # noqa: N818 - a request inside the runtime, not an error
    """Discard everything that was read and the partition's producer, and start again. The message gives the reason."""


def first_of(error: BaseException) -> BaseException:
    """Return the first error that is not an exception group."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


log = structlog.get_logger(__name__)

_BACKOFF_FIRST: Final = 1.0
_BACKOFF_MAX: Final = 60.0  # seconds; a recurring error must not fill the log


async def restarted(name: str, work: Callable[[], Awaitable[None]]) -> None:
    """Run work until it returns or is cancelled. After an error it is logged, and begins again after a while.

    Args:
        name: the name of the work, for the log.
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


async def end_task(task: asyncio.Task[None] | None) -> None:
    """Cancel a task, and return when it has ended. Raises its error if it has failed."""
    if task is not None:
        task.cancel()
        await asyncio.wait((task,))  # to await the task itself would hide that the caller is cancelled meanwhile
        if not task.cancelled() and (error := task.exception()) is not None:
            raise error


def log_failure(task: asyncio.Future[Any]) -> None:
    """Log the error with which a task has ended, if any. For `add_done_callback` of a task without a waiter."""
    if not task.cancelled() and (error := task.exception()) is not None:
        name = task.get_name() if isinstance(task, asyncio.Task) else repr(task)
        log.error("task.failed", task=name, exc_info=error)
