"""Audited clusters: those with the label `example.com/audited` set to `true`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from moorage.decide.scheduling.karmada.fleet import ClusterFleet, ClusterInfo
from moorage.decide.scheduling.karmada.plugin import ClusterFilter, ClusterRequest

LABEL: Final = "example.com/audited"


class Audited(ClusterFilter):
    """Rules out clusters that are not audited. A resource that is there already stays."""

    name = "Audited"
    order = 35

    def objection(self, request: ClusterRequest, cluster: ClusterInfo) -> str:
        """See `ClusterFilter`."""
        if cluster.name in request.existing or cluster.facts.labels.get(LABEL) == "true":
            return ""
        return "cluster(s) were not audited"

    def details(self, request: ClusterRequest, fleet: ClusterFleet, target: str) -> Iterable[str]:
        """See `Plugin`."""
        yield f"{LABEL} is {fleet[target].facts.labels.get(LABEL, 'not set')}"


PLUGIN = Audited()
