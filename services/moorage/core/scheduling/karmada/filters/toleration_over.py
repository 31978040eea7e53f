"""Clusters with a `NoExecute` taint that is tolerated for a time which is over already.

The time runs from the taint's `timeAdded`, so a resource that went there would have to leave at once, and come back,
for ever. (Upstream's filter admits it: deviation `expired-toleration-keeps-away`.)
"""

from __future__ import annotations

from collections.abc import Iterable

from moorage.core.scheduling.framework.plugins import Basis
from moorage.core.scheduling.karmada.fleet import ClusterFleet, ClusterInfo
from moorage.core.scheduling.karmada.plugin import ClusterFilter, ClusterRequest
from moorage.core.taints.dialects.karmada import KARMADA
from moorage.core.taints.eviction_verdict import EvictAt, EvictNow, verdict
from moorage.core.taints.tolerations import judge_taints


class TolerationOver(ClusterFilter):
    """Rules out clusters with a `NoExecute` taint that the resource tolerates for a time which is over."""

    name = "TolerationOver"
    order = 25
    rests_on = Basis.CLOCK | Basis.DECIDED

    def objection(self, request: ClusterRequest, cluster: ClusterInfo) -> str:
        """See `ClusterFilter`."""
        if request.now is None or not cluster.taints or cluster.name in request.existing:
            return ""
        found = verdict(cluster.taints, request.tolerations, seen_at=request.now, dialect=KARMADA)
        over = isinstance(found, EvictNow) or (isinstance(found, EvictAt) and found.deadline <= request.now)
        return "cluster(s) had taint(s) that are tolerated no longer" if over else ""

    def details(self, request: ClusterRequest, fleet: ClusterFleet, target: str) -> Iterable[str]:
        """See `Plugin`."""
        cluster = fleet[target]
        if request.now is not None:
            for one in judge_taints(cluster.taints, request.tolerations, KARMADA, seen_at=request.now):
                if one.until is not None:
                    yield f"{one}, which is {'over' if one.until <= request.now else 'still to come'}"


PLUGIN = TolerationOver()
