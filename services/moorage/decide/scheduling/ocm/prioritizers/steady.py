"""Steady: prefers the clusters that a placement has already."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from typing_extensions import override

from moorage.decide.scheduling.framework.plugins import MAX_SCORE, Basis
from moorage.decide.scheduling.ocm.columns.column import Rows
from moorage.decide.scheduling.ocm.columns.managed_fleet import ManagedFleet
from moorage.decide.scheduling.ocm.plugin import ManagedPrioritizer, PlacementRequest, Scored


class Steady(ManagedPrioritizer):
    """Prefers the clusters that the placement has already: 100 there, 0 elsewhere."""

    name = "Steady"
    order = 20
    weight = 1
    rests_on = Basis.DECIDED

    @override
    def score(self, request: PlacementRequest, fleet: ManagedFleet, rows: Rows) -> Scored:
        values = np.zeros(fleet.capacity, dtype=np.int64)
        values[request.decided] = MAX_SCORE
        return Scored(values[rows])

    @override
    def details(self, request: PlacementRequest, fleet: ManagedFleet, target: str) -> Iterable[str]:
        decided = bool(np.any(request.decided == fleet.row(target)))
        yield "the placement has it already" if decided else "the placement does not have it"

    @override
    def drifts(self, weight: int) -> bool:
        # a negative weight prefers the clusters that the placement does not have
        return weight < 0


PLUGIN = Steady()
