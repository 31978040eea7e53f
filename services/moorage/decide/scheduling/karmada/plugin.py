"""The base classes of filters and prioritizers of clusters."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import ClassVar, Final

from typing_extensions import override

from moorage.decide.scheduling.framework.plugins import Basis, Filter, Prioritizer
from moorage.decide.scheduling.karmada.fleet import ClusterFleet, ClusterInfo
from moorage_schemas.resources.policies import ClusterAffinity, ClusterPlacement
from moorage_schemas.taint import Toleration

_NO_TARGETS: Final[Mapping[str, int]] = {}


@dataclass(frozen=True, slots=True)
class ClusterRequest:
    """The resource to be placed."""

    placement: ClusterPlacement
    key: str
    """The key of the placement. Requests with the same key have the same placement."""

    api_version: str
    kind: str
    uid: str = ""
    replicas: int = 0
    """The number of replicas. 0 for a resource without replicas, which each cluster gets as a whole."""

    requests: tuple[tuple[str, int], ...] = ()
    """The requests of one replica, by resource: cpu in millicores, all others in their own unit."""

    existing: Mapping[str, int] = field(default_factory=lambda: _NO_TARGETS)
    """The replicas on each cluster that the resource is on and may stay on."""

    leaving: frozenset[str] = frozenset()
    """The clusters that the resource is leaving. It cannot be placed there."""

    full: frozenset[str] = frozenset()
    """The clusters that the resource stays on, but that get no more replicas."""

    affinity_name: str = ""
    """The group of clusters that the resource is in now, if the policy has several."""

    affinity: ClusterAffinity | None = None
    """The group of clusters to try. None means all clusters. The scheduler sets this field."""

    now: datetime | None = None
    """The instant of the decision. If None, no tolerated time counts as ended."""

    @property
    def tolerations(self) -> tuple[Toleration, ...]:
        """The tolerations of the placement."""
        return tuple(self.placement.cluster_tolerations or ())


class ClusterFilter(Filter[ClusterRequest, ClusterFleet]):
    """Rules clusters out for a resource."""

    package: ClassVar[str] = "moorage.decide.scheduling.karmada.filters"

    @property
    def static(self) -> bool:
        """Whether the answer depends only on the placement, the resource's kind, its presence, and the cluster.

        The resources that a cluster has left are `USAGE`. Static filters run before the others. Their answers for
        clusters without the resource are cached until a cluster changes. For the cache they get a request in which all
        other fields have their defaults.
        """
        return self.rests_on is Basis.NOTHING_ELSE

    @abstractmethod
    def objection(self, request: ClusterRequest, cluster: ClusterInfo) -> str:
        """Return why the resource may not be on the cluster, in upstream's words. Empty if it may."""


class ClusterPrioritizer(Prioritizer[ClusterRequest, ClusterFleet]):
    """Scores clusters that passed every filter."""

    package: ClassVar[str] = "moorage.decide.scheduling.karmada.prioritizers"

    weight: ClassVar[int] = 1

    @abstractmethod
    def score(self, request: ClusterRequest, cluster: ClusterInfo) -> int:
        """Return the score of the cluster, from `lowest` to `highest`."""

    @override
    def flaws(self) -> Iterable[str]:
        yield from super().flaws()
        if self.relative:
            yield "its scores are relative, but clusters are scored one by one"
