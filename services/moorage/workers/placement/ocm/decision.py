"""The last decision on an OCM placement, and its PlacementDecisions."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from moorage.decide.scheduling.ocm.decisions.pages import DecisionPart
from moorage.workers.placement.engine.last_decision import LastDecision
from moorage_schemas.placement import DecisionGroupStatus, PlacementCondition, WorkloadPlaced

PLACEMENT_DECISION: Final = "PlacementDecision"
DECISION_PREFIX: Final = f"{PLACEMENT_DECISION}/"


@dataclass(slots=True, eq=False)
class SelectionDecision(LastDecision):
    """The last decision on a placement, without its PlacementDecisions and its reasons."""

    selected: int
    groups: tuple[DecisionGroupStatus, ...]
    conditions: tuple[PlacementCondition, ...]
    requeue_at: datetime | None
    """When to decide again even if nothing has changed."""

    spec_key: str
    """The key of the spec that it was decided for."""

    @property
    def says(self) -> tuple[object, ...]:
        """The reported values. A decision with the same values that moves no cluster is not written."""
        return (self.reason, self.message, self.selected, self.groups, self.conditions, self.requeue_at)


def selection_decision_of(event: WorkloadPlaced) -> SelectionDecision:
    """Return the fields of a decision that the state keeps."""
    return SelectionDecision(
        workload=event.workload.key,
        uid=event.uid,
        generation=event.generation,
        state=event.state,
        reason=event.reason,
        message=event.message,
        selected=event.selected,
        groups=event.decision_groups,
        conditions=event.conditions,
        requeue_at=event.decide_again,
        decided_time=event.decided_time,
        spec_key=event.template_hash,
    )


@dataclass(frozen=True, slots=True)
class DecisionPage:
    """A PlacementDecision in its written form."""

    uid: str
    """The uid of the placement."""

    generation: int
    part: DecisionPart


def page_number(name: str) -> int:
    """Return the number of a PlacementDecision among those of its placement, from its name or key."""
    number = name.rpartition("-")[2]
    return int(number) if number.isdigit() else 0
