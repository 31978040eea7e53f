"""Filter, score and select managed clusters for placements.

Results that depend only on the clusters (filters, and scores of resources and add-ons) are shared by all placements
with equal terms. For a single placement, only the scores that depend on decisions and the selection of the best remain.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar, Final

import numpy as np
from typing_extensions import override

from moorage.decide.scheduling.ocm.cluster_sets import ManagedSet
from moorage.decide.scheduling.ocm.columns.column import Aspect, Column, ColumnSource, Mask, Rows, Scores, Values
from moorage.decide.scheduling.ocm.columns.managed_fleet import ManagedFleet
from moorage.decide.scheduling.ocm.columns.taint_table import FOREVER, NEVER, instant, microseconds
from moorage.decide.scheduling.ocm.columns.usage import Usage
from moorage.decide.scheduling.ocm.decisions.best_clusters import NO_ROWS, BestClusters
from moorage.decide.scheduling.ocm.decisions.result import Filtered, Scheduled, Score, Shared
from moorage.decide.scheduling.ocm.plugin import (
    SUCCESS,
    Chosen,
    CountedScores,
    MisconfiguredError,
    PlacementRequest,
    Plugins,
    Scored,
    Status,
)
from moorage.decide.scheduling.ocm.terms import PlacementTerms


@dataclass(frozen=True, slots=True)
class SetColumn(Column):
    """Whether a cluster is in a set."""

    of: ManagedSet

    aspects: ClassVar[Aspect] = Aspect.LABELS | Aspect.LIFE

    @override
    def empty(self, capacity: int) -> Values:
        return np.zeros(capacity, dtype=np.bool_)

    @override
    def answer(self, fleet: ColumnSource, row: int) -> bool:
        return self.of.has(fleet.at(row).labels)


def members(fleet: ManagedFleet, sets: frozenset[ManagedSet]) -> Mask:
    """Return the clusters of these sets that a placement may choose."""
    found = np.zeros(fleet.capacity, dtype=np.bool_)
    for one in sets:
        found |= fleet.column(SetColumn(one))
    return found & fleet.available


Candidates = frozenset[ManagedSet] | Mask | None
"""The clusters that a placement may choose from: those in sets, those in a mask, or all."""

_ROWS: Final = 4_000_000
"""The maximum size of the cache of shared results in rows, each about 60 bytes, or up to 76 with a shortlist."""


class PlacementScheduler:
    """Schedules one placement after another on a fleet.

    Args:
        fleet: the clusters. The columns that every placement needs are kept from now on.
        plugins: replaces the discovered plugins.
    """

    def __init__(self, fleet: ManagedFleet, *, plugins: Plugins | None = None) -> None:
        self._fleet = fleet
        self._plugins = plugins or Plugins.discovered()
        self._shared: dict[Hashable, Shared] = {}
        self._remembered = 0
        fleet.hold(column for one in self._plugins.prioritizers for column in one.standing())

    def schedule(
        self,
        terms: PlacementTerms,
        *,
        candidates: Candidates = None,
        decided: Collection[str] = (),
        usage: Usage,
        usage_has_decided: bool = True,
        now: datetime,
    ) -> Scheduled:
        """Select the clusters for a placement.

        Args:
            terms: the terms of the placement.
            candidates: the clusters that it may choose from: those in sets, those in a mask, or all. Clusters that are
                being deleted are left out of sets. A mask is used unchanged.
            decided: the clusters that it has now.
            usage: the number of decisions by cluster, over all placements.
            usage_has_decided: whether `usage` includes `decided`, once each.
            now: the time of the decision.

        Raises:
            ValueError: `now` has no time zone, or the number of clusters is negative, which only upstream would allow.
        """
        rows = self._fleet.rows_of(decided) if decided else NO_ROWS
        request = PlacementRequest(terms, rows, usage, usage_has_decided, now, microseconds(now))
        shared = self._share(request, candidates)
        if shared.status.is_error:
            return Scheduled(shared, request, self._fleet, self._plugins, status=shared.status)
        number, status = terms.number, shared.status
        scored: list[Scored] = []
        counted: CountedScores | None = None
        if shared.counting is not None and number is not None and shared.best.takes_counted(number):
            counted = shared.counting.counted(request)
        if counted is None or number is None:
            total, status = self._add_scores(request, shared, scored)
            best = shared.best.by_scores(total, number)
        else:
            best = shared.best.by_counted(counted, number)
        names = self._fleet.names_at(best)
        return Scheduled(
            shared,
            request,
            self._fleet,
            self._plugins,
            status=status,
            scored=scored,
            counted=counted,
            decisions=names,
            unscheduled=0 if number is None else number - len(names),
            requeue_at=self._requeue_at(request, shared, best),
        )

    def _add_scores(
        self, request: PlacementRequest, shared: Shared, scored: list[Scored]
    ) -> tuple[Scores | None, Status]:
        """Add the scores of each prioritizer to `scored`.

        Returns the weighted sum of those that are not static, or None if all are; and the first warning.
        """
        status = shared.status
        total: Scores | None = None
        for one in shared.scores:
            if one.scored is not None:
                scored.append(one.scored)
                continue
            part = one.plugin.score(request, self._fleet, shared.rows)
            weighted = part.values if one.weight == 1 else part.values * one.weight
            total = weighted if total is None else total + weighted
            scored.append(part)
            if part.status is not SUCCESS and status == SUCCESS:
                status = part.status
        return total, status

    def columns(self, terms: PlacementTerms, sets: frozenset[ManagedSet] = frozenset()) -> frozenset[Column]:
        """Return the columns on which decisions for the terms depend. Other changes of the clusters change no decision.

        Decisions of other placements are not included.
        """
        found: set[Column] = {SetColumn(one) for one in sets}
        for rule in self._plugins.filters:
            found.update(rule.columns(terms))
        for one in self._plugins.chosen(terms):
            found.update(one.prioritizer.columns(terms))
        return frozenset(found)

    def requeue_at(self, terms: PlacementTerms, decided: Collection[str], now: datetime) -> datetime | None:
        """Return when a tolerated time of a selected cluster ends. None means never."""
        usage = Usage(self._fleet)
        request = PlacementRequest(
            terms, self._fleet.rows_of(decided), usage, usage_has_decided=False, now=now, now_us=microseconds(now)
        )
        found = self._plugins.requeue_at(request, self._fleet, request.decided)
        return None if found is None else instant(found)

    def _requeue_at(self, request: PlacementRequest, shared: Shared, best: Rows) -> datetime | None:
        """Return when time alone may change the decision: the result of a filter for a selected cluster, or a score.

        With upstream's behaviour, only the clusters that were selected before count, and scores do not.
        """
        # If every cluster that fits is selected, scores have no influence.
        found = None if request.terms.as_upstream or not request.terms.number else shared.requeue_at
        if shared.timed:
            rows = request.decided if request.terms.as_upstream else best
            for one in shared.timed:
                end = one.requeue_at(request, self._fleet, rows)
                found = end if found is None else found if end is None else min(found, end)
        return None if found is None else instant(found)

    def _share(self, request: PlacementRequest, candidates: Candidates) -> Shared:
        key = None if isinstance(candidates, np.ndarray) else (request.terms.key, candidates)
        known = self._shared.get(key) if key is not None else None
        if (
            known is None
            or known.version != self._fleet.version
            or not known.since <= request.now_us < known.until
            or known.candidates.size != self._fleet.capacity
        ):
            known = self._make(request._replace(decided=NO_ROWS) if request.decided.size else request, candidates)
            if key is not None:
                self._remember(key, known)
        differs = known.differs_if_decided
        if differs is not None and request.decided.size and differs[request.decided].any():
            return self._make(request, candidates)
        return known

    def _remember(self, key: Hashable, made: Shared) -> None:
        before = self._shared.pop(key, None)
        self._remembered += made.size - (before.size if before else 0)
        self._shared[key] = made
        while self._remembered > _ROWS and len(self._shared) > 1:
            self._remembered -= self._shared.pop(next(iter(self._shared))).size

    def _make(self, request: PlacementRequest, candidates: Candidates) -> Shared:
        shown = _candidates(self._fleet, candidates)
        shared = Shared(self._fleet.version, NEVER, FOREVER, shown, (), SUCCESS)
        try:
            rows = self._filter(shared, request, shown)
            chosen = self._chosen(request.terms)
        except MisconfiguredError as error:
            shared.status = error.status
            return shared
        self._score(shared, request, rows, chosen)
        return shared

    def _filter(self, shared: Shared, request: PlacementRequest, shown: Mask) -> Rows:
        """Return the rows of the clusters that pass every filter. The results of the filters are added to `shared`."""
        fleet, terms = self._fleet, request.terms
        filters = self._plugins.filters
        shared.timed = tuple(one for one in filters if one.timed(terms))
        rows = shown.nonzero()[0]
        filtered: list[Filtered] = []
        for one in filters:
            if rows.size:
                one.check(terms)
            if rows.size and not one.idle(terms, fleet):
                shown = one.passed(request, fleet, shown)
                rows = shown.nonzero()[0]
                _add_differing(shared, one.differs_if_decided(terms, fleet))
                _narrow(shared, *one.validity(request, fleet))
            filtered.append(Filtered(one.name, shown, one.summary))
            shared.filtered = tuple(filtered)
        return rows

    def _score(self, shared: Shared, request: PlacementRequest, rows: Rows, chosen: Sequence[Chosen]) -> None:
        """Add the scores of the clusters that passed to `shared`, as far as they can be shared."""
        fleet = self._fleet
        shared.rows = rows
        shared.ranks = fleet.ranks(rows)
        total: Scores | None = None
        scores = []
        others: list[Chosen] = []
        for one in chosen:
            scored = one.prioritizer.score(request, fleet, rows) if one.prioritizer.static else None
            scores.append(Score(one.prioritizer, one.weight, scored))
            if scored is None:
                others.append(one)
                continue
            weighted = scored.values if one.weight == 1 else scored.values * one.weight
            total = weighted if total is None else total + weighted
            _narrow(shared, scored.since, scored.until)
            if scored.until is not None:
                known = shared.requeue_at
                shared.requeue_at = scored.until if known is None else min(known, scored.until)
            if shared.status == SUCCESS:
                # The first warning is reported. Upstream reports any one of them.
                shared.status = scored.status
        shared.scores = tuple(scores)
        if total is None:
            total = np.zeros(rows.size, dtype=np.int64)
        reach = sum(abs(one.weight) * one.prioritizer.reach for one in others)
        weight = 0
        if len(others) == 1 and others[0].weight > 0:
            shared.counting, weight = others[0].prioritizer, others[0].weight
        shared.best = BestClusters(rows, shared.ranks, total, names=len(fleet), reach=reach, weight=weight)

    def _chosen(self, terms: PlacementTerms) -> list[Chosen]:
        """Return the prioritizers of a placement."""
        if terms.policy_error:
            raise MisconfiguredError("", terms.policy_error)
        chosen = []
        for coordinate, weight in terms.weights:
            found = self._plugins.find(coordinate, as_upstream=terms.as_upstream)
            if found is None:
                raise MisconfiguredError("", f"incorrect builtin prioritizer: {coordinate.built_in}")
            chosen.append(Chosen(found, weight))
        return chosen


def _candidates(fleet: ManagedFleet, candidates: Candidates) -> Mask:
    if candidates is None:
        return fleet.available
    if isinstance(candidates, frozenset):
        return members(fleet, candidates)
    if candidates.size != fleet.capacity:
        raise ValueError(f"the mask of candidates has {candidates.size} rows, but the fleet has {fleet.capacity}")
    return candidates


def _narrow(shared: Shared, since: int | None, until: int | None) -> None:
    if since is not None:
        shared.since = max(shared.since, since)
    if until is not None:
        shared.until = min(shared.until, until)


def _add_differing(shared: Shared, differs: Mask | None) -> None:
    if differs is not None:
        known = shared.differs_if_decided
        shared.differs_if_decided = differs if known is None else known | differs
