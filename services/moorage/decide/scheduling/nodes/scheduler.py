"""Filter, score and select nodes, and keep all reasons."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from moorage.decide.scheduling.nodes.fleet import Fleet, Mask, Rows
from moorage.decide.scheduling.nodes.plugin import NodeFilter, NodePrioritizer, PodRequest
from moorage.decide.scheduling.nodes.pod_shape import PodShape
from moorage.decide.scheduling.nodes.ranking import TIE_BITS, Ranking
from moorage_schemas.placement import FilterResult, TargetScore

SHOWN_NAMES: Final = 10
"""The number of node names that a decision keeps for each reason."""

SHOWN_SCORES: Final = 5
"""The number of best nodes whose scores a decision keeps."""

_REMEMBERED: Final = 4096
_RANKED: Final = 256
_RANKED_ROWS: Final = 1 << 20
"""The number of rankings that are kept, and of nodes in them together. A ranking has about 60 bytes for each node."""

_MOST_TOTAL: Final = 1 << (63 - TIE_BITS)
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


class NodeScheduler:
    """Decides for one pod after another on a fleet, and caches the results that stay valid between them.

    Ties are broken by fewer pods on the node, then by the node's name, so the same fleet gives the same result.

    Args:
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
        self._rankings: dict[str, Ranking] = {}

    @property
    def filters(self) -> tuple[NodeFilter, ...]:
        """Every filter, in the order in which they run."""
        return self._static + self._dynamic

    def eligible(self, shape: PodShape) -> Mask:
        """Return the nodes that pass the static filters. A DaemonSet needs a pod on each of them."""
        return self._verdict(shape).passed

    def may_stay(self, shape: PodShape) -> Mask:
        """Return the nodes on which a DaemonSet's running pod may stay, without considering taints."""
        return self._run(self._lasting, PodRequest(shape), self.fleet.alive, [])

    def decide(self, request: PodRequest, *, only: str | None = None) -> Decision:
        """Return the best node for a pod.

        Args:
            request: the pod.
            only: the one node on which the pod may run (for a DaemonSet's pod). No other node is considered.
        """
        verdict = self._verdict(request.shape)
        if only is not None:
            return self._decide_on(request, only, verdict)
        results, considered = list(verdict.results), len(self.fleet)
        passed = self._run(self._dynamic, request, verdict.passed, results)
        if not passed.any():
            return Decision(None, considered, tuple(results), (), unavailable(considered, results))
        scores = self._ranking(request.shape, passed).best(request, SHOWN_SCORES)
        return Decision(scores[0].target, considered, tuple(results), scores, "")

    def objections(self, request: PodRequest, name: str) -> tuple[FilterResult, ...]:
        """Return every reason for which filters rule out one node, which a pod is bound to without them."""
        row = self.fleet.row_of(name)
        filters = self._dynamic if self._verdict(request.shape).passed[row] else self.filters
        return tuple(
            FilterResult(filter=one.name, reason=reason, count=1, targets=(name,))
            for one in filters
            for reason, against in one.objections(one.narrowed(request), self.fleet)
            if against[row]
        )

    def _ranking(self, shape: PodShape, passed: Mask) -> Ranking:
        """Return a ranking of the nodes that passed: the last one of the shape, if it is still valid."""
        rankings = self._rankings
        known = rankings.get(shape.key)
        if known is None or not known.ranks(passed):
            rankings.pop(shape.key, None)
            if len(rankings) >= min(_RANKED, _RANKED_ROWS // passed.size + 1):
                del rankings[next(iter(rankings))]  # the oldest
            known = rankings[shape.key] = Ranking(self.fleet, self.prioritizers, shape, passed)
        return known

    def _decide_on(self, request: PodRequest, name: str, verdict: _Verdict) -> Decision:
        """Return the decision on a pod that may run on one node only."""
        fleet = self.fleet
        if name not in fleet:
            return Decision(None, 0, (), (), unavailable(0, ()))
        row = fleet.row_of(name)
        objections = self._objection(self._dynamic if verdict.passed[row] else self._static, request, row)
        if objections:
            results = tuple(FilterResult(filter=by, reason=why, count=1, targets=(name,)) for by, why in objections)
            return Decision(None, 1, results, (), unavailable(1, results))
        passed = np.zeros(fleet.rows, dtype=np.bool_)
        passed[row] = True
        scores = Ranking(fleet, self.prioritizers, request.shape, passed).best(request, SHOWN_SCORES)
        return Decision(scores[0].target, 1, (), scores, "")

    def _objection(self, filters: Sequence[NodeFilter], request: PodRequest, row: int) -> list[tuple[str, str]]:
        """Return the reasons of the first filter that rules a node out, each with the filter's name."""
        for one in filters:
            reasons = [why for why, against in one.objections(one.narrowed(request), self.fleet) if against[row]]
            if reasons:
                return [(one.name, why) for why in reasons]
        return []

    def _verdict(self, shape: PodShape) -> _Verdict:
        found = self._verdicts.get(shape.key)
        if found is not None and found.version == self.fleet.version:
            return found
        if len(self._verdicts) >= _REMEMBERED:
            self._verdicts.clear()
        results: list[FilterResult] = []
        passed = self._run(self._static, PodRequest(shape), self.fleet.alive, results)
        found = self._verdicts[shape.key] = _Verdict(self.fleet.version, passed, tuple(results))
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


def unavailable(considered: int, results: Sequence[FilterResult]) -> str:
    """Return why no node fits, in kube-scheduler's words and order."""
    if not considered:
        return "0/0 nodes are available: no nodes available to schedule pods."
    counts: dict[str, int] = {}
    for result in results:
        counts[result.reason] = counts.get(result.reason, 0) + result.count
    reasons = ", ".join(sorted(f"{count} {reason}" for reason, count in counts.items()))
    return f"0/{considered} nodes are available: {reasons}."


def _lowest(keys: npt.NDArray[np.int64], shown: int) -> npt.NDArray[np.intp]:
    """Return the positions of the lowest keys in ascending order, at most `shown`. The keys are distinct."""
    if keys.size <= shown:
        return np.argsort(keys)
    nearest = np.argpartition(keys, shown)[:shown]
    result: npt.NDArray[np.intp] = nearest[np.argsort(keys[nearest])]
    return result
