"""Cheaper clusters: the label `example.com/price` is a price from 0 to 100."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from moorage.decide.scheduling.framework.plugins import MAX_SCORE
from moorage.decide.scheduling.karmada.fleet import ClusterFleet, ClusterInfo
from moorage.decide.scheduling.karmada.plugin import ClusterPrioritizer, ClusterRequest

LABEL: Final = "example.com/price"


class Price(ClusterPrioritizer):
    """Prefers cheaper clusters: 100 if the price is 0, and 0 if it is 100 or unknown."""

    name = "Price"
    weight = 2

    def score(self, request: ClusterRequest, cluster: ClusterInfo) -> int:
        """See `ClusterPrioritizer`."""
        return MAX_SCORE - _price(cluster)

    def details(self, request: ClusterRequest, fleet: ClusterFleet, target: str) -> Iterable[str]:
        """See `Plugin`."""
        yield f"the price is {_price(fleet[target])}"


def _price(cluster: ClusterInfo) -> int:
    said = cluster.facts.labels.get(LABEL, "")
    return min(int(said), MAX_SCORE) if said.isdecimal() else MAX_SCORE


PLUGIN = Price()
