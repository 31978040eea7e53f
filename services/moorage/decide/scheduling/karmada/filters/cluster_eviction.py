"""Clusters that the resource is leaving."""

from __future__ import annotations

from typing_extensions import override

from moorage.decide.scheduling.framework.plugins import Basis
from moorage.decide.scheduling.karmada.fleet import ClusterInfo
from moorage.decide.scheduling.karmada.plugin import ClusterFilter, ClusterRequest


class ClusterEviction(ClusterFilter):
    """Rules out clusters that the resource is leaving. It cannot return before it has left."""

    name = "ClusterEviction"
    order = 50
    rests_on = Basis.DECIDED

    @override
    def objection(self, request: ClusterRequest, cluster: ClusterInfo) -> str:
        return "cluster(s) is in the process of eviction" if cluster.name in request.leaving else ""


PLUGIN = ClusterEviction()
