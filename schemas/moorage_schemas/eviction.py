"""Evictions: which workload must leave which target, and when."""

from __future__ import annotations

from enum import StrEnum
from typing import ClassVar

from pydantic import Field

from moorage_schemas.base import Model, Timestamp
from moorage_schemas.refs import TargetRef, WorkloadRef
from moorage_schemas.taint import Taint


class EvictionState(StrEnum):
    """The states of an eviction. A deployer acts on `Requested`.

    An eviction goes from Scheduled to Requested to Completed. It goes from Scheduled to Cancelled if the cause
    disappears in time, and it may be Scheduled again while the same binding exists. An eviction that is due is Held
    while a budget, a pause or a rate holds it. A Held eviction may still be Cancelled.
    """

    SCHEDULED = "Scheduled"
    HELD = "Held"
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

    taint_generation: int = 0
    reason: str = ""
    message: str = ""
    decided_time: Timestamp
    report_time: Timestamp | None = None
    """When the report behind this decision was made. Used only to measure latency."""


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
