"""Nodes whose `spec.unschedulable` is set, unless the pod tolerates the taint that says so.

The taint alone would do; this reads the node itself, so it holds before the taint is there.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from moorage.core.scheduling.nodes.fleet import Fleet, Mask
from moorage.core.scheduling.nodes.plugin import Filter
from moorage.core.scheduling.nodes.shape import PodShape
from moorage.core.taints.dialects.kubernetes import UNSCHEDULABLE_TAINT
from moorage.core.taints.matching import first_match
from moorage.core.taints.tolerations import toleration_text


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

    def details(self, shape: PodShape, fleet: Fleet, name: str, now: datetime | None) -> Iterable[str]:  # noqa: ARG002 - no matter of time
        """See `Filter`."""
        facts = fleet.facts(name)
        if facts is not None and facts.unschedulable:
            found = first_match(UNSCHEDULABLE_TAINT, shape.tolerations)
            yield "spec.unschedulable is set" + (f", tolerated by {{{toleration_text(found)}}}" if found else "")


PLUGIN = NodeUnschedulable()
