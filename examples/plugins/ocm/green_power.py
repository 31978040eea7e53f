"""GreenPower: the cluster claim `power.example.com` is the share of green power, in percent."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar, Final

import numpy as np

from moorage.decide.scheduling.framework.plugins import MAX_SCORE
from moorage.decide.scheduling.ocm.columns.cluster_facts import ManagedClusterFacts
from moorage.decide.scheduling.ocm.columns.column import Aspect, Column, ColumnSource, Rows, Values
from moorage.decide.scheduling.ocm.columns.managed_fleet import ManagedFleet
from moorage.decide.scheduling.ocm.plugin import ManagedPrioritizer, PlacementRequest, Scored
from moorage.decide.scheduling.ocm.terms import PlacementTerms

CLAIM: Final = "power.example.com"


@dataclass(frozen=True, slots=True)
class ShareColumn(Column):
    """The share of green power."""

    aspects: ClassVar[Aspect] = Aspect.CLAIMS | Aspect.LIFE

    def empty(self, capacity: int) -> Values:
        """See `Column`."""
        return np.zeros(capacity, dtype=np.int64)

    def answer(self, fleet: ColumnSource, row: int) -> int:
        """See `Column`."""
        return _share(fleet.at(row))


class GreenPower(ManagedPrioritizer):
    """Prefers clusters with a larger share of green power: the percentage is the score."""

    name = "GreenPower"
    order = 55
    upstream = False

    def score(self, request: PlacementRequest, fleet: ManagedFleet, rows: Rows) -> Scored:
        """See `ManagedPrioritizer`."""
        return Scored(fleet.column(ShareColumn())[rows])

    def columns(self, terms: PlacementTerms) -> tuple[Column, ...]:
        """See `ManagedPrioritizer`."""
        return (ShareColumn(),)

    def details(self, request: PlacementRequest, fleet: ManagedFleet, target: str) -> Iterable[str]:
        """See `Plugin`."""
        yield f"{_share(fleet.at(fleet.row(target)))} % of its power is green"


def _share(facts: ManagedClusterFacts) -> int:
    said = facts.claims.get(CLAIM, "")
    return min(int(said), MAX_SCORE) if said.isdecimal() else 0


PLUGIN = GreenPower()
