"""Clusters that are being deleted."""

from __future__ import annotations

from typing_extensions import override

from moorage.decide.scheduling.karmada.fleet import ClusterInfo
from moorage.decide.scheduling.karmada.plugin import ClusterFilter, ClusterRequest


class ClusterDeletion(ClusterFilter):
    """Rules out clusters that are being deleted. A resource leaves such a cluster."""

    name = "ClusterDeletion"
    order = 5

    @override
    def objection(self, request: ClusterRequest, cluster: ClusterInfo) -> str:
        return "cluster(s) is being deleted" if cluster.deleted else ""


PLUGIN = ClusterDeletion()
