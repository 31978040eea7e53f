"""The results of all filters and prioritizers on all clusters for one resource."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace

from typing_extensions import override

from moorage.decide.scheduling.framework.target_verdicts import (
    FilterVerdict,
    PartScore,
    Reason,
    TargetVerdict,
    Verdicts,
)
from moorage.decide.scheduling.karmada.plugin import ClusterRequest
from moorage.decide.scheduling.karmada.replica_division import Candidate
from moorage.decide.scheduling.karmada.scheduler import ClusterDecision, ClusterScheduler, groups_of
from moorage.decide.scheduling.karmada.spread_constraints import SpreadError, choose, preference


@dataclass(frozen=True, slots=True)
class Share:
    """The part of a resource that a cluster gets if it passes every filter."""

    replicas: int | None
    """None if the cluster gets nothing. 0 for a resource without replicas that is placed there as a whole."""

    room: int
    """The number of replicas for which it has room, in addition to those that it has."""

    chosen: bool
    """Whether the spread constraints select it."""


class ClusterVerdicts(Verdicts):
    """The results for each cluster of the present fleet, for one resource.

    If there are several groups of clusters, the results are for the group that the decision is about: the first that
    takes the whole resource or, if there is none, the first.

    Args:
        decision: the decision on the request. If absent, it is made here.
    """

    def __init__(
        self, scheduler: ClusterScheduler, request: ClusterRequest, decision: ClusterDecision | None = None
    ) -> None:
        self.decision = scheduler.decide(request) if decision is None else decision
        tried = next((group for name, group in groups_of(request) if name == self.decision.affinity_name), None)
        self._scheduler, self._request = scheduler, replace(request, affinity=tried)
        fleet = scheduler.fleet
        self._filters = {name: self._judge(name) for name in sorted(fleet.all())}
        self.considered = len(fleet)
        counts: Counter[tuple[str, str]] = Counter()
        passed: list[Candidate] = []
        for name, filters in self._filters.items():
            against = next((one for one in filters if not one.passed), None)
            if against is None:
                passed.append(scheduler.candidate(request, fleet[name]))
            else:
                counts[against.filter, against.reasons[0]] += 1
        self.reasons = tuple(Reason(by, why, count) for (by, why), count in sorted(counts.items()))
        self._candidates = {one.name: one for one in sorted(passed, key=preference)}
        self._place = {name: rank for rank, name in enumerate(self._candidates, start=1)}
        self.ranked = tuple(self._candidates)
        self._chosen: frozenset[str] = frozenset()
        if passed:
            try:
                taken = choose(request.placement, list(self._candidates.values()), request.replicas)
                self._chosen = frozenset(one.name for one in taken)
            except SpreadError:
                pass  # the message of the decision contains the error

    def __contains__(self, name: object) -> bool:
        """Return whether there is such a cluster."""
        return name in self._filters

    @override
    def targets(self) -> Iterable[str]:
        return self._filters

    @override
    def verdict(self, name: str) -> TargetVerdict:
        filters = self._filters[name]
        if name not in self._candidates:
            return TargetVerdict(name, filters)
        request, fleet = self._request, self._scheduler.fleet
        scores = tuple(
            PartScore(one.name, one.score(request, fleet[name]), one.weight, tuple(one.details(request, fleet, name)))
            for one in self._scheduler.prioritizers
        )
        return TargetVerdict(name, filters, scores, self._place[name])

    def share(self, name: str) -> Share | None:
        """Return the share of a cluster. None if it does not pass. Raises KeyError if there is no such cluster."""
        if not all(one.passed for one in self._filters[name]):
            return None
        targets = self.decision.targets or {}
        return Share(targets.get(name), self._candidates[name].allocatable, name in self._chosen)

    def _judge(self, name: str) -> tuple[FilterVerdict, ...]:
        request, fleet = self._request, self._scheduler.fleet
        found = []
        for one in self._scheduler.filters:
            objection = one.objection(request, fleet[name])
            details = tuple(one.details(request, fleet, name))
            found.append(FilterVerdict(one.name, (objection,) if objection else (), details))
        return tuple(found)
