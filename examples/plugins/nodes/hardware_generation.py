"""Newer hardware: the label `example.com/hardware-generation` is its number."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np

from moorage.decide.scheduling.framework.plugins import normalised
from moorage.decide.scheduling.nodes.fleet import Counts, Fleet, Rows
from moorage.decide.scheduling.nodes.plugin import NodePrioritizer, PodRequest

LABEL: Final = "example.com/hardware-generation"


class HardwareGeneration(NodePrioritizer):
    """Prefers nodes of a newer hardware generation: 100 for the newest."""

    name = "HardwareGeneration"
    weight = 4
    relative = True

    def scores(self, request: PodRequest, fleet: Fleet, rows: Rows) -> Counts:
        """See `NodePrioritizer`."""
        column = fleet.label(LABEL)
        numbers = np.array([_number(value) for value in column.values], dtype=np.int64)
        return normalised(numbers[column.codes[rows]])

    def details(self, request: PodRequest, fleet: Fleet, target: str) -> Iterable[str]:
        """See `Plugin`."""
        facts = fleet.facts(target)
        yield f"hardware generation {_number(facts.labels.get(LABEL) if facts is not None else None)}"


def _number(value: str | None) -> int:
    return int(value) if value is not None and value.isdecimal() else 0


PLUGIN = HardwareGeneration()
