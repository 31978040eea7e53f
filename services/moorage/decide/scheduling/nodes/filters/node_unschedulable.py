"""Nodes whose `spec.unschedulable` is set, unless the pod tolerates the taint for it.

The taint has the same effect. This filter reads the node itself, so it works before the taint is added.
"""

from __future__ import annotations

from collections.abc import Iterable

from typing_extensions import override

from moorage.decide.scheduling.nodes.fleet import Fleet, Mask
from moorage.decide.scheduling.nodes.plugin import NodeFilter, PodRequest
from moorage.decide.taints.dialects.kubernetes import UNSCHEDULABLE_TAINT
from moorage.decide.taints.matching import first_match
from moorage.decide.taints.tolerations import toleration_text


class NodeUnschedulable(NodeFilter):
    """Rules out cordoned nodes, which take no new pods."""

    name = "NodeUnschedulable"
    order = 10

    @override
    def objections(self, request: PodRequest, fleet: Fleet) -> Iterable[tuple[str, Mask]]:
        if first_match(UNSCHEDULABLE_TAINT, request.shape.tolerations) is None:
            yield "node(s) were unschedulable", fleet.unschedulable

    @override
    def details(self, request: PodRequest, fleet: Fleet, target: str) -> Iterable[str]:
        facts = fleet.facts(target)
        if facts is not None and facts.unschedulable:
            found = first_match(UNSCHEDULABLE_TAINT, request.shape.tolerations)
            yield "spec.unschedulable is set" + (f", tolerated by {{{toleration_text(found)}}}" if found else "")


PLUGIN = NodeUnschedulable()
