"""Memory: shares equal values, and exempts restored objects from later garbage collections.

A state is many small objects that live long. A full collection visits each of them: 270 ms were measured with 5,000
nodes, during which no partition decides. So they are frozen (`gc.freeze`) when everything is restored, and later
collections visit only newer objects.

Frozen objects are still freed once nothing refers to them, by reference counting. Only cycles stay, such as those of an
abandoned partition task. So everything is unfrozen and collected before each freeze, which is one more full collection.
In a process in which it would take longer than a short session with the group's coordinator, it is left out. Such a
process freezes only once, so that frozen cycles cannot add up.
"""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Callable, Hashable, Sequence
from typing import Final, Generic, TypeVar

import structlog

from moorage.runtime.process.member import Member

log = structlog.get_logger(__name__)

_CHECK_EVERY: Final = 1.0  # seconds between two checks

_EVERY: Final = 300.0
"""Seconds between two times at least. When partitions move, several states are restored one after the other."""


_MOST: Final = 1_000_000
"""The number of objects up to which a full collection is short enough: about a third of a second."""


def freeze() -> int:
    """Collect garbage, and exempt the rest from later collections. Return the number of frozen objects.

    When there are more than `_MOST`, only the garbage of young objects is collected.
    """
    began = time.perf_counter()
    gc.collect(1)
    gc.freeze()
    if gc.get_freeze_count() <= _MOST:
        gc.unfreeze()
        gc.collect()
        gc.freeze()
    found = gc.get_freeze_count()
    log.debug("memory.frozen", objects=found, seconds=round(time.perf_counter() - began, 3))
    return found


class Freezing:
    """Freezes again when more states have been read: by tasks that restore, and by standbys."""

    def __init__(self, members: Sequence[Member], *, freeze: Callable[[], int] = freeze) -> None:
        self._members = members
        self._freeze = freeze
        self._frozen: list[object] = []
        self._objects = 0
        self._at = 0.0

    def now(self) -> None:
        """Freeze at once. Call this before the process is reported as ready."""
        self._frozen = [member.restored for member in self._members]
        self._objects = self._freeze()
        self._at = asyncio.get_running_loop().time()

    async def run(self) -> None:
        """Freeze when it is worth it and no decision is waiting, until cancelled."""
        while True:
            await asyncio.sleep(_CHECK_EVERY)
            self.check()

    def check(self) -> None:
        """Freeze if states were read since the last time, it is long enough ago, and no partition is busy."""
        if self._objects > _MOST or asyncio.get_running_loop().time() - self._at < _EVERY:
            return
        calm = all(member.ready and all(task.idle for task in member.tasks.values()) for member in self._members)
        if calm and self._frozen != [member.restored for member in self._members]:
            self.now()


V = TypeVar("V")

MOST: Final = 65_536
"""The number of distinct values that a pool remembers. Each rollout of a Deployment brings new labels, so without a
limit a pool would grow for as long as the process runs."""


class Pool(Generic[V]):
    """One object for each distinct value.

    A full pool drops everything. Values in use stay with their users; equal values that come later share another
    object.
    """

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._known: dict[Hashable, V] = {}

    def __len__(self) -> int:
        """Return the number of values that it remembers."""
        return len(self._known)

    def shared(self, key: Hashable, value: V) -> V:
        """Return the object for a value.

        Args:
            key: equal for equal values.
            value: the value, which is kept if none exists for the key.
        """
        known = self._known.get(key)
        if known is None:
            if len(self._known) >= self._most:
                self._known.clear()
            known = self._known[key] = value
        return known
