"""All objects that the gateway shows, with their resource versions, kept up to date from the log.

The resource version of a list or a bookmark is the sum of the positions in all partitions that the gateway reads, times
`STEP`. It includes all records up to those positions. One record may change many objects, and counts change after many
records, so every change has a version of its own between two such sums. A watch that is interrupted after any of them
resumes after it and misses none.

After a restart, a gateway begins with a sum that is not lower than any before. The restored objects carry it. So a
version from before the restart is never mistaken for the present one, and a client that saw only a part of the last
changes gets the answer that its version is too old.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import orjson

from moorage.gateway.durable_log import Place
from moorage.gateway.history import History
from moorage.gateway.object_builder import ObjectBuilder
from moorage.gateway.shown_objects import ShownObject, ShownObjects
from moorage.gateway.tables import Tables
from moorage.kinds.status.pods import evicted_uid
from moorage.kinds.status.records import ObjectId
from moorage.kinds.status.views import ViewIndex
from moorage.runtime.service import Input
from moorage_schemas.topics import Topic

Document = Mapping[str, Any]

STEP = 1_000_000
"""The number of versions between two records. No record changes as many objects."""


class Store:
    """Objects by kind, namespace and name. Only `apply` and `begin` change them, in one event loop."""

    def __init__(self, *, kept: int | None = None) -> None:
        self.tables = Tables()
        self.builder = ObjectBuilder(self.tables)
        self.history = History() if kept is None else History(kept=kept)
        self.ready = False
        """Whether the tables have been read to their end."""

        self.version = 0
        self.evicted: Callable[[ObjectId, str], None] | None = None
        """Called with the name and uid of a bare pod that was evicted, whose resource must be deleted."""

        self.applied: Callable[[], None] | None = None
        """Called when records have been applied, while objects are shown."""

        self._objects = ShownObjects()
        self._sum = 0
        self._positions: dict[tuple[Topic, int], int] = {}

    def apply(self, records: Iterable[Input]) -> None:
        """Apply records in the order of their log. Each change gets a version of its own.

        Counts over many objects, such as the pods of a controller, are computed once, after all records.
        """
        counted: set[ObjectId] = set()
        for record in records:
            self._advance((record.topic, record.partition), record.offset + 1)
            touched = self.tables.apply(record.topic, record.key, record.event)
            if self.ready:
                for object_id in sorted(touched):
                    if object_id.kind in self.builder.counted and object_id.key != record.key:
                        counted.add(object_id)
                    else:
                        counted.discard(object_id)
                        self._refresh(object_id)
        for object_id in sorted(counted):
            self._refresh(object_id)
        self._complete()
        self._tell_applied()
        self.history.wake()

    def skip(self, positions: Mapping[tuple[Topic, int], int]) -> None:
        """Advance over positions without content: transaction markers, and records that were compacted away."""
        for place, position in positions.items():
            self._advance(place, position)
        self._complete()
        self.history.wake()

    def begin(self) -> None:
        """Begin to show objects and to record changes, when the tables have been read to their end."""
        tables = self.tables
        known = {ObjectId.of(key) for key in (*tables.resources, *tables.placements)}
        known |= {*tables.index(ViewIndex).origins, *self.builder.always}
        for object_id in sorted(known):  # so that the workloads of an owner follow each other, and it is decoded once
            document = self.builder.build(object_id)
            if document is not None:
                self._put(object_id, self.version, document)
            self._tell_evicted(object_id)
        self.history.floor = self.version
        self.ready = True
        self._tell_applied()
        self.history.wake()

    def get(self, object_id: ObjectId) -> ShownObject | None:
        """The present state of one object."""
        return self._objects.get(object_id)

    def all(self, kind: str, namespace: str = "") -> Iterable[ShownObject]:
        """The objects of a kind in one namespace or in all, sorted by namespace and name."""
        return self._objects.sorted(kind, namespace)

    def position(self, topic: Topic, partition: int) -> int:
        """The offset of the next record of a partition."""
        return self._positions.get((topic, partition), 0)

    async def reached(self, places: Iterable[Place]) -> None:
        """Return when all of these records have been applied."""
        for place in places:
            while self.position(place.topic, place.partition) <= place.offset:
                await self.history.wait()

    def _advance(self, place: tuple[Topic, int], position: int) -> None:
        before = self._positions.get(place, 0)
        if position > before:
            self._positions[place] = position
            self._sum += position - before
            self.version = max(self.version, (self._sum - 1) * STEP)

    def _complete(self) -> None:
        """Note that all changes by the records so far have their versions."""
        self.version = max(self.version, self._sum * STEP)

    def _next(self) -> int:
        """The version for the next change."""
        self.version += 1
        return self.version

    def _refresh(self, object_id: ObjectId) -> None:
        """Build an object again, and record a change if it looks different."""
        before = self.get(object_id)
        document = self.builder.build(object_id)
        self._tell_evicted(object_id)
        if before is None:
            if document is not None:
                self._note(object_id, None, document)
            return
        known = before.json
        if document is None:
            self._objects.discard(object_id)
            self._note_gone(object_id, orjson.loads(known))
            return
        present = orjson.dumps(_with_version(document, before.version))
        if present == known:
            return
        earlier = orjson.loads(known)
        if len(present) == len(known) and earlier == orjson.loads(present):  # only the order of its fields differs
            return
        if _uid(earlier) != _uid(document):
            # The object was deleted and created again in one batch. A watch has to see both.
            self._note_gone(object_id, earlier)
            earlier = None
        self._note(object_id, earlier, document)

    def _put(self, object_id: ObjectId, version: int, document: Document) -> ShownObject:
        return self._objects.put(object_id, version, _with_version(document, version))

    def _note(self, object_id: ObjectId, before: Document | None, after: Document) -> None:
        """Show an object that was created or changed, and record the change."""
        shown = self._put(object_id, self._next(), after)
        self.history.add(object_id, before, after, shown)

    def _note_gone(self, object_id: ObjectId, before: Document) -> None:
        """Record that an object is gone."""
        version = self._next()
        last = self._objects.packed(object_id.kind, version, _with_version(before, version))
        self.history.add(object_id, before, None, last)

    def _tell_applied(self) -> None:
        if self.ready and self.applied is not None:
            self.applied()

    def _tell_evicted(self, object_id: ObjectId) -> None:
        if self.evicted is not None and (uid := evicted_uid(object_id, self.tables)):
            self.evicted(object_id, uid)


async def within(seconds: float, store: Store, places: Iterable[Place]) -> None:
    """Wait until records have been read back.

    Raises:
        TimeoutError: they were not read back in that time.
    """
    async with asyncio.timeout(seconds):
        await store.reached(places)


def _with_version(document: Document, version: int) -> Document:
    return {**document, "metadata": {**document["metadata"], "resourceVersion": str(version)}}


def _uid(document: Document) -> str:
    return str(document["metadata"].get("uid", ""))
