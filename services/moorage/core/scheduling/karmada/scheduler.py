"""Filter → score → spread → divide, with every ground kept."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from moorage.core.scheduling.karmada.fleet import ClusterFleet, ClusterInfo
from moorage.core.scheduling.karmada.plugin import (
    ClusterFilter,
    ClusterPrioritizer,
    ClusterRequest,
    discovered_cluster_filters,
    discovered_cluster_prioritizers,
)
from moorage.core.scheduling.karmada.replica_division import Candidate, NotEnoughError, divide, division_of, room_for
from moorage.core.scheduling.karmada.spread_constraints import SpreadError, choose, preference
from moorage_schemas.placement import FilterResult, TargetScore
from moorage_schemas.resources.policies import ClusterAffinity

SHOWN: Final = 10
"""Names and scores that a decision keeps, at most."""

_REMEMBERED: Final = 256

_Verdicts = Mapping[str, tuple[str, str]]
"""Cluster → the filter that ruled it out, and why; a cluster that passed is not there."""


@dataclass(frozen=True, slots=True)
class ClusterDecision:
    """Where a resource goes, and why."""

    targets: Mapping[str, int] | None
    """Clusters, each with its replicas; None when the whole of it cannot be placed."""

    fits: bool
    """Whether some cluster passed the filters."""

    considered: int
    """Clusters that there were."""

    filters: tuple[FilterResult, ...] = ()
    scores: tuple[TargetScore, ...] = ()
    message: str = ""
    """Why the whole of it cannot be placed; empty when it can."""

    affinity_name: str = ""
    """The group of clusters that it is in, where the placement has several."""


class ClusterDecider:
    """Decides for one resource after another on a fleet; remembers what does not change between them."""

    def __init__(
        self,
        fleet: ClusterFleet,
        filters: Sequence[ClusterFilter] | None = None,
        prioritizers: Sequence[ClusterPrioritizer] | None = None,
    ) -> None:
        self.fleet = fleet
        chosen = discovered_cluster_filters() if filters is None else tuple(filters)
        self._static = tuple(one for one in chosen if one.static)
        self._dynamic = tuple(one for one in chosen if not one.static)
        self.prioritizers = discovered_cluster_prioritizers() if prioritizers is None else tuple(prioritizers)
        self._verdicts: dict[tuple[str, str, str, str], _Verdicts] = {}
        self._version = -1

    @property
    def filters(self) -> tuple[ClusterFilter, ...]:
        """Every filter, in the order in which they run."""
        return self._static + self._dynamic

    def decide(self, request: ClusterRequest) -> ClusterDecision:
        """The clusters for a resource.

        Of several groups of clusters the one that it is in counts first, then those after it, then those before it; the
        first that takes the whole is taken. (Upstream never goes back to an earlier group.)
        """
        first: ClusterDecision | None = None
        for name, affinity in groups_of(request):
            found = self._decide(request, name, affinity)
            if found.targets is not None:
                return found
            first = first or found
        if first is None:
            raise ValueError("a placement has at least one group of clusters")
        return first

    def _decide(self, request: ClusterRequest, name: str, affinity: ClusterAffinity | None) -> ClusterDecision:
        fleet = self.fleet
        passed, results = self._filter(request, name, affinity)
        decision = ClusterDecision(None, bool(passed), len(fleet), results, affinity_name=name)
        if not passed:
            return replace(decision, message=unavailable(len(fleet), results))
        candidates = sorted((self.candidate(request, one) for one in passed), key=preference)
        decision = replace(decision, scores=self._scores(request, candidates))
        try:
            chosen = choose(request.placement, candidates, request.replicas)
            if not request.replicas:
                return replace(decision, targets=dict.fromkeys(sorted(one.name for one in chosen), 0))
            targets = divide(request.placement, chosen, request.replicas, request.existing, request.uid)
        except (SpreadError, NotEnoughError) as error:
            return replace(
                decision, message=f"{unavailable(len(fleet), results)} {error}".lstrip() if results else str(error)
            )
        return replace(decision, targets=targets)

    def _filter(
        self, request: ClusterRequest, name: str, affinity: ClusterAffinity | None
    ) -> tuple[list[ClusterInfo], tuple[FilterResult, ...]]:
        verdicts = self._verdict(request, name, affinity)
        passed: list[ClusterInfo] = []
        against: dict[tuple[str, str], list[str]] = {}
        for cluster in self.fleet.all().values():
            # What is remembered holds for a cluster on which the resource is not.
            here = cluster.name in request.existing
            found = self._ask(self._static, request, affinity, cluster) if here else verdicts.get(cluster.name)
            found = found or self._ask(self._dynamic, request, affinity, cluster)
            if found is None:
                passed.append(cluster)
            else:
                against.setdefault(found, []).append(cluster.name)
        results = tuple(
            FilterResult(filter=by, reason=why, count=len(names), targets=tuple(sorted(names)[:SHOWN]))
            for (by, why), names in sorted(against.items())
        )
        return passed, results

    def _verdict(self, request: ClusterRequest, name: str, affinity: ClusterAffinity | None) -> _Verdicts:
        if self._version != self.fleet.version or len(self._verdicts) >= _REMEMBERED:
            self._verdicts.clear()
            self._version = self.fleet.version
        key = (request.key, name, request.api_version, request.kind)
        known = self._verdicts.get(key)
        if known is None:
            nowhere = replace(request, existing={}, leaving=frozenset(), now=None)
            asked = {
                cluster.name: self._ask(self._static, nowhere, affinity, cluster)
                for cluster in self.fleet.all().values()
            }
            known = self._verdicts[key] = {who: found for who, found in asked.items() if found is not None}
        return known

    @staticmethod
    def _ask(
        filters: Sequence[ClusterFilter],
        request: ClusterRequest,
        affinity: ClusterAffinity | None,
        cluster: ClusterInfo,
    ) -> tuple[str, str] | None:
        for one in filters:
            reason = one.objection(request, affinity, cluster)
            if reason:
                return one.name, reason
        return None

    def candidate(self, request: ClusterRequest, cluster: ClusterInfo) -> Candidate:
        """A cluster that passed, with its score and its room."""
        score = sum(one.score(request, cluster) for one in self.prioritizers)
        room = 0 if cluster.name in request.full else room_for(cluster, request.requests, request.replicas)
        return Candidate(cluster, score, room, room + request.existing.get(cluster.name, 0))

    def _scores(self, request: ClusterRequest, candidates: Sequence[Candidate]) -> tuple[TargetScore, ...]:
        return tuple(
            TargetScore(
                target=one.name,
                total=one.score,
                scores={plugin.name: plugin.score(request, one.cluster) for plugin in self.prioritizers},
            )
            for one in candidates[:SHOWN]
        )


def groups_of(request: ClusterRequest) -> Iterator[tuple[str, ClusterAffinity | None]]:
    """The groups of clusters that a placement names, in the order in which they are tried, each with its name."""
    placement = request.placement
    several = placement.cluster_affinities
    if placement.cluster_affinity is not None or not several:
        yield "", placement.cluster_affinity
        return
    names = [one.affinity_name for one in several]
    begin = names.index(request.affinity_name) if request.affinity_name in names else 0
    for one in (*several[begin:], *several[:begin]):
        yield one.affinity_name, one


def unavailable(considered: int, results: Sequence[FilterResult]) -> str:
    """Why clusters do not take the resource, in upstream's words and order."""
    if not considered:
        return "0/0 clusters are available: no cluster exists."
    ruled_out = sum(result.count for result in results)
    reasons = ", ".join(sorted(f"{result.count} {result.reason}" for result in results))
    return f"{considered - ruled_out}/{considered} clusters are available: {reasons}."


def is_steady(request: ClusterRequest) -> bool:
    """Whether an assignment that is whole stays as it is when only the fleet changes."""
    return request.replicas > 0 and division_of(request.placement).steady
