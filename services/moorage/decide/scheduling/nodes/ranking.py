"""The nodes that passed every filter for one shape of pods, in an order that is kept up to date.

Equal pods follow one another: the replicas of a Deployment, or the pods of many Deployments with one template. From one
to the next, only the nodes change to which pods were added or from which pods were removed. Only these are scored
again, for all prioritizers whose points for a node depend on nothing but that node. The others are computed each time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Final

import numpy as np
import numpy.typing as npt

from moorage.decide.scheduling.framework.plugins import Basis
from moorage.decide.scheduling.nodes.fleet import Counts, Fleet, Mask, Rows
from moorage.decide.scheduling.nodes.plugin import NodePrioritizer, PodRequest
from moorage.decide.scheduling.nodes.pod_shape import PodShape
from moorage_schemas.placement import TargetScore

RANK_BITS: Final = 22
POD_BITS: Final = 20
TIE_BITS: Final = RANK_BITS + POD_BITS
"""The number of bits of `preference` below the points."""

_LAST: Final = np.iinfo(np.int64).max

Keys = npt.NDArray[np.int64]


class Ranking:
    """The nodes that passed, with their points from the prioritizers that do not depend on earlier decisions.

    It is valid while no node changes (`Fleet.version`) and the same nodes pass.

    Args:
        passed: the nodes that passed every filter.
    """

    def __init__(self, fleet: Fleet, prioritizers: Sequence[NodePrioritizer], shape: PodShape, passed: Mask) -> None:
        self._passed = passed
        self._version = fleet.version
        self._fleet = fleet
        self.rows: Rows = np.flatnonzero(passed)
        self._request = PodRequest(shape)
        self._prioritizers = prioritizers
        self._names = tuple(one.name for one in prioritizers)
        self._points: list[Counts | None] = [None] * len(prioritizers)
        self._scorers: list[tuple[int, Callable[[PodRequest], Counts]]] = []
        self._on_usage: list[int] = []
        self._total: Counts = np.zeros(self.rows.size, dtype=np.int64)
        self._place_of: Rows = np.full(fleet.rows, -1, dtype=np.intp)
        self._place_of[self.rows] = np.arange(self.rows.size)
        self._mark = fleet.usage_mark
        for number, one in enumerate(prioritizers):
            if not one.shared:
                self._scorers.append((number, one.scorer(self._request, fleet, self.rows)))
                continue
            points = self._points[number] = one.weight * one.scores(self._request, fleet, self.rows)
            self._total += points
            if Basis.USAGE in one.rests_on:
                self._on_usage.append(number)
        self._keys = preference(fleet, self.rows, self._total)

    def ranks(self, passed: Mask) -> bool:
        """Return whether it is still valid, and exactly these nodes passed."""
        known = self._passed
        return self._version == self._fleet.version and (known is passed or bool((known == passed).all()))

    def best(self, request: PodRequest, count: int) -> tuple[TargetScore, ...]:
        """Return the best nodes for a pod of this shape, best first, with their points."""
        self._follow()
        keys, points = self._keys, self._points
        left_out: tuple[int, ...] = ()
        for number, scorer in self._scorers:
            if not self._prioritizers[number].concerns(request, self._fleet):
                points[number] = None
                if self._prioritizers[number].left_out:
                    left_out += (number,)
                continue
            found = points[number] = self._prioritizers[number].weight * scorer(request)
            keys = keys - (found << TIE_BITS)
        best = _lowest(keys, count)
        names, fleet, rows = self._names, self._fleet, self.rows
        if left_out:
            names, points = _without(names, left_out), [one for at, one in enumerate(points) if at not in left_out]
        parts = zip(*([0] * len(best) if one is None else one[best].tolist() for one in points), strict=True)
        figures = parts if points else [()] * len(best)
        return tuple(
            _target_score(fleet.name_at(row), names, given)
            for row, given in zip(rows[best].tolist(), figures, strict=True)
        )

    def _follow(self) -> None:
        """Score the nodes again on which pods were added or removed."""
        fleet = self._fleet
        mark = fleet.usage_mark
        if mark == self._mark:
            return
        touched = fleet.used_since(self._mark)
        self._mark = mark
        if touched is None:
            places, rows = np.arange(self.rows.size), self.rows
        else:
            places = self._place_of[touched]
            places = places[places >= 0]
            rows = self.rows[places]
        if not rows.size:
            return
        for number in self._on_usage:
            one, points = self._prioritizers[number], self._points[number]
            if points is not None:
                now = one.weight * one.scores(self._request, fleet, rows)
                self._total[places] += now - points[places]
                points[places] = now
        self._keys[places] = _ties(fleet, rows) - (self._total[places] << TIE_BITS)


def preference(fleet: Fleet, rows: Rows, total: Counts) -> Keys:
    """Return a sort key for (total descending, pods, name) of each row, so that one sort orders by all three."""
    order: Keys = _ties(fleet, rows) - (total << TIE_BITS)
    return order


def _ties(fleet: Fleet, rows: Rows) -> Keys:
    """Return the sort key for (pods, name) of each row, for nodes with equal totals."""
    pods: Counts = np.minimum(fleet.pod_counts[rows], (1 << POD_BITS) - 1)
    return (pods << RANK_BITS) + fleet.ranks()[rows]


def _lowest(keys: Keys, count: int) -> list[int]:
    """Return the positions of the lowest keys in ascending order. The keys are distinct, and are left as they were."""
    found: list[int] = []
    lowest = []
    for _ in range(min(count, keys.size)):
        place = int(keys.argmin())  # a few searches are faster than one partial sort
        found.append(place)
        lowest.append(keys[place])
        keys[place] = _LAST
    for place, key in zip(found, lowest, strict=True):
        keys[place] = key
    return found


@lru_cache(maxsize=256)
def _without(names: tuple[str, ...], left_out: tuple[int, ...]) -> tuple[str, ...]:
    """Return the names without some of them. Equal ones are one object, which `_target_score` compares fast."""
    return tuple(name for at, name in enumerate(names) if at not in left_out)


@lru_cache(maxsize=65_536)
def _target_score(name: str, prioritizers: tuple[str, ...], points: tuple[int, ...]) -> TargetScore:
    """Return the points of a node. The best nodes for a pod are mostly also the best for the one before it."""
    return TargetScore(target=name, total=sum(points), scores=dict(zip(prioritizers, points, strict=True)))
