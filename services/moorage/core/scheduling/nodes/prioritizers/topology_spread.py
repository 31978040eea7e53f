"""Spreads the replicas of one owner over zones and nodes, as kube-scheduler's default constraints do.

For each topology, the replicas that are already in a node's domain are counted; fewer are better. The count is weighted
by the logarithm of the number of domains, so that zones and nodes have equal weight. A single pod is not spread.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from moorage.core.scheduling.framework.plugins import Basis
from moorage.core.scheduling.framework.scores import MAX_SCORE
from moorage.core.scheduling.nodes.fleet import Counts, Fleet, Rows
from moorage.core.scheduling.nodes.plugin import NodePrioritizer, PodRequest

ZONE: Final = "topology.kubernetes.io/zone"
ZONE_SKEW: Final = 5
NODE_SKEW: Final = 3
"""The tolerated differences between zones and between nodes (kube-scheduler's `maxSkew`). With a higher value,
differences matter less."""


class PodTopologySpread(NodePrioritizer):
    """Prefers zones and nodes with fewer replicas of the same controller.

    100 for the zone and node with the fewest replicas. The score falls with the number of replicas there.
    """

    name = "PodTopologySpread"
    weight = 2
    relative = True
    rests_on = Basis.DECIDED

    def scores(self, request: PodRequest, fleet: Fleet, rows: Rows) -> Counts:
        """See `NodePrioritizer`."""
        if not request.spread:
            return np.zeros(rows.size, dtype=np.int64)
        column = fleet.label(ZONE)
        zones = column.codes[: fleet.rows]
        by_zone = _by_zone(zones, request.replica_rows, zones[rows], len(column.values))
        base = by_zone + (NODE_SKEW - 1)
        raw = np.rint(base).astype(np.int64)[zones[rows]]
        # Few nodes have replicas, so only these are computed one by one.
        counts = np.bincount(request.replica_rows, minlength=fleet.rows)
        taken = counts.nonzero()[0]
        at = np.searchsorted(rows, taken)
        there = at < rows.size
        there[there] = rows[at[there]] == taken[there]
        more = counts[taken[there]] * math.log(rows.size + 2) + base[zones[taken[there]]]
        raw[at[there]] = np.rint(more).astype(np.int64)
        return _reversed(raw)

    def details(self, request: PodRequest, fleet: Fleet, target: str) -> Iterable[str]:
        """See `Plugin`."""
        if not request.spread:
            return
        row = fleet.row_of(target)
        zones = fleet.label(ZONE)
        zone = zones.values[zones.codes[row]]
        if zone is not None:
            in_zone = np.count_nonzero(zones.codes[request.replica_rows] == zones.codes[row])
            yield f"replicas in zone {zone}: {in_zone}"
        yield f"replicas on the node: {np.count_nonzero(request.replica_rows == row)}"


def _by_zone(
    zones: npt.NDArray[np.int32], replicas: Rows, of_rows: npt.NDArray[np.int32], size: int
) -> npt.NDArray[np.floating[Any]]:
    """What each zone adds to the score of its nodes. A node without a zone gets nothing."""
    in_zone = np.bincount(zones[replicas], minlength=size)
    domains = np.count_nonzero(np.bincount(of_rows, minlength=size)[1:])
    raw = in_zone * math.log(domains + 2) + (ZONE_SKEW - 1)
    raw[0] = 0
    return raw


def _reversed(raw: Counts) -> Counts:
    """Scale the numbers from lowest to highest, so that the lowest gets the highest score."""
    highest, lowest = int(raw.max(initial=0)), int(raw.min())
    if highest == 0:
        return np.full(raw.size, MAX_SCORE, dtype=np.int64)
    result: Counts = MAX_SCORE * (highest + lowest - raw) // highest
    return result


PLUGIN = PodTopologySpread()
