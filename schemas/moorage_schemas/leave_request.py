"""Requests to leave: which program or person asks that a workload leaves a target, and by when."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, ClassVar

from pydantic import Field

from moorage_schemas.base import Model, Timestamp
from moorage_schemas.refs import TargetRef, WorkloadRef


class RequesterKind(StrEnum):
    """The kinds of requesters. Each has its own names, so two kinds never replace each other's requests."""

    EVICTION_REQUEST = "EvictionRequest"
    """An object `EvictionRequest`, which a person or a program has created."""

    DRIFT = "Drift"
    """Placement, because the target no longer fits the workload."""

    FAILBACK = "Failback"
    """Placement, because a target that the workload prefers is back."""

    REBALANCING = "Rebalancing"
    """Placement, because the workloads are spread unevenly."""

    PREEMPTION = "Preemption"
    """Placement, because a workload with a higher priority needs the room."""

    MAINTENANCE = "Maintenance"
    """The maintenance of a target."""


class Requester(Model):
    """The origin of a request to leave."""

    kind: RequesterKind
    name: str = Field(min_length=1, max_length=253, pattern=r"^[^|/\s]+$")
    """Unique among the requesters of its kind for one workload, such as the name of the `EvictionRequest`."""

    program: Annotated[str, Field(exclude_if=lambda program: not program)] = ""
    """The program on whose behalf it requests, such as `acme.io/drain`."""

    @property
    def key(self) -> str:
        """`Kind/name`, as in the key of the record."""
        return f"{self.kind.value}/{self.name}"


class LeaveRequested(Model):
    """A request that a workload leaves a target. Topic `eviction-requests`, keyed by workload, target and requester.

    The eviction service holds the binding to all of its requests and to the taints, and the earliest counts. A
    tombstone withdraws the request. It has no effect on a binding with another generation or another uid. Its requester
    removes it when that binding has ended.
    """

    event_type: ClassVar[str] = "io.moorage.leave.requested.v1"

    workload: WorkloadRef
    workload_uid: str = ""
    target: TargetRef
    generation: int = Field(ge=1)
    """The generation of the binding that is to end."""

    requester: Requester
    reason: str = ""
    """Why the requester requests it, in CamelCase."""

    message: str = ""
    deadline: Timestamp | None = None
    """When the workload has to leave. None means at once."""

    requested_time: Timestamp
