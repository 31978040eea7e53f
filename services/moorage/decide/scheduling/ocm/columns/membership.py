"""The members of cluster sets, as columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from moorage.decide.scheduling.ocm.cluster_sets import ManagedSet
from moorage.decide.scheduling.ocm.columns.column import Aspect, Column, ColumnSource, Mask, Values
from moorage.decide.scheduling.ocm.columns.fleet import ManagedFleet


@dataclass(frozen=True, slots=True)
class SetColumn(Column):
    """Whether a cluster is in a set."""

    of: ManagedSet

    aspects: ClassVar[Aspect] = Aspect.LABELS | Aspect.LIFE

    def empty(self, capacity: int) -> Values:
        """False."""
        return np.zeros(capacity, dtype=np.bool_)

    def answer(self, fleet: ColumnSource, row: int) -> bool:
        """Whether the cluster is in the set."""
        return self.of.has(fleet.at(row).labels)


def members(fleet: ManagedFleet, sets: frozenset[ManagedSet]) -> Mask:
    """The clusters of these sets that a placement may choose."""
    found = np.zeros(fleet.capacity, dtype=np.bool_)
    for one in sets:
        found |= fleet.column(SetColumn(one))
    return found & fleet.available
