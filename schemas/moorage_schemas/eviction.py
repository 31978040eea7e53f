"""Evictions: which workload must leave which target, and when."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, ClassVar

from pydantic import Field

from moorage_schemas.base import Model, Timestamp
from moorage_schemas.leave_request import Requester
from moorage_schemas.refs import TargetRef, WorkloadRef
from moorage_schemas.taint import Taint


class EvictionState(StrEnum):
    """The states of an eviction. A deployer acts on `Requested`.

    An eviction goes from Scheduled to Requested to Completed. It goes from Scheduled to Cancelled if the cause
    disappears in time, and it may be Scheduled again while the same binding exists. An eviction that is due is Held
    while a budget, a pause or a rate holds it. A Held eviction may still be Cancelled. A Requested eviction of work
    whose deployer acknowledges evictions stays Requested until the deployer has, or its node is out of service.
    """

    SCHEDULED = "Scheduled"
    HELD = "Held"
    REQUESTED = "Requested"
    COMPLETED = "Completed"
    CANCELLED = "Cancelled"


class Escalation(Model):
    """What a deployer has reported when it did not remove evicted work."""

    reason: str
    """`Failed`: it could not, and tries again. `Refused`: it will not."""

    message: str = ""
    time: Timestamp
    """When the deployer observed this."""

    source: str
    """The source of the report: the deployer."""


class Acknowledgement(Model):
    """A deployer's report that evicted work is gone, or what a person has said of the whole node."""

    message: str = ""
    time: Timestamp
    """When the deployer observed this, or when the taint was there with the request."""

    source: str
    """The source of the report: the deployer. `taint/node.kubernetes.io/out-of-service` if the node has this taint."""


class EvictionDecided(Model):
    """The state of one eviction task. Topic `evictions`, keyed by workload, target and generation."""

    event_type: ClassVar[str] = "io.moorage.eviction.decided.v1"

    workload: WorkloadRef
    workload_uid: str = ""
    owner: WorkloadRef
    target: TargetRef
    generation: int = Field(ge=1)
    """The generation of the binding that the eviction ends."""

    revision: int = Field(ge=1)
    """Increases by one with each change of the task; a consumer ignores what is not newer."""

    state: EvictionState
    deadline: Timestamp | None = None
    """When a Scheduled eviction comes due. For a Held one: when it came due."""

    held_by: tuple[str, ...] = ()
    """What holds the eviction: `EvictionBudget/slow`, `PodDisruptionBudget/shop/web`, `EvictionPause/all` …"""

    asked: int = Field(default=0, ge=0)
    """The revision of the request that was sent to the governor. 0 if none was sent, or none is needed any more."""

    purge_mode: str = ""
    """The purge mode of the binding. With `Gracefully` the work keeps running until its binding ends."""

    taints: tuple[Taint, ...] = ()
    """The taints that cause the eviction."""

    requesters: Annotated[tuple[Requester, ...], Field(exclude_if=lambda found: not found)] = ()
    """The requesters whose requests cause the eviction, by kind and name. Empty if only taints do."""

    taint_generation: int = 0
    reason: str = ""
    message: str = ""
    decided_time: Timestamp
    requested_time: Annotated[Timestamp | None, Field(exclude_if=lambda time: time is None)] = None
    """When it became Requested. `decidedTime` moves with each later record of the task, this does not."""

    report_time: Timestamp | None = None
    """When the report behind this decision was made. Used only to measure latency."""

    deployer: Annotated[str, Field(exclude_if=lambda deployer: not deployer)] = ""
    """The deployer that has to acknowledge: the source of the last report that named exactly this binding when the
    eviction was requested. The binding stays until it has. Empty if nobody has to: then the binding ends at once."""

    escalated: Annotated[Escalation | None, Field(exclude_if=lambda escalated: escalated is None)] = None
    """Why the work was not removed, as last reported. It stays when the work is removed later."""

    acknowledged: Annotated[Acknowledgement | None, Field(exclude_if=lambda found: found is None)] = None
    """Who has reported that the work is gone, and when."""

    @property
    def escalation(self) -> Escalation | None:
        """Why the work is still there although it has to leave. None if nothing was reported, or it is gone."""
        is_open = self.state is EvictionState.REQUESTED and self.acknowledged is None
        return self.escalated if is_open else None


class GenerationFloor(Model):
    """The highest generation of the evictions that were removed from a partition. Topic `generation-floors`.

    Evictions that are over are removed after a while. A workload that is created again under its name must not get a
    generation that one of its earlier bindings had, because deployers compare them. So a workload that is not known
    gets generations above all floors.
    """

    event_type: ClassVar[str] = "io.moorage.eviction.generation-floor.v1"

    partition: int = Field(ge=0)
    """The partition of `evictions`. It is also the key of the record, which is in the same partition."""

    generation: int = Field(ge=1)
    """The highest generation. It never becomes lower."""
