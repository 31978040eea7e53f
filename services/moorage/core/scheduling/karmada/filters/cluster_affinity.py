"""Clusters that the placement's affinity does not select."""

from __future__ import annotations

from collections.abc import Iterable

from moorage.core.scheduling.karmada.fleet import ClusterInfo
from moorage.core.scheduling.karmada.plugin import ClusterFilter, ClusterRequest
from moorage.core.taints.desired.cluster_affinity import objections, selects
from moorage_schemas.resources.policies import ClusterAffinity


class AffinityFilter(ClusterFilter):
    """A resource goes where its policy says, and nowhere else; one that is elsewhere leaves."""

    name = "ClusterAffinity"
    order = 10

    def objection(self, request: ClusterRequest, affinity: ClusterAffinity | None, cluster: ClusterInfo) -> str:  # noqa: ARG002 - the affinity says it all
        """See `ClusterFilter`."""
        if selects(affinity, cluster.facts):
            return ""
        return "cluster(s) did not match the placement cluster affinity constraint"

    def details(self, request: ClusterRequest, affinity: ClusterAffinity | None, cluster: ClusterInfo) -> Iterable[str]:  # noqa: ARG002 - the affinity says it all
        """See `ClusterFilter`."""
        return objections(affinity, cluster.facts)


PLUGIN = AffinityFilter()
