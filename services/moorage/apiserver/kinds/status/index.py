"""Indexes of the records, kept up to date with each record: the base, those of views and of mirrored clusters."""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Collection, Hashable, Iterable
from collections.abc import Set as AbstractSet
from typing import Any, ClassVar, Protocol, TypeVar

from typing_extensions import override

from moorage.apiserver.kinds.status.records import ObjectId, ObjectMap, Records
from moorage_schemas.base import Model
from moorage_schemas.resource import ResourceDeclared


class Index(ABC):
    """Keeps what a kind counts of the records, so that no object has to search them when it is shown.

    A kind names its indexes (`Kind.indexes`), and reads one as `records.index(TheClass)`. An index that several kinds
    name exists once. What it keeps follows from the records alone, in the order in which they were written.
    """

    topics: Collection[str]
    """The short names of the topics that it follows. Records of other topics do not reach it."""

    @abstractmethod
    def changed(self, topic: str, key: str, before: Any, after: Any, records: Records) -> Iterable[ObjectId]:
        """Take one record in, and return the objects that look different now, apart from the one that the key names.

        Args:
            topic: the short name of the topic.
            key: of the record.
            before: the earlier record of the key. None if there was none.
            after: the record of the key now. None is a tombstone. Both have the fields of the topic's model, and may be
                rows (`Records`).
            records: the latest records, this one among them.
        """


class Unsettled:
    """Names of what something has changed about, in the order of the changes, each once."""

    __slots__ = ("_names",)

    def __init__(self) -> None:
        self._names: dict[str, None] = {}

    def __len__(self) -> int:
        return len(self._names)

    def add(self, name: str) -> None:
        """Note that something has changed about one."""
        self._names[name] = None

    def update(self, names: Iterable[str]) -> None:
        """Note that something has changed about several."""
        self._names.update(dict.fromkeys(names))

    def clear(self) -> None:
        """Forget all of them."""
        self._names.clear()

    def take(self, count: int) -> list[str]:
        """Remove and return the first ones, at most a number of them."""
        taken = list(itertools.islice(self._names, count))
        for name in taken:
            del self._names[name]
        return taken


class Groups(dict[str, set[str]]):
    """Items by group. A group without items is removed."""

    __slots__ = ()

    def add(self, group: str, item: str) -> None:
        """Add an item to a group."""
        self.setdefault(group, set()).add(item)

    def discard(self, group: str, item: str) -> None:
        """Remove an item from a group, if it is there."""
        found = self.get(group)
        if found is not None:
            found.discard(item)
            if not found:
                del self[group]

    def keep(self, group: str, item: str, *, there: bool) -> None:
        """Add an item to a group or remove it."""
        (self.add if there else self.discard)(group, item)

    def move(self, item: str, before: AbstractSet[str], after: AbstractSet[str]) -> None:
        """Move an item from the groups in which it was to those in which it is now."""
        for group in before - after:
            self.discard(group, item)
        for group in after - before:
            self.add(group, item)


class MadeOfRecords(Protocol):
    """A kind whose objects show the records of a topic (`View`)."""

    made_from: ClassVar[str]
    """The short name of the topic."""

    def objects(self, key: str, record: Model) -> Iterable[ObjectId]:
        """Return the objects that a record shows."""


class ViewIndex(Index):
    """The record behind each object of the kinds that are made of the records of a topic."""

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


KeyT = TypeVar("KeyT", bound=Hashable)


class MirroredIndex(Index):
    """How many objects of each cluster every bridge has mirrored, by kind."""

    topics = ("resources",)

    def __init__(self) -> None:
        self._counts: dict[str, Counter[tuple[str, str]]] = {}
        """By bridge: how many objects there are by the uid of their cluster and their kind."""

        self._kinds: dict[str, Counter[str]] = {}
        """By the uid of a cluster: how many objects there are of each kind."""

    @property
    def sources(self) -> list[str]:
        """The bridges of which something is mirrored."""
        return sorted(self._counts)

    def cluster_uids(self, source: str) -> set[str]:
        """Return the uids of the clusters that a bridge has mirrored. One, unless none was reported."""
        return {uid for uid, _ in self._counts.get(source, ())} - {""}

    def kinds_of(self, cluster_uid: str) -> AbstractSet[str]:
        """Return the kinds of which objects of a cluster are mirrored, by whichever bridge."""
        return self._kinds.get(cluster_uid, Counter[str]()).keys()

    def count(self, source: str, kind: str) -> int:
        """Return how many objects of a kind a bridge has mirrored."""
        return sum(count for (_, found), count in self._counts.get(source, Counter()).items() if found == kind)

    @override
    def changed(self, topic: str, key: str, before: Any, after: Any, records: Records) -> Iterable[ObjectId]:
        self._add(before, -1)
        self._add(after, 1)
        return ()

    def _add(self, declared: ResourceDeclared | None, number: int) -> None:
        if declared is None or declared.mirrored is None:
            return
        source, place = declared.mirrored.source, (declared.mirrored.cluster_uid, declared.kind)
        _count(self._counts, source, place, number)
        _count(self._kinds, declared.mirrored.cluster_uid, declared.kind, number)


def _count(table: dict[str, Counter[KeyT]], outer: str, inner: KeyT, number: int) -> None:
    """Count in a table of counters, which keeps none that is zero."""
    counts = table.setdefault(outer, Counter())
    counts[inner] += number
    if not counts[inner]:
        del counts[inner]
        if not counts:
            del table[outer]
