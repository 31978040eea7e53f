"""What a filter and a prioritizer of clusters are."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import ClassVar, Final

from moorage.core.scheduling.framework.plugins import Basis, Filter, Prioritizer
from moorage.core.scheduling.karmada.fleet import ClusterFleet, ClusterInfo
from moorage_schemas.resources.policies import ClusterAffinity, ClusterPlacement
from moorage_schemas.taint import Toleration

_NO_TARGETS: Final[Mapping[str, int]] = {}


@dataclass(frozen=True, slots=True)
class ClusterRequest:
    """The resource that looks for clusters."""

    placement: ClusterPlacement
    key: str
    """Of the placement: requests with the same one ask for the same."""

    api_version: str
    kind: str
    uid: str = ""
    replicas: int = 0
    """0 of what has none: it goes whole to each cluster."""

    requests: tuple[tuple[str, int], ...] = ()
    """What one replica takes, by resource: cpu in millicores, everything else in its own unit."""

    existing: Mapping[str, int] = field(default_factory=lambda: _NO_TARGETS)
    """The clusters that it is on and may stay on, each with its replicas."""

    leaving: frozenset[str] = frozenset()
    """The clusters that it is about to leave: it does not go there."""

    full: frozenset[str] = frozenset()
    """The clusters that it stays on, and that get no more of it."""

    affinity_name: str = ""
    """The group of clusters that it is in now, where the policy has several."""

    affinity: ClusterAffinity | None = None
    """The group of clusters that is tried; None means all. The scheduler sets it."""

    now: datetime | None = None
    """The instant of the decision; without it no tolerated time counts as over."""

    @property
    def tolerations(self) -> tuple[Toleration, ...]:
        """Of the placement."""
        return tuple(self.placement.cluster_tolerations or ())


class ClusterFilter(Filter[ClusterRequest, ClusterFleet]):
    """Keeps a resource from clusters."""

    package: ClassVar[str] = "moorage.core.scheduling.karmada.filters"

    @property
    def static(self) -> bool:
        """Whether the answer rests only on the placement, the resource's kind, whether it is there, and the cluster.

        What a cluster has left is USAGE. Static filters run before the others. Their answers for clusters on which the
        resource is not are remembered until a cluster changes; they are asked with a request that says nothing else.
        """
        return self.rests_on is Basis.NOTHING_ELSE

    @abstractmethod
    def objection(self, request: ClusterRequest, cluster: ClusterInfo) -> str:
        """Why the resource may not be on the cluster, in upstream's words; empty when it may."""


class ClusterPrioritizer(Prioritizer[ClusterRequest, ClusterFleet]):
    """Scores clusters that passed every filter."""

    package: ClassVar[str] = "moorage.core.scheduling.karmada.prioritizers"

    weight: ClassVar[int] = 1

    @abstractmethod
    def score(self, request: ClusterRequest, cluster: ClusterInfo) -> int:
        """How much the cluster is liked, from `lowest` to `highest`."""

    def flaws(self) -> Iterable[str]:
        """See `Plugin`."""
        yield from super().flaws()
        if self.relative:
            yield "its scores are relative, but clusters are scored one by one"
