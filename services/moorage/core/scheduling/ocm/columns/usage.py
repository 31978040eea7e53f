"""The number of decisions on each cluster, over all placements. The prioritizer Balance uses it."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

import numpy as np

from moorage.core.scheduling.ocm.columns.column import Rows, Scores
from moorage.core.scheduling.ocm.columns.fleet import ManagedFleet

_FEW: Final = 64
"""Up to this many names are counted one by one. More names are counted together."""


class Usage:
    """The number of decisions by cluster. Clusters that no longer exist, or do not exist yet, count too."""

    def __init__(self, fleet: ManagedFleet) -> None:
        self._fleet = fleet
        self._counts = np.zeros(fleet.capacity, dtype=np.int64)
        self._having = [0]
        """The number of clusters with a given number of decisions. The index is the number of decisions."""

        self._most = 0

    @property
    def most(self) -> int:
        """The highest number of decisions on a cluster."""
        return self._most

    @property
    def counts(self) -> Scores:
        """The number of decisions by row of the fleet. Do not modify it."""
        if self._counts.size < self._fleet.capacity:
            longer = np.zeros(self._fleet.capacity, dtype=np.int64)
            longer[: self._counts.size] = self._counts
            self._counts = longer
        return self._counts

    def add(self, names: Collection[str]) -> None:
        """Add a decision for each of the names."""
        if len(names) > _FEW:
            self._count_many(names, 1)
            return
        rows = self._fleet.rows_for(names)
        counts, having = self.counts, self._having
        for row in rows:
            count = counts.item(row)
            counts[row] = count + 1
            having[count] -= 1
            if count < self._most:
                having[count + 1] += 1
            else:
                having.append(1)
                self._most += 1

    def remove(self, names: Collection[str]) -> None:
        """Remove a decision for each of the names. A cluster without decisions stays at zero."""
        if len(names) > _FEW:
            self._count_many(names, -1)
            return
        for name in names:
            row = self._fleet.row(name)
            count = int(self.counts[row])
            if not count:
                continue
            self._counts[row] = count - 1
            self._having[count] -= 1
            self._having[count - 1] += 1
        while len(self._having) > 1 and not self._having[-1]:
            self._having.pop()
        self._most = len(self._having) - 1

    def _count_many(self, names: Collection[str], change: int) -> None:
        rows = np.fromiter((self._fleet.row(name) for name in names), dtype=np.intp, count=len(names))
        counts = self.counts
        np.add.at(counts, rows, change)
        np.maximum(counts, 0, out=counts)
        self._having = np.bincount(counts).tolist()
        self._most = len(self._having) - 1

    def without(self, rows: Rows) -> tuple[Scores, int]:
        """The decisions by row, and the highest of them, after subtracting one for each of `rows`."""
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
