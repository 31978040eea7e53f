"""What a filter and a prioritizer of clusters are, and how they are found."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from typing import ClassVar, Final

from moorage.core.scheduling.framework.plugins import plugins_in
from moorage.core.scheduling.karmada.fleet import ClusterInfo
from moorage_schemas.resources.policies import ClusterAffinity, Placement
from moorage_schemas.taint import Toleration

_NO_TARGETS: Final[Mapping[str, int]] = {}


@dataclass(frozen=True, slots=True)
class ClusterRequest:
    """The resource that looks for clusters."""

    placement: Placement
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

    now: datetime | None = None
    """The instant of the decision; without it no tolerated time counts as over."""

    @property
    def tolerations(self) -> tuple[Toleration, ...]:
        """Of the placement."""
        return tuple(self.placement.cluster_tolerations or ())


class ClusterFilter(ABC):
    """Keeps a resource from a cluster. Its module ends with `PLUGIN = TheFilter()`."""

    name: ClassVar[str]
    order: ClassVar[int]
    """Filters run from low to high; a cluster that one ruled out is not shown to the next."""

    static: ClassVar[bool] = True
    """Whether the answer for a cluster on which the resource is not yet rests on the placement, the kind of the
    resource and the cluster alone; such answers are remembered."""

    @abstractmethod
    def objection(self, request: ClusterRequest, affinity: ClusterAffinity | None, cluster: ClusterInfo) -> str:
        """Why the resource may not be on the cluster, in upstream's words; empty when it may.

        Args:
            request: the resource. A static filter may look at `existing`, but at nothing else that changes.
            affinity: the one that counts now, where there are several.
            cluster: the cluster.
        """

    def details(
        self,
        request: ClusterRequest,  # noqa: ARG002 - for filters that have something to tell
        affinity: ClusterAffinity | None,  # noqa: ARG002 - likewise
        cluster: ClusterInfo,  # noqa: ARG002 - likewise
    ) -> Iterable[str]:
        """What it sees of the cluster, one fact each, whether it keeps the resource away or not."""
        return ()


class ClusterPrioritizer(ABC):
    """Scores a cluster that passed every filter, 0 to 100. Its module ends with `PLUGIN = ThePrioritizer()`."""

    name: ClassVar[str]

    @abstractmethod
    def score(self, request: ClusterRequest, cluster: ClusterInfo) -> int:
        """How much the cluster is liked."""


@cache
def discovered_cluster_filters() -> tuple[ClusterFilter, ...]:
    """Every filter, in the order in which they run."""
    found = plugins_in("moorage.core.scheduling.karmada.filters", ClusterFilter)  # type: ignore[type-abstract]  # the kind, not made
    return tuple(sorted(found, key=lambda one: (one.order, one.name)))


@cache
def discovered_cluster_prioritizers() -> tuple[ClusterPrioritizer, ...]:
    """Every prioritizer, by name."""
    found = plugins_in("moorage.core.scheduling.karmada.prioritizers", ClusterPrioritizer)  # type: ignore[type-abstract]  # as above
    return tuple(sorted(found, key=lambda one: one.name))
