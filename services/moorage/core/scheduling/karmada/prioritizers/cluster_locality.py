"""Prefers the clusters that a resource is on, so that it does not move without need."""

from __future__ import annotations

from collections.abc import Iterable

from moorage.core.scheduling.framework.plugins import Basis
from moorage.core.scheduling.framework.scores import MAX_SCORE
from moorage.core.scheduling.karmada.fleet import ClusterFleet, ClusterInfo
from moorage.core.scheduling.karmada.plugin import ClusterPrioritizer, ClusterRequest


class ClusterLocality(ClusterPrioritizer):
    """Prefers the clusters that the resource is on already: 100 there, 0 elsewhere."""

    name = "ClusterLocality"
    rests_on = Basis.DECIDED

    def score(self, request: ClusterRequest, cluster: ClusterInfo) -> int:
        """See `ClusterPrioritizer`."""
        return MAX_SCORE if cluster.name in request.existing else 0

    def details(self, request: ClusterRequest, fleet: ClusterFleet, target: str) -> Iterable[str]:
        """See `Plugin`."""
        yield "the resource is there already" if target in request.existing else "the resource is not there"


PLUGIN = ClusterLocality()
