"""Budgets: a due eviction sends a request to the governor, which grants it when no budget, pause or rate holds it."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field

from moorage_schemas.base import Model, Timestamp
from moorage_schemas.refs import TargetRef, WorkloadRef


class EvictionAsked(Model):
    """A request to grant an eviction that is due and may be held. Topic `eviction-asks`, keyed like the eviction.

    The eviction service writes one record when it requests the grant, another when the eviction is Requested, and a
    tombstone when the task is over. All records are in one partition, because budgets count over the whole fleet.
    """

    event_type: ClassVar[str] = "io.moorage.eviction.asked.v1"

    workload: WorkloadRef
    workload_uid: str = ""
    owner: WorkloadRef
    target: TargetRef
    generation: int = Field(ge=1)
    """The generation of the binding."""

    revision: int = Field(ge=1)
    """Increases with each record of this key."""

    labels: dict[str, str] = Field(default_factory=dict)
    """The workload's labels, for the selectors of budgets."""

    zone: str = ""
    """The target's zone, `region/zone`."""

    due_time: Timestamp
    """When the eviction came due. Patience counts from this time, and evictions are granted in this order."""

    requested: bool = False
    """Whether the eviction has been Requested."""

    reason: Annotated[str, Field(exclude_if=lambda reason: not reason)] = ""
    """The cause of the eviction, an `EvictionReason`. Empty in records of earlier versions."""


class EvictionAnswered(Model):
    """The governor's answer. Topic `eviction-answers`, keyed like the eviction, partitioned by the target."""

    event_type: ClassVar[str] = "io.moorage.eviction.answered.v1"

    workload: WorkloadRef
    target: TargetRef
    generation: int = Field(ge=1)
    revision: int = Field(ge=1)
    """Increases with each answer to this request."""

    asked: int = Field(default=0, ge=0)
    """The revision of the request that this answers. An answer to an earlier revision has no effect."""

    granted: bool
    held_by: tuple[str, ...] = ()
    """What holds the eviction, sorted: `EvictionBudget/slow`, `PodDisruptionBudget/shop/web`, `EvictionPause/all`,
    `resource-eviction-rate`."""

    message: str = ""
    """What holds the eviction, or why it is granted nevertheless (patience), as text."""

    answered_time: Timestamp
    valid_until: Annotated[Timestamp | None, Field(exclude_if=lambda time: time is None)] = None
    """When a guard with a schedule begins to hold. From then on a grant has no effect. None if there is no such guard.
    """


class EvictionSlot(Model):
    """An eviction that was granted and still counts. Topic `eviction-slots`, keyed like the eviction, one partition.

    The governor restores its state from these records. It writes a tombstone when no budget counts the eviction any
    longer.
    """

    event_type: ClassVar[str] = "io.moorage.eviction.slotted.v1"

    workload: WorkloadRef
    owner: WorkloadRef
    target: TargetRef
    generation: int = Field(ge=1)
    labels: dict[str, str] = Field(default_factory=dict)
    zone: str = ""
    granted_time: Timestamp
    granted: bool = True
    """False if the answer was to hold the eviction. It is recorded so that a restart does not repeat the same
    answer."""

    revision: int = Field(ge=1)
    """The revision of the last answer."""

    asked: int = Field(default=0, ge=0)
    """The revision of the request that was answered."""

    workload_uid: str = ""
    over: bool = False
    """Whether the eviction is no longer in progress (see `maxConcurrent` of `EvictionBudget`). Then it counts only in
    windows."""

    held_by: tuple[str, ...] = ()
    reason: Annotated[str, Field(exclude_if=lambda reason: not reason)] = ""
    """The cause of the eviction, as in its request."""


class BudgetCounted(Model):
    """The present counts of a budget, for people. Topic `budgets`, keyed by the budget (`EvictionBudget//slow`)."""

    event_type: ClassVar[str] = "io.moorage.budget.counted.v1"

    budget: str
    """The key of the resource, or `resource-eviction-rate`."""

    generation: int = Field(ge=1)
    allowed: int
    """The number of evictions that the budget would allow now. For a budget with several counts (one for each zone, for
    example), the smallest of them."""

    in_progress: int = 0
    in_window: int = 0
    held: int = 0
    """The number of evictions that the budget holds now."""

    expected: int = 0
    """For a PodDisruptionBudget: the number of pods that there should be."""

    healthy: int = 0
    """For a PodDisruptionBudget: the number of pods that count as healthy."""

    failure: Annotated[str, Field(exclude_if=lambda failure: not failure)] = ""
    """For a PodDisruptionBudget: why the number of evictions that it allows cannot be computed. Empty if it can."""

    allowed_since: Annotated[Timestamp | None, Field(exclude_if=lambda time: time is None)] = None
    """For a PodDisruptionBudget: since when it allows an eviction, or allows none, or cannot be computed."""

    active: Annotated[bool | None, Field(exclude_if=lambda active: active is None)] = None
    """For a budget or a pause with a schedule: whether it holds evictions now."""

    changes_time: Annotated[Timestamp | None, Field(exclude_if=lambda time: time is None)] = None
    """For a budget or a pause with a schedule: when `active` changes next."""

    tokens: float = 0.0
    """For a rate: what was left of its token at `counted_time`."""

    counted_time: Timestamp
