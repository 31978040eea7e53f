"""Keys to work on, as Kubernetes' controllers have them: each once, not twice at a time, again after a failure."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

import structlog

from moorage.bridges.engine.metrics import WAITING
from moorage.bridges.kube.api_error import ApiError

_log = structlog.get_logger(__name__)

_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 30.0
_DOUBLINGS: Final = 9  # of the pause, after which it is the longest
_WORKERS: Final = 16


class ActQueue:
    """Calls a function for each key that is added. The function compares what is with what should be.

    Args:
        name: for logs and metrics.
        workers: how many keys are worked on at a time.
    """

    def __init__(self, name: str, *, workers: int = _WORKERS) -> None:
        self._name = name
        self._workers = workers
        self._waiting: dict[str, None] = {}
        self._busy: set[str] = set()
        self._failures: dict[str, int] = {}
        self._later: dict[str, asyncio.TimerHandle] = {}
        self._woken = asyncio.Event()

    def add(self, *keys: str) -> None:
        """Add keys. Those that are being worked on are worked on again afterwards."""
        self._waiting.update(dict.fromkeys(keys))
        self._woken.set()

    def add_later(self, key: str, seconds: float) -> None:
        """Add a key after a while, unless it is added before."""
        if key in self._later:
            return

        def now() -> None:
            self._later.pop(key, None)
            self.add(key)

        self._later[key] = asyncio.get_running_loop().call_later(seconds, now)

    async def run(self, work: Callable[[str], Awaitable[None]]) -> None:
        """Work until cancelled.

        Args:
            work: makes it so for one key. It may raise `ApiError` and `OSError`, and is then called again later.
        """
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(self._workers):
                    group.create_task(self._one_worker(work))
        finally:
            for handle in self._later.values():
                handle.cancel()

    async def _one_worker(self, work: Callable[[str], Awaitable[None]]) -> None:
        while True:
            key = await self._next()
            try:
                await work(key)
                self._failures.pop(key, None)
            except (ApiError, OSError) as error:
                failures = self._failures.get(key, 0)
                self._failures[key] = failures + 1
                pause = min(_FIRST_PAUSE * 2.0 ** min(failures, _DOUBLINGS), _LONGEST_PAUSE)
                if isinstance(error, ApiError) and error.retry_after is not None:
                    pause = max(pause, error.retry_after)
                _log.log(30 if failures > 1 else 20, "bridge.act_failed", queue=self._name, key=key, error=str(error))
                self.add_later(key, pause)
            finally:
                self._busy.discard(key)
                if key in self._waiting:
                    self._woken.set()

    async def _next(self) -> str:
        while True:
            for key in self._waiting:
                if key not in self._busy:
                    del self._waiting[key]
                    self._busy.add(key)
                    WAITING.labels(self._name).set(len(self._waiting))
                    return key
            self._woken.clear()
            await self._woken.wait()
