"""Nodes that have too little left of what the pod requests, or room for no more pods."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from moorage.core.apimachinery.quantities import PODS, amount_text
from moorage.core.scheduling.nodes.fleet import UNLIMITED, Fleet, Mask
from moorage.core.scheduling.nodes.plugin import Filter
from moorage.core.scheduling.nodes.shape import PodShape


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

    def details(self, shape: PodShape, fleet: Fleet, name: str, now: datetime | None) -> Iterable[str]:  # noqa: ARG002 - no matter of time
        """See `Filter`."""
        row = fleet.row_of(name)
        for resource, amount in (*(one for one in shape.requests if one[0] != PODS), (PODS, 1)):
            offered, free = int(fleet.offered(resource)[row]), int(fleet.free(resource)[row])
            if offered >= UNLIMITED:
                yield f"{resource}: {amount_text(resource, amount)} asked, the node sets no limit"
            else:
                left, every = amount_text(resource, max(free, 0)), amount_text(resource, offered)
                yield f"{resource}: {amount_text(resource, amount)} asked, {left} of {every} left"


PLUGIN = NodeResourcesFit()
