"""Prefers nodes with more free cpu and memory.

The score is the mean of the two percentages that would be free with the pod on the node. A pod without requests counts
with small amounts (`COUNTED_AT_LEAST`; upstream has the same numbers, for each container). A node that does not state
how much it has counts as empty.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from moorage.core.apimachinery.quantities import amount_text
from moorage.core.scheduling.framework.plugins import Basis
from moorage.core.scheduling.framework.scores import MAX_SCORE
from moorage.core.scheduling.nodes.fleet import COUNTED_AT_LEAST, UNLIMITED, Counts, Fleet, Rows
from moorage.core.scheduling.nodes.plugin import NodePrioritizer, PodRequest


class NodeResourcesFit(NodePrioritizer):
    """Prefers nodes with a larger share of free cpu and memory: LeastAllocated, kube-scheduler's default."""

    name = "NodeResourcesFit"
    weight = 1
    rests_on = Basis.USAGE

    def scores(self, request: PodRequest, fleet: Fleet, rows: Rows) -> Counts:
        """See `NodePrioritizer`."""
        requests = request.shape.requests
        return fleet.kept_up((self, requests), lambda some: _left(dict(requests), fleet, some))[rows]

    def details(self, request: PodRequest, fleet: Fleet, target: str) -> Iterable[str]:
        """See `Plugin`."""
        requests, row = dict(request.shape.requests), fleet.row_of(target)
        for resource, least in COUNTED_AT_LEAST.items():
            offered = int(fleet.offered(resource)[row])
            if offered >= UNLIMITED:
                yield f"{resource}: the node sets no limit, so all of it counts as free"
            elif offered > 0:
                left = max(offered - int(fleet.weight(resource)[row]) - (requests.get(resource) or least), 0)
                yield f"{resource}: {amount_text(resource, left)} of {amount_text(resource, offered)} would be free"


def _left(requests: dict[str, int], fleet: Fleet, rows: Rows) -> Counts:
    """The mean percentage that would be free on each of the rows."""
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
