"""What holds evictions back: `PodDisruptionBudget` (policy/v1), `EvictionBudget` and `EvictionPause` (moorage.io)."""

from __future__ import annotations

from enum import StrEnum

from pydantic import Field

from moorage_schemas.base import OpenModel
from moorage_schemas.resources.meta import LabelSelector, Resource

Amount = int | str
"""A number, or a percentage such as `10%`."""


class PodDisruptionBudgetSpec(OpenModel):
    """How many of the selected pods must stay, or may be away; one of the two."""

    min_available: Amount | None = None
    max_unavailable: Amount | None = None
    selector: LabelSelector | None = None
    """Absent selects nothing, empty selects every pod of the namespace."""


class PodDisruptionBudget(Resource):
    """A budget for the pods of its namespace."""

    spec: PodDisruptionBudgetSpec = Field(default_factory=PodDisruptionBudgetSpec)


class BudgetPer(StrEnum):
    """What has a count of its own."""

    FLEET = "Fleet"
    ZONE = "Zone"
    NAMESPACE = "Namespace"
    WORKLOAD = "Workload"


class Scope(OpenModel):
    """Which evictions: all parts are ANDed, an absent one selects all."""

    namespaces: list[str] | None = None
    zones: list[str] | None = None
    """`region/zone`."""

    targets: list[str] | None = None
    """`Kind/name`, such as `Node/n1`."""

    workloads: list[str] | None = None
    """`Kind/namespace/name` of the workload or of what makes it, such as `Deployment/shop/web`."""

    selector: LabelSelector | None = None
    """The workload's labels."""


class EvictionBudgetSpec(OpenModel):
    """At most so many evictions at a time, or in a window; at least one of the two."""

    per: BudgetPer = BudgetPer.FLEET
    scope: Scope = Field(default_factory=Scope)
    max_concurrent: Amount | None = None
    """At a time: an eviction is under way until its binding has ended and what makes the workload has all its
    replicas bound again, none of them reported unhealthy. A percentage is of the bound workloads in the scope, of each
    count, rounded up."""

    max_in_window: Amount | None = None
    window_seconds: int = Field(default=3600, ge=1)
    patience_seconds: int | None = Field(default=None, ge=0)
    """Seconds after which an eviction goes in spite of this budget; absent means never."""


class EvictionBudget(Resource):
    """A cap on evictions; cluster-scoped."""

    spec: EvictionBudgetSpec = Field(default_factory=EvictionBudgetSpec)


class EvictionPauseSpec(OpenModel):
    """Which evictions are paused, and why."""

    scope: Scope = Field(default_factory=Scope)
    reason: str = ""


class EvictionPause(Resource):
    """Holds evictions for as long as it exists; deadlines run on. Cluster-scoped."""

    spec: EvictionPauseSpec = Field(default_factory=EvictionPauseSpec)
