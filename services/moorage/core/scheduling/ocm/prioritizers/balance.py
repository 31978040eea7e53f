"""Balance: the fewer decisions other placements have on a cluster, the better."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import ClassVar

import numpy as np

from moorage.core.scheduling.framework.plugins import MAX_SCORE
from moorage.core.scheduling.ocm.columns import Rows, Scores
from moorage.core.scheduling.ocm.fleet import ManagedFleet
from moorage.core.scheduling.ocm.plugin import ManagedPrioritizer, Request, Scored
from moorage.core.scheduling.ocm.terms import Coordinate
from moorage.core.taints.dialects.ocm import BALANCE

_NO_ROWS: Rows = np.zeros(0, dtype=np.intp)


class Balance(ManagedPrioritizer):
    """100 for a cluster without decisions, -100 for those that have the most of the whole fleet."""

    built_in: ClassVar[Mapping[str, int]] = {BALANCE: 1}
    static: ClassVar[bool] = False

    def score(self, coordinate: Coordinate, request: Request, fleet: ManagedFleet, rows: Rows) -> Scored:  # noqa: ARG002 - the plugin's signature
        """By the decisions of all placements but this one."""
        own = request.decided if request.usage_has_decided else _NO_ROWS
        counts, most = request.usage.without(own)
        return Scored(score_by_count(most)[counts[rows]])


@lru_cache(maxsize=1024)
def score_by_count(most: int) -> Scores:
    """The score of each number of decisions, where `most` is the highest: always even, cut towards zero."""
    if not most:
        return np.array([MAX_SCORE], dtype=np.int64)
    usage = np.arange(most + 1, dtype=np.float64) / most
    scores: Scores = 2 * np.trunc(MAX_SCORE * (0.5 - usage)).astype(np.int64)
    scores[0] = MAX_SCORE
    scores.setflags(write=False)
    return scores


PLUGIN = Balance()
