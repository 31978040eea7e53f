"""Controllers settle objects in the background, each time that something has changed about them.

What is there is read from the tables each time, and nothing is decided before they are read to their ends, so a gateway
that starts after a crash finishes what another one began.
"""

from __future__ import annotations

import asyncio
import contextlib
from abc import ABC, abstractmethod
from typing import ClassVar, Final

import structlog

from moorage.apiserver.kinds.status.index import Unsettled
from moorage.apiserver.machinery.api_errors import StatusError
from moorage.apiserver.storage.store import Store
from moorage.apiserver.writing.writer import Writer

_log = structlog.get_logger(__name__)

_PAUSE: Final = 1.0  # seconds before an object that could not be settled is tried again


class ObjectController(ABC):
    """Settles what an index has noted, a number of them at a time. What fails is tried again later."""

    what: ClassVar[str]
    """The objects that are settled, in the plural, for the log."""

    at_once: ClassVar[int] = 1
    """The number of them that are settled at the same time."""

    passed_over: ClassVar[frozenset[str]] = frozenset({"NotFound", "Conflict"})
    """Reasons of refusals that are no failures: another write came first, and its record is looked at."""

    def __init__(self, store: Store, writer: Writer, unsettled: Unsettled) -> None:
        self._store = store
        self._writer = writer
        self._unsettled = unsettled
        self._wake = asyncio.Event()
        self._at_work = False

    @property
    def busy(self) -> bool:
        """Whether there is something to do."""
        return self._at_work or bool(self._unsettled)

    def applied(self) -> None:
        """Note that records have been applied. What they concern is looked at."""
        if self._unsettled:
            self._wake.set()

    async def run(self) -> None:
        """Work until cancelled."""
        said = ""
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_PAUSE if said else None):
                    await self._wake.wait()
            self._wake.clear()
            self._at_work = True
            failed = await self._settle_all()
            self._at_work = False
            self._unsettled.update(failed)
            why = next(iter(failed.values()), "")
            if why and why != said:
                _log.warning("gateway.not_settled", what=self.what, count=len(failed), why=why)
            said = why

    async def _settle_all(self) -> dict[str, str]:
        """Settle everything once. Returns why that failed, by name."""
        failed: dict[str, str] = {}
        while self._store.ready and (names := self._unsettled.take(self.at_once)):
            names = [name for name in names if name not in failed]
            outcomes = await asyncio.gather(*map(self._tried, names))
            failed |= {name: why for name, why in zip(names, outcomes, strict=True) if why}
            await asyncio.sleep(0)  # answers to requests come between two portions
        return failed

    async def _tried(self, name: str) -> str:
        """Settle one. Returns why that failed, or an empty text."""
        try:
            return await self.settle(name)
        except StatusError as error:
            return "" if error.reason in self.passed_over else error.message
        except Exception as error:  # noqa: BLE001 - one object must not stop the others, and is tried again
            _log.exception("gateway.settling_failed", what=self.what, name=name)
            return repr(error)

    @abstractmethod
    async def settle(self, name: str) -> str:
        """Settle one.

        Returns:
            Why it is to be tried again later, or an empty text.

        Raises:
            StatusError: a write was refused.
        """
