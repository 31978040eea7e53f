"""Sends what has changed to the gateway in batches: at once, and what changes meanwhile with the next ones."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Final

import structlog

from moorage.bridges.engine.gateway_client import GatewayError
from moorage.bridges.engine.metrics import SKIPPED, WAITING
from moorage.runtime.process.failures import RuntimeFailure

_log = structlog.get_logger(__name__)

_FIRST_PAUSE, _LONGEST_PAUSE = 0.2, 5.0
AT_ONCE: Final = 500
"""The most keys of a batch."""

SMALL: Final = 50
"""The most keys of a batch beside which another one is sent."""

UNFIT_AGAIN: Final = 30.0
"""Seconds after which what could not be sent is tried again, since what is in its way may have gone."""

_UNFIT: Final = frozenset({400, 413, 422})
"""The statuses with which the gateway refuses a batch because of its content."""

_BATCHES: Final = 2
"""How many batches are on their way at a time: while the gateway commits one, the next one arrives and waits there."""


def never(_: str) -> bool:
    """Return False: no key is urgent."""
    return False


class BatchSender(ABC):
    """A sender of the present state of marked keys. A key is in one batch at a time, so that its order is kept.

    What could not be sent stays marked. Nothing is lost and nothing piles up: however often a key changes meanwhile,
    its present state is sent once.

    Args:
        name: for logs and metrics.
        is_urgent: returns whether a key goes before those that are not urgent.
        pace: seconds between two batches of what is not urgent.
    """

    def __init__(self, name: str, is_urgent: Callable[[str], bool] = never, pace: float = 0.0) -> None:
        self._name = name
        self._is_urgent = is_urgent
        self._pace = pace
        self._urgent: dict[str, None] = {}
        self._marked: dict[str, None] = {}
        self._sending: set[str] = set()
        self._wake = asyncio.Event()
        self._later: set[asyncio.TimerHandle] = set()
        self._pause = _FIRST_PAUSE
        self._resume_at = float("-inf")
        """The loop's time before which nothing is sent, since the gateway has just failed."""

        self._calm_until = float("-inf")
        """The loop's time before which nothing is sent that is not urgent."""

    def mark(self, *keys: str) -> None:
        """Note that something may have to be sent."""
        for key in keys:
            if self._is_urgent(key):
                self._marked.pop(key, None)
                self._urgent[key] = None
            elif key not in self._urgent:
                self._marked[key] = None
        self._wake.set()

    def mark_later(self, keys: Iterable[str], seconds: float) -> None:
        """Mark keys after a while."""
        wanted = tuple(keys)
        loop = asyncio.get_running_loop()

        def now() -> None:
            self._later.discard(handle)
            self.mark(*wanted)

        handle = loop.call_later(seconds, now)
        self._later.add(handle)

    @property
    def waiting(self) -> int:
        """The number of keys that are marked."""
        return len(self._urgent) + len(self._marked)

    @property
    def idle(self) -> bool:
        """Whether nothing is marked or on its way."""
        return not self.waiting and not self._sending

    def is_waiting(self, keys: Collection[str]) -> bool:
        """Return whether some of these keys are marked or on their way."""
        return any(key in self._urgent or key in self._marked or key in self._sending for key in keys)

    async def run(self) -> None:
        """Send until cancelled."""
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(_BATCHES):
                    group.create_task(self._send_on())
        finally:
            for handle in self._later:
                handle.cancel()

    def _unmark_all(self) -> None:
        self._urgent.clear()
        self._marked.clear()

    async def _send_on(self) -> None:
        """Send batch after batch."""
        while True:
            keys = await self._next()
            try:
                await self._send_fit(keys)
                self._pause = _FIRST_PAUSE
            except GatewayError as error:
                _log.warning("bridge.not_sent", what=self._name, error=str(error))
                self._put_back(keys)
                self._rest()
            finally:
                self._sending.difference_update(keys)
                self._wake.set()

    async def _send_fit(self, keys: Sequence[str]) -> None:
        """Send keys. One that cannot be sent, whatever the reason, is skipped: the others do not depend on it.

        Raises:
            GatewayError: the gateway cannot be reached, or refuses for another reason than what is sent.
            RuntimeFailure: the process cannot go on.
        """
        try:
            await self._send(keys)
        except Exception as error:
            if isinstance(error, RuntimeFailure) or (isinstance(error, GatewayError) and error.status not in _UNFIT):
                raise
            if len(keys) > 1:
                half = len(keys) // 2
                await self._send_fit(keys[:half])
                await self._send_fit(keys[half:])
                return
            if not isinstance(error, GatewayError):  # whose text says all
                _log.warning("bridge.not_sent", what=self._name, key=keys[0], exc_info=True)
            self._skipped(keys[0], str(error))
            self.mark_later(keys, UNFIT_AGAIN)

    def _skipped(self, key: str, why: str) -> None:
        """Note that a key could not be sent."""
        SKIPPED.labels(self._name).inc()
        _log.warning("bridge.skipped", what=self._name, key=key, why=why)

    async def _next(self) -> list[str]:
        """Wait for keys that can be sent, and take them."""
        while True:
            wait = self._resume_at - asyncio.get_running_loop().time()
            if wait > 0:
                await asyncio.sleep(wait)
                continue
            if len(self._sending) <= SMALL and (keys := self._take()):
                return keys
            WAITING.labels(self._name).set(self.waiting)
            self._wake.clear()
            calm = self._calm_until - asyncio.get_running_loop().time()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(calm if calm > 0 and self._marked else None):
                    await self._wake.wait()

    def _take(self) -> list[str]:
        """Take keys that can be sent now."""
        now = asyncio.get_running_loop().time()
        others: Iterable[str] = self._marked if now >= self._calm_until else ()
        free = (key for key in itertools.chain(self._urgent, others) if key not in self._sending)
        keys = list(itertools.islice(free, AT_ONCE))
        for key in keys:
            if key in self._urgent:
                del self._urgent[key]
            else:
                del self._marked[key]
                self._calm_until = now + self._pace
        self._sending.update(keys)
        WAITING.labels(self._name).set(self.waiting)
        return keys

    def _put_back(self, keys: Sequence[str]) -> None:
        """Mark what was not sent, before all that was marked meanwhile."""
        later = [*self._urgent, *self._marked]
        self._unmark_all()
        self.mark(*keys, *later)

    def _rest(self) -> None:
        """Send nothing for a while, which grows with each failure. Batches that fail together count once."""
        now = asyncio.get_running_loop().time()
        if now >= self._resume_at:
            self._resume_at = now + self._pause
            self._pause = min(self._pause * 2, _LONGEST_PAUSE)

    @abstractmethod
    async def _send(self, keys: Sequence[str]) -> None:
        """Send the present state of some keys, as far as it is not what was sent last."""
