"""The state of the eviction service for one partition. It is small, because a process may hold a million bindings."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime

from moorage.decide.disruption.guard_index import Guards
from moorage.decide.disruption.leave_verdict import LeaveRequest
from moorage.decide.timers.deadline_index import DeadlineIndex
from moorage.runtime.engine.portions import PendingChecks
from moorage.runtime.measures import SeriesTally
from moorage.runtime.process.memory import Pool
from moorage.runtime.service import Freshness
from moorage.runtime.settings.moorage_configuration import Derived
from moorage.workers.eviction.eviction_task import (
    BoundTarget,
    EvictionRules,
    OpenRequest,
    Pending,
    PendingCheck,
    Tolerations,
    Traits,
)


@dataclass(slots=True)
class EvictionPartition:
    """The state of one partition."""

    rules: Derived[EvictionRules]
    """The rules of the present configuration."""

    partition: int = 0
    floor: int = 0
    """The highest generation of the tasks that were removed."""

    ended: DeadlineIndex[str] = field(default_factory=DeadlineIndex)
    """The time at which each ended eviction was decided, by key. It is removed some time later."""

    targets: dict[str, BoundTarget] = field(default_factory=dict)
    """The targets, by target key."""

    timers: dict[str, tuple[int, datetime | None]] = field(default_factory=dict)
    """The generation and deadline of this service's own timers, by their id."""

    pool: Pool[Tolerations] = field(default_factory=Pool)
    """One object for each distinct tuple of tolerations, by their fields (which hash much faster than models)."""

    traits: Pool[Traits] = field(default_factory=Pool)
    """One object for each distinct set of labels and purge mode, by their content."""

    guards: Guards = field(default_factory=Guards)
    """The guards that may hold an eviction: the view that the whole process shares."""

    pending: dict[tuple[str, str], Pending] = field(default_factory=dict)
    """Evictions that have come due and are to be decided on with the present state, by target and workload key."""

    leaves: dict[str, dict[str, dict[str, LeaveRequest]]] = field(default_factory=dict)
    """The requests to leave, by the keys of the target, of the workload and of the requester."""

    requests: dict[tuple[str, str], OpenRequest] = field(default_factory=dict)
    """The latest eviction request since the restore, by target and workload key."""

    rules_in_use: EvictionRules | None = None
    """The rules by which everything was last checked; None before the first check."""

    begun: bool = False
    """Whether the check of everything has begun since the restore."""

    unseen: PendingChecks = field(default_factory=PendingChecks)
    """The targets that this check has still to reach."""

    round: PendingChecks = field(default_factory=PendingChecks)
    """The targets that the reconciler's present round has still to reach."""

    checks: dict[str, PendingCheck] = field(default_factory=dict)
    """By target key, the checks of targets that have too many workloads for one call."""

    found: Freshness | None = None
    """The result of reading the present state, for the `wake` that follows."""

    waiting: dict[tuple[str, str], Pending] = field(default_factory=dict)
    """Pending evictions that wait for the taint-manager. None of them is in `pending`."""

    check_at: datetime | None = None
    """When to check the waiting evictions."""

    early: dict[tuple[str, str], Pending] = field(default_factory=dict)
    """Evictions that were due by another process's clock, but not by this one. Their timers do not fire again."""

    tally: SeriesTally[tuple[str, str]] = field(default_factory=SeriesTally)
    """The evictions that have changed since they were last counted, by target and workload key, and the counts."""

    early_until: DeadlineIndex[tuple[str, str]] = field(default_factory=DeadlineIndex)
    """Their deadlines."""

    def is_pending(self, place: tuple[str, str]) -> bool:
        """Return whether an eviction has come due and is not decided on yet."""
        return place in self.pending or place in self.waiting or place in self.early

    def put(self, place: tuple[str, str], pending: Pending) -> None:
        """Add an eviction that has come due. If it is already pending, it keeps its cause unless this is an answer."""
        self._drop_early(place)
        known = self.pending.get(place) or self.waiting.get(place)
        if known is None:
            self.pending[place] = pending
        elif pending.answer is not None:
            self.drop_pending(place)
            self.pending[place] = replace(pending, waited=known.waited)

    def drop_pending(self, place: tuple[str, str]) -> None:
        """Remove an eviction that is no longer pending."""
        if self.early:
            self._drop_early(place)
        if self.pending.pop(place, None) is None:
            self.waiting.pop(place, None)

    def wait(self, place: tuple[str, str], pending: Pending, until: datetime) -> None:
        """Check a pending eviction again later."""
        self.waiting[place] = pending
        if self.check_at is None:
            self.check_at = until

    def wait_for_deadline(self, place: tuple[str, str], pending: Pending, deadline: datetime) -> None:
        """Decide on a pending eviction again at its deadline, because it is not due by this process's clock."""
        self.early[place] = replace(pending, time=deadline)
        self.early_until.set(place, deadline)

    def _drop_early(self, place: tuple[str, str]) -> None:
        if self.early.pop(place, None) is not None:
            self.early_until.remove(place)

    def next_check(self) -> datetime | None:
        """Return when `check_again` has something to do; None for never."""
        return min((time for time in (self.check_at, self.early_until.next()) if time is not None), default=None)

    def check_again(self, now: datetime) -> None:
        """Make evictions that have waited for long enough pending again."""
        for place, _ in self.early_until.take_due(now):
            self.pending[place] = self.early.pop(place)
        if self.check_at is not None and self.check_at <= now:
            self.pending.update(self.waiting)
            self.waiting.clear()
            self.check_at = None

    def tidy(self, key: str, target: BoundTarget) -> None:
        """Remove a target without state."""
        if target.empty:
            self.targets.pop(key, None)
