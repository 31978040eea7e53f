"""Clusters without the region, zone or provider that the placement spreads over."""

from __future__ import annotations

from typing_extensions import override

from moorage.decide.scheduling.karmada.fleet import ClusterInfo
from moorage.decide.scheduling.karmada.plugin import ClusterFilter, ClusterRequest


class SpreadFields(ClusterFilter):
    """Rules out clusters without the region, zone or provider that the resource is spread over."""

    name = "SpreadConstraint"
    order = 30

    @override
    def objection(self, request: ClusterRequest, cluster: ClusterInfo) -> str:
        facts = cluster.facts
        for constraint in request.placement.spread_constraints or ():
            if constraint.spread_by_field == "provider" and not facts.provider:
                return "cluster(s) did not have provider property"
            if constraint.spread_by_field == "region" and not facts.region:
                return "cluster(s) did not have region property"
            if constraint.spread_by_field == "zone" and not facts.zones:
                return "cluster(s) did not have zones property"
        return ""


PLUGIN = SpreadFields()
