"""Filter, score and select nodes, and keep all reasons."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from moorage.core.scheduling.nodes.fleet import Counts, Fleet, Mask, Rows
from moorage.core.scheduling.nodes.plugin import NodeFilter, NodePrioritizer, PodRequest
from moorage.core.scheduling.nodes.pod_shape import PodShape
from moorage_schemas.placement import FilterResult, TargetScore

SHOWN_NAMES: Final = 10
"""The number of node names that a decision keeps for each reason."""

SHOWN_SCORES: Final = 5
"""The number of best nodes whose scores a decision keeps."""

_REMEMBERED: Final = 4096
_RANK_BITS: Final = 22
_POD_BITS: Final = 20
_AHEAD: Final = 64
_MANY: Final = 1024
"""How many of the best nodes are found when they are looked for among all, and how many may be near them for the next
pods of the same shape to choose among these."""

_NOTHING_BELOW: Final[npt.NDArray[np.int64]] = np.array(np.iinfo(np.int64).min)
_MOST_TOTAL: Final = 1 << (63 - _RANK_BITS - _POD_BITS)
"""Totals must stay below this value, so that `preference` fits into 64 bits."""


@dataclass(frozen=True, slots=True)
class Decision:
    """The node for a pod, with the reasons."""

    target: str | None
    """The name of the node. None if no node fits."""

    considered: int
    """The number of nodes that were considered."""

    filters: tuple[FilterResult, ...]
    """The results of the filters that ruled nodes out."""

    scores: tuple[TargetScore, ...]
    """The best nodes, best first. The first is the target."""

    message: str
    """`0/3 nodes are available: …`. Empty if there is a target."""


@dataclass(slots=True)
class _Verdict:
    """The result of the static filters for a shape, at a version of the fleet."""

    version: int
    passed: Mask
    results: tuple[FilterResult, ...]
    bound: npt.NDArray[np.int64]
    """A preference that only the best nodes stayed below when it was last determined. Only a hint for the next pod: the
    decision is the same with any value. An array without dimensions, because numpy converts a plain number each time.
    """


class NodeScheduler:
    """Decides for one pod after another on a fleet, and caches what does not change between them.

    Ties are broken by fewer pods on the node, then by the node's name, so the same fleet gives the same result.

    Args:
        fleet: the nodes.
        filters: replaces the discovered filters.
        prioritizers: replaces the discovered prioritizers.
    """

    def __init__(
        self,
        fleet: Fleet,
        filters: Sequence[NodeFilter] | None = None,
        prioritizers: Sequence[NodePrioritizer] | None = None,
    ) -> None:
        chosen = NodeFilter.discovered() if filters is None else tuple(filters)
        self._lasting = tuple(one for one in chosen if one.lasting)
        self._static = tuple(one for one in chosen if one.static)
        self._dynamic = tuple(one for one in chosen if not one.static)
        rated = NodePrioritizer.discovered() if prioritizers is None else tuple(prioritizers)
        self.prioritizers = tuple(one for one in rated if one.weight)
        if sum(abs(one.weight) * one.reach for one in self.prioritizers) >= _MOST_TOTAL:
            raise ValueError(f"the scores of all prioritizers of nodes together can reach {_MOST_TOTAL}")
        self.fleet = fleet
        self._verdicts: dict[str, _Verdict] = {}

    @property
    def filters(self) -> tuple[NodeFilter, ...]:
        """Every filter, in the order in which they run."""
        return self._static + self._dynamic

    def eligible(self, shape: PodShape) -> Mask:
        """The nodes that pass the static filters. A DaemonSet needs a pod on each of them."""
        return self._verdict(shape).passed

    def may_stay(self, shape: PodShape) -> Mask:
        """The nodes on which a DaemonSet's running pod may stay, without considering taints."""
        return self._run(self._lasting, PodRequest(shape), self.fleet.alive, [])

    def decide(self, request: PodRequest, *, only: str | None = None) -> Decision:
        """The best node for a pod.

        Args:
            request: the pod.
            only: the one node on which the pod may run (for a DaemonSet's pod). No other node is considered.
        """
        fleet = self.fleet
        verdict = self._verdict(request.shape)
        passed, results, considered = verdict.passed, list(verdict.results), len(fleet)
        if only is not None:
            passed, results, considered = self._narrowed(request.shape, only)
        passed = self._run(self._dynamic, request, passed, results)
        rows = np.flatnonzero(passed)
        if not rows.size:
            return Decision(None, considered, tuple(results), (), unavailable(considered, results))
        scores = self._score(request, rows, verdict)
        return Decision(scores[0].target, considered, tuple(results), scores, "")

    def _narrowed(self, shape: PodShape, name: str) -> tuple[Mask, list[FilterResult], int]:
        passed = np.zeros(self.fleet.rows, dtype=np.bool_)
        results: list[FilterResult] = []
        if name not in self.fleet:
            return passed, results, 0
        passed[self.fleet.row_of(name)] = True
        return self._run(self._static, PodRequest(shape), passed, results), results, 1

    def _verdict(self, shape: PodShape) -> _Verdict:
        found = self._verdicts.get(shape.key)
        if found is not None and found.version == self.fleet.version:
            return found
        if len(self._verdicts) >= _REMEMBERED:
            self._verdicts.clear()
        results: list[FilterResult] = []
        passed = self._run(self._static, PodRequest(shape), self.fleet.alive, results)
        found = self._verdicts[shape.key] = _Verdict(self.fleet.version, passed, tuple(results), _NOTHING_BELOW)
        return found

    def _run(
        self, filters: Sequence[NodeFilter], request: PodRequest, passed: Mask, results: list[FilterResult]
    ) -> Mask:
        for one in filters:
            left = passed
            for reason, against in one.objections(request, self.fleet):
                hit = passed & against
                if hit.any():
                    rows = np.flatnonzero(hit)
                    names = self._first_names(rows)
                    results.append(FilterResult(filter=one.name, reason=reason, count=rows.size, targets=names))
                    left = left & ~against
            passed = left
        return passed

    def _first_names(self, rows: Rows) -> tuple[str, ...]:
        ranks = self.fleet.ranks()[rows]
        return tuple(self.fleet.name_at(int(row)) for row in rows[_lowest(ranks, SHOWN_NAMES)])

    def _score(self, request: PodRequest, rows: Rows, verdict: _Verdict) -> tuple[TargetScore, ...]:
        fleet = self.fleet
        total = np.zeros(rows.size, dtype=np.int64)
        columns: list[tuple[str, Counts]] = []
        for prioritizer in self.prioritizers:
            weighted = prioritizer.weight * prioritizer.scores(request, fleet, rows)
            total += weighted
            columns.append((prioritizer.name, weighted))
        best = _best(preference(fleet, rows, total), verdict)
        names = [name for name, _ in columns]
        figures = zip(*(column[best].tolist() for _, column in columns), strict=True) if columns else [()] * best.size
        return tuple(
            TargetScore(target=fleet.name_at(row), total=points, scores=dict(zip(names, parts, strict=True)))
            for row, points, parts in zip(rows[best].tolist(), total[best].tolist(), figures, strict=True)
        )


def preference(fleet: Fleet, rows: Rows, total: Counts) -> npt.NDArray[np.int64]:
    """A sort key for (total descending, pods, name) of each row, so that one partial sort orders by all three."""
    ties = fleet.kept_up(preference, lambda some: _ties(fleet, some))
    order: npt.NDArray[np.int64] = ties[rows] - (total << (_POD_BITS + _RANK_BITS))
    return order


def _ties(fleet: Fleet, rows: Rows) -> Counts:
    """The sort key for (pods, name) of each row, for nodes with equal totals."""
    pods: Counts = np.minimum(fleet.pod_counts[rows], (1 << _POD_BITS) - 1)
    return (pods << _RANK_BITS) + fleet.ranks()[rows]


def _best(keys: npt.NDArray[np.int64], verdict: _Verdict) -> npt.NDArray[np.intp]:
    """The positions of the lowest keys, as `_lowest` returns them. For many keys, a bound narrows the search."""
    if keys.size <= _AHEAD:
        return _lowest(keys, SHOWN_SCORES)
    near = (keys <= verdict.bound).nonzero()[0]
    if not SHOWN_SCORES <= near.size <= _MANY:
        verdict.bound = np.array(np.partition(keys, _AHEAD - 1)[_AHEAD - 1])
        near = (keys <= verdict.bound).nonzero()[0]
    result: npt.NDArray[np.intp] = near[keys[near].argsort()[:SHOWN_SCORES]]
    return result


def unavailable(considered: int, results: Sequence[FilterResult]) -> str:
    """Why no node fits, in kube-scheduler's words and order."""
    if not considered:
        return "0/0 nodes are available: no nodes available to schedule pods."
    counts: dict[str, int] = {}
    for result in results:
        counts[result.reason] = counts.get(result.reason, 0) + result.count
    reasons = ", ".join(sorted(f"{count} {reason}" for reason, count in counts.items()))
    return f"0/{considered} nodes are available: {reasons}."


def _lowest(keys: npt.NDArray[np.int64], shown: int) -> npt.NDArray[np.intp]:
    """The positions of the lowest keys in ascending order, at most `shown`. The keys are distinct."""
    if keys.size <= shown:
        return np.argsort(keys)
    nearest = np.argpartition(keys, shown)[:shown]
    result: npt.NDArray[np.intp] = nearest[np.argsort(keys[nearest])]
    return result
