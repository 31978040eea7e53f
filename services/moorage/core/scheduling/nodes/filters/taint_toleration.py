"""Nodes with an untolerated `NoSchedule` or `NoExecute` taint (docs/domain.md, "Node filters")."""

from __future__ import annotations

from collections.abc import Iterable

from moorage.core.scheduling.nodes.fleet import Fleet, Mask
from moorage.core.scheduling.nodes.plugin import NodeFilter, PodRequest
from moorage.core.taints.dialects.kubernetes import KUBERNETES
from moorage.core.taints.tolerations import judge_taints


class TaintToleration(NodeFilter):
    """Rules out nodes with a `NoSchedule` or `NoExecute` taint that the pod does not tolerate."""

    name = "TaintToleration"
    order = 20

    def objections(self, request: PodRequest, fleet: Fleet) -> Iterable[tuple[str, Mask]]:
        """See `NodeFilter`."""
        yield "node(s) had untolerated taint(s)", ~fleet.fits_taints(request.shape.tolerations)

    def details(self, request: PodRequest, fleet: Fleet, target: str) -> Iterable[str]:
        """See `Plugin`."""
        facts = fleet.facts(target)
        for one in judge_taints(facts.taints if facts else (), request.shape.tolerations, KUBERNETES):
            if one.keeps_away:
                yield str(one)


PLUGIN = TaintToleration()
