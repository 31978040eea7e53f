"""The last decision on a claimed resource."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from moorage.workers.placement.engine.last_decision import LastDecision
from moorage_schemas.placement import LeavingTarget, PlacedTarget, WorkloadPlaced

SCHEDULED: Final = "Scheduled"
UNSCHEDULABLE: Final = "Unschedulable"
OTHER_SCHEDULER: Final = "OtherScheduler"
NO_REPLACEMENT: Final = "NoReplacement"
INVALID: Final = "Invalid"
"""One-word reasons of decisions."""


@dataclass(slots=True, eq=False)
class BindingDecision(LastDecision):
    """The last decision on a claimed resource, without all of its reasons."""

    owner: str
    owner_uid: str
    targets: dict[str, PlacedTarget]
    leaving: dict[str, LeavingTarget]
    policy: str
    placement_key: str
    affinity_name: str
    grounds: tuple[tuple[str, str], ...]
    report_time: datetime | None

    @property
    def waiting(self) -> bool:
        """Whether to try again at the next opening."""
        return self.reason not in {SCHEDULED, OTHER_SCHEDULER}


def binding_decision_of(event: WorkloadPlaced) -> BindingDecision:
    """Return what the state keeps of a decision."""
    return BindingDecision(
        workload=event.workload.key,
        uid=event.uid,
        owner=event.owner.key,
        owner_uid=event.owner_uid,
        generation=event.generation,
        state=event.state,
        targets={one.target.name: one for one in event.targets},
        leaving={one.target.name: one for one in event.leaving},
        policy=event.policy,
        placement_key=event.template_hash,
        affinity_name=event.affinity_name,
        reason=event.reason,
        grounds=tuple((result.filter, result.reason) for result in event.filters),
        message=event.message,
        decided_time=event.decided_time,
        report_time=event.report_time,
    )
