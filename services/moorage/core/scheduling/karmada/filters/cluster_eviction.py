"""Clusters that the resource is about to leave."""

from __future__ import annotations

from moorage.core.scheduling.karmada.fleet import ClusterInfo
from moorage.core.scheduling.karmada.plugin import ClusterFilter, ClusterRequest
from moorage_schemas.resources.policies import ClusterAffinity


class ClusterEviction(ClusterFilter):
    """A resource does not come back to a cluster before it has left it."""

    name = "ClusterEviction"
    order = 50
    static = False

    def objection(self, request: ClusterRequest, affinity: ClusterAffinity | None, cluster: ClusterInfo) -> str:  # noqa: ARG002 - leaving knows no affinity
        """See `ClusterFilter`."""
        return "cluster(s) is in the process of eviction" if cluster.name in request.leaving else ""


PLUGIN = ClusterEviction()
