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
    and a cancelled one may be scheduled again while the same binding stands. One that is due and that a budget,
    a pause or a rate holds is Held in between; it may still be cancelled.
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
    """The generation of the binding that it ends."""

    revision: int = Field(ge=1)
    """Grows by one with each change of the task; a consumer ignores what is not newer."""

    state: EvictionState
    deadline: Timestamp | None = None
    """When a scheduled eviction comes due; of a held one, when it came due."""

    held_by: tuple[str, ...] = ()
    """What holds it: `EvictionBudget/slow`, `PodDisruptionBudget/shop/web`, `EvictionPause/all` …"""

    asked: int = Field(default=0, ge=0)
    """The revision of the ask that the governor was sent; 0 when it was never asked, or need not be any more."""

    purge_mode: str = ""
    """As of the binding: with `Gracefully` the work runs on until its binding ends."""

    taints: tuple[Taint, ...] = ()
    """The taints that cause it."""

    taint_generation: int = 0
    reason: str = ""
    message: str = ""
    decided_time: Timestamp
    report_time: Timestamp | None = None
    """When the report that led here was made; for latency only."""
