"""Whether a zone's rate explains that a node waited for its `NoExecute` taint."""

from __future__ import annotations

import datetime as dt
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Final

from tests.planes.shadow.history import FOREVER, ClusterHistory

_RATE: Final = 0.1  # nodes a second, the default of both
_SECONDARY_RATE: Final = 0.01
_LARGE: Final = 50
_THRESHOLD: Final = 0.55
_FEW: Final = 3


class ZoneClock:
    """How many nodes of each zone may get the taint in a time, by what the cluster showed of its nodes."""

    def __init__(self, cluster: ClusterHistory) -> None:
        changes: dict[str, list[tuple[dt.datetime, int, int]]] = defaultdict(list)
        for node in cluster.nodes.values():
            counted = False, False
            for version in node.versions:
                now = True, version.ready != "True"
                changes[version.zone].append((version.time, now[0] - counted[0], now[1] - counted[1]))
                counted = now
            if node.gone is not None and node.versions:
                changes[node.versions[-1].zone].append((node.gone, -1, -1 if counted[1] else 0))
        self._rates: Mapping[str, Sequence[tuple[dt.datetime, float]]] = {
            zone: list(_rates(found)) for zone, found in changes.items()
        }

    def tokens(self, zone: str, begin: dt.datetime, end: dt.datetime) -> float:
        """How many tokens the zone got at least. What is not whole is lost when the rate changes."""
        rates = [*self._rates.get(zone, ()), (FOREVER, 0.0)]
        spans = ((rate, max(begin, since), min(end, until)) for (since, rate), (until, _) in pairwise(rates))
        return max((rate * (last - first).total_seconds() for rate, first, last in spans if first < last), default=0.0)


def _rates(changes: Iterable[tuple[dt.datetime, int, int]]) -> Iterable[tuple[dt.datetime, float]]:
    nodes = waiting = 0
    last: float | None = None
    for time, more, less_ready in sorted(changes):
        nodes, waiting = nodes + more, waiting + less_ready
        rate = _rate(nodes, waiting)
        if rate != last:
            yield time, rate
            last = rate


def _rate(nodes: int, waiting: int) -> float:
    if waiting >= _FEW and waiting < nodes and waiting / nodes >= _THRESHOLD:
        return _SECONDARY_RATE if nodes > _LARGE else 0.0
    return _RATE
