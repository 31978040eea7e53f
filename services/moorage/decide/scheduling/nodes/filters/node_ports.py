"""Nodes on which another pod takes a port that the pod needs (docs/domain.md, "Constraints on other pods")."""

from __future__ import annotations

from collections.abc import Iterable

from typing_extensions import override

from moorage.decide.scheduling.framework.plugins import Basis
from moorage.decide.scheduling.nodes.bound_pods import WithPort
from moorage.decide.scheduling.nodes.fleet import Fleet, Mask
from moorage.decide.scheduling.nodes.plugin import NodeFilter, PodRequest


class NodePorts(NodeFilter):
    """Rules out nodes on which another pod takes a port of the node that the pod needs."""

    name = "NodePorts"
    order = 35
    rests_on = Basis.PODS

    @override
    def objections(self, request: PodRequest, fleet: Fleet) -> Iterable[tuple[str, Mask]]:
        against: Mask | None = None
        for port in request.shape.ports:
            taken = fleet.pods.counts(WithPort(port))
            if taken is not None:
                against = taken > 0 if against is None else against | (taken > 0)
        if against is not None:
            yield "node(s) didn't have free ports for the requested pod ports", against

    @override
    def details(self, request: PodRequest, fleet: Fleet, target: str) -> Iterable[str]:
        row = fleet.row_of(target)
        for port in request.shape.ports:
            taken = fleet.pods.counts(WithPort(port))
            free = taken is None or not taken[row]
            yield f"host port {port.port}/{port.protocol} on {port.ip}: {'free' if free else 'taken by another pod'}"


PLUGIN = NodePorts()
