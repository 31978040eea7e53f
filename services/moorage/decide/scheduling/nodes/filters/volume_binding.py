"""Nodes from which a volume of the pod cannot be reached: the `nodeAffinity` of the PersistentVolume of a bound claim.

A claim that is not bound to a volume rules out no node (`unbound-claims-anywhere`). One that is being deleted rules out
every node.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from typing_extensions import override

from moorage.decide.kubernetes.selectors import field_holds, test_of
from moorage.decide.scheduling.framework.plugins import Basis
from moorage.decide.scheduling.nodes.fleet import Fleet, Mask
from moorage.decide.scheduling.nodes.plugin import NodeFilter, PodRequest
from moorage_schemas.resources.pod import NodeSelector, NodeSelectorTerm


class VolumeBinding(NodeFilter):
    """Rules out nodes that the `nodeAffinity` of a volume of the pod does not select."""

    name = "VolumeBinding"
    order = 50
    rests_on = Basis.VOLUMES

    @override
    def objections(self, request: PodRequest, fleet: Fleet) -> Iterable[tuple[str, Mask]]:
        for volume in request.volumes:
            if volume.leaving:
                yield f'persistentvolumeclaim "{volume.claim}" is being deleted', np.ones(fleet.rows, dtype=np.bool_)
                return
        for volume in request.volumes:
            if not volume.exists:
                missing = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
                yield missing, np.ones(fleet.rows, dtype=np.bool_)
                return
        against: Mask | None = None
        for volume in request.volumes:
            if volume.required is not None:
                away = ~_reaching(volume.required, fleet)
                against = away if against is None else against | away
        if against is not None:
            yield "node(s) didn't match PersistentVolume's node affinity", against

    @override
    def details(self, request: PodRequest, fleet: Fleet, target: str) -> Iterable[str]:
        row = fleet.row_of(target)
        for volume in request.volumes:
            if volume.leaving:
                yield f"claim {volume.claim} is being deleted"
            elif not volume.exists:
                yield f"claim {volume.claim}: volume {volume.name} does not exist"
            elif volume.required is not None:
                selects = "selects" if _reaching(volume.required, fleet)[row] else "does not select"
                yield f"claim {volume.claim}: volume {volume.name} {selects} the node"


def _reaching(required: NodeSelector, fleet: Fleet) -> Mask:
    passed = np.zeros(fleet.rows, dtype=np.bool_)
    for term in required.node_selector_terms:
        passed |= _nodes_of(term, fleet)
    return passed


def _nodes_of(term: NodeSelectorTerm, fleet: Fleet) -> Mask:
    """Return the nodes that a term selects by their labels. Upstream compares them without the node's name."""
    expressions, fields = term.match_expressions or (), term.match_fields or ()
    possible = bool(expressions or fields) and all(field_holds(one, "") for one in fields)
    passed = np.full(fleet.rows, possible, dtype=np.bool_)
    for one in expressions:
        passed &= fleet.label(one.key).holding(test_of(one, node=True), fleet.rows)
    return passed


PLUGIN = VolumeBinding()
