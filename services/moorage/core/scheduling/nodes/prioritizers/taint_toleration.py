"""Fewer untolerated `PreferNoSchedule` taints are better."""

from __future__ import annotations

from moorage.core.scheduling.nodes.fleet import Counts, Fleet, Rows
from moorage.core.scheduling.nodes.plugin import Prioritizer, Request, normalised


class TaintToleration(Prioritizer):
    """100 without such taints, 0 for the nodes with the most of them."""

    name = "TaintToleration"
    weight = 3

    def scores(self, request: Request, fleet: Fleet, rows: Rows) -> Counts:
        """See `Prioritizer`."""
        shape = request.shape
        counts = fleet.remembered((self.name, shape.key), lambda: fleet.prefer_counts(shape.tolerations))
        return normalised(counts[rows], reverse=True)


PLUGIN = TaintToleration()
