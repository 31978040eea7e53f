"""Prefers nodes with more free cpu and memory.

The score is the mean of the two percentages that would be free with the pod on the node. A pod without requests counts
with small amounts (`COUNTED_AT_LEAST`; upstream has the same numbers, for each container). A node that does not state
how much it has counts as empty.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np
from typing_extensions import override

from moorage.decide.kubernetes.quantities import amount_text
from moorage.decide.scheduling.framework.plugins import MAX_SCORE, Basis
from moorage.decide.scheduling.nodes.fleet import COUNTED_AT_LEAST, UNLIMITED, Counts, Fleet, Rows
from moorage.decide.scheduling.nodes.plugin import NodePrioritizer, PodRequest

_FEW: Final = 24
"""Up to this many nodes are computed one by one."""


class NodeResourcesFit(NodePrioritizer):
    """Prefers nodes with a larger share of free cpu and memory: LeastAllocated, kube-scheduler's default."""

    name = "NodeResourcesFit"
    weight = 1
    rests_on = Basis.USAGE

    @override
    def scores(self, request: PodRequest, fleet: Fleet, rows: Rows) -> Counts:
        requests = request.shape.requests
        if rows.size <= _FEW:
            return _left_on_few(dict(requests), fleet, rows)
        return fleet.kept_up((self, requests), lambda some: _left(dict(requests), fleet, some))[rows]

    @override
    def details(self, request: PodRequest, fleet: Fleet, target: str) -> Iterable[str]:
        requests, row = dict(request.shape.requests), fleet.row_of(target)
        for resource, least in COUNTED_AT_LEAST.items():
            offered = int(fleet.offered(resource)[row])
            if offered >= UNLIMITED:
                yield f"{resource}: the node sets no limit, so all of it counts as free"
            elif offered > 0:
                left = max(offered - int(fleet.weight(resource)[row]) - (requests.get(resource) or least), 0)
                yield f"{resource}: {amount_text(resource, left)} of {amount_text(resource, offered)} would be free"


def _left(requests: dict[str, int], fleet: Fleet, rows: Rows) -> Counts:
    """Return the mean percentage that would be free on each of the rows."""
    if rows.size <= _FEW:
        return _left_on_few(requests, fleet, rows)
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


def _left_on_few(requests: dict[str, int], fleet: Fleet, rows: Rows) -> Counts:
    """Return the same for a few rows, without the fixed cost of operations on arrays."""
    total, counted = [0] * rows.size, [0] * rows.size
    for resource, least in COUNTED_AT_LEAST.items():
        wanted = min(requests.get(resource) or least, UNLIMITED)
        amounts = zip(fleet.offered(resource)[rows].tolist(), fleet.weight(resource)[rows].tolist(), strict=True)
        for place, (offered, weight) in enumerate(amounts):
            if offered > 0:
                left = UNLIMITED if offered >= UNLIMITED else max(offered - weight - wanted, 0)
                total[place] += left * MAX_SCORE // offered
                counted[place] += 1
    return np.array([mean // max(count, 1) for mean, count in zip(total, counted, strict=True)], dtype=np.int64)


PLUGIN = NodeResourcesFit()
