"""Prefers nodes near pods that the pod likes, and far from those that it dislikes, by the terms of both sides.

The required affinity of a pod that is placed counts as a preference for it, with the weight 1.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import numpy as np
from typing_extensions import override

from moorage.decide.scheduling.framework.plugins import MAX_SCORE, Basis
from moorage.decide.scheduling.nodes.bound_pods import MatchingPods, Question, WithTerm, selector_of
from moorage.decide.scheduling.nodes.completed_constraints import constraints_of
from moorage.decide.scheduling.nodes.domains import near
from moorage.decide.scheduling.nodes.fleet import Counts, Fleet, Rows
from moorage.decide.scheduling.nodes.plugin import NodePrioritizer, PodRequest
from moorage.decide.scheduling.nodes.pod_constraints import text_of
from moorage_schemas.placement import PodTerm

REQUIRED_WEIGHT: Final = 1
"""The weight of the required affinity of a pod that is placed, for a pod that it selects."""


class InterPodAffinity(NodePrioritizer):
    """Prefers nodes near the pods that the pod's preferred affinity selects, and far from those of its anti-affinity.

    The preferences of the pods that are placed count in the same way. 100 for the node with the highest sum of weights,
    0 for the node with the lowest one.
    """

    name = "InterPodAffinity"
    weight = 2
    relative = True
    left_out = True
    rests_on = Basis.PODS

    @override
    def concerns(self, request: PodRequest, fleet: Fleet) -> bool:
        return bool(request.shape.terms) or fleet.pods.has_terms

    @override
    def scores(self, request: PodRequest, fleet: Fleet, rows: Rows) -> Counts:
        total = np.zeros(rows.size, dtype=np.int64)
        if not self.concerns(request, fleet):
            return total
        for weight, term, question in _weighted(request, fleet):
            pods = near(question, term.topology_key, fleet)
            if pods is not None:
                total += weight * pods[rows]
        if not rows.size:
            return total
        lowest, highest = int(total.min()), int(total.max())
        if lowest == highest:
            return np.zeros(rows.size, dtype=np.int64)
        return (MAX_SCORE * ((total - lowest) / (highest - lowest))).astype(np.int64)

    @override
    def details(self, request: PodRequest, fleet: Fleet, target: str) -> Iterable[str]:
        row = fleet.row_of(target)
        for weight, term, question in _weighted(request, fleet):
            pods = near(question, term.topology_key, fleet)
            if pods is not None and pods[row]:
                whose = "" if isinstance(question, MatchingPods) else "of other pods, "
                yield f"{whose}weight {weight}: {text_of(term.labels)} by {term.topology_key}, {int(pods[row])} there"


def _weighted(request: PodRequest, fleet: Fleet) -> Iterator[tuple[int, PodTerm, Question]]:
    """Return each term that counts with its weight: those of the pod, and those of other pods that select the pod."""
    shape = request.shape
    for term in constraints_of(shape, request.namespace, request.labels).terms if shape.terms else ():
        if term.weight:
            yield _signed(term, term.weight), term, MatchingPods((selector_of(term),))
    for term in fleet.pods.terms_about(request.namespace, request.labels):
        if term.weight or not term.anti:
            yield _signed(term, term.weight or REQUIRED_WEIGHT), term, WithTerm(term)


def _signed(term: PodTerm, weight: int) -> int:
    return -weight if term.anti else weight


PLUGIN = InterPodAffinity()
