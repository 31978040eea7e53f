"""Clusters with a `NoSchedule` or `NoExecute` taint that nothing tolerates."""

from __future__ import annotations

from collections.abc import Iterable

from typing_extensions import override

from moorage.decide.scheduling.karmada.fleet import ClusterFleet, ClusterInfo
from moorage.decide.scheduling.karmada.plugin import ClusterFilter, ClusterRequest
from moorage.decide.taints.dialects.karmada import KARMADA
from moorage.decide.taints.eviction_verdict import taint_text
from moorage.decide.taints.matching import untolerated
from moorage.decide.taints.tolerations import judge_taints


class TaintToleration(ClusterFilter):
    """Rules out clusters with a `NoSchedule` or `NoExecute` taint that the resource does not tolerate.

    A cluster that the resource is on already passes. Eviction decides whether the resource has to leave it.
    """

    name = "TaintToleration"
    order = 20

    @override
    def objection(self, request: ClusterRequest, cluster: ClusterInfo) -> str:
        if cluster.name in request.existing:
            return ""
        found = untolerated(cluster.taints, request.tolerations, KARMADA.filtering)
        return f"cluster(s) had untolerated taint {{{taint_text(found[0])}}}" if found else ""

    @override
    def details(self, request: ClusterRequest, fleet: ClusterFleet, target: str) -> Iterable[str]:
        cluster = fleet[target]
        for one in judge_taints(cluster.taints, request.tolerations, KARMADA):
            if one.keeps_away:
                yield str(one)
        if cluster.taints and cluster.name in request.existing:
            yield "the cluster already has the resource, and the taint only excludes new work"


PLUGIN = TaintToleration()
