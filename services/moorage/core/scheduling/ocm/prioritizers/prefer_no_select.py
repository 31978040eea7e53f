"""PreferNoSelect: the fewer untolerated `PreferNoSelect` taints, the better. Moorage's own; upstream scores none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from moorage.core.scheduling.framework.plugins import MAX_SCORE
from moorage.core.scheduling.ocm.columns import Aspect, Column, ColumnSource, Rows, Values
from moorage.core.scheduling.ocm.fleet import ManagedFleet
from moorage.core.scheduling.ocm.plugin import ManagedPrioritizer, Request, Scored
from moorage.core.scheduling.ocm.terms import Coordinate, PlacementTerms
from moorage.core.taints.dialects.ocm import OCM, PREFER_NO_SELECT_SCORE
from moorage.core.taints.matching import prefer_count
from moorage_schemas.taint import Toleration


@dataclass(frozen=True, slots=True)
class PreferColumn(Column):
    """How many `PreferNoSelect` taints are not tolerated; no time counts for them."""

    tolerations: tuple[Toleration, ...]

    aspects: ClassVar[Aspect] = Aspect.TAINTS | Aspect.LIFE

    def empty(self, capacity: int) -> Values:
        """None."""
        return np.zeros(capacity, dtype=np.int64)

    def answer(self, fleet: ColumnSource, row: int) -> int:
        """Count them."""
        return prefer_count(fleet.at(row).taints, self.tolerations, OCM.scoring)


class PreferNoSelect(ManagedPrioritizer):
    """100 for a cluster without such a taint, down to -100 for those that have the most of those that are scored."""

    built_in: ClassVar[Mapping[str, int]] = {PREFER_NO_SELECT_SCORE: 0}
    departs: ClassVar[bool] = True
    static: ClassVar[bool] = True

    def score(self, coordinate: Coordinate, request: Request, fleet: ManagedFleet, rows: Rows) -> Scored:  # noqa: ARG002 - the plugin's signature
        """By the share of the highest count."""
        counts = fleet.column(PreferColumn(request.terms.tolerations))[rows]
        most = int(counts.max(initial=0))
        return Scored(MAX_SCORE - 2 * MAX_SCORE * counts // max(most, 1))

    def columns(self, coordinate: Coordinate, terms: PlacementTerms) -> tuple[Column, ...]:  # noqa: ARG002 - as above
        """One."""
        return (PreferColumn(terms.tolerations),)


PLUGIN = PreferNoSelect()
