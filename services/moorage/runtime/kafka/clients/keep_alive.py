"""Keeps the transactional ids of idle producers alive.

Kafka forgets a transactional id when nothing was written with it for `transactional.id.expiration.ms`, 7 days by
default. Then the next write fails. The producer must not simply register again and repeat it: meanwhile another owner
may have come, written, and been forgotten, too (Kafka's KAFKA-18019). The partition would have to restore its state
first, and the gateway to read its tables. So a producer that has nothing to write writes something without effect in
good time.
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Callable
from typing import Final

_SHARE: Final = 3
"""A producer writes at least this often in the time after which it would be forgotten."""

_LONGEST: Final = 24 * 3600.0
"""Seconds after which it writes at the latest. With Kafka's default, 7 days, this is the shorter time."""

_SPREAD: Final = 0.5
"""By which share of the interval producers may write earlier, so that those of many partitions do not write at once."""


class KeepAlive:
    """Says when a producer has written nothing for so long that it must write something.

    Args:
        kept_ms: how long the brokers remember the id of a producer that writes nothing, in milliseconds.
        transactional_id: the producer's; it determines how much earlier than others the producer writes.
        due: called once when it must; again only after the next call of `wrote`.
    """

    def __init__(self, kept_ms: int, *, transactional_id: str, due: Callable[[], None]) -> None:
        part = zlib.crc32(transactional_id.encode()) / 2**32
        self._after = min(kept_ms / 1000 / _SHARE, _LONGEST) * (1 - _SPREAD * part)
        self._due = due
        self._wrote_at = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def wrote(self) -> None:
        """Note that the producer was started, or has committed or aborted a transaction."""
        loop = asyncio.get_running_loop()
        self._wrote_at = loop.time()
        if self._timer is None:  # otherwise it looks again when it fires, so that a busy producer sets no timers
            self._timer = loop.call_later(self._after, self._look)

    def close(self) -> None:
        """Stop, because the producer is given up."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        loop = asyncio.get_running_loop()
        left = self._wrote_at + self._after - loop.time()
        self._timer = loop.call_later(left, self._look) if left > 0 else None
        if self._timer is None:
            self._due()
