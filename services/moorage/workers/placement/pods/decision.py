"""The last decision on a pod."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from sys import intern
from typing import Final

from moorage.workers.placement.engine.last_decision import LastDecision
from moorage_schemas.placement import PlacementState, WorkloadPlaced

REPLACES: Final = "replaces Pod/"
"""The beginning of the text about what a pod replaces. This text ends the message."""


@dataclass(slots=True, eq=False)
class PodDecision(LastDecision):
    """The last decision on a pod, without its reasons. The message is kept only while the pod waits."""

    owner: str
    owner_uid: str
    template_hash: str
    index: int
    node: str
    """The pod's node; empty when it has none."""

    previous: str
    """The previous node."""

    binding_generation: int
    grounds: tuple[tuple[str, str], ...]
    """Why it is pending: filters and their reasons, without the counts, which change often."""

    replaces: str
    why: str
    """The text about a replacement: the pod that it replaces, and why that pod had to leave."""

    report_time: datetime | None

    @property
    def placed(self) -> bool:
        """Whether it has a node."""
        return self.state is PlacementState.PLACED

    @property
    def pending(self) -> bool:
        """Whether it waits for a node."""
        return self.state is PlacementState.PENDING


def pod_decision_of(event: WorkloadPlaced) -> PodDecision:
    """Return the fields of a decision that the state keeps."""
    return PodDecision(
        workload=event.workload.key,
        uid=event.uid,
        owner=intern(event.owner.key),
        owner_uid=intern(event.owner_uid),
        template_hash=intern(event.template_hash),
        index=event.index,
        generation=event.generation,
        state=event.state,
        node=intern(event.target.name) if event.target else "",
        previous=event.previous_target.name if event.previous_target else "",
        binding_generation=event.binding_generation,
        reason=intern(event.reason),
        grounds=tuple((result.filter, result.reason) for result in event.filters),
        message=event.message if event.state is PlacementState.PENDING else "",
        replaces=event.replaces,
        why=event.message[event.message.find(REPLACES) :] if event.replaces and REPLACES in event.message else "",
        decided_time=event.decided_time,
        report_time=event.report_time,
    )
