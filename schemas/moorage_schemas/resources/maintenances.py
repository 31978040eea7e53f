"""Kind `Maintenance` (moorage.io): targets are drained in a window, some at a time."""

from __future__ import annotations

from enum import StrEnum

from pydantic import Field

from moorage_schemas.base import OpenModel, Timestamp
from moorage_schemas.refs import TargetKind
from moorage_schemas.resources.budgets import Amount
from moorage_schemas.resources.meta import LabelSelector, Resource


class MaintenanceOrder(StrEnum):
    """The order in which targets begin."""

    NAME = "Name"
    ZONE = "Zone"
    """One zone after another, then by name."""


class WhenNotDrained(StrEnum):
    """What happens at the drain deadline to a target that work has not left."""

    RELEASE = "Release"
    """It takes work again."""

    KEEP = "Keep"
    """It keeps its taints until the window ends."""

    FAIL = "Fail"
    """The maintenance fails: all targets take work again, and no other begins."""


class MaintenanceTargets(OpenModel):
    """The targets of a maintenance. All parts are ANDed; an absent part selects all."""

    kind: TargetKind = TargetKind.NODE
    names: list[str] | None = None
    selector: LabelSelector | None = None
    """Selects by the target's labels."""

    zones: list[str] | None = None
    """`region/zone`."""


class MaintenanceWindow(OpenModel):
    """When targets may be drained. Exactly one of `start` and `cron` must be set."""

    start: Timestamp | None = None
    cron: str | None = None
    """As in a schedule of an EvictionBudget."""

    time_zone: str = "UTC"
    duration: str = ""
    """The length of each window, such as `4h`. Required."""


class MaintenanceSpec(OpenModel):
    """Which targets are drained, when, and how many at a time."""

    targets: MaintenanceTargets = Field(default_factory=MaintenanceTargets)
    window: MaintenanceWindow = Field(default_factory=MaintenanceWindow)
    reason: str = ""
    requested_by: str = ""
    drain_deadline: str | None = None
    """The time after the begin of a window by which all work must have left, such as `90m`. If absent, the window's
    end."""

    release_after: str = "0s"
    """How long a target stays without work after it was drained."""

    order: MaintenanceOrder = MaintenanceOrder.NAME
    max_at_once: Amount = 1
    """How many targets may be out of service at a time. A percentage refers to all targets of the maintenance."""

    min_healthy: Amount | None = None
    """How many targets must stay ready and in service. A percentage refers to all targets of the maintenance."""

    when_not_drained: WhenNotDrained = WhenNotDrained.RELEASE


class Maintenance(Resource):
    """A maintenance; cluster-scoped."""

    spec: MaintenanceSpec = Field(default_factory=MaintenanceSpec)
