"""Nodes that the pod's `nodeSelector` or required node affinity does not select."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from moorage.core.placing.fleet import Fleet, Mask
from moorage.core.placing.node_terms import nodes_of_any, nodes_with
from moorage.core.placing.plugin import Filter
from moorage.core.placing.shape import PodShape


class NodeAffinity(Filter):
    """Both must hold: every label of the selector, and one of the affinity's terms."""

    name = "NodeAffinity"
    order = 30
    lasting = True

    def objections(
        self,
        shape: PodShape,
        fleet: Fleet,
        now: datetime | None,  # noqa: ARG002 - no matter of time
    ) -> Iterable[tuple[str, Mask]]:
        """See `Filter`."""
        if not shape.node_selector and shape.required is None:
            return
        passed = nodes_with(shape.node_selector, fleet)
        if shape.required is not None:
            passed &= nodes_of_any(shape.required.node_selector_terms, fleet)
        yield "node(s) didn't match Pod's node affinity/selector", ~passed


PLUGIN = NodeAffinity()
