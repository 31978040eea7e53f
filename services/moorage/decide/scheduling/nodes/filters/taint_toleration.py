"""Nodes with an untolerated `NoSchedule` or `NoExecute` taint (docs/domain.md, "Node filters")."""

from __future__ import annotations

from collections.abc import Iterable

from typing_extensions import override

from moorage.decide.scheduling.nodes.fleet import Fleet, Mask
from moorage.decide.scheduling.nodes.plugin import NodeFilter, PodRequest
from moorage.decide.taints.dialects.kubernetes import KUBERNETES
from moorage.decide.taints.tolerations import judge_taints


class TaintToleration(NodeFilter):
    """Rules out nodes with a `NoSchedule` or `NoExecute` taint that the pod does not tolerate."""

    name = "TaintToleration"
    order = 20

    @override
    def objections(self, request: PodRequest, fleet: Fleet) -> Iterable[tuple[str, Mask]]:
        yield "node(s) had untolerated taint(s)", ~fleet.fits_taints(request.shape.tolerations)

    @override
    def details(self, request: PodRequest, fleet: Fleet, target: str) -> Iterable[str]:
        facts = fleet.facts(target)
        for one in judge_taints(facts.taints if facts else (), request.shape.tolerations, KUBERNETES):
            if one.keeps_away:
                yield str(one)


PLUGIN = TaintToleration()
