"""The latest changes, in limited number and size. Watches resume from them."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import orjson

from moorage.apiserver.kinds import kind
from moorage.apiserver.kinds.status.records import ObjectId, place_of
from moorage.apiserver.storage.shown_objects import ShownObject
from moorage.decide.kubernetes.unstructured import at

KEPT = 100_000
"""The number of changes that are kept."""

KEPT_BYTES = 64 << 20
"""The bytes of changes that are kept. What Python adds to each of them is counted."""

_EACH: Final = 600  # bytes that Python adds to a change: the objects that it consists of, and its places in two queues

Scope = tuple[str, str]
"""A kind (`place_of`), and a namespace or an empty text for all."""


@dataclass(frozen=True, slots=True)
class ObjectChange:
    """A change of one object."""

    number: int
    """Counts all changes since the process began."""

    object_id: ObjectId
    before: bytes | None
    """The part of its state before that selectors read, as JSON (`selectable`). None if the object was created."""

    after: bytes | None
    """The same of its state after. None if the object was deleted."""

    last: ShownObject
    """The object as a watch shows it. For a deleted object, its last state with the version of the deletion."""

    @property
    def version(self) -> int:
        """The version of the change."""
        return self.last.version

    @property
    def size(self) -> int:
        """The bytes that it takes."""
        return _EACH + len(self.before or b"") + len(self.after or b"") + len(self.last.kept)


def selectable(document: Mapping[str, Any]) -> bytes:
    """Return the part of an object that label and field selectors read, as JSON."""
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
    """The latest changes in order, and a way to wait for more."""

    def __init__(self, version: int = 0, kept: int = KEPT, kept_bytes: int = KEPT_BYTES) -> None:
        self._changes: deque[ObjectChange] = deque()
        self._by_kind: dict[str, deque[ObjectChange]] = {}
        self._kept = kept
        self._kept_bytes = kept_bytes
        self._size = 0
        self._count = 0
        self.floor = version
        """All changes after this version are known."""

        self.closed = False
        """Whether no more changes will come. Then watches end."""

        self._woken: set[Scope] = set()
        self._more: dict[Scope, asyncio.Event] = {}

    @property
    def count(self) -> int:
        """The number of changes so far, which is the number of the next one."""
        return self._count

    def begin(self, version: int) -> None:
        """Forget all changes, and record those after a version. No watch has begun yet."""
        self._changes.clear()
        self._by_kind.clear()
        self._size = self._count = 0
        self.floor = version

    def add(
        self,
        object_id: ObjectId,
        before: Mapping[str, Any] | None,
        after: Mapping[str, Any] | None,
        last: ShownObject,
    ) -> None:
        """Record one change. The arguments are those of `ObjectChange`, with whole documents as the states."""
        was, now = (selectable(state) if state is not None else None for state in (before, after))
        change = ObjectChange(self._count, object_id, was, was if now == was else now, last)
        self._changes.append(change)
        self._by_kind.setdefault(object_id.place, deque()).append(change)
        self._size += change.size
        self._count += 1
        while len(self._changes) > self._kept or self._size > self._kept_bytes:
            self._forget()
        self._woken.update(((object_id.place, ""), (object_id.place, object_id.namespace)))

    def _forget(self) -> None:
        """Forget the earliest change. It is the earliest of its kind too."""
        oldest = self._changes.popleft()
        place = oldest.object_id.place
        of_kind = self._by_kind[place]
        of_kind.popleft()
        if not of_kind:
            del self._by_kind[place]
        self._size -= oldest.size
        self.floor = oldest.version

    def wake(self) -> None:
        """Wake those who wait for changes that were added since the last call, and those who wait for anything."""
        for scope in (("", ""), *self._woken):
            if (event := self._more.pop(scope, None)) is not None:
                event.set()
        self._woken.clear()

    def close(self) -> None:
        """End the history. No more changes will come."""
        self.closed = True
        self._woken.update(self._more)
        self.wake()

    def position(self, version: int) -> int:
        """Return the number of the first change after a version.

        Raises:
            TooOldError: changes after that version have been forgotten.
        """
        if version < self.floor:
            raise TooOldError
        for change in reversed(self._changes):
            if change.version <= version:
                return change.number + 1
        return self._changes[0].number if self._changes else self._count

    def since(self, number: int, place: str = "") -> list[ObjectChange]:
        """Return the changes of a kind (`place_of`) or of all, starting with a number.

        Raises:
            TooOldError: changes, of whatever kind, have been forgotten since that number.
        """
        if self._count - number > len(self._changes):
            raise TooOldError
        found: list[ObjectChange] = []
        for change in reversed(self._by_kind.get(place, ()) if place else self._changes):
            if change.number < number:
                break
            found.append(change)
        found.reverse()
        return found

    async def wait(self, place: str = "", namespace: str = "") -> None:
        """Return at the next call of `wake` after a change of a kind, in a namespace or in all; or after anything."""
        event = self._more.get((place, namespace))
        if event is None:
            event = self._more[place, namespace] = asyncio.Event()
        await event.wait()


class ClusterHistory:
    """The latest changes of the objects of one cluster, in the history of all fleets."""

    def __init__(self, history: History, cluster: str) -> None:
        self._history = history
        self._cluster = cluster

    @property
    def count(self) -> int:
        """The number of the next change, of any fleet."""
        return self._history.count

    @property
    def floor(self) -> int:
        """All changes after this version are known."""
        return self._history.floor

    @property
    def closed(self) -> bool:
        """Whether no more changes will come."""
        return self._history.closed

    def position(self, version: int) -> int:
        """Return the number of the first change after a version."""
        return self._history.position(version)

    def since(self, number: int, place: str = "") -> list[ObjectChange]:
        """Return the changes of a kind or of all, starting with a number."""
        return self._history.since(number, place and place_of(place, self._cluster))

    async def wait(self, place: str = "", namespace: str = "") -> None:
        """Wait for a change of a kind, in a namespace or in all; or for any change."""
        await self._history.wait(place and place_of(place, self._cluster), namespace)
