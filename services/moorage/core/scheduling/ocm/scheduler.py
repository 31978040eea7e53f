"""Filter → score → choose: which managed clusters a placement has.

What rests on the clusters alone (the filters, the scores of resources and add-ons) is shared by all placements that
ask the same; of one placement only the scores that rest on decisions and the choice of the best remain.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Final

import numpy as np

from moorage.core.scheduling.ocm.cluster_sets import ManagedSet
from moorage.core.scheduling.ocm.columns import Column, Mask, Rows, Scores
from moorage.core.scheduling.ocm.fleet import ManagedFleet
from moorage.core.scheduling.ocm.instants import FOREVER, NEVER, instant, microseconds
from moorage.core.scheduling.ocm.membership import SetColumn, members
from moorage.core.scheduling.ocm.plugin import (
    SUCCESS,
    Chosen,
    MisconfiguredError,
    PlacementRequest,
    Plugins,
    Scored,
)
from moorage.core.scheduling.ocm.result import NO_ROWS, Filtered, Scheduled, Score, Shared
from moorage.core.scheduling.ocm.terms import PlacementTerms
from moorage.core.scheduling.ocm.usage import Usage

Candidates = frozenset[ManagedSet] | Mask | None
"""The clusters that a placement may choose from: those of sets, those of a mask, or all."""

_ROWS: Final = 4_000_000
"""So many rows of shared results are remembered; some 60 bytes each."""

_ROOM: Final = 2**62


class Scheduler:
    """Schedules one placement after another on a fleet."""

    def __init__(self, fleet: ManagedFleet, *, plugins: Plugins | None = None) -> None:
        self._fleet = fleet
        self._plugins = plugins or Plugins.discovered()
        self._shared: dict[Hashable, Shared] = {}
        self._remembered = 0

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
        """The clusters for a placement.

        Args:
            terms: what it asks for.
            candidates: the clusters that it may choose from: those of sets, those of a mask, or all. Those that are
                about to go are left out of sets; a mask is taken as it is.
            decided: the clusters that it has by now.
            usage: decisions by cluster, over all placements.
            usage_has_decided: whether `usage` counts `decided` too, once each.
            now: the instant of the decision.

        Raises:
            ValueError: `now` has no time zone, or the number of clusters is negative, as only upstream would have it.
        """
        rows = self._fleet.rows_of(decided) if decided else NO_ROWS
        request = PlacementRequest(terms, rows, usage, usage_has_decided, now, microseconds(now))
        shared = self._share(request, candidates)
        if shared.status.is_error:
            return Scheduled(shared, request, self._fleet, self._plugins, status=shared.status)
        status = shared.status
        total: Scores | None = None
        scored: list[Scored] = []
        for one in shared.scores:
            if one.scored is not None:
                scored.append(one.scored)
                continue
            part = one.plugin.score(request, self._fleet, shared.rows)
            weighted = part.values if one.weight == 1 else part.values * one.weight
            total = weighted if total is None else total + weighted
            scored.append(part)
            if status == SUCCESS:
                status = part.status
        best = _best(shared, total, terms.number)
        names = self._fleet.names_at(shared.rows[best])
        return Scheduled(
            shared,
            request,
            self._fleet,
            self._plugins,
            status=status,
            scored=scored,
            decisions=names,
            unscheduled=0 if terms.number is None else terms.number - len(names),
            decide_again=self._requeue_at(request, shared, best),
        )

    def columns(self, terms: PlacementTerms, sets: frozenset[ManagedSet] = frozenset()) -> frozenset[Column]:
        """The columns that decisions for the terms rest on: a change that touches none of them changes no decision.

        Decisions of other placements are not among them.
        """
        found: set[Column] = {SetColumn(one) for one in sets}
        for rule in self._plugins.filters:
            found.update(rule.columns(terms))
        for one in self._plugins.chosen(terms):
            found.update(one.prioritizer.columns(terms))
        return frozenset(found)

    def requeue(self, terms: PlacementTerms, decided: Collection[str], now: datetime) -> datetime | None:
        """When a tolerated time of a cluster that is decided is over; None for never."""
        usage = Usage(self._fleet)
        request = PlacementRequest(
            terms, self._fleet.rows_of(decided), usage, usage_has_decided=False, now=now, now_us=microseconds(now)
        )
        found = self._plugins.requeue_at(request, self._fleet, request.decided)
        return None if found is None else instant(found)

    def _requeue_at(self, request: PlacementRequest, shared: Shared, best: Rows) -> datetime | None:
        """When time alone may change the decision: a filter's answer on a cluster that is decided, or a score.

        As upstream, of the clusters that were decided before, and of no score.
        """
        # Where every cluster that fits is selected, scores decide nothing.
        found = None if request.terms.as_upstream or not request.terms.number else shared.requeue_at
        if shared.timed:
            rows = request.decided if request.terms.as_upstream else shared.rows[best]
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
            known = self._make(replace(request, decided=NO_ROWS), candidates)
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
            shown = self._filter(shared, request, shown)
            chosen = self._chosen(request.terms)
        except MisconfiguredError as error:
            shared.status = error.status
            return shared
        self._score(shared, request, np.flatnonzero(shown), chosen)
        return shared

    def _filter(self, shared: Shared, request: PlacementRequest, shown: Mask) -> Mask:
        """The clusters that pass every filter; what the filters say of them is noted in `shared`."""
        fleet, terms = self._fleet, request.terms
        filters = self._plugins.filters
        shared.timed = tuple(one for one in filters if one.timed(terms))
        for one in filters:
            if shown.any():
                shown = one.apply(request, fleet, shown)
                _add_differing(shared, one.differs_if_decided(terms, fleet))
                _narrow(shared, *one.validity(request, fleet))
            shared.filtered = (*shared.filtered, Filtered(one.name, shown, one.summary))
        return shown

    def _score(self, shared: Shared, request: PlacementRequest, rows: Rows, chosen: Sequence[Chosen]) -> None:
        """Note in `shared` what the prioritizers say of the clusters that passed, where it can be shared."""
        fleet = self._fleet
        shared.rows = rows
        shared.ranks = fleet.ranks(rows)
        shared.total = np.zeros(rows.size, dtype=np.int64)
        scores = []
        for one in chosen:
            scored = one.prioritizer.score(request, fleet, rows) if one.prioritizer.static else None
            scores.append(Score(one.prioritizer, one.weight, scored))
            if scored is None:
                continue
            shared.total += one.weight * scored.values
            _narrow(shared, scored.since, scored.until)
            if scored.until is not None:
                known = shared.requeue_at
                shared.requeue_at = scored.until if known is None else min(known, scored.until)
            if shared.status == SUCCESS:
                # The first warning is the one that is told; upstream's is any of them.
                shared.status = scored.status
        shared.scores = tuple(scores)
        _set_order(shared, fleet)

    def _chosen(self, terms: PlacementTerms) -> tuple[Chosen, ...]:
        """The prioritizers of a placement.

        Raises:
            MisconfiguredError: the policy is wrong, or names a prioritizer that is not there.
        """
        if terms.policy_error:
            raise MisconfiguredError("", terms.policy_error)
        for coordinate, _ in terms.weights:
            if self._plugins.find(coordinate, as_upstream=terms.as_upstream) is None:
                raise MisconfiguredError("", f"incorrect builtin prioritizer: {coordinate.built_in}")
        return self._plugins.chosen(terms)


def _candidates(fleet: ManagedFleet, candidates: Candidates) -> Mask:
    if candidates is None:
        return fleet.available.copy()
    if isinstance(candidates, frozenset):
        return members(fleet, candidates)
    if candidates.size != fleet.capacity:
        raise ValueError(f"the mask of candidates is of {candidates.size} rows, the fleet of {fleet.capacity}")
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


def _set_order(shared: Shared, fleet: ManagedFleet) -> None:
    """Make one number of each cluster's total and rank, where numbers are small enough."""
    step = len(fleet) + 1
    largest = int(np.abs(shared.total).max(initial=0))
    largest += sum(abs(one.weight) * one.plugin.reach for one in shared.scores if one.scored is None)
    if (largest + 1) * step < _ROOM:
        shared.step = step
        shared.order = shared.ranks - step * shared.total


def _best(shared: Shared, total: Scores | None, number: int | None) -> Rows:
    """Places in `shared.rows` of the best clusters, best first: by total from high to low, then by name."""
    wanted = shared.rows.size if number is None else number
    if wanted < 0:
        raise ValueError(f"numberOfClusters: Invalid value: {wanted}: must be greater than or equal to 0")
    if not shared.step:
        whole = shared.total if total is None else shared.total + total
        return np.lexsort((shared.ranks, -whole))[:wanted]
    order = shared.order if total is None else shared.order - shared.step * total
    if wanted >= order.size:
        return np.argsort(order)
    if not wanted:
        return NO_ROWS
    last = np.partition(order, wanted - 1)[wanted - 1]
    best: Rows = (order <= last).nonzero()[0]
    return best[order[best].argsort()]
