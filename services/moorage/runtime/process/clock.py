"""The clock of the runtime. The core has no clock."""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple, Protocol

from typing_extensions import override

_STEP = 10.0  # seconds

CLOCK_LIMIT: Final = timedelta(seconds=1)
"""The difference from the brokers' clock up to which a process uses its own."""

_MOVED: Final = timedelta(seconds=0.5)
"""The change against the time that has passed which means that the machine's clock was set."""


class Clock(Protocol):
    """The source of the time for the runtime."""

    def now(self) -> datetime:
        """Return the present instant, UTC."""

    async def sleep_until(self, when: datetime) -> None:
        """Return at or after `when`, never before."""


class ClockReading(NamedTuple):
    """One instant by the clock of the machine, and by a clock that is never set."""

    wall: datetime
    ticks: float


def machine_time() -> datetime:
    """Return the present instant by the machine's clock, uncorrected, UTC."""
    return datetime.now(UTC)


def _ticks() -> float:
    """Return seconds of a clock that is never set, and that runs while the machine sleeps where there is one."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


class _Sleeping(ABC):
    """A clock on which a process sleeps in steps."""

    @abstractmethod
    def now(self) -> datetime:
        """Return the present instant, UTC."""

    async def sleep_until(self, when: datetime) -> None:
        """Return at or after `when`, never before."""
        while (left := (when - self.now()).total_seconds()) > 0:  # noqa: ASYNC110 - the condition is the time itself
            # Sleep in steps, so that a clock that is set forward, or a machine that slept, is noticed soon.
            await asyncio.sleep(min(left, _STEP))


class CorrectedClock(_Sleeping):
    """A clock of a process that is corrected by its difference from the brokers' clock.

    It is the machine's clock until that difference was measured. From then on, a step of the machine's clock changes
    nothing until the next measurement.

    Args:
        wall: the machine's clock.
        ticks: seconds of a clock that is never set.
    """

    def __init__(self, wall: Callable[[], datetime] = machine_time, ticks: Callable[[], float] = _ticks) -> None:
        self._wall, self._ticks = wall, ticks
        self._measured: ClockReading | None = None
        self.correction = timedelta(0)
        """The time by which the machine's clock is ahead and which is subtracted; 0 within `CLOCK_LIMIT`."""

    def read(self) -> ClockReading:
        """Return the present instant by the machine's clocks, uncorrected."""
        return ClockReading(self._wall(), self._ticks())

    @property
    def moved(self) -> bool:
        """Whether the machine's clock was set since the last measurement."""
        now = self.read()
        return self._measured is not None and abs(now.wall - self._steady(self._measured, now)) > _MOVED

    def set_offset(self, at: ClockReading, offset: timedelta) -> None:
        """Note that the machine's clock was ahead of the brokers' by this time at an instant."""
        self._measured = at
        self.correction = offset if abs(offset) > CLOCK_LIMIT else timedelta(0)

    def forget(self) -> None:
        """Use the machine's clock until the next measurement."""
        self._measured, self.correction = None, timedelta(0)

    @override
    def now(self) -> datetime:
        if self._measured is None:
            return self._wall()
        now = self.read()
        steady = self._steady(self._measured, now)
        return (steady if abs(now.wall - steady) > _MOVED else now.wall) - self.correction

    @staticmethod
    def _steady(measured: ClockReading, now: ClockReading) -> datetime:
        return measured.wall + timedelta(seconds=now.ticks - measured.ticks)


MACHINE: Final = CorrectedClock()
"""The clock of this process. All its parts share one correction."""


class WallClock(_Sleeping):
    """The clock of this process, `MACHINE`."""

    @override
    def now(self) -> datetime:
        return MACHINE.now()
