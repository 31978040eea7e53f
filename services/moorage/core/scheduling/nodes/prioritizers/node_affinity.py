"""Nodes that the pod's preferred node affinity selects are better, by the sum of the terms' weights."""

from __future__ import annotations

import numpy as np

from moorage.core.scheduling.nodes.fleet import Counts, Fleet, Rows
from moorage.core.scheduling.nodes.node_terms import nodes_of
from moorage.core.scheduling.nodes.plugin import Prioritizer, Request, normalised
from moorage.core.scheduling.nodes.shape import PodShape


class NodeAffinity(Prioritizer):
    """100 for the nodes with the highest sum; 0 everywhere when nothing is preferred or nothing matches."""

    name = "NodeAffinity"
    weight = 2

    def scores(self, request: Request, fleet: Fleet, rows: Rows) -> Counts:
        """See `Prioritizer`."""
        shape = request.shape
        if not shape.preferred:
            return np.zeros(rows.size, dtype=np.int64)
        return normalised(fleet.remembered((self.name, shape.key), lambda: _weights(shape, fleet))[rows])


def _weights(shape: PodShape, fleet: Fleet) -> Counts:
    total = np.zeros(fleet.rows, dtype=np.int64)
    for term in shape.preferred:
        total += term.weight * nodes_of(term.preference, fleet)
    return total


PLUGIN = NodeAffinity()
