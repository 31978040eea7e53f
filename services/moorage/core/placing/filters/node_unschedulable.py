"""Nodes whose `spec.unschedulable` is set, unless the pod tolerates the taint that says so.

The taint alone would do; this reads the node itself, so it holds before the taint is there.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from moorage.core.dialects.kubernetes import UNSCHEDULABLE_TAINT
from moorage.core.matching import first_match
from moorage.core.placing.fleet import Fleet, Mask
from moorage.core.placing.plugin import Filter
from moorage.core.placing.shape import PodShape


class NodeUnschedulable(Filter):
    """Cordoned nodes take no new pods."""

    name = "NodeUnschedulable"
    order = 10

    def objections(
        self,
        shape: PodShape,
        fleet: Fleet,
        now: datetime | None,  # noqa: ARG002 - no matter of time
    ) -> Iterable[tuple[str, Mask]]:
        """See `Filter`."""
        if first_match(UNSCHEDULABLE_TAINT, shape.tolerations) is None:
            yield "node(s) were unschedulable", fleet.unschedulable


PLUGIN = NodeUnschedulable()
