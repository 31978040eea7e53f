"""Which clusters a placement has, and why: the filters, the scores, the verdict on each cluster."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

import numpy as np

from moorage.core.scheduling.framework.verdicts import FilterVerdict, PartScore, TargetVerdict
from moorage.core.scheduling.ocm.columns import Mask, Rows, Scores
from moorage.core.scheduling.ocm.fleet import ManagedFleet
from moorage.core.scheduling.ocm.plugin import (
    ManagedFilter,
    ManagedPrioritizer,
    PlacementRequest,
    Plugins,
    Scored,
    Status,
)
from moorage_schemas.placement import FilterResult, TargetScore

SHOWN: Final = 10
"""Names and scores that a decision keeps, at most."""

_BARE: Final = 50
"""So many rows take as much as a shared result without any: some three kilobytes."""

NO_ROWS: Final[Rows] = np.zeros(0, dtype=np.intp)
NO_SCORES: Final[Scores] = np.zeros(0, dtype=np.int64)


@dataclass(frozen=True, slots=True)
class Filtered:
    """What one filter has left: `passed` are the clusters that it and those before it let pass."""

    name: str
    passed: Mask
    summary: str
    """Why it rules clusters out."""


@dataclass(frozen=True, slots=True)
class Prioritized:
    """The scores of one prioritizer, for the feasible clusters (`Scheduled.rows`) in their order."""

    name: str
    weight: int
    values: Scores
    given: Mask | None = None
    """Which of them have a score; all of them when None."""


@dataclass(frozen=True, slots=True)
class Score:
    """A prioritizer of a placement; with its scores where they are static."""

    plugin: ManagedPrioritizer
    weight: int
    scored: Scored | None


@dataclass(slots=True)
class Shared:
    """What placements share that ask the same of the same clusters."""

    version: int
    since: int
    """From when, in microseconds since 1970, it holds if the fleet does not change; and until before when."""

    until: int
    candidates: Mask
    filtered: tuple[Filtered, ...]
    status: Status
    rows: Rows = field(default_factory=lambda: NO_ROWS)
    """The clusters that pass every filter."""

    scores: tuple[Score, ...] = ()
    requeue_at: int | None = None
    """When a static score ends."""

    total: Scores = field(default_factory=lambda: NO_SCORES)
    """The weighted sum of the static scores."""

    ranks: Scores = field(default_factory=lambda: NO_SCORES)
    """The places of the rows in the order of all names."""

    step: int = 0
    """`ranks - step * total` is in the order of totals and then names; 0 when the numbers are too large for that."""

    order: Scores = field(default_factory=lambda: NO_SCORES)
    """`ranks - step * total` with the static total."""

    timed: tuple[ManagedFilter, ...] = ()
    """The filters whose answers time alone may change."""

    differs_if_decided: Mask | None = None
    """The clusters on which a filter's answer is another one when the placement has them already."""

    ruled_out: tuple[FilterResult, ...] | None = None

    @property
    def size(self) -> int:
        """How many rows it holds, with and without scores; what it takes without any counts as some."""
        return _BARE + self.candidates.size // 8 + self.rows.size


class Scheduled:
    """Which clusters a placement has, and why.

    What says why is worked out when it is asked for; it must be asked before the fleet changes.

    Attributes:
        status: how it ended; with an error nothing is decided.
        decisions: the clusters' names, best first.
        unscheduled: how many clusters are missing to the number that is asked for.
        decide_again: when to decide again even if nothing changes; None for never.
    """

    __slots__ = (
        "_fleet",
        "_plugins",
        "_request",
        "_scored",
        "_shared",
        "decide_again",
        "decisions",
        "status",
        "unscheduled",
    )

    def __init__(
        self,
        shared: Shared,
        request: PlacementRequest,
        fleet: ManagedFleet,
        plugins: Plugins,
        *,
        status: Status,
        scored: Sequence[Scored] = (),
        decisions: tuple[str, ...] = (),
        unscheduled: int = 0,
        decide_again: datetime | None = None,
    ) -> None:
        self._shared = shared
        self._request = request
        self._fleet = fleet
        self._plugins = plugins
        self._scored = scored
        self.status = status
        self.decisions = decisions
        self.unscheduled = unscheduled
        self.decide_again = decide_again

    @property
    def request(self) -> PlacementRequest:
        """The placement for which it was decided."""
        return self._request

    @property
    def considered(self) -> int:
        """How many candidates there were."""
        return int(np.count_nonzero(self._shared.candidates))

    @property
    def candidates(self) -> Mask:
        """The clusters that it could choose from, before any filter."""
        return self._shared.candidates

    @property
    def filters(self) -> tuple[Filtered, ...]:
        """What each filter has left, in the order in which they ran; one that found the spec wrong is not there."""
        return self._shared.filtered

    @property
    def rows(self) -> Rows:
        """The rows of the feasible clusters: those that passed every filter."""
        return self._shared.rows

    @property
    def feasible(self) -> list[str]:
        """Their names, sorted."""
        return sorted(map(self._fleet.name, self.rows.tolist()))

    @property
    def prioritizers(self) -> tuple[Prioritized, ...]:
        """The scores of each prioritizer."""
        return tuple(
            Prioritized(one.plugin.name, one.weight, scored.values, scored.given)
            for one, scored in zip(self._shared.scores, self._scored, strict=True)
        )

    @property
    def totals(self) -> Scores:
        """The weighted sum of the scores, for `rows` in their order."""
        total = np.zeros(self.rows.size, dtype=np.int64)
        for one, scored in zip(self._shared.scores, self._scored, strict=True):
            total += one.weight * scored.values
        return total

    def ruled_out(self) -> tuple[FilterResult, ...]:
        """How many clusters each filter has ruled out, with the first of their names."""
        if self._shared.ruled_out is None:
            self._shared.ruled_out = _ruled_out(self._shared, self._fleet)
        return self._shared.ruled_out

    def best(self, shown: int = SHOWN) -> tuple[TargetScore, ...]:
        """The scores of the best clusters, best first."""
        if self.status.is_error:
            return ()
        totals = self.totals
        best = np.lexsort((self._shared.ranks, -totals))[:shown] if totals.size <= shown else self._top(totals, shown)
        parts = self.prioritizers
        return tuple(
            TargetScore(
                target=self._fleet.name(int(self.rows[i])),
                total=int(totals[i]),
                scores=_weighted(parts, i),
            )
            for i in best.tolist()
        )

    def _top(self, totals: Scores, shown: int) -> Rows:
        few = np.flatnonzero(totals >= np.partition(totals, totals.size - shown)[totals.size - shown])
        return few[np.lexsort((self._shared.ranks[few], -totals[few]))][:shown]

    def is_candidate(self, cluster: str) -> bool:
        """Whether the placement may choose a cluster at all: it is in one of its sets and not about to go."""
        return cluster in self._fleet and bool(self._shared.candidates[self._fleet.row(cluster)])

    def until(self, cluster: str) -> datetime | None:
        """Until before when a cluster passes; None when no time ends that, or when it does not pass.

        Raises:
            LookupError: there is no such cluster.
        """
        row = self._row(cluster)
        timed = (one for one in self._plugins.filters if one.timed(self._request.terms))
        ends = (one.until(self._request, self._fleet, row) for one in timed)
        return min((end for end in ends if end is not None), default=None)

    def verdict(self, cluster: str) -> TargetVerdict:
        """What every filter, and every prioritizer, says of one cluster.

        Raises:
            LookupError: there is no such cluster.
        """
        fleet, request, row = self._fleet, self._request, self._row(cluster)
        filters = []
        for one in self._plugins.filters:
            reason = one.reason(request, fleet, row)
            details = tuple(one.details(request, fleet, cluster))
            filters.append(FilterVerdict(one.name, (reason,) if reason else (), details))
        place = np.flatnonzero(self.rows == row)
        if self.status.is_error or not place.size:
            return TargetVerdict(cluster, tuple(filters))
        i = int(place[0])
        totals, ranks = self.totals, self._shared.ranks
        ahead = (totals > totals[i]) | ((totals == totals[i]) & (ranks < ranks[i]))
        scores = tuple(
            PartScore(
                one.plugin.name, int(scored.values[i]), one.weight, tuple(one.plugin.details(request, fleet, cluster))
            )
            for one, scored in zip(self._shared.scores, self._scored, strict=True)
        )
        return TargetVerdict(cluster, tuple(filters), scores, rank=int(np.count_nonzero(ahead)) + 1)

    def may_stand(self, decided: Collection[str]) -> bool:
        """Whether the clusters that a placement has can be right, though it would choose others now.

        Scores that rest on decisions drift, and as upstream no placement is decided again because of that alone. So a
        choice stands as long as every cluster of it passes every filter, there are as many as there should be, and the
        prioritizers that drift can have preferred them at some time.
        """
        if not self._request.terms.number or self.status.is_error or len(decided) != len(self.decisions):
            return False
        drifting: dict[str, tuple[ManagedPrioritizer, int]] = {}
        lasting = np.zeros(self.rows.size, dtype=np.int64)
        for one, scored in zip(self._shared.scores, self._scored, strict=True):
            if one.plugin.static:
                lasting += one.weight * scored.values
            else:  # one that is listed twice counts once, with both weights
                before = drifting.get(one.plugin.name, (one.plugin, 0))[1]
                drifting[one.plugin.name] = (one.plugin, before + one.weight)
        if not any(plugin.drifts(weight) for plugin, weight in drifting.values()):
            return False
        mine = np.isin(self.rows, self._fleet.rows_of(decided))
        if int(np.count_nonzero(mine)) != len(decided):
            return False
        if mine.all():
            return True
        span = sum((plugin.highest - plugin.lowest) * abs(weight) for plugin, weight in drifting.values())
        return bool(lasting[~mine].max() - lasting[mine].min() <= span)

    def _row(self, cluster: str) -> int:
        if cluster not in self._fleet:
            raise LookupError(f"there is no cluster {cluster}")
        return self._fleet.row(cluster)


def _weighted(parts: Sequence[Prioritized], i: int) -> dict[str, int]:
    """Weighted scores by prioritizer; those of one that is listed twice are added up."""
    found: dict[str, int] = {}
    for one in parts:
        found[one.name] = found.get(one.name, 0) + one.weight * int(one.values[i])
    return found


def _ruled_out(shared: Shared, fleet: ManagedFleet) -> tuple[FilterResult, ...]:
    results = []
    shown = shared.candidates
    for one in shared.filtered:
        rows = np.flatnonzero(shown & ~one.passed)
        if rows.size:
            ranks = fleet.ranks(rows)
            first = rows if rows.size <= SHOWN else rows[np.argpartition(ranks, SHOWN - 1)[:SHOWN]]
            names = tuple(sorted(map(fleet.name, first.tolist())))
            results.append(FilterResult(filter=one.name, reason=one.summary, count=rows.size, targets=names))
        shown = one.passed
    return tuple(results)
