"""Notices that somebody else undoes what a bridge writes, and then writes less and less often.

Two controllers that contradict each other would write in turn, as fast as the API server lets them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Final

import structlog

from moorage.bridges.engine.metrics import CONTRADICTED

_log = structlog.get_logger(__name__)

_FREE: Final = 3
"""So many times in a row the same is written at once: others may have written what they had read before."""

_FIRST_PAUSE, _LONGEST_PAUSE = 5.0, 300.0
_QUIET: Final = 2.0
"""After so many pauses without a write nobody contradicts any more."""

_TIDY: Final = 60.0  # seconds between two looks for what need not be remembered any more


@dataclass(slots=True)
class _Writes:
    """What was written last of an object."""

    content: Hashable
    times: int
    """In a row."""

    at: float

    @property
    def pause(self) -> float:
        """Seconds from the last write to the next one of the same."""
        if self.times < _FREE:
            return 0.0
        return float(min(_FIRST_PAUSE * 2.0 ** min(self.times - _FREE, 16), _LONGEST_PAUSE))

    def is_over(self, now: float) -> bool:
        """Whether nobody contradicts any more."""
        return now >= self.at + max(self.pause, _FIRST_PAUSE) * _QUIET


class Contention:
    """Says when to write again what somebody else has undone. What is new is written at once.

    Args:
        act: what is written, for logs and metrics.
        later: called with a key, and the seconds after which it is to be looked at again.
        noticed: called with the key of an object that somebody else contradicts, each time that it is written.
    """

    def __init__(self, act: str, later: Callable[[str, float], None], noticed: Callable[[str], None]) -> None:
        self._act = act
        self._later = later
        self._noticed = noticed
        self._written: dict[str, _Writes] = {}
        self._tidy_at = float("-inf")

    def holds(self, key: str, content: Hashable) -> bool:
        """Return whether a write has to wait. It is then looked at again when its time has come.

        Args:
            key: of the object.
            content: what is to be written.
        """
        known, now = self._written.get(key), asyncio.get_running_loop().time()
        if known is None or known.content != content:
            return False
        if known.is_over(now):
            del self._written[key]
            return False
        if (left := known.at + known.pause - now) <= 0:
            return False
        self._later(key, left)
        return True

    def written(self, key: str, content: Hashable) -> None:
        """Note that something was written."""
        now = asyncio.get_running_loop().time()
        if now >= self._tidy_at:
            self._tidy_at = now + _TIDY
            self._written = {one: writes for one, writes in self._written.items() if not writes.is_over(now)}
        known = self._written.get(key)
        if known is None or known.content != content:
            self._written[key] = _Writes(content, 1, now)
            return
        known.times, known.at = known.times + 1, now
        if known.times >= _FREE:
            CONTRADICTED.labels(self._act).inc()
            _log.warning("bridge.contradicted", act=self._act, key=key, times=known.times, pause=known.pause)
            self._noticed(key)

    @property
    def remembered(self) -> int:
        """The number of objects of which it is remembered what was written."""
        return len(self._written)

    def gone(self, key: str) -> None:
        """Forget an object that is gone."""
        self._written.pop(key, None)
