"""Clusters that do not serve the resource's kind."""

from __future__ import annotations

from collections.abc import Iterable

from typing_extensions import override

from moorage.decide.scheduling.karmada.fleet import ClusterFleet, ClusterInfo
from moorage.decide.scheduling.karmada.plugin import ClusterFilter, ClusterRequest


class ApiEnablement(ClusterFilter):
    """Rules out clusters that do not serve the resource's kind.

    A resource that is on such a cluster stays, because the cluster may serve the kind again.
    """

    name = "APIEnablement"
    order = 40

    @override
    def objection(self, request: ClusterRequest, cluster: ClusterInfo) -> str:
        if cluster.kinds is None or cluster.name in request.existing:
            return ""
        served = (request.api_version, request.kind) in cluster.kinds
        return "" if served else "cluster(s) did not have the API resource"

    @override
    def details(self, request: ClusterRequest, fleet: ClusterFleet, target: str) -> Iterable[str]:
        cluster = fleet[target]
        if cluster.kinds is None:
            yield "the cluster does not list the kinds that it serves, so every kind counts as served"
        elif (request.api_version, request.kind) not in cluster.kinds:
            here = ", but the cluster already has the resource" if cluster.name in request.existing else ""
            yield f"the cluster does not serve {request.api_version} {request.kind}{here}"


PLUGIN = ApiEnablement()
