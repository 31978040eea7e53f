"""Kinds that hold evictions: `PodDisruptionBudget` (policy/v1), `EvictionBudget` and `EvictionPause` (moorage.io)."""

from __future__ import annotations

from enum import StrEnum

from pydantic import Field

from moorage_schemas.base import OpenModel
from moorage_schemas.resources.meta import LabelSelector, Resource

Amount = int | str
"""A number, or a percentage such as `10%`."""


class PodDisruptionBudgetSpec(OpenModel):
    """The number of selected pods that must stay, or that may be unavailable. Exactly one of the two must be set."""

    min_available: Amount | None = None
    max_unavailable: Amount | None = None
    selector: LabelSelector | None = None
    """If absent, it selects nothing. If empty, it selects every pod of the namespace."""


class PodDisruptionBudget(Resource):
    """A budget for the pods of its namespace."""

    spec: PodDisruptionBudgetSpec = Field(default_factory=PodDisruptionBudgetSpec)


class BudgetPer(StrEnum):
    """The unit that has a separate count."""

    FLEET = "Fleet"
    ZONE = "Zone"
    NAMESPACE = "Namespace"
    WORKLOAD = "Workload"


class Scope(OpenModel):
    """Which evictions are selected. All parts are ANDed; an absent part selects all."""

    namespaces: list[str] | None = None
    zones: list[str] | None = None
    """`region/zone`, or `east:region/zone` in a cluster that is mirrored under that name."""

    targets: list[str] | None = None
    """`Kind/name`, such as `Node/n1`, or `east:Node/n1` in a cluster."""

    workloads: list[str] | None = None
    """`Kind/namespace/name` of the workload or of its owner, such as `Deployment/shop/web`, or
    `east:Deployment/shop/web` in a cluster."""

    selector: LabelSelector | None = None
    """Selects by the workload's labels."""


class EvictionReason(StrEnum):
    """The cause of an eviction. If it has several, the first in this order counts."""

    FAILURE = "Failure"
    """A taint of the target's health: its node or cluster is not ready, unreachable, out of service or under pressure.
    """

    TAINT = "Taint"
    """Any other taint, of a user or a policy."""

    DRAIN = "Drain"
    """A taint that declares a drain, such as `moorage.io/drain` or `node.kubernetes.io/unschedulable`."""

    MAINTENANCE = "Maintenance"
    """The taint `moorage.io/maintenance`, or the request of a maintenance."""

    REQUEST = "Request"
    """Any other request to leave."""


class Schedule(OpenModel):
    """Windows that recur: each begins at an instant of `cron` and lasts for `duration`."""

    cron: str
    """Five fields (minute, hour, day of month, month, day of week), or `@hourly`, `@daily`, `@weekly`, `@monthly`,
    `@yearly`."""

    time_zone: str = "UTC"
    """The IANA time zone of `cron`, such as `Europe/Berlin`."""

    duration: str
    """The length of each window in elapsed time, such as `8h` or `30m`. Windows that overlap are one."""


class EvictionBudgetSpec(OpenModel):
    """The maximum number of evictions at a time, or in a window. At least one of the two must be set."""

    per: BudgetPer = BudgetPer.FLEET
    scope: Scope = Field(default_factory=Scope)
    max_concurrent: Amount | None = None
    """The maximum at a time. An eviction is in progress until its binding has ended and the owner of the workload has
    all its replicas bound again, with none of them reported unhealthy. A percentage refers to the bound workloads in
    the scope, separately for each count, and is rounded up."""

    max_in_window: Amount | None = None
    window_seconds: int = Field(default=3600, ge=1)
    patience_seconds: int | None = Field(default=None, ge=0)
    """Seconds after which an eviction is granted despite this budget. If absent, the budget has no time limit."""

    schedule: Schedule | None = None
    """When the budget holds evictions. If absent, always. It counts evictions at any time."""

    reasons: list[EvictionReason] | None = None
    """The causes of the evictions that it counts and holds. If absent, all of them."""


class EvictionBudget(Resource):
    """A cap on evictions; cluster-scoped."""

    spec: EvictionBudgetSpec = Field(default_factory=EvictionBudgetSpec)


class EvictionPauseSpec(OpenModel):
    """Which evictions are paused, and why."""

    scope: Scope = Field(default_factory=Scope)
    reason: str = ""
    schedule: Schedule | None = None
    """When evictions are paused. If absent, always."""

    reasons: list[EvictionReason] | None = None
    """The causes of the evictions that are paused. If absent, all of them."""


class EvictionPause(Resource):
    """Holds evictions for as long as it exists. Deadlines are not postponed. Cluster-scoped."""

    spec: EvictionPauseSpec = Field(default_factory=EvictionPauseSpec)
