"""Prefers nodes with fewer untolerated `PreferNoSchedule` taints."""

from __future__ import annotations

from collections.abc import Iterable

from typing_extensions import override

from moorage.decide.scheduling.framework.plugins import normalised
from moorage.decide.scheduling.nodes.fleet import Counts, Fleet, Rows
from moorage.decide.scheduling.nodes.plugin import NodePrioritizer, PodRequest
from moorage.decide.taints.dialects.kubernetes import KUBERNETES
from moorage.decide.taints.eviction_verdict import taint_text
from moorage.decide.taints.matching import untolerated


class TaintToleration(NodePrioritizer):
    """Prefers nodes with fewer `PreferNoSchedule` taints that the pod does not tolerate.

    100 for nodes without such taints, 0 for the nodes with the most of them.
    """

    name = "TaintToleration"
    weight = 3
    relative = True

    @override
    def scores(self, request: PodRequest, fleet: Fleet, rows: Rows) -> Counts:
        shape = request.shape
        counts = fleet.remembered((self, shape.key), lambda: fleet.prefer_counts(shape.tolerations))
        return normalised(counts[rows], reverse=True)

    @override
    def details(self, request: PodRequest, fleet: Fleet, target: str) -> Iterable[str]:
        facts = fleet.facts(target)
        taints = facts.taints if facts is not None else ()
        for taint in untolerated(taints, request.shape.tolerations, KUBERNETES.scoring):
            yield f"nothing tolerates {taint_text(taint)}"


PLUGIN = TaintToleration()
