"""Nodes with more cpu and memory left are better.

The mean of the two percentages that would be left with the pod there. A pod that asks for none of it counts as a little
(`COUNTED_AT_LEAST`, upstream's figures, there by container); a node that does not say how much it has counts as empty.
"""

from __future__ import annotations

import numpy as np

from moorage.core.scheduling.framework.plugins import MAX_SCORE
from moorage.core.scheduling.nodes.fleet import COUNTED_AT_LEAST, UNLIMITED, Counts, Fleet, Rows
from moorage.core.scheduling.nodes.plugin import Prioritizer, Request


class NodeResourcesFit(Prioritizer):
    """LeastAllocated, the default strategy of kube-scheduler."""

    name = "NodeResourcesFit"
    weight = 1

    def scores(self, request: Request, fleet: Fleet, rows: Rows) -> Counts:
        """See `Prioritizer`."""
        requests = request.shape.requests
        return fleet.kept_up((self.name, requests), lambda some: _left(dict(requests), fleet, some))[rows]


def _left(requests: dict[str, int], fleet: Fleet, rows: Rows) -> Counts:
    """The mean percentage that would be left on each of the rows."""
    total = np.zeros(rows.size, dtype=np.int64)
    counted = np.zeros(rows.size, dtype=np.int64)
    for resource, least in COUNTED_AT_LEAST.items():
        offered = fleet.offered(resource)[rows]
        wanted = min(requests.get(resource) or least, UNLIMITED)
        left = np.maximum(offered - fleet.weight(resource)[rows] - wanted, 0)
        left[offered >= UNLIMITED] = UNLIMITED
        total += left * MAX_SCORE // np.maximum(offered, 1)
        counted += offered > 0
    result: Counts = total // np.maximum(counted, 1)
    return result


PLUGIN = NodeResourcesFit()
