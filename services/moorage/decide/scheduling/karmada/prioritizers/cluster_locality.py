"""Prefers the clusters that a resource is on, so that it does not move without need."""

from __future__ import annotations

from collections.abc import Iterable

from typing_extensions import override

from moorage.decide.scheduling.framework.plugins import MAX_SCORE, Basis
from moorage.decide.scheduling.karmada.fleet import ClusterFleet, ClusterInfo
from moorage.decide.scheduling.karmada.plugin import ClusterPrioritizer, ClusterRequest


class ClusterLocality(ClusterPrioritizer):
    """Prefers the clusters that the resource is on already: 100 there, 0 elsewhere."""

    name = "ClusterLocality"
    rests_on = Basis.DECIDED

    @override
    def score(self, request: ClusterRequest, cluster: ClusterInfo) -> int:
        return MAX_SCORE if cluster.name in request.existing else 0

    @override
    def details(self, request: ClusterRequest, fleet: ClusterFleet, target: str) -> Iterable[str]:
        yield (
            "the cluster already has the resource"
            if target in request.existing
            else "the cluster does not have the resource"
        )


PLUGIN = ClusterLocality()
