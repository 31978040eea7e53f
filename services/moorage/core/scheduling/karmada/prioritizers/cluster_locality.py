"""A resource stays where it is rather than move."""

from __future__ import annotations

from moorage.core.scheduling.framework.plugins import MAX_SCORE
from moorage.core.scheduling.karmada.fleet import ClusterInfo
from moorage.core.scheduling.karmada.plugin import ClusterPrioritizer, ClusterRequest


class ClusterLocality(ClusterPrioritizer):
    """The best score for the clusters that the resource is on already, none for others."""

    name = "ClusterLocality"

    def score(self, request: ClusterRequest, cluster: ClusterInfo) -> int:
        """See `ClusterPrioritizer`."""
        return MAX_SCORE if cluster.name in request.existing else 0


PLUGIN = ClusterLocality()
