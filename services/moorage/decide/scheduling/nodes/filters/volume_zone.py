"""Nodes in another zone or region than a volume of the pod, by the labels of the PersistentVolume of a bound claim."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np
from typing_extensions import override

from moorage.decide.scheduling.framework.plugins import Basis
from moorage.decide.scheduling.nodes.domains import has_label
from moorage.decide.scheduling.nodes.fleet import Fleet, Mask
from moorage.decide.scheduling.nodes.plugin import NodeFilter, PodRequest
from moorage.decide.scheduling.nodes.volumes import ZONE_LABELS

_PRESENT: Final = dict(zip(ZONE_LABELS[:2], ZONE_LABELS[2:], strict=True))
"""The older labels, each with the one that replaces it."""


class VolumeZone(NodeFilter):
    """Rules out nodes in another zone or region than a volume of the pod.

    A node without any label about zones or regions passes.
    """

    name = "VolumeZone"
    order = 55
    rests_on = Basis.VOLUMES

    @override
    def objections(self, request: PodRequest, fleet: Fleet) -> Iterable[tuple[str, Mask]]:
        against: Mask | None = None
        for volume in request.volumes:
            for key, values in volume.zones:
                away = _elsewhere(key, values, fleet)
                against = away if against is None else against | away
        if against is not None:
            placed = np.zeros(fleet.rows, dtype=np.bool_)
            for key in ZONE_LABELS:
                placed |= has_label(key, fleet)
            yield "node(s) had no available volume zone", against & placed

    @override
    def details(self, request: PodRequest, fleet: Fleet, target: str) -> Iterable[str]:
        facts = fleet.facts(target)
        labels = facts.labels if facts is not None else {}
        for volume in request.volumes:
            for key, values in volume.zones:
                present = labels.get(key, labels.get(_PRESENT.get(key, key)))
                where = f"{key} {', '.join(values)}"
                yield f"claim {volume.claim}: volume {volume.name} is in {where}, the node in {present}"


def _elsewhere(key: str, values: tuple[str, ...], fleet: Fleet) -> Mask:
    there = fleet.label(key).holding(lambda value: value in values, fleet.rows)
    if key in _PRESENT:
        unnamed = ~has_label(key, fleet)
        there |= unnamed & fleet.label(_PRESENT[key]).holding(lambda value: value in values, fleet.rows)
    return ~there


PLUGIN = VolumeZone()
