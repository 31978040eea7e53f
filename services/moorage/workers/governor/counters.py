"""Counters: the present count of each budget, whether it allows one more eviction, and its status.

An `EvictionBudget` has one counter for the fleet, or one for each zone, namespace or owner. A `PodDisruptionBudget` has
one, and the limit on evictions from clusters has one. Requests wait in queues (`wait_queue`). A queue that is held
watches one of the counters that hold it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping
from datetime import datetime, timedelta
from typing import Final

from typing_extensions import override

from moorage.decide.disruption.budgets import (
    LEAVE_LASTS,
    NOT_SCALED,
    RATE,
    Budget,
    Disruption,
    Disruptions,
    Subject,
    disruptions,
)
from moorage.decide.disruption.token_bucket import Bucket
from moorage.runtime.service import EVERYTHING
from moorage.workers.governor.guard_windows import GuardWindows
from moorage.workers.governor.view import GovernorView
from moorage.workers.governor.wait_queue import Counter
from moorage_schemas.budget import BudgetCounted
from moorage_schemas.keys import BindingKey, split_cluster
from moorage_schemas.refs import TargetKind
from moorage_schemas.times import format_time

_UNBOUNDED = 1 << 31
_CLUSTERS = f"{TargetKind.CLUSTER.value}/"


class BudgetCounter(Counter):
    """One counter of an `EvictionBudget`."""

    def __init__(self, budget: Budget, part: str, view: GovernorView, windows: GuardWindows) -> None:
        patience = None if budget.patience is None else timedelta(seconds=budget.patience)
        super().__init__(budget.key, budget.name, part, patience)
        self.budget = budget
        self.part = part
        self.progress = 0
        self.window: dict[str, datetime] = {}
        """The evictions that were granted within the window, and when."""

        self._view = view
        self._windows = windows

    def limits(self) -> tuple[int, int]:
        """Return how many evictions are allowed at a time, and how many in the window."""
        budget, base = self.budget, self._view.base(self.budget, self.part)
        at_a_time, in_window = (
            _UNBOUNDED if share is None else share.limit(base) for share in (budget.concurrent, budget.in_window)
        )
        return at_a_time, in_window

    @property
    def idle(self) -> bool:
        """Whether nothing waits or counts for it. A new counter of this part would be equal."""
        return not (self.progress or self.window or self.queues)

    @property
    def allowed(self) -> int:
        """The number of further evictions that it allows now. Outside of the windows of its schedule, any number."""
        if self.budget.windows is not None and not self._windows.is_active(self.key):
            return _UNBOUNDED
        at_a_time, in_window = self.limits()
        return max(0, min(at_a_time - self.progress, in_window - len(self.window)))

    @override
    def blocks(self, *, unhealthy: bool = False) -> bool:
        return self.allowed == 0

    @override
    def words(self) -> str:
        at_a_time, in_window = self.limits()
        where = f" in {self.part}" if self.part else ""
        if self.progress >= at_a_time:
            text = f"{self.progress} of {at_a_time} evictions at a time{where} are in progress"
        else:
            text = f"{len(self.window)} of {in_window} evictions in {self.budget.window} s{where} were granted"
        end = self._windows.end_of(self.key)
        return text if end is None else f"{text}, in its window until {format_time(end)}"


class DisruptionCounter(Counter):
    """The counter of a `PodDisruptionBudget`."""

    def __init__(self, guard: Disruption, view: GovernorView, patience: timedelta, unread: Mapping[str, str]) -> None:
        super().__init__(guard.key, guard.name, "", patience)
        self.guard = guard
        self.leaving = 0
        """The number of pods that have a grant and would otherwise count as healthy."""

        self._view = view
        self._unread = unread

    def count(self) -> Disruptions:
        """Return the number of evictions that it allows now."""
        selected = self._view.selected(self.key)
        healthy = selected.pods - selected.unhealthy - self.leaving
        return disruptions(self.guard, pods=selected.pods, healthy=healthy, scale=selected.scale)

    @property
    @override
    def shut(self) -> bool:
        # whether an unhealthy pod may be evicted depends on more than the count
        return False

    @override
    def blocks(self, *, unhealthy: bool = False) -> bool:
        if self.key in self._unread:
            return True
        return not self.count().lets_go(unhealthy=unhealthy, always=self.guard.always_allow_unhealthy)

    @override
    def words(self) -> str:
        # The text stays until something else holds the eviction, so it contains the count in any case.
        count = self.count()
        text = f"{count.healthy} of {count.desired} needed pods are healthy" if count.scaled else NOT_SCALED
        if service := self._unread.get(self.key):
            return f"{text}, and {service} has not processed all reports about its pods"
        return text


class RateCounter(Counter):
    """The limit on evictions from clusters per second."""

    def __init__(self, rate: float) -> None:
        super().__init__(RATE, RATE, "", None)
        self.rate = rate
        self.now: datetime | None = None
        self.bucket: Bucket | None = None
        self.taken = False
        """Whether a token was taken but not written yet."""

        self.unused: dict[str, datetime] = {}
        """The evictions that were granted but are not requested yet, and when they were granted."""

    def at(self, now: datetime) -> None:
        """Set its clock. A new bucket is full."""
        self.now = now
        self.bucket = Bucket.full(self.rate, now) if self.bucket is None else self.bucket.not_after(now)

    def swap(self, rate: float, now: datetime) -> None:
        """Use another rate. Only a whole token that was gained under the old rate counts, as for zones."""
        self.rate = rate
        if self.bucket is not None:
            self.bucket = self.bucket.swap(rate, now)
            self.taken = True

    def restore(self, tokens: float, time: datetime) -> None:
        """Continue with the tokens of an earlier time."""
        self.bucket = Bucket(self.rate, tokens, time)

    def take(self) -> None:
        """Take a token."""
        if self.bucket is not None and self.now is not None:
            self.bucket = self.bucket.take(self.now)
            self.taken = True

    @property
    def next_token(self) -> datetime | None:
        """When the next token is available; None for never, or while an earlier grant must be requested first."""
        return None if self.bucket is None or self._is_kept_waiting() else self.bucket.next_token()

    @override
    def blocks(self, *, unhealthy: bool = False) -> bool:
        # a grant is overdue if it has not been requested for a while
        if self.bucket is None or self.now is None or not self.bucket.has_token(self.now):
            return True
        return self._is_kept_waiting()

    def _is_kept_waiting(self) -> bool:
        now = self.now
        return now is not None and any(now - time >= LEAVE_LASTS for time in self.unused.values())

    @override
    def words(self) -> str:
        return f"{self.rate:g} evictions per second" if self.rate else "the rate is 0"

    @property
    def limits(self) -> bool:
        """Whether there is a limit."""
        return not math.isinf(self.rate)


class Counters:
    """All counters that have waiting requests or counted evictions.

    Args:
        rate: evictions from clusters per second; `inf` for no limit.
        patience: how long a PodDisruptionBudget may hold an eviction.
    """

    def __init__(self, rate: float, patience: timedelta) -> None:
        self.view = GovernorView()
        self.windows = GuardWindows()
        self.rate = RateCounter(rate)
        self.opened: dict[Counter, None] = {}
        """Counters that may now allow an eviction that they have held before."""

        self.stale: dict[str, None] = {}
        """The keys of budgets whose counts have changed."""

        self.unread: dict[str, str] = {}
        """The keys of disruption budgets about whose pods there are unprocessed reports, each with the service that has
        them. These budgets allow nothing meanwhile."""

        self._touched: dict[BudgetCounter, None] = {}
        self._patience = patience
        self._all: dict[tuple[str, str], Counter] = {self.rate.id: self.rate}

    def use(self, rate: float, patience: timedelta, now: datetime) -> bool:
        """Use another rate and patience. Return whether one of them differs."""
        if (rate, patience) == (self.rate.rate, self._patience):
            return False
        if rate != self.rate.rate:
            self.rate.swap(rate, now)
        self._patience = patience
        return True

    def __iter__(self) -> Iterator[Counter]:
        return iter(self._all.values())

    def of(self, subject: Subject) -> list[Counter]:
        """Return the counters of an eviction: disruption budgets by name, budgets by name, the rate."""
        guards = self.view.guards
        found: list[Counter] = [
            self.disruption(guard) for guard in guards.disruptions_of(subject.workload, subject.labels)
        ]
        found += [self._budget(budget, budget.part(subject)) for budget in guards.budgets_of(subject)]
        if self.rate.limits and split_cluster(subject.target)[1].startswith(_CLUSTERS):
            found.append(self.rate)
        return found

    def disruption(self, guard: Disruption) -> DisruptionCounter:
        """Return the counter of a PodDisruptionBudget."""
        counter = self._all.get((guard.key, ""))
        if not isinstance(counter, DisruptionCounter):
            counter = self._all[guard.key, ""] = DisruptionCounter(guard, self.view, self._patience, self.unread)
        return counter

    def use_unread(self, lagging: Mapping[str, str], view: GovernorView) -> None:
        """Note the bindings and nodes about which services have unprocessed records; `EVERYTHING` stands for all."""
        guards, unread = view.guards, dict[str, str]()
        for key, service in lagging.items():
            if key == EVERYTHING:
                unread.update(dict.fromkeys(guards.disruptions, service))
                continue
            for binding in (key, *view.pods_on(key)):
                if (bound := view.bound(binding)) is not None:
                    workload = BindingKey.parse(binding).workload
                    unread.update((guard.key, service) for guard in guards.disruptions_of(workload, bound.labels))
        read = self.unread.keys() - unread.keys()
        self.unread.clear()
        self.unread.update(unread)
        for key in sorted(read):
            if (counter := self._all.get((key, ""))) is not None:
                self.change(counter, opens=True)

    def get(self, counter_id: tuple[str, str]) -> Counter | None:
        """Return a counter, if anything has counted for it."""
        return self._all.get(counter_id)

    def parts(self, key: str) -> list[BudgetCounter]:
        """Return the counters of an `EvictionBudget`."""
        return [one for one in self._all.values() if isinstance(one, BudgetCounter) and one.key == key]

    def change(self, counter: Counter, *, opens: bool) -> None:
        """Note that the count of a counter has changed."""
        self.touch(counter)
        if opens:
            self.opened[counter] = None

    def touch(self, counter: Counter) -> None:
        """Note that a counter, or a request that waits for it, has changed."""
        self.stale[counter.key] = None
        if isinstance(counter, BudgetCounter):
            self._touched[counter] = None

    def forget_idle(self) -> None:
        """Drop the counters for which nothing counts or waits.

        A budget may have a counter for each workload that was ever evicted. Call this when every granted eviction is
        counted: an ended one changes only the counters in whose windows it is.
        """
        for counter in self._touched:
            if counter.idle and self._all.get(counter.id) is counter:
                del self._all[counter.id]
                self.opened.pop(counter, None)
        self._touched.clear()

    def bases_changed(self) -> None:
        """Note that the numbers of bound workloads have changed."""
        for counter in self._all.values():
            if isinstance(counter, BudgetCounter) and counter.budget.percent:
                self.change(counter, opens=True)
        self.stale.update((key, None) for key, budget in self.view.guards.budgets.items() if budget.percent)

    def drop(self, namespaces: Collection[str] | None) -> None:
        """Drop the counters of guards that may have changed: disruption budgets of namespaces, or all (None)."""
        for counter in list(self._all.values()):
            near = isinstance(counter, DisruptionCounter) and counter.guard.namespace in (namespaces or ())
            if near or (namespaces is None and counter is not self.rate):
                del self._all[counter.id]
                self.opened.pop(counter, None)
                self.stale[counter.key] = None

    def _budget(self, budget: Budget, part: str) -> BudgetCounter:
        counter = self._all.get((budget.key, part))
        if not isinstance(counter, BudgetCounter):
            counter = self._all[budget.key, part] = BudgetCounter(budget, part, self.view, self.windows)
            self._touched[counter] = None
        return counter


_EVERY: Final = timedelta(seconds=1)


class BudgetStatuses:
    """The status that was last written for each budget.

    The limit on evictions from clusters is written as soon as a token is taken, because its record stores the token.
    The other records are written at most once a second, because they are only for people.
    """

    def __init__(self, counters: Counters) -> None:
        self.known: dict[str, BudgetCounted] = {}
        self._counters = counters
        self._at: datetime | None = None

    def next_time(self) -> datetime | None:
        """Return when there is something to write."""
        return self._at + _EVERY if self._counters.stale and self._at is not None else None

    def apply(self, key: str, event: BudgetCounted | None) -> None:
        """Fold in a record that was written."""
        if event is None:
            self.known.pop(key, None)
            return
        self.known[key] = event
        if key == RATE:
            self._counters.rate.restore(event.tokens, event.counted_time)

    def write(self, now: datetime, put: Callable[[str, BudgetCounted | None], None]) -> None:
        """Write the statuses that have changed and may be written by now."""
        rate, stale = self._counters.rate, self._counters.stale
        if rate.taken:
            rate.taken = False
            self._write_one(RATE, now, put)
        if not stale or (self._at is not None and self._at <= now < self._at + _EVERY):
            return
        self._at = now
        for key in sorted(stale):
            self._write_one(key, now, put)
        stale.clear()

    def _write_one(self, key: str, now: datetime, put: Callable[[str, BudgetCounted | None], None]) -> None:
        known, event = self.known.get(key), self._count(key, now)
        if event is None:
            if known is not None:
                put(key, None)
        elif known is None or _differ(known, event):
            put(key, event)

    def _count(self, key: str, now: datetime) -> BudgetCounted | None:
        """Return the present numbers; None for a deleted budget."""
        known, guards = self.known.get(key), self._counters.view.guards
        generation = known.generation + 1 if known is not None else 1
        rate = self._counters.rate
        if key == RATE:
            if not rate.limits or rate.bucket is None:
                return None
            return BudgetCounted(
                budget=key,
                generation=generation,
                allowed=0 if rate.blocks() else 1,
                held=rate.held,
                tokens=rate.bucket.tokens,
                counted_time=rate.bucket.time,
            )
        if (guard := guards.disruptions.get(key)) is not None:
            counter = self._counters.disruption(guard)
            count = counter.count()
            failure = "" if count.scaled else NOT_SCALED
            is_same = known is not None and (known.allowed > 0, known.failure) == (count.allowed > 0, failure)
            return BudgetCounted(
                budget=key,
                generation=generation,
                allowed=count.allowed,
                in_progress=counter.leaving,
                held=counter.held,
                expected=count.expected,
                healthy=count.healthy,
                failure=failure,
                allowed_since=(known.allowed_since or known.counted_time) if known is not None and is_same else now,
                counted_time=now,
            )
        active, changes = self._counters.windows.state_of(key)
        if (budget := guards.budgets.get(key)) is not None:
            parts = self._counters.parts(key)
            return BudgetCounted(
                budget=key,
                generation=generation,
                allowed=self._least(budget, parts),
                in_progress=sum(counter.progress for counter in parts),
                in_window=sum(len(counter.window) for counter in parts),
                held=sum(counter.held for counter in parts),
                active=active,
                changes_time=changes,
                counted_time=now,
            )
        if (pause := guards.pauses.get(key)) is not None and pause.windows is not None:
            return BudgetCounted(
                budget=key,
                generation=generation,
                allowed=0 if active else _UNBOUNDED,
                active=active,
                changes_time=changes,
                counted_time=now,
            )
        return None

    def _least(self, budget: Budget, parts: list[BudgetCounter]) -> int:
        """Return the smallest number of evictions that the budget allows in any of its parts."""
        view, windows = self._counters.view, self._counters.windows
        known = {counter.part for counter in parts}
        rooms = [counter.allowed for counter in parts]
        rooms += [
            BudgetCounter(budget, part, view, windows).allowed for part in view.parts(budget) if part not in known
        ]
        return min(rooms, default=BudgetCounter(budget, "", view, windows).allowed)


def _differ(known: BudgetCounted, event: BudgetCounted) -> bool:
    """Return whether the numbers differ. For a rate, these include the time of its token."""
    same: dict[str, object] = {"generation": known.generation}
    if event.budget != RATE:
        same["counted_time"] = known.counted_time
    return event.model_copy(update=same) != known
