"""Which clusters of a fleet are in which sets, as columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from moorage.core.scheduling.ocm.cluster_sets import ManagedSet
from moorage.core.scheduling.ocm.columns import Aspect, Column, ColumnSource, Mask, Values
from moorage.core.scheduling.ocm.fleet import ManagedFleet


@dataclass(frozen=True, slots=True)
class SetColumn(Column):
    """Whether a cluster is in a set."""

    of: ManagedSet

    aspects: ClassVar[Aspect] = Aspect.LABELS | Aspect.LIFE

    def empty(self, capacity: int) -> Values:
        """No cluster is in none."""
        return np.zeros(capacity, dtype=np.bool_)

    def answer(self, fleet: ColumnSource, row: int) -> bool:
        """Whether it is."""
        return self.of.has(fleet.at(row).labels)


def members(fleet: ManagedFleet, sets: frozenset[ManagedSet]) -> Mask:
    """The clusters of the sets that a placement may have."""
    found = np.zeros(fleet.capacity, dtype=np.bool_)
    for one in sets:
        found |= fleet.column(SetColumn(one))
    return found & fleet.available
