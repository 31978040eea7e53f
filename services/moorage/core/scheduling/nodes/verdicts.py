"""Every filter's and prioritizer's word on every node for one pod: the decision again, with nothing thrown away.

Built from the plugins of a `Decider`, and apart from it, so that deciding stays as fast as it is: a decision counts
the nodes that the first filter against them rules out, and keeps the best few scores.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np

from moorage.core.scheduling.framework.verdicts import FilterVerdict, PartScore, Reason, TargetVerdict
from moorage.core.scheduling.nodes.fleet import Counts, Mask
from moorage.core.scheduling.nodes.plugin import Filter, Prioritizer, Request
from moorage.core.scheduling.nodes.scheduler import Decider, preference

ONE_NODE: Final = "DaemonSet"
"""Stands for a filter: a DaemonSet's pod belongs on one node."""


class NodeVerdicts:
    """What becomes of each node of a fleet, as it is now, for one pod. Holds as long as the fleet does not change.

    Args:
        decider: decides on the fleet.
        request: the pod.
        only: the one node that it may go to (a DaemonSet's pod).
    """

    def __init__(self, decider: Decider, request: Request, *, only: str | None = None) -> None:
        fleet = decider.fleet
        self._fleet, self._request, self._only = fleet, request, only
        alive = fleet.alive.copy()
        if only is not None:
            alive[:] = False
            if only in fleet:
                alive[fleet.row_of(only)] = True
        self.considered = int(np.count_nonzero(alive))
        """Nodes that may come into question at all."""

        self._objections: list[tuple[Filter, list[tuple[str, Mask]]]] = [
            (one, list(one.objections(request.shape, fleet, None if one.static else request.now)))
            for one in decider.filters
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
        """Why nodes are ruled out, in the order of the filters."""

        rows = np.flatnonzero(passed)
        self._columns: list[tuple[Prioritizer, Counts]] = []
        total = np.zeros(rows.size, dtype=np.int64)
        for prioritizer in decider.prioritizers if rows.size else ():
            scores = prioritizer.scores(request, fleet, rows)
            self._columns.append((prioritizer, scores))
            total += prioritizer.weight * scores
        order = np.argsort(preference(fleet, rows, total))
        self.ranked = tuple(fleet.name_at(int(row)) for row in rows[order])
        """The nodes that pass every filter, best first."""

        self._place = {fleet.name_at(int(rows[at])): (rank, int(at)) for rank, at in enumerate(order, start=1)}

    def __contains__(self, name: object) -> bool:
        """Whether there is such a node."""
        return name in self._fleet

    def names(self) -> Iterable[str]:
        """Every node: those that pass, best first, then the others by name."""
        yield from self.ranked
        yield from sorted(name for name in self._fleet.names() if name not in self._place)

    def verdict(self, name: str) -> TargetVerdict:
        """All that is said of one node.

        Raises:
            KeyError: there is no such node.
        """
        row, request = self._fleet.row_of(name), self._request
        filters = [
            FilterVerdict(
                one.name,
                tuple(reason for reason, against in objections if against[row]),
                tuple(one.details(request.shape, self._fleet, name, None if one.static else request.now)),
            )
            for one, objections in self._objections
        ]
        if self._only is not None and name != self._only:
            filters.insert(0, FilterVerdict(ONE_NODE, (f"the pod belongs on node {self._only} alone",)))
        rank, at = self._place.get(name, (None, -1))
        scores = [] if rank is None else [PartScore(one.name, int(has[at]), one.weight) for one, has in self._columns]
        return TargetVerdict(name, tuple(filters), tuple(scores), rank)
