"""How many decisions each cluster has, over all placements: what Balance rests on."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

import numpy as np

from moorage.core.scheduling.ocm.columns import Rows, Scores
from moorage.core.scheduling.ocm.fleet import ManagedFleet

_FEW: Final = 64
"""So many names are counted one by one; more of them all at once."""


class Usage:
    """Decisions by cluster; clusters that are gone, or not there yet, count too."""

    def __init__(self, fleet: ManagedFleet) -> None:
        self._fleet = fleet
        self._counts = np.zeros(fleet.capacity, dtype=np.int64)
        self._having = [0]
        """How many clusters have so many decisions, by that number."""

        self._most = 0

    @property
    def most(self) -> int:
        """The most decisions that a cluster has."""
        return self._most

    @property
    def counts(self) -> Scores:
        """Decisions by row of the fleet; not to be written into."""
        if self._counts.size < self._fleet.capacity:
            longer = np.zeros(self._fleet.capacity, dtype=np.int64)
            longer[: self._counts.size] = self._counts
            self._counts = longer
        return self._counts

    def add(self, names: Collection[str]) -> None:
        """Count a decision for each of the names."""
        if len(names) > _FEW:
            self._count_many(names, 1)
            return
        rows = [self._fleet.row(name) for name in names]
        counts, having = self.counts, self._having
        for row in rows:
            count = counts.item(row) + 1
            counts[row] = count
            having[count - 1] -= 1
            if count < len(having):
                having[count] += 1
            else:
                having.append(1)
        self._most = len(having) - 1

    def remove(self, names: Collection[str]) -> None:
        """Take a decision back for each of the names; one that has none keeps none."""
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
        """The decisions by row, and the most of them, without one for each of `rows`."""
        counts = self.counts
        if not rows.size:
            return counts, self._most
        less = counts.copy()
        less[rows] = np.maximum(less[rows] - 1, 0)
        at_most = int(np.count_nonzero(counts[rows] == self._most))
        most = self._most
        if most and at_most == self._having[most]:
            # All that have the most lose one; no cluster had more than the most, so one less is the most now.
            most -= 1
        return less, most
