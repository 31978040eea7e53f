"""Nodes with an untolerated `NoSchedule` or `NoExecute` taint (docs/domain.md, "Node filters")."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from moorage.core.scheduling.nodes.fleet import Fleet, Mask
from moorage.core.scheduling.nodes.plugin import Filter
from moorage.core.scheduling.nodes.shape import PodShape
from moorage.core.taints.dialects.kubernetes import KUBERNETES
from moorage.core.taints.tolerations import judge_taints


class TaintToleration(Filter):
    """A pod goes only where it tolerates every taint that keeps pods away."""

    name = "TaintToleration"
    order = 20

    def objections(
        self,
        shape: PodShape,
        fleet: Fleet,
        now: datetime | None,  # noqa: ARG002 - no matter of time
    ) -> Iterable[tuple[str, Mask]]:
        """See `Filter`."""
        yield "node(s) had untolerated taint(s)", ~fleet.fits_taints(shape.tolerations)

    def details(self, shape: PodShape, fleet: Fleet, name: str, now: datetime | None) -> Iterable[str]:  # noqa: ARG002 - no matter of time
        """See `Filter`."""
        facts = fleet.facts(name)
        for one in judge_taints(facts.taints if facts else (), shape.tolerations, KUBERNETES):
            if one.keeps_away:
                yield str(one)


PLUGIN = TaintToleration()
