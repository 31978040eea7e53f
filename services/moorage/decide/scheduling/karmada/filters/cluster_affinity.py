"""Clusters that the placement's affinity does not select."""

from __future__ import annotations

from collections.abc import Iterable

from typing_extensions import override

from moorage.decide.scheduling.karmada.fleet import ClusterFleet, ClusterInfo
from moorage.decide.scheduling.karmada.plugin import ClusterFilter, ClusterRequest
from moorage.decide.taints.desired.cluster_affinity import objections, selects


class AffinityFilter(ClusterFilter):
    """Rules out clusters that the policy's cluster affinity does not select. A resource leaves such a cluster."""

    name = "ClusterAffinity"
    order = 10

    @override
    def objection(self, request: ClusterRequest, cluster: ClusterInfo) -> str:
        if selects(request.affinity, cluster.facts):
            return ""
        return "cluster(s) did not match the placement cluster affinity constraint"

    @override
    def details(self, request: ClusterRequest, fleet: ClusterFleet, target: str) -> Iterable[str]:
        return objections(request.affinity, fleet[target].facts)


PLUGIN = AffinityFilter()
