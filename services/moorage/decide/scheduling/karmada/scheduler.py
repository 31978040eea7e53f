"""Filter, score, spread and divide over clusters, and keep all reasons."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from moorage.decide.scheduling.framework.target_verdicts import Objection
from moorage.decide.scheduling.karmada.fleet import ClusterFleet, ClusterInfo
from moorage.decide.scheduling.karmada.plugin import ClusterFilter, ClusterPrioritizer, ClusterRequest
from moorage.decide.scheduling.karmada.replica_division import Candidate, NotEnoughError, divide, division_of, room_for
from moorage.decide.scheduling.karmada.spread_constraints import UNIT, SpreadError, choose, preference
from moorage_schemas.placement import FilterResult, TargetScore
from moorage_schemas.resources.policies import ClusterAffinity

SHOWN: Final = 10
"""The maximum number of names and of scores that a decision keeps."""

_REMEMBERED: Final = 256

_Objections = Mapping[str, Objection]
"""The first objection by cluster. Clusters that passed are missing."""


@dataclass(frozen=True, slots=True)
class ClusterDecision:
    """The clusters for a resource, with the reasons."""

    targets: Mapping[str, int] | None
    """The number of replicas by cluster. None if the resource cannot be placed completely."""

    fits: bool
    """Whether at least one cluster passed the filters."""

    considered: int
    """The number of clusters that were considered."""

    filters: tuple[FilterResult, ...] = ()
    scores: tuple[TargetScore, ...] = ()
    message: str = ""
    """Why the resource cannot be placed completely. Empty if it can."""

    affinity_name: str = ""
    """The chosen group of clusters, if the placement has several."""


class ClusterScheduler:
    """Decides for one resource after another on a fleet, and caches the results that stay valid between them."""

    def __init__(
        self,
        fleet: ClusterFleet,
        filters: Sequence[ClusterFilter] | None = None,
        prioritizers: Sequence[ClusterPrioritizer] | None = None,
    ) -> None:
        self.fleet = fleet
        chosen = ClusterFilter.discovered() if filters is None else tuple(filters)
        self._static = tuple(one for one in chosen if one.static)
        self._dynamic = tuple(one for one in chosen if not one.static)
        rated = ClusterPrioritizer.discovered() if prioritizers is None else tuple(prioritizers)
        self.prioritizers = tuple(one for one in rated if one.weight)
        if sum(abs(one.weight) * one.reach for one in self.prioritizers) >= UNIT:
            raise ValueError(f"the scores of all prioritizers of clusters together can reach {UNIT}")
        self._objections: dict[tuple[str, str, str, str], _Objections] = {}
        self._version = -1

    @property
    def filters(self) -> tuple[ClusterFilter, ...]:
        """Every filter, in the order in which they run."""
        return self._static + self._dynamic

    def decide(self, request: ClusterRequest) -> ClusterDecision:
        """Return the clusters for a resource.

        If there are several groups of clusters, the present group of the resource is tried first, then the groups after
        it, then those before it. The first group that takes the whole resource is chosen. (Upstream never returns to an
        earlier group.)
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
        passed, results = self._filter(replace(request, affinity=affinity), name)
        decision = ClusterDecision(None, bool(passed), len(fleet), results, affinity_name=name)
        if not passed:
            return replace(decision, message=unavailable(len(fleet), results))
        candidates = sorted((self.candidate(request, one) for one in passed), key=preference)
        decision = replace(decision, scores=self._scores(request, candidates))
        try:
            targets = self.divide(request, self.choose(request, candidates))
        except (SpreadError, NotEnoughError) as error:
            return replace(
                decision, message=f"{unavailable(len(fleet), results)} {error}".lstrip() if results else str(error)
            )
        return replace(decision, targets=targets)

    def _filter(self, request: ClusterRequest, name: str) -> tuple[list[ClusterInfo], tuple[FilterResult, ...]]:
        remembered, existing = self._remembered(request, name), request.existing
        passed: list[ClusterInfo] = []
        against: dict[Objection, list[str]] = {}
        for who, cluster in self.fleet.all().items():
            # Cached results are valid only for clusters without the resource.
            found = _first(self._static, request, cluster) if who in existing else remembered.get(who)
            found = found or _first(self._dynamic, request, cluster)
            if found is None:
                passed.append(cluster)
            else:
                against.setdefault(found, []).append(who)
        results = tuple(
            FilterResult(filter=one.filter, reason=one.reason, count=len(names), targets=tuple(sorted(names)[:SHOWN]))
            for one, names in sorted(against.items())
        )
        return passed, results

    def _remembered(self, request: ClusterRequest, name: str) -> _Objections:
        """Return the results of the static filters for each cluster, for a resource that is not placed anywhere yet."""
        if self._version != self.fleet.version or len(self._objections) >= _REMEMBERED:
            self._objections.clear()
            self._version = self.fleet.version
        key = (request.key, name, request.api_version, request.kind)
        known = self._objections.get(key)
        if known is None:
            nowhere = ClusterRequest(
                request.placement, request.key, request.api_version, request.kind, affinity=request.affinity
            )
            objections = {who: _first(self._static, nowhere, one) for who, one in self.fleet.all().items()}
            known = self._objections[key] = {who: found for who, found in objections.items() if found is not None}
        return known

    def candidate(self, request: ClusterRequest, cluster: ClusterInfo) -> Candidate:
        """Return a cluster that passed, with its score and its room."""
        score = sum(one.weight * one.score(request, cluster) for one in self.prioritizers)
        room = self.room(request, cluster)
        return Candidate(cluster, score, room, room + request.existing.get(cluster.name, 0))

    def room(self, request: ClusterRequest, cluster: ClusterInfo) -> int:
        """Return the number of replicas for which a cluster has room. A resource without replicas needs none."""
        if not request.replicas or cluster.name in request.full:
            return 0
        return room_for(cluster, request.requests, request.replicas)

    def choose(self, request: ClusterRequest, candidates: Sequence[Candidate]) -> Sequence[Candidate]:
        """Return the candidates that get a part of the resource. Raises SpreadError if it cannot be spread."""
        return choose(request.placement, candidates, request.replicas)

    def divide(self, request: ClusterRequest, chosen: Sequence[Candidate]) -> Mapping[str, int]:
        """Return the replicas of each chosen cluster that gets some. Raises NotEnoughError if there is no room."""
        if not request.replicas:
            return dict.fromkeys(sorted(one.name for one in chosen), 0)
        return divide(request.placement, chosen, request.replicas, request.existing, request.uid)

    def _scores(self, request: ClusterRequest, candidates: Sequence[Candidate]) -> tuple[TargetScore, ...]:
        return tuple(
            TargetScore(
                target=one.name,
                total=one.score,
                scores={by.name: by.weight * by.score(request, one.cluster) for by in self.prioritizers},
            )
            for one in candidates[:SHOWN]
        )


def _first(filters: Sequence[ClusterFilter], request: ClusterRequest, cluster: ClusterInfo) -> Objection | None:
    """Return the first objection against a cluster. None if all filters let it pass."""
    for one in filters:
        reason = one.objection(request, cluster)
        if reason:
            return Objection(one.name, reason)
    return None


def groups_of(request: ClusterRequest) -> Iterator[tuple[str, ClusterAffinity | None]]:
    """Return the groups of clusters of a placement with their names, in the order in which they are tried."""
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
    """Return why clusters do not take the resource, in upstream's words and order."""
    if not considered:
        return "0/0 clusters are available: no cluster exists."
    ruled_out = sum(result.count for result in results)
    reasons = ", ".join(sorted(f"{result.count} {result.reason}" for result in results))
    return f"{considered - ruled_out}/{considered} clusters are available: {reasons}."


def is_steady(request: ClusterRequest) -> bool:
    """Return whether a complete assignment stays unchanged when only the fleet changes."""
    return request.replicas > 0 and division_of(request.placement).steady
