"""Nodes with a `NoExecute` taint whose tolerated time has ended.

The time runs from the taint's `timeAdded`. A pod on such a node would have to leave at once, and so would each of its
replacements. Upstream counts from when its controller sees the pod, which gives each replacement the full time again
(deviation `expired-toleration-keeps-away`).
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Final

import numpy as np
from typing_extensions import override

from moorage.decide.scheduling.framework.plugins import Basis
from moorage.decide.scheduling.nodes.fleet import Counts, Fleet, Mask
from moorage.decide.scheduling.nodes.plugin import NodeFilter, PodRequest
from moorage.decide.scheduling.nodes.pod_shape import PodShape
from moorage.decide.taints.dialects.kubernetes import KUBERNETES
from moorage.decide.taints.eviction_verdict import EvictAt, EvictNow, verdict
from moorage.decide.taints.tolerations import judge_taints

_NEVER: Final = np.iinfo(np.int64).max
_EVER: Final = np.iinfo(np.int64).min


class TolerationOver(NodeFilter):
    """Rules out nodes with a `NoExecute` taint whose tolerated time has ended."""

    name = "TolerationOver"
    order = 25
    rests_on = Basis.CLOCK

    @override
    def objections(self, request: PodRequest, fleet: Fleet) -> Iterable[tuple[str, Mask]]:
        shape, now = request.shape, request.now
        timed = any(toleration.toleration_seconds is not None for toleration in shape.tolerations)
        if now is None or not timed or not fleet.evicting:
            return
        ends = fleet.remembered((self, shape.key), lambda: _ends(shape, fleet))
        yield "node(s) had taint(s) that are tolerated no longer", ends <= _micros(now)

    @override
    def details(self, request: PodRequest, fleet: Fleet, target: str) -> Iterable[str]:
        now, tolerations = request.now, request.shape.tolerations
        judged = judge_taints(fleet.evicting.get(target, ()), tolerations, KUBERNETES)
        if now is None or not fleet.fits_taints(tolerations)[fleet.row_of(target)]:
            return  # its taints rule it out anyway
        for one in judged:
            if one.until is not None:
                yield f"{one}, which is {'over' if one.until <= now else 'still to come'}"


def _ends(shape: PodShape, fleet: Fleet) -> Counts:
    """Return when each node's tolerated time ends, in microseconds. Otherwise excluded nodes have no end."""
    ends = np.full(fleet.rows, _NEVER, dtype=np.int64)
    fits = fleet.fits_taints(shape.tolerations)
    for name, taints in fleet.evicting.items():
        row = fleet.row_of(name)
        if fits[row] and all(taint.time_added is not None for taint in taints):
            found = verdict(taints, shape.tolerations)
            if isinstance(found, EvictAt):
                ends[row] = _micros(found.deadline)
            elif isinstance(found, EvictNow):  # The pod fits, so the taint is tolerated, but for no time at all.
                ends[row] = _EVER
    return ends


def _micros(instant: datetime) -> int:
    return int(instant.timestamp() * 1_000_000)


PLUGIN = TolerationOver()
