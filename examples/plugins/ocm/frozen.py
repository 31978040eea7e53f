"""Frozen clusters: they have the label `example.com/frozen`, and no placement may select them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar, Final

import numpy as np

from moorage.decide.scheduling.ocm.columns.column import Aspect, Column, ColumnSource, Mask, Values
from moorage.decide.scheduling.ocm.columns.managed_fleet import ManagedFleet
from moorage.decide.scheduling.ocm.plugin import ManagedFilter, PlacementRequest
from moorage.decide.scheduling.ocm.terms import PlacementTerms

LABEL: Final = "example.com/frozen"


@dataclass(frozen=True, slots=True)
class FrozenColumn(Column):
    """Whether a cluster is frozen."""

    aspects: ClassVar[Aspect] = Aspect.LABELS | Aspect.LIFE

    def empty(self, capacity: int) -> Values:
        """See `Column`."""
        return np.zeros(capacity, dtype=np.bool_)

    def answer(self, fleet: ColumnSource, row: int) -> bool:
        """See `Column`."""
        return LABEL in fleet.at(row).labels


class Frozen(ManagedFilter):
    """Rules out clusters that are frozen, even if the placement has them already."""

    name = "Frozen"
    order = 3
    summary = "cluster(s) were frozen"

    def passed(self, request: PlacementRequest, fleet: ManagedFleet, shown: Mask) -> Mask:
        """See `ManagedFilter`."""
        passed: Mask = shown & ~fleet.column(FrozenColumn())
        return passed

    def columns(self, terms: PlacementTerms) -> tuple[Column, ...]:
        """See `ManagedFilter`."""
        return (FrozenColumn(),)

    def details(self, request: PlacementRequest, fleet: ManagedFleet, target: str) -> Iterable[str]:
        """See `Plugin`."""
        labels = fleet.at(fleet.row(target)).labels
        if LABEL in labels:
            yield f"frozen since {labels[LABEL]}"


PLUGIN = Frozen()
