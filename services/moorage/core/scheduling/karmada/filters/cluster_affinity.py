"""Clusters that the placement's affinity does not select."""

from __future__ import annotations

from collections.abc import Iterable

from moorage.core.scheduling.karmada.fleet import ClusterFleet, ClusterInfo
from moorage.core.scheduling.karmada.plugin import ClusterFilter, ClusterRequest
from moorage.core.taints.desired.cluster_affinity import objections, selects


class AffinityFilter(ClusterFilter):
    """Rules out clusters that the policy's cluster affinity does not select. A resource leaves such a cluster."""

    name = "ClusterAffinity"
    order = 10

    def objection(self, request: ClusterRequest, cluster: ClusterInfo) -> str:
        """See `ClusterFilter`."""
        if selects(request.affinity, cluster.facts):
            return ""
        return "cluster(s) did not match the placement cluster affinity constraint"

    def details(self, request: ClusterRequest, fleet: ClusterFleet, target: str) -> Iterable[str]:
        """See `Plugin`."""
        return objections(request.affinity, fleet[target].facts)


PLUGIN = AffinityFilter()
