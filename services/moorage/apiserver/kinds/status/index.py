"""What kinds count of the records, kept up to date with each record."""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from moorage.apiserver.kinds.status.records import ObjectId, Records


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
