"""The number of decisions on each cluster, over all placements. The prioritizer Balance uses it."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

import numpy as np

from moorage.decide.scheduling.ocm.columns.column import Rows, Scores
from moorage.decide.scheduling.ocm.columns.managed_fleet import ManagedFleet

_FEW: Final = 64
"""Up to this many names are counted one by one. More names are counted together."""

_LONGEST: Final = 4096
"""The number of decisions after which a span ends in any case."""


class GrowthSpan:
    """A time in which decisions are only added, and the highest number of decisions stays the same.

    Args:
        counts: the decisions by row at its beginning.
    """

    __slots__ = ("_counts", "added")

    def __init__(self, counts: Scores) -> None:
        self._counts = counts
        self.added: list[int] = []
        """The row of each decision since, in their order."""

    def counts(self, added: int) -> Scores:
        """Return the decisions by row when so many had been added."""
        counts = self._counts.copy()
        np.add.at(counts, self.added[:added], 1)
        return counts


class Usage:
    """The number of decisions by cluster. Clusters that no longer exist, or do not exist yet, count too."""

    def __init__(self, fleet: ManagedFleet) -> None:
        self._fleet = fleet
        self._counts = np.zeros(fleet.capacity, dtype=np.int64)
        self._having = [0]
        """The number of clusters with a given number of decisions. The index is the number of decisions."""

        self._most = 0
        self._view = self._counts.data
        """The counts once more: one element of this is read and written in half the time."""

        self._span: GrowthSpan | None = None
        """The present span. None until the first request."""

    @property
    def most(self) -> int:
        """The highest number of decisions on a cluster."""
        return self._most

    @property
    def counts(self) -> Scores:
        """The number of decisions by row of the fleet. Do not modify it."""
        if self._counts.size < self._fleet.capacity:
            self._lengthen()
        return self._counts

    def _lengthen(self) -> None:
        longer = np.zeros(self._fleet.capacity, dtype=np.int64)
        longer[: self._counts.size] = self._counts
        self._span = None
        self._counts, self._view = longer, longer.data

    @property
    def span(self) -> GrowthSpan:
        """The present span: another object whenever a number of decisions falls, or the highest number changes."""
        if self._span is None or len(self._span.added) > _LONGEST:
            self._span = GrowthSpan(self.counts.copy())
        return self._span

    def add(self, names: Collection[str]) -> None:
        """Add a decision for each of the names."""
        if len(names) > _FEW:
            self._count_many(names, 1)
            return
        rows = self._fleet.rows_for(names)
        if self._counts.size < self._fleet.capacity:
            self._lengthen()
        counts, having, most = self._view, self._having, self._most
        for row in rows:
            count = counts[row]
            counts[row] = count + 1
            having[count] -= 1
            if count < most:
                having[count + 1] += 1
            else:
                having.append(1)
                most += 1
        if most != self._most:
            self._most, self._span = most, None
        elif self._span is not None:
            self._span.added += rows

    def remove(self, names: Collection[str]) -> None:
        """Remove a decision for each of the names. A cluster without decisions stays at zero."""
        if len(names) > _FEW:
            self._count_many(names, -1)
            return
        self._span = None
        rows = self._fleet.rows_for(names)
        if self._counts.size < self._fleet.capacity:
            self._lengthen()
        counts = self._view
        for row in rows:
            count = counts[row]
            if not count:
                continue
            counts[row] = count - 1
            self._having[count] -= 1
            self._having[count - 1] += 1
        while len(self._having) > 1 and not self._having[-1]:
            self._having.pop()
        self._most = len(self._having) - 1

    def _count_many(self, names: Collection[str], change: int) -> None:
        rows = np.fromiter((self._fleet.row(name) for name in names), dtype=np.intp, count=len(names))
        counts, self._span = self.counts, None
        np.add.at(counts, rows, change)
        np.maximum(counts, 0, out=counts)
        self._having = np.bincount(counts).tolist()
        self._most = len(self._having) - 1

    def without(self, rows: Rows) -> tuple[Scores, int]:
        """Return the decisions by row, and the highest of them, after subtracting one for each of `rows`."""
        counts = self.counts
        if not rows.size:
            return counts, self._most
        less = counts.copy()
        less[rows] = np.maximum(less[rows] - 1, 0)
        at_most = int(np.count_nonzero(counts[rows] == self._most))
        most = self._most
        if most and at_most == self._having[most]:
            # All clusters with the highest number lose one, so the highest number is now one less.
            most -= 1
        return less, most
