"""Nodes in quarantine: they have the label `example.com/quarantine`, whose value is the reason."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from moorage.decide.scheduling.nodes.fleet import Fleet, Mask
from moorage.decide.scheduling.nodes.plugin import NodeFilter, PodRequest

LABEL: Final = "example.com/quarantine"


class Quarantine(NodeFilter):
    """Rules out nodes that are in quarantine."""

    name = "Quarantine"
    order = 15

    def objections(self, request: PodRequest, fleet: Fleet) -> Iterable[tuple[str, Mask]]:
        """See `NodeFilter`."""
        yield "node(s) were in quarantine", fleet.label(LABEL).holding(lambda value: value is not None, fleet.rows)

    def details(self, request: PodRequest, fleet: Fleet, target: str) -> Iterable[str]:
        """See `Plugin`."""
        facts = fleet.facts(target)
        if facts is not None and LABEL in facts.labels:
            yield f"in quarantine for {facts.labels[LABEL]}"


PLUGIN = Quarantine()
