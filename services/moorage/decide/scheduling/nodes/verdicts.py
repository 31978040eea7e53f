"""The results of all filters and prioritizers on all nodes for one pod."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np
from typing_extensions import override

from moorage.decide.scheduling.framework.target_verdicts import (
    FilterVerdict,
    PartScore,
    Reason,
    TargetVerdict,
    Verdicts,
)
from moorage.decide.scheduling.nodes.fleet import Counts, Mask
from moorage.decide.scheduling.nodes.plugin import NodeFilter, NodePrioritizer, PodRequest
from moorage.decide.scheduling.nodes.ranking import preference
from moorage.decide.scheduling.nodes.scheduler import NodeScheduler

ONE_NODE: Final = "DaemonSet"
"""Used in place of a filter name: a DaemonSet's pod belongs on one node."""


class NodeVerdicts(Verdicts):
    """The results for each node of the present fleet, for one pod.

    Args:
        only: the one node on which the pod may run (for a DaemonSet's pod).
    """

    def __init__(self, scheduler: NodeScheduler, request: PodRequest, *, only: str | None = None) -> None:
        fleet = scheduler.fleet
        self._fleet, self._request, self._only = fleet, request, only
        alive = fleet.alive.copy()
        if only is not None:
            alive[:] = False
            if only in fleet:
                alive[fleet.row_of(only)] = True
        self.considered = int(np.count_nonzero(alive))
        self._objections: list[tuple[NodeFilter, list[tuple[str, Mask]]]] = [
            (one, list(one.objections(one.narrowed(request), fleet))) for one in scheduler.filters
        ]
        passed = alive
        reasons: list[Reason] = []
        for one, objections in self._objections:
            left = passed
            for reason, against in objections:
                if count := int(np.count_nonzero(passed & against)):
                    reasons.append(Reason(one.name, reason, count))
                left = left & ~against
            passed = left
        self.reasons = tuple(reasons)
        rows = np.flatnonzero(passed)
        self._columns: list[tuple[NodePrioritizer, Counts]] = []
        total = np.zeros(rows.size, dtype=np.int64)
        for prioritizer in scheduler.prioritizers if rows.size else ():
            if prioritizer.left_out and not prioritizer.concerns(request, fleet):
                continue
            scores = prioritizer.scores(prioritizer.narrowed(request), fleet, rows)
            self._columns.append((prioritizer, scores))
            total += prioritizer.weight * scores
        order = np.argsort(preference(fleet, rows, total))
        self.ranked = tuple(fleet.name_at(int(row)) for row in rows[order])
        self._place = {fleet.name_at(int(rows[at])): (rank, int(at)) for rank, at in enumerate(order, start=1)}

    def __contains__(self, name: object) -> bool:
        """Return whether there is such a node."""
        return name in self._fleet

    @override
    def targets(self) -> Iterable[str]:
        return self._fleet.names()

    @override
    def verdict(self, name: str) -> TargetVerdict:
        row, request = self._fleet.row_of(name), self._request
        filters = [
            FilterVerdict(
                one.name,
                tuple(reason for reason, against in objections if against[row]),
                tuple(one.details(one.narrowed(request), self._fleet, name)),
            )
            for one, objections in self._objections
        ]
        if self._only is not None and name != self._only:
            filters.insert(0, FilterVerdict(ONE_NODE, (f"the pod belongs on node {self._only} alone",)))
        rank, at = self._place.get(name, (None, -1))
        scores = [
            PartScore(one.name, int(has[at]), one.weight, tuple(one.details(one.narrowed(request), self._fleet, name)))
            for one, has in (self._columns if rank is not None else ())
        ]
        return TargetVerdict(name, tuple(filters), tuple(scores), rank)
