"""The last decision on a workload, as far as the next one rests on it; each controller adds what is its own."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from moorage_schemas.placement import PlacementState, WorkloadPlaced


@dataclass(slots=True, eq=False)
class LastDecision:
    """What the records of all three controllers have in common."""

    workload: str
    uid: str
    """Of the workload."""

    generation: int
    state: PlacementState
    reason: str
    message: str
    decided_time: datetime


def supersedes(event: WorkloadPlaced, known: LastDecision | None) -> bool:
    """Whether a decision takes the place of the one that is known: it is newer, or about another life."""
    return known is None or known.uid != event.uid or event.generation >= known.generation
