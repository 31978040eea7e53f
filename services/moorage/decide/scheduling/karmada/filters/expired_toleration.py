"""Clusters with a `NoExecute` taint whose tolerated time has ended.

The time runs from the taint's `timeAdded`. A resource on such a cluster would have to leave at once, and would return
and leave again without end. Upstream's filter lets it pass (deviation `expired-toleration-keeps-away`).
"""

from __future__ import annotations

from collections.abc import Iterable

from typing_extensions import override

from moorage.decide.scheduling.framework.plugins import Basis
from moorage.decide.scheduling.karmada.fleet import ClusterFleet, ClusterInfo
from moorage.decide.scheduling.karmada.plugin import ClusterFilter, ClusterRequest
from moorage.decide.taints.dialects.karmada import KARMADA
from moorage.decide.taints.eviction_verdict import EvictAt, EvictNow, verdict
from moorage.decide.taints.tolerations import judge_taints


class TolerationOver(ClusterFilter):
    """Rules out clusters with a `NoExecute` taint whose tolerated time has ended."""

    name = "TolerationOver"
    order = 25
    rests_on = Basis.CLOCK | Basis.DECIDED

    @override
    def objection(self, request: ClusterRequest, cluster: ClusterInfo) -> str:
        if request.now is None or not cluster.taints or cluster.name in request.existing:
            return ""
        found = verdict(cluster.taints, request.tolerations, seen_at=request.now, dialect=KARMADA)
        over = isinstance(found, EvictNow) or (isinstance(found, EvictAt) and found.deadline <= request.now)
        return "cluster(s) had taint(s) that are tolerated no longer" if over else ""

    @override
    def details(self, request: ClusterRequest, fleet: ClusterFleet, target: str) -> Iterable[str]:
        cluster = fleet[target]
        if request.now is not None:
            for one in judge_taints(cluster.taints, request.tolerations, KARMADA, seen_at=request.now):
                if one.until is not None:
                    yield f"{one}, which is {'over' if one.until <= request.now else 'still to come'}"


PLUGIN = TolerationOver()
