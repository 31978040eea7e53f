"""A decision on a claimed resource that is being made."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from moorage.decide.scheduling.karmada.policy_match import Policy
from moorage.decide.scheduling.karmada.scheduler import ClusterDecision
from moorage.workers.placement.karmada.decision import SCHEDULED, BindingDecision
from moorage.workers.placement.karmada.demand import Demand
from moorage.workers.placement.karmada.resource import ClaimedResource
from moorage.workers.placement.karmada.terms import binding_uid
from moorage_schemas.placement import LeavingTarget, PlacedTarget
from moorage_schemas.refs import WorkloadRef


@dataclass(slots=True)
class BindingDraft:
    """A decision that is being made."""

    resource: ClaimedResource
    policy: Policy
    demand: Demand
    workload: WorkloadRef
    known: BindingDecision | None
    """The previous decision on the same resource."""

    generation: int
    """The generation of the new decision, if there is one."""

    kept: dict[str, PlacedTarget] = field(default_factory=dict)
    leaving: dict[str, LeavingTarget] = field(default_factory=dict)
    ended: set[str] = field(default_factory=set)
    """Clusters whose binding has ended."""

    reason: str = SCHEDULED
    message: str = ""
    left: str = ""
    """A cluster that was left, for the message."""

    placement_key: str = ""
    affinity_name: str = ""
    decision: ClusterDecision | None = None
    report_time: datetime | None = None

    @property
    def uid(self) -> str:
        """The uid of the workload."""
        return binding_uid(self.resource)
