"""What changed, lately: the bounded past that watches resume from."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from moorage.kinds.status.records import ObjectId

KEPT = 10_000
"""Changes that are kept."""


@dataclass(frozen=True, slots=True)
class ObjectChange:
    """One object before and after."""

    number: int
    """Counts all changes since the process began."""

    version: int
    object_id: ObjectId
    before: Mapping[str, Any] | None
    after: Mapping[str, Any] | None
    """None when it was deleted."""

    last: Mapping[str, Any]
    """The object as a watch shows it; of a deleted one its last state with the version of the deletion."""


class TooOldError(Exception):
    """The history does not reach back so far."""


class History:
    """The latest changes, in order, and a way to wait for more.

    Args:
        version: the global version from which on changes are recorded.
        kept: how many changes are kept.
    """

    def __init__(self, version: int = 0, kept: int = KEPT) -> None:
        self._changes: deque[ObjectChange] = deque()
        self._kept = kept
        self._count = 0
        self.floor = version
        """Changes after this version are known."""

        self.closed = False
        """Nothing more will come: who watches ends."""

        self._more = asyncio.Event()

    @property
    def count(self) -> int:
        """How many changes there have been: the number that the next one gets."""
        return self._count

    def add(
        self,
        version: int,
        object_id: ObjectId,
        before: Mapping[str, Any] | None,
        after: Mapping[str, Any] | None,
        last: Mapping[str, Any],
    ) -> None:
        """Record one change."""
        self._changes.append(ObjectChange(self._count, version, object_id, before, after, last))
        self._count += 1
        if len(self._changes) > self._kept:
            self.floor = self._changes.popleft().version

    def wake(self) -> None:
        """Tell who waits that time has gone on."""
        self._more.set()
        self._more = asyncio.Event()

    def close(self) -> None:
        """Nothing more will come."""
        self.closed = True
        self.wake()

    def position(self, version: int) -> int:
        """The number of the first change after a version.

        Raises:
            TooOldError: changes after that version have been forgotten.
        """
        if version < self.floor:
            raise TooOldError
        for change in reversed(self._changes):
            if change.version <= version:
                return change.number + 1
        return self._changes[0].number if self._changes else self._count

    def since(self, number: int) -> list[ObjectChange]:
        """The changes from a number on.

        Raises:
            TooOldError: some of them have been forgotten.
        """
        missing = self._count - number
        if missing > len(self._changes):
            raise TooOldError
        return [self._changes[index] for index in range(len(self._changes) - missing, len(self._changes))]

    async def wait(self) -> None:
        """Return when `wake` is called the next time."""
        await self._more.wait()
