"""Nodes that have too little left of what the pod requests, or room for no more pods."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from moorage.core.placing.fleet import UNLIMITED, Fleet, Mask
from moorage.core.placing.plugin import Filter
from moorage.core.placing.shape import PodShape
from moorage.core.quantities import PODS


class NodeResourcesFit(Filter):
    """What is requested must be left. What is not requested is not looked at, however short it is."""

    name = "NodeResourcesFit"
    order = 40
    static = False

    def objections(
        self,
        shape: PodShape,
        fleet: Fleet,
        now: datetime | None,  # noqa: ARG002 - no matter of time
    ) -> Iterable[tuple[str, Mask]]:
        """See `Filter`."""
        yield "Too many pods", fleet.free(PODS) < 1
        for resource, amount in shape.requests:
            if resource != PODS:
                yield f"Insufficient {resource}", fleet.free(resource) < min(amount, UNLIMITED + 1)


PLUGIN = NodeResourcesFit()
