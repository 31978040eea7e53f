"""The state of a maintenance: the governor decides which targets are drained now (docs/domain.md, "Maintenance")."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from moorage_schemas.base import Model, Timestamp


class MaintainedTarget(Model):
    """One target in the present or the last window of a maintenance."""

    name: str
    stage: str
    """`Waiting`, `Draining`, `Drained`, `Done`, `NotDrained`, `Kept` or `Missed`."""

    since: Timestamp
    held_by: tuple[str, ...] = ()
    """The work that has not left, each with what holds its eviction."""


class MaintenanceProgressed(Model):
    """The state of a maintenance. Topic `maintenances`, keyed by its name. A tombstone when it is deleted."""

    event_type: ClassVar[str] = "io.moorage.maintenance.progressed.v1"

    name: str
    uid: str = ""
    generation: int = Field(ge=1)
    """Increases by one with each change."""

    kind: str
    """The kind of its targets."""

    phase: str
    """`Scheduled`, `Running`, `Completed` or `Failed`."""

    reason: str = ""
    begin_time: Timestamp | None = None
    """The begin of the present or the last window."""

    end_time: Timestamp | None = None
    deadline: Timestamp | None = None
    """By when all work must have left in this window."""

    next_time: Timestamp | None = None
    """When the next window begins. Empty while one is open."""

    targets: tuple[MaintainedTarget, ...] = ()
    """In their order."""
