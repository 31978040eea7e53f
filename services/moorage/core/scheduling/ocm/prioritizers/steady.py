"""Steady: the clusters that a placement has are the better ones."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from moorage.core.scheduling.framework.plugins import MAX_SCORE
from moorage.core.scheduling.ocm.columns import Rows
from moorage.core.scheduling.ocm.fleet import ManagedFleet
from moorage.core.scheduling.ocm.plugin import ManagedPrioritizer, Request, Scored
from moorage.core.scheduling.ocm.terms import Coordinate
from moorage.core.taints.dialects.ocm import STEADY


class Steady(ManagedPrioritizer):
    """100 for a cluster that the placement has, else 0."""

    built_in: ClassVar[Mapping[str, int]] = {STEADY: 1}
    static: ClassVar[bool] = False

    def score(self, coordinate: Coordinate, request: Request, fleet: ManagedFleet, rows: Rows) -> Scored:  # noqa: ARG002 - the plugin's signature
        """By what is decided."""
        values = np.zeros(fleet.capacity, dtype=np.int64)
        values[request.decided] = MAX_SCORE
        return Scored(values[rows])


PLUGIN = Steady()
