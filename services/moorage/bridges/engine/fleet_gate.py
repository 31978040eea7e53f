"""Holds back what is decided on the fleet until the topics know the fleet."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

import structlog

_log = structlog.get_logger(__name__)

_CHECK_EVERY: Final = 0.2  # seconds between two questions whether the fleet is known
PATIENCE: Final = 30.0  # seconds after which it is said that something is not as expected
_NAMED: Final = 10  # how many are named then


class FleetGate:
    """Is closed until the topics say of everything that was there at the beginning what the cluster says.

    What comes later need not be waited for: to a decision it is something new.

    Args:
        may_send: returns whether this process sends. While it does not, nothing is waited for.
        unknown: returns a function for what is there now, which names what of it is not known yet.
        opened: called when the gate opens.
        patience: seconds after which it opens although something is not known. None waits for ever.
    """

    def __init__(
        self,
        may_send: Callable[[], bool],
        unknown: Callable[[], Callable[[], Sequence[str]]],
        opened: Callable[[], None],
        *,
        patience: float | None = PATIENCE,
    ) -> None:
        self._may_send = may_send
        self._unknown = unknown
        self._opened = opened
        self._patience = patience
        self._closed = asyncio.Event()
        self._closed.set()

    @property
    def is_open(self) -> bool:
        """Whether the fleet is known."""
        return not self._closed.is_set()

    def close(self) -> None:
        """Begin anew, since another process may have sent something else meanwhile."""
        self._closed.set()

    async def run(self) -> None:
        """Open the gate each time that it is closed, until cancelled."""
        while True:
            await self._closed.wait()
            began, is_told = asyncio.get_running_loop().time(), False
            unknown = self._unknown()
            while self._closed.is_set():
                if not self._may_send():
                    began, unknown = asyncio.get_running_loop().time(), self._unknown()
                elif not (waits := unknown()):
                    self._closed.clear()
                    break
                elif asyncio.get_running_loop().time() - began >= PATIENCE:
                    if not is_told:
                        _log.warning("bridge.fleet_not_known", waits_for=list(waits[:_NAMED]))
                        is_told = True
                    if self._patience is not None:
                        self._closed.clear()
                        break
                await asyncio.sleep(_CHECK_EVERY)
            self._opened()
