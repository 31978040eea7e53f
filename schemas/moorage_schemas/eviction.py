"""Evictions: which workload must leave which target, and when."""

from __future__ import annotations

from enum import StrEnum
from typing import ClassVar

from pydantic import Field

from moorage_schemas.base import Model, Timestamp
from moorage_schemas.refs import TargetRef, WorkloadRef
from moorage_schemas.taint import Taint


class EvictionState(StrEnum):
    """The states of an eviction; a deployer acts on `Requested`.

    Scheduled -> Requested -> Completed; Scheduled -> Cancelled when the cause goes away in time,
    and a cancelled one may be scheduled again while the same binding stands.
    """

    SCHEDULED = "Scheduled"
    REQUESTED = "Requested"
    COMPLETED = "Completed"
    CANCELLED = "Cancelled"


class EvictionDecided(Model):
    """The state of one eviction task. Topic `evictions`, keyed by workload, target and generation."""

    event_type: ClassVar[str] = "io.moorage.eviction.decided.v1"

    workload: WorkloadRef
    workload_uid: str = ""
    owner: WorkloadRef
    target: TargetRef
    generation: int = Field(ge=1)
    """The generation of the binding that it ends."""

    revision: int = Field(ge=1)
    """Grows by one with each change of the task; a consumer ignores what is not newer."""

    state: EvictionState
    deadline: Timestamp | None = None
    """When a scheduled eviction comes due."""

    taints: tuple[Taint, ...] = ()
    """The taints that cause it."""

    taint_generation: int = 0
    reason: str = ""
    message: str = ""
    decided_time: Timestamp
    report_time: Timestamp | None = None
    """When the report that led here was made; for latency only."""
