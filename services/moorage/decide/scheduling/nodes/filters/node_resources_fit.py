"""Nodes without enough free resources for the pod, or without room for one more pod."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from typing_extensions import override

from moorage.decide.kubernetes.quantities import PODS, amount_text
from moorage.decide.scheduling.framework.plugins import Basis
from moorage.decide.scheduling.nodes.fleet import UNLIMITED, Counts, Fleet, Mask
from moorage.decide.scheduling.nodes.plugin import NodeFilter, PodRequest


class NodeResourcesFit(NodeFilter):
    """Rules out nodes without enough free resources for the pod, or without room for one more pod.

    A resource that the pod does not request is not checked, even if the node has none left.
    """

    name = "NodeResourcesFit"
    order = 40
    rests_on = Basis.USAGE

    @override
    def objections(self, request: PodRequest, fleet: Fleet) -> Iterable[tuple[str, Mask]]:
        free = fleet.free(PODS)
        if _least(free) < 1:
            yield "Too many pods", free < 1
        for resource, amount in request.shape.requests:
            if resource != PODS:
                free, wanted = fleet.free(resource), min(amount, UNLIMITED + 1)
                if _least(free) < wanted:
                    yield f"Insufficient {resource}", free < wanted

    @override
    def details(self, request: PodRequest, fleet: Fleet, target: str) -> Iterable[str]:
        row = fleet.row_of(target)
        for resource, amount in (*(one for one in request.shape.requests if one[0] != PODS), (PODS, 1)):
            offered, free = int(fleet.offered(resource)[row]), int(fleet.free(resource)[row])
            if offered >= UNLIMITED:
                yield f"{resource}: {amount_text(resource, amount)} requested, the node sets no limit"
            else:
                left, every = amount_text(resource, max(free, 0)), amount_text(resource, offered)
                yield f"{resource}: {amount_text(resource, amount)} requested, {left} of {every} left"


def _least(free: Counts) -> int:
    """Return the smallest amount, which is several times as fast as finding nodes with less than an amount."""
    return int(np.minimum.reduce(free, initial=UNLIMITED + 1))


PLUGIN = NodeResourcesFit()
