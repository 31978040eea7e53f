"""Balance: prefers clusters on which other placements have fewer decisions."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

import numpy as np
from typing_extensions import override

from moorage.decide.scheduling.framework.plugins import MAX_SCORE, Basis
from moorage.decide.scheduling.ocm.columns.column import Rows, Scores
from moorage.decide.scheduling.ocm.columns.managed_fleet import ManagedFleet
from moorage.decide.scheduling.ocm.plugin import CountedScores, ManagedPrioritizer, PlacementRequest, Scored

_NO_ROWS: Rows = np.zeros(0, dtype=np.intp)


class Balance(ManagedPrioritizer):
    """Prefers clusters on which other placements have fewer decisions.

    100 for a cluster without decisions, -100 for the clusters with the most decisions in the whole fleet.
    """

    name = "Balance"
    order = 10
    weight = 1
    lowest = -MAX_SCORE
    rests_on = Basis.USAGE | Basis.DECIDED

    @override
    def score(self, request: PlacementRequest, fleet: ManagedFleet, rows: Rows) -> Scored:
        counts, most = _of_others(request)
        return Scored(score_by_count(most).take(counts.take(rows)))

    @override
    def counted(self, request: PlacementRequest) -> CountedScores | None:
        # none, if they include the placement's own
        if request.usage_has_decided and request.decided.size:
            return None
        usage = request.usage
        span = usage.span
        return CountedScores(usage.counts, score_by_count(usage.most), span, len(span.added))

    @override
    def details(self, request: PlacementRequest, fleet: ManagedFleet, target: str) -> Iterable[str]:
        counts, most = _of_others(request)
        here = counts[fleet.row(target)]
        yield f"decisions of other placements: {here} here, {most} on the cluster with the most"


def _of_others(request: PlacementRequest) -> tuple[Scores, int]:
    """Return the number of decisions of other placements by row, and the highest of these numbers."""
    return request.usage.without(request.decided if request.usage_has_decided else _NO_ROWS)


@lru_cache(maxsize=1024)
def score_by_count(most: int) -> Scores:
    """Return the score for each number of decisions from 0 to `most`. Always even, truncated towards zero."""
    if not most:
        return np.array([MAX_SCORE], dtype=np.int64)
    usage = np.arange(most + 1, dtype=np.float64) / most
    scores: Scores = 2 * np.trunc(MAX_SCORE * (0.5 - usage)).astype(np.int64)
    scores[0] = MAX_SCORE
    scores.setflags(write=False)
    return scores


PLUGIN = Balance()
