"""Sends what has changed to the gateway in batches: at once, and what changes meanwhile with the next one."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Sequence
from typing import Final

import structlog

from moorage.bridge.gateway_client import GatewayError
from moorage.bridge.metrics import WAITING

_log = structlog.get_logger(__name__)

_FIRST_PAUSE, _LONGEST_PAUSE = 0.2, 15.0
AT_ONCE: Final = 500


class BatchSender(ABC):
    """Sends the present state of what is marked, by key. One batch is on its way at a time, so that order is kept.

    What could not be sent stays marked. Nothing is lost and nothing piles up: however often a key changes meanwhile,
    its present state is sent once.

    Args:
        name: for logs and metrics.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._marked: dict[str, None] = {}
        self._sending: frozenset[str] = frozenset()
        self._wake = asyncio.Event()
        self._later: set[asyncio.TimerHandle] = set()

    def mark(self, *keys: str) -> None:
        """Note that something may have to be sent."""
        self._marked.update(dict.fromkeys(keys))
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
        return len(self._marked)

    @property
    def idle(self) -> bool:
        """Whether nothing is marked or on its way."""
        return not self._marked and not self._sending

    def is_waiting(self, keys: Collection[str]) -> bool:
        """Whether some of these keys are marked or on their way."""
        return any(key in self._marked or key in self._sending for key in keys)

    async def run(self) -> None:
        """Send until cancelled."""
        pause = _FIRST_PAUSE
        try:
            while True:
                WAITING.labels(self._name).set(len(self._marked))
                if not self._marked:
                    self._wake.clear()
                    await self._wake.wait()
                keys = list(self._marked)[:AT_ONCE]
                for key in keys:
                    del self._marked[key]
                self._sending = frozenset(keys)
                try:
                    await self._send(keys)
                    pause = _FIRST_PAUSE
                except GatewayError as error:
                    _log.warning("bridge.not_sent", what=self._name, error=str(error))
                    self._marked = {**dict.fromkeys(keys), **self._marked}
                    await asyncio.sleep(pause)
                    pause = min(pause * 2, _LONGEST_PAUSE)
                finally:
                    self._sending = frozenset()
        finally:
            for handle in self._later:
                handle.cancel()

    @abstractmethod
    async def _send(self, keys: Sequence[str]) -> None:
        """Send the present state of some keys, as far as it is not what was sent last.

        Raises:
            GatewayError: they have to be sent again.
        """
