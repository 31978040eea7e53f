"""The latest changes, in limited number. Watches resume from them."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from moorage.core.apimachinery.unstructured import at
from moorage.gateway.shown_objects import ShownObject
from moorage.kinds import kind
from moorage.kinds.status.records import ObjectId

KEPT = 10_000
"""The number of changes that are kept."""


@dataclass(frozen=True, slots=True)
class ObjectChange:
    """A change of one object."""

    number: int
    """Counts all changes since the process began."""

    object_id: ObjectId
    before: bytes | None
    """What selectors read of its state before, as JSON (`selectable`). None if the object was created."""

    after: bytes | None
    """The same of its state after. None if the object was deleted."""

    last: ShownObject
    """The object as a watch shows it. For a deleted object, its last state with the version of the deletion."""

    @property
    def version(self) -> int:
        """The version of the change."""
        return self.last.version


def selectable(document: Mapping[str, Any]) -> bytes:
    """The part of an object that label and field selectors read, as JSON."""
    metadata = document["metadata"]
    found: dict[str, Any] = {
        "metadata": {
            "name": metadata.get("name", ""),
            "namespace": metadata.get("namespace", ""),
            "labels": metadata.get("labels"),
        },
    }
    definition = kind.named(str(document.get("kind", "")))
    for path in definition.field_selectors if definition is not None else ():
        *within, last = path.split(".")
        value = at(document, *within, last)
        if value is not None:
            place = found
            for name in within:
                place = place.setdefault(name, {})
            place[last] = value
    return orjson.dumps(found)


class TooOldError(Exception):
    """The history does not go back that far."""


class History:
    """The latest changes in order, and a way to wait for more.

    Args:
        version: the global version after which changes are recorded.
        kept: the number of changes that are kept.
    """

    def __init__(self, version: int = 0, kept: int = KEPT) -> None:
        self._changes: deque[ObjectChange] = deque()
        self._kept = kept
        self._count = 0
        self.floor = version
        """All changes after this version are known."""

        self.closed = False
        """Whether no more changes will come. Then watches end."""

        self._more = asyncio.Event()

    @property
    def count(self) -> int:
        """The number of changes so far, which is the number of the next one."""
        return self._count

    def add(
        self,
        object_id: ObjectId,
        before: Mapping[str, Any] | None,
        after: Mapping[str, Any] | None,
        last: ShownObject,
    ) -> None:
        """Record one change. The arguments are those of `ObjectChange`, with whole documents as the states."""
        was, now = (selectable(state) if state is not None else None for state in (before, after))
        self._changes.append(ObjectChange(self._count, object_id, was, now, last))
        self._count += 1
        if len(self._changes) > self._kept:
            self.floor = self._changes.popleft().version

    def wake(self) -> None:
        """Wake everyone who waits, without a change."""
        self._more.set()
        self._more = asyncio.Event()

    def close(self) -> None:
        """End the history. No more changes will come."""
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
        """The changes starting with a number.

        Raises:
            TooOldError: some of them have been forgotten.
        """
        missing = self._count - number
        if missing > len(self._changes):
            raise TooOldError
        return [self._changes[index] for index in range(len(self._changes) - missing, len(self._changes))]

    async def wait(self) -> None:
        """Return at the next call of `wake`."""
        await self._more.wait()
