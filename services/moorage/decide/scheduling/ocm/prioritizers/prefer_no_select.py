"""PreferNoSelect: prefers clusters with fewer untolerated `PreferNoSelect` taints. Upstream has no such prioritizer."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from typing_extensions import override

from moorage.decide.scheduling.framework.plugins import MAX_SCORE
from moorage.decide.scheduling.ocm.columns.column import Aspect, Column, ColumnSource, Rows, Values
from moorage.decide.scheduling.ocm.columns.managed_fleet import ManagedFleet
from moorage.decide.scheduling.ocm.plugin import ManagedPrioritizer, PlacementRequest, Scored
from moorage.decide.scheduling.ocm.terms import PlacementTerms
from moorage.decide.taints.dialects.ocm import OCM
from moorage.decide.taints.eviction_verdict import taint_text
from moorage.decide.taints.matching import prefer_count, untolerated
from moorage_schemas.taint import Toleration


@dataclass(frozen=True, slots=True)
class PreferColumn(Column):
    """The number of untolerated `PreferNoSelect` taints. `tolerationSeconds` is ignored for this effect."""

    tolerations: tuple[Toleration, ...]

    aspects: ClassVar[Aspect] = Aspect.TAINTS | Aspect.LIFE

    @override
    def empty(self, capacity: int) -> Values:
        return np.zeros(capacity, dtype=np.int64)

    @override
    def answer(self, fleet: ColumnSource, row: int) -> int:
        return prefer_count(fleet.at(row).taints, self.tolerations, OCM.scoring)


class PreferNoSelect(ManagedPrioritizer):
    """Prefers clusters with fewer `PreferNoSelect` taints that the placement does not tolerate.

    100 for a cluster without such a taint, -100 for those with the most of them among the scored clusters.
    """

    name = "PreferNoSelect"
    order = 50
    lowest = -MAX_SCORE
    relative = True
    upstream = False

    @override
    def score(self, request: PlacementRequest, fleet: ManagedFleet, rows: Rows) -> Scored:
        counts = fleet.column(PreferColumn(request.terms.tolerations))[rows]
        most = int(counts.max(initial=0))
        return Scored(MAX_SCORE - 2 * MAX_SCORE * counts // max(most, 1))

    @override
    def columns(self, terms: PlacementTerms) -> tuple[Column, ...]:
        return (PreferColumn(terms.tolerations),)

    @override
    def details(self, request: PlacementRequest, fleet: ManagedFleet, target: str) -> Iterable[str]:
        taints = fleet.at(fleet.row(target)).taints
        for taint in untolerated(taints, request.terms.tolerations, OCM.scoring):
            yield f"nothing tolerates {taint_text(taint)}"


PLUGIN = PreferNoSelect()
