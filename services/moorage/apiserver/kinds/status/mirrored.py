"""Which clusters bridges mirror, and how many objects of them there are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable
from collections.abc import Set as AbstractSet
from typing import Any, TypeVar

from typing_extensions import override

from moorage.apiserver.kinds.status.index import Index
from moorage.apiserver.kinds.status.records import ObjectId, Records
from moorage_schemas.resource import ResourceDeclared

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
        """Return the uids of the clusters that a bridge has mirrored. One, unless none has been said."""
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
