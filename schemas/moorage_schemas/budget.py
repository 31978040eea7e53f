"""Budgets: evictions that have come due ask the governor, which answers when no budget, pause or rate holds them."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from moorage_schemas.base import Model, Timestamp
from moorage_schemas.refs import TargetRef, WorkloadRef


class EvictionAsked(Model):
    """An eviction that has come due and that something may hold. Topic `eviction-asks`, keyed as the eviction.

    The eviction service writes it, once when it asks, again when the eviction is requested, and a tombstone when
    the task is over. All of it is in one partition, for budgets count over the whole fleet.
    """

    event_type: ClassVar[str] = "io.moorage.eviction.asked.v1"

    workload: WorkloadRef
    workload_uid: str = ""
    owner: WorkloadRef
    target: TargetRef
    generation: int = Field(ge=1)
    """Of the binding."""

    revision: int = Field(ge=1)
    """Grows with each record of this key."""

    labels: dict[str, str] = Field(default_factory=dict)
    """The workload's, for selectors of budgets."""

    zone: str = ""
    """The target's, `region/zone`."""

    due_time: Timestamp
    """When it came due; patience counts from here, and what came due first goes first."""

    requested: bool = False
    """Whether it is requested by now."""


class EvictionAnswered(Model):
    """The governor's answer. Topic `eviction-answers`, keyed as the eviction, partitioned by the target."""

    event_type: ClassVar[str] = "io.moorage.eviction.answered.v1"

    workload: WorkloadRef
    target: TargetRef
    generation: int = Field(ge=1)
    revision: int = Field(ge=1)
    """Grows with each answer to this ask."""

    asked: int = Field(default=0, ge=0)
    """The revision of the ask that it answers; an answer to an earlier one means nothing."""

    granted: bool
    held_by: tuple[str, ...] = ()
    """What holds it, sorted: `EvictionBudget/slow`, `PodDisruptionBudget/shop/web`, `EvictionPause/all`,
    `resource-eviction-rate`."""

    message: str = ""
    """What holds it, or why it goes in spite of that (patience), in words."""

    answered_time: Timestamp


class EvictionSlot(Model):
    """An eviction that was granted and still counts. Topic `eviction-slots`, keyed as the eviction, one partition.

    The governor's memory: a tombstone when it counts no more, for any budget.
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
    """False for an answer that holds: it says so, so that the same is not said again after a restart."""

    revision: int = Field(ge=1)
    """Of the last answer."""

    asked: int = Field(default=0, ge=0)
    """The revision of the ask that was answered."""

    workload_uid: str = ""
    over: bool = False
    """Whether the workload is whole again: then it counts in windows only."""

    held_by: tuple[str, ...] = ()


class BudgetCounted(Model):
    """What a budget counts now, for people. Topic `budgets`, keyed by the budget (`EvictionBudget//slow`)."""

    event_type: ClassVar[str] = "io.moorage.budget.counted.v1"

    budget: str
    """The resource's key, or `resource-eviction-rate`."""

    generation: int = Field(ge=1)
    allowed: int
    """Evictions that it would allow now; of one with several counts (each zone …) the least."""

    in_progress: int = 0
    in_window: int = 0
    held: int = 0
    """Evictions that it holds now."""

    expected: int = 0
    """Of a PodDisruptionBudget: pods that there should be."""

    healthy: int = 0
    """Of a PodDisruptionBudget: pods that count as healthy."""

    tokens: float = 0.0
    """Of a rate: what was left of its token at `counted_time`."""

    counted_time: Timestamp
