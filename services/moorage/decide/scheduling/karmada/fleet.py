"""The clusters of a fleet, as placement sees them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Any, Final, Self

from moorage.decide.kubernetes.quantities import CPU, MEMORY, PODS, QuantityError, whole
from moorage.decide.scheduling.karmada.resource_grades import Grades, grades_of
from moorage.decide.taints.desired.cluster_affinity import ClusterFacts
from moorage_schemas.resources.cluster import Amounts, Cluster, ClusterStatus
from moorage_schemas.taint import Taint

TAKEN_AS_ENOUGH: Final = (CPU, MEMORY, PODS)
"""Resources of which a cluster is assumed to have enough if it does not state them, as with nodes."""


@dataclass(frozen=True, slots=True)
class ClusterInfo:
    """One cluster."""

    facts: ClusterFacts
    taints: tuple[Taint, ...] = ()
    kinds: frozenset[tuple[str, str]] | None = None
    """(apiVersion, kind) of the kinds that the cluster serves. None if it states none; then every kind counts as
    served."""

    free: Mapping[str, int] | None = None
    """The free resources in whole units. None if the cluster states none; then there is enough."""

    grades: Grades = ()
    """Its nodes by grades of free resources. Empty if it does not count them."""

    deleted: bool = False
    """Whether it is being deleted. It gets no new work, and loses the work that it has."""

    @property
    def name(self) -> str:
        """The cluster's name."""
        return self.facts.name

    @classmethod
    def of(cls, document: Mapping[str, Any], taints: tuple[Taint, ...] = ()) -> Self:
        """Return the facts that placement uses from a `Cluster` object, and its taints."""
        cluster = Cluster.model_validate(document)
        return cls(
            facts=ClusterFacts.of(document),
            taints=taints,
            kinds=_kinds(cluster.status),
            free=_free(cluster.status),
            grades=grades_of(cluster),
            deleted=cluster.metadata.deletion_timestamp is not None,
        )


class FleetChange(IntEnum):
    """The effect of a change of the fleet on waiting resources. A higher value includes the lower ones."""

    NOTHING = 0
    WORSE = 1
    """No resource fits better than before."""

    ROOM = 2
    """A cluster has more room."""

    OPENED = 3
    """A cluster is new, has changed, or has lost a taint."""


class ClusterFleet:
    """The present clusters, by name."""

    def __init__(self) -> None:
        self._clusters: dict[str, ClusterInfo] = {}
        self.version = 0
        """Increases with every change except changes of free resources."""

    def __contains__(self, name: str) -> bool:
        return name in self._clusters

    def __len__(self) -> int:
        return len(self._clusters)

    def __getitem__(self, name: str) -> ClusterInfo:
        return self._clusters[name]

    def all(self) -> Mapping[str, ClusterInfo]:
        """Return every cluster, in no particular order."""
        return self._clusters

    def put(self, cluster: ClusterInfo) -> FleetChange:
        """Add or replace a cluster."""
        before = self._clusters.get(cluster.name)
        if before == cluster:
            return FleetChange.NOTHING
        self._clusters[cluster.name] = cluster
        if before is None:
            self.version += 1
            return FleetChange.OPENED
        roomier = _roomier(before.free, cluster.free) or before.grades != cluster.grades
        if replace(before, free=None, grades=()) == replace(cluster, free=None, grades=()):
            return FleetChange.ROOM if roomier else FleetChange.WORSE
        self.version += 1
        same = _without_room(before) == _without_room(cluster)
        # A taint that was added again, with another value or another time, is a different taint.
        opened = not same or not set(before.taints) <= set(cluster.taints)
        return FleetChange.OPENED if opened else FleetChange.ROOM if roomier else FleetChange.WORSE

    def remove(self, name: str) -> bool:
        """Remove a cluster. Returns False if there was none."""
        if self._clusters.pop(name, None) is None:
            return False
        self.version += 1
        return True


def _without_room(cluster: ClusterInfo) -> ClusterInfo:
    return replace(cluster, taints=(), free=None, grades=())


def _roomier(before: Mapping[str, int] | None, after: Mapping[str, int] | None) -> bool:
    if after is None or before is None:
        return after is None and before is not None
    return any(amount > before.get(name, 0) for name, amount in after.items()) or any(
        name not in after for name in before if name in TAKEN_AS_ENOUGH
    )


def _kinds(status: ClusterStatus) -> frozenset[tuple[str, str]] | None:
    if status.api_enablements is None:
        return None
    return frozenset((one.group_version, part.kind) for one in status.api_enablements for part in one.resources or ())


def _free(status: ClusterStatus) -> Mapping[str, int] | None:
    """Return the allocatable resources minus the allocated ones and those being allocated, never below zero."""
    summary = status.resource_summary
    if summary is None:
        return None
    taken = [_amounts(summary.allocated), _amounts(summary.allocating)]
    return {
        name: max(0, amount - sum(one.get(name, 0) for one in taken))
        for name, amount in _amounts(summary.allocatable).items()
    }


def _amounts(amounts: Amounts | None) -> dict[str, int]:
    """Return the amounts in whole units. The gateway refuses invalid quantities; an invalid one counts as zero."""
    found = {}
    for name, value in (amounts or {}).items():
        try:
            found[name] = whole(name, value, f"status.resourceSummary[{name}]")
        except (QuantityError, TypeError):
            found[name] = 0
    return found
