"""The clusters that a placement selects, with the reasons: filters, scores and the verdict on each cluster."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

import numpy as np

from moorage.decide.scheduling.framework.target_verdicts import FilterVerdict, PartScore, TargetVerdict
from moorage.decide.scheduling.ocm.columns.column import Mask, Rows, Scores
from moorage.decide.scheduling.ocm.columns.managed_fleet import ManagedFleet
from moorage.decide.scheduling.ocm.decisions.best_clusters import NO_ROWS, BestClusters
from moorage.decide.scheduling.ocm.plugin import (
    CountedScores,
    ManagedFilter,
    ManagedPrioritizer,
    PlacementRequest,
    Plugins,
    Scored,
    Status,
)
from moorage_schemas.placement import FilterResult, TargetScore

SHOWN: Final = 10
"""The maximum number of names and of scores that a decision keeps."""

_BARE: Final = 50
"""The size of a shared result without rows, expressed in rows: about three kilobytes."""

NO_SCORES: Final[Scores] = np.zeros(0, dtype=np.int64)
_NONE: Final = BestClusters(NO_ROWS, NO_SCORES, NO_SCORES, names=0, reach=0)


@dataclass(frozen=True, slots=True)
class Filtered:
    """The result of one filter. `passed` contains the clusters that pass it and all filters before it."""

    name: str
    passed: Mask
    summary: str
    """Why the filter rules clusters out."""


@dataclass(frozen=True, slots=True)
class Prioritized:
    """The scores of one prioritizer for the feasible clusters, in the order of `Scheduled.rows`."""

    name: str
    weight: int
    values: Scores
    given: Mask | None = None
    """Which clusters have a score. None if all do."""


@dataclass(frozen=True, slots=True)
class Score:
    """A prioritizer of a placement. If its scores are static, it contains them."""

    plugin: ManagedPrioritizer
    weight: int
    scored: Scored | None


@dataclass(slots=True)
class Shared:
    """The results that placements with equal terms and candidates share."""

    version: int
    since: int
    """With `until`, the time during which the result is valid if the fleet does not change: from `since`, inclusive, to
    `until`, exclusive, in microseconds since 1970."""

    until: int
    candidates: Mask
    filtered: tuple[Filtered, ...]
    status: Status
    rows: Rows = field(default_factory=lambda: NO_ROWS)
    """The clusters that pass every filter."""

    scores: tuple[Score, ...] = ()
    requeue_at: int | None = None
    """When a static score expires."""

    ranks: Scores = field(default_factory=lambda: NO_SCORES)
    """The positions of the rows in the order of all names."""

    best: BestClusters = field(default_factory=lambda: _NONE)
    """Finds the best of the rows."""

    counting: ManagedPrioritizer | None = None
    """The prioritizer of `CountedScores`: the only one whose scores are not static. Its weight is positive."""

    timed: tuple[ManagedFilter, ...] = ()
    """The filters whose results can change by time alone."""

    differs_if_decided: Mask | None = None
    """The clusters for which a filter's result is different if the placement has them already."""

    ruled_out: tuple[FilterResult, ...] | None = None

    @property
    def size(self) -> int:
        """The size of the result in rows, including a fixed part."""
        return _BARE + self.candidates.size // 8 + self.rows.size


class Scheduled:
    """The clusters that a placement selects, with the reasons.

    The reasons are computed on request. They must be requested before the fleet changes. Decisions that are counted in
    the meantime do not change them.

    Attributes:
        status: how scheduling ended. After an error nothing is decided.
        decisions: the names of the selected clusters, best first.
        unscheduled: how many clusters are missing from the requested number.
        requeue_at: when to decide again even if nothing changes. None means never.
    """

    __slots__ = (
        "_counted",
        "_fleet",
        "_plugins",
        "_request",
        "_scored",
        "_shared",
        "decisions",
        "requeue_at",
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
        counted: CountedScores | None = None,
        decisions: tuple[str, ...] = (),
        unscheduled: int = 0,
        requeue_at: datetime | None = None,
    ) -> None:
        self._shared = shared
        self._request = request
        self._fleet = fleet
        self._plugins = plugins
        self._scored = scored
        self._counted = counted
        self.status = status
        self.decisions = decisions
        self.unscheduled = unscheduled
        self.requeue_at = requeue_at

    @property
    def request(self) -> PlacementRequest:
        """The placement for which the decision was made."""
        return self._request

    @property
    def considered(self) -> int:
        """The number of candidates."""
        return int(np.count_nonzero(self._shared.candidates))

    @property
    def filters(self) -> tuple[Filtered, ...]:
        """The result of each filter, in the order in which they ran, except a filter that found the spec invalid."""
        return self._shared.filtered

    @property
    def rows(self) -> Rows:
        """The rows of the feasible clusters, which passed every filter."""
        return self._shared.rows

    @property
    def feasible(self) -> list[str]:
        """The names of the feasible clusters, sorted."""
        return sorted(map(self._fleet.name, self.rows.tolist()))

    @property
    def prioritizers(self) -> tuple[Prioritized, ...]:
        """The scores of each prioritizer."""
        return tuple(
            Prioritized(one.plugin.name, one.weight, scored.values, scored.given)
            for one, scored in zip(self._shared.scores, self._all_scored(), strict=True)
        )

    @property
    def totals(self) -> Scores:
        """The weighted sum of the scores, in the order of `rows`."""
        total = np.zeros(self.rows.size, dtype=np.int64)
        for one, scored in zip(self._shared.scores, self._all_scored(), strict=True):
            total += one.weight * scored.values
        return total

    def ruled_out(self) -> tuple[FilterResult, ...]:
        """Return how many clusters each filter has ruled out, with the first of their names."""
        if self._shared.ruled_out is None:
            self._shared.ruled_out = _ruled_out(self._shared, self._fleet)
        return self._shared.ruled_out

    def best(self, shown: int = SHOWN) -> tuple[TargetScore, ...]:
        """Return the scores of the best clusters, best first."""
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
        """Return whether the placement may choose the cluster at all: it is in a set and not being deleted."""
        return cluster in self._fleet and bool(self._shared.candidates[self._fleet.row(cluster)])

    def until(self, cluster: str) -> datetime | None:
        """Return when a cluster stops passing, exclusive. None if no time limit applies or it does not pass.

        Raises:
            LookupError: there is no such cluster.
        """
        row = self._row(cluster)
        timed = (one for one in self._plugins.filters if one.timed(self._request.terms))
        ends = (one.until(self._request, self._fleet, row) for one in timed)
        return min((end for end in ends if end is not None), default=None)

    def verdict(self, cluster: str) -> TargetVerdict:
        """Return the results of every filter and prioritizer for one cluster.

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
            for one, scored in zip(self._shared.scores, self._all_scored(), strict=True)
        )
        return TargetVerdict(cluster, tuple(filters), scores, rank=int(np.count_nonzero(ahead)) + 1)

    def kept(self, decided: Collection[str]) -> tuple[str, ...]:
        """Return the present clusters that a placement keeps, because only Moorage cannot apply a filter.

        They are those that pass all other filters.
        """
        rows = self._fleet.rows_of(decided)
        shown = np.zeros_like(self._shared.candidates)
        shown[rows] = self._shared.candidates[rows]
        for one in self._plugins.filters:
            if one.name != self.status.plugin and not one.problem(self._request.terms):
                shown = one.passed(self._request, self._fleet, shown)
        return tuple(sorted(map(self._fleet.name, np.flatnonzero(shown).tolist())))

    def may_stand(self, decided: Collection[str]) -> bool:
        """Return whether a placement's present clusters can be right although it would choose others now.

        Scores that depend on decisions drift. As upstream, that alone does not cause a new decision. So a selection may
        stay as long as its clusters pass every filter and their number is right. The drifting prioritizers must also be
        able to have preferred them at some time.
        """
        if not self._request.terms.number or self.status.is_error or len(decided) != len(self.decisions):
            return False
        drifting: dict[str, tuple[ManagedPrioritizer, int]] = {}
        lasting = np.zeros(self.rows.size, dtype=np.int64)
        for one, scored in zip(self._shared.scores, self._all_scored(), strict=True):
            if one.plugin.static:
                lasting += one.weight * scored.values
            else:  # a prioritizer that is listed twice counts once, with the sum of its weights
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

    def _all_scored(self) -> Sequence[Scored]:
        """Return the scores of each prioritizer. Counted scores are computed only now, as they are rarely used."""
        counted = self._counted
        if counted is not None:
            self._scored = [
                counted.scored(self.rows) if one.scored is None else one.scored for one in self._shared.scores
            ]
            self._counted = None
        return self._scored

    def _row(self, cluster: str) -> int:
        if cluster not in self._fleet:
            raise LookupError(f"there is no cluster {cluster}")
        return self._fleet.row(cluster)


def _weighted(parts: Sequence[Prioritized], i: int) -> dict[str, int]:
    """Return weighted scores by prioritizer. The scores of one that is listed twice are added up."""
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
