"""Prefers nodes that the pod's preferred node affinity selects, by the sum of the terms' weights."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from typing_extensions import override

from moorage.decide.kubernetes.selectors import matches_node_term
from moorage.decide.scheduling.framework.plugins import normalised
from moorage.decide.scheduling.nodes.fleet import Counts, Fleet, Rows
from moorage.decide.scheduling.nodes.node_terms import nodes_of
from moorage.decide.scheduling.nodes.plugin import NodePrioritizer, PodRequest
from moorage.decide.scheduling.nodes.pod_shape import PodShape


class NodeAffinity(NodePrioritizer):
    """Prefers nodes that the pod's preferred node affinity selects.

    100 for the nodes with the highest sum of the terms' weights. 0 for every node if no term matches.
    """

    name = "NodeAffinity"
    weight = 2
    relative = True

    @override
    def scores(self, request: PodRequest, fleet: Fleet, rows: Rows) -> Counts:
        shape = request.shape
        if not shape.preferred:
            return np.zeros(rows.size, dtype=np.int64)
        return normalised(fleet.remembered((self, shape.key), lambda: _weights(shape, fleet))[rows])

    @override
    def details(self, request: PodRequest, fleet: Fleet, target: str) -> Iterable[str]:
        facts = fleet.facts(target)
        for number, term in enumerate(request.shape.preferred):
            matches = facts is not None and matches_node_term(term.preference, facts.labels, target)
            yield f"preferred term {number}, weight {term.weight}, {'matches' if matches else 'does not match'}"


def _weights(shape: PodShape, fleet: Fleet) -> Counts:
    total = np.zeros(fleet.rows, dtype=np.int64)
    for term in shape.preferred:
        total += term.weight * nodes_of(term.preference, fleet)
    return total


PLUGIN = NodeAffinity()
