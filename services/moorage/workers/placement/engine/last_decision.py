"""The last decision on a workload, as far as the next decision needs it. Each controller adds its own fields."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from moorage_schemas.placement import PlacementState, WorkloadPlaced


@dataclass(slots=True, eq=False)
class LastDecision:
    """The fields that the decisions of all three controllers share."""

    workload: str
    uid: str
    """The uid of the workload."""

    generation: int
    state: PlacementState
    reason: str
    message: str
    decided_time: datetime


def supersedes(event: WorkloadPlaced, known: LastDecision | None) -> bool:
    """Return whether a decision replaces the known one: it is newer, or about a later workload of the same name."""
    return known is None or known.uid != event.uid or event.generation >= known.generation
