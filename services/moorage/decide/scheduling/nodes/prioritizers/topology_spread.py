"""Spreads pods over domains: by the `ScheduleAnyway` constraints of the pod, or the replicas of one owner by default.

For each topology, the pods that are already in a node's domain are counted; fewer are better. The count is weighted by
the logarithm of the number of domains, so that zones and nodes have equal weight. Without constraints, replicas are
spread over zones and nodes, as kube-scheduler's default constraints do. A single pod is then not spread.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Final

import numpy as np
from typing_extensions import override

from moorage.decide.scheduling.framework.plugins import MAX_SCORE, Basis
from moorage.decide.scheduling.nodes.completed_constraints import spread_of
from moorage.decide.scheduling.nodes.domains import HOSTNAME, counted_nodes, has_label, in_domain, matching_pods
from moorage.decide.scheduling.nodes.fleet import Counts, Fleet, Rows
from moorage.decide.scheduling.nodes.plugin import NodePrioritizer, PodRequest
from moorage.decide.scheduling.nodes.pod_constraints import EvenSpread

ZONE: Final = "topology.kubernetes.io/zone"
ZONE_SKEW: Final = 5
NODE_SKEW: Final = 3
"""The tolerated differences between zones and between nodes (kube-scheduler's `maxSkew`). With a higher value,
differences matter less."""


class PodTopologySpread(NodePrioritizer):
    """Prefers domains with fewer pods that match the pod's constraints, or with fewer replicas of its controller.

    100 for the domains with the fewest of them. The score falls with their number.
    """

    name = "PodTopologySpread"
    weight = 2
    relative = True
    rests_on = Basis.DECIDED | Basis.PODS

    @override
    def concerns(self, request: PodRequest, fleet: Fleet) -> bool:
        constraints = request.shape.spread
        return any(not one.hard for one in constraints) if constraints else request.spread

    @override
    def scores(self, request: PodRequest, fleet: Fleet, rows: Rows) -> Counts:
        return self.scorer(request, fleet, rows)(request)

    @override
    def scorer(self, request: PodRequest, fleet: Fleet, rows: Rows) -> Callable[[PodRequest], Counts]:
        if request.shape.spread:
            return lambda pod: _by_constraints(_soft(pod), pod, fleet, rows)
        spread = _Spread(fleet, rows)
        return lambda pod: spread.scores(pod.replica_rows) if pod.spread else np.zeros(rows.size, dtype=np.int64)

    @override
    def details(self, request: PodRequest, fleet: Fleet, target: str) -> Iterable[str]:
        row = fleet.row_of(target)
        if request.shape.spread:
            for one in _soft(request):
                pods = matching_pods(one, request.namespace, fleet)
                there = 0 if pods is None else int(in_domain(pods, one.topology_key, fleet)[row])
                yield f"matching pods by {one.topology_key}: {there}"
            return
        if not request.spread:
            return
        zones = fleet.label(ZONE)
        zone = zones.values[zones.codes[row]]
        if zone is not None:
            in_zone = np.count_nonzero(zones.codes[request.replica_rows] == zones.codes[row])
            yield f"replicas in zone {zone}: {in_zone}"
        yield f"replicas on the node: {np.count_nonzero(request.replica_rows == row)}"


def _soft(request: PodRequest) -> list[EvenSpread]:
    return [one for one in spread_of(request.shape, request.labels) if not one.hard]


def _by_constraints(soft: Sequence[EvenSpread], request: PodRequest, fleet: Fleet, rows: Rows) -> Counts:
    """Return the scores by the constraints of a pod. 0 for a node without the label of one of them."""
    scores = np.zeros(rows.size, dtype=np.int64)
    complete = fleet.alive.copy()
    for one in soft:
        complete &= has_label(one.topology_key, fleet)
    scored = complete[rows]
    among = rows[scored]
    if not soft or not among.size:
        return scores
    total = np.zeros(among.size, dtype=np.float64)
    for one in soft:
        pods = matching_pods(one, request.namespace, fleet)
        codes = fleet.label(one.topology_key).codes[among]
        domains = among.size if one.topology_key == HOSTNAME else int(np.count_nonzero(np.bincount(codes)))
        if pods is None:
            there = np.zeros(among.size, dtype=np.int64)
        elif one.topology_key == HOSTNAME:
            there = pods[among]
        else:
            counted = counted_nodes(one, request.shape, fleet)
            counting = complete if counted is None else complete & counted
            there = in_domain(np.where(counting, pods, 0), one.topology_key, fleet)[among]
        total += there * math.log(domains + 2) + (one.max_skew - 1)
    raw = np.floor(total + 0.5).astype(np.int64)
    highest, lowest = int(raw.max()), int(raw.min())
    scores[scored] = _reversed(raw, highest, lowest) if highest else MAX_SCORE
    return scores


class _Spread:
    """The zones of the nodes that passed. Nodes without a replica have the score of their zone."""

    def __init__(self, fleet: Fleet, rows: Rows) -> None:
        column = fleet.label(ZONE)
        self._size = len(column.values)
        self._zone_of: Rows = column.codes[: fleet.rows].astype(np.intp)
        self._zones = self._zone_of[rows]
        self._in_zone = np.bincount(self._zones, minlength=self._size)
        self._place_of: Rows = np.full(fleet.rows, -1, dtype=np.intp)
        self._place_of[rows] = np.arange(rows.size)
        self._for_zones = math.log(np.count_nonzero(self._in_zone[1:]) + 2)
        self._for_nodes = math.log(rows.size + 2)

    def scores(self, replicas: Rows) -> Counts:
        """Return the scores of the nodes that passed, with the rows of the replicas' nodes."""
        base = np.bincount(self._zone_of[replicas], minlength=self._size) * self._for_zones + (ZONE_SKEW - 1)
        base[0] = 0  # a node without a zone gets nothing for it
        base += NODE_SKEW - 1
        counts = np.bincount(replicas, minlength=self._place_of.size)
        taken = (counts > 0).nonzero()[0]
        places = self._place_of[taken]
        passed = places >= 0
        taken, places = taken[passed], places[passed]
        zones = self._zone_of[taken]
        in_use = np.rint(counts[taken] * self._for_nodes + base[zones]).astype(np.int64)
        unused = np.rint(base).astype(np.int64)
        present = np.concatenate([in_use, unused[self._in_zone > np.bincount(zones, minlength=self._size)]])
        highest, lowest = int(present.max()), int(present.min())
        result: Counts = _reversed(unused, highest, lowest).take(self._zones, mode="clip")
        result[places] = _reversed(in_use, highest, lowest)
        return result


def _reversed(raw: Counts, highest: int, lowest: int) -> Counts:
    """Scale the numbers from lowest to highest, so that the lowest gets the highest score."""
    result: Counts = MAX_SCORE * (highest + lowest - raw) // highest
    return result


PLUGIN = PodTopologySpread()
