"""Which record is behind each read-only object that shows one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar, Protocol

from typing_extensions import override

from moorage.apiserver.kinds.status.index import Index
from moorage.apiserver.kinds.status.records import ObjectId, ObjectMap, Records
from moorage_schemas.base import Model


class MadeOfRecords(Protocol):
    """A kind whose objects show the records of a topic (`View`)."""

    made_from: ClassVar[str]
    """The short name of the topic."""

    def objects(self, key: str, record: Model) -> Iterable[ObjectId]:
        """The objects that a record shows."""


class ViewIndex(Index):
    """The record behind each object of the kinds that are made of the records of a topic.

    Args:
        kinds: those kinds.
    """

    def __init__(self, kinds: Iterable[MadeOfRecords]) -> None:
        self.origins = ObjectMap[str]()
        """The record key behind each object."""

        self._kinds: dict[str, list[MadeOfRecords]] = {}
        for kind in kinds:
            self._kinds.setdefault(kind.made_from, []).append(kind)
        self.topics = self._kinds.keys()

    @override
    def changed(self, topic: str, key: str, before: Any, after: Any, records: Records) -> Iterable[ObjectId]:
        touched: set[ObjectId] = set()
        for kind in self._kinds[topic]:
            earlier, now = (
                set(kind.objects(key, record)) if record is not None else set[ObjectId]() for record in (before, after)
            )
            for object_id in earlier - now:
                if self.origins.get(object_id) == key:
                    self.origins.discard(object_id)
            for object_id in now:
                if self.origins.get(object_id) != key:
                    self.origins.put(object_id, key)
            touched |= now | earlier
        return touched
