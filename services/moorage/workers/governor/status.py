"""The status of budgets for people: the topic `budgets` with one record for each budget, written when it changes."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Final

from moorage.decide.disruption.budgets import RATE, Budget
from moorage.workers.governor.counters import BudgetCounter, Counters
from moorage_schemas.budget import BudgetCounted

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
            return BudgetCounted(
                budget=key,
                generation=generation,
                allowed=count.allowed,
                in_progress=counter.leaving,
                held=counter.held,
                expected=count.expected,
                healthy=count.healthy,
                counted_time=now,
            )
        if (budget := guards.budgets.get(key)) is not None:
            parts = self._counters.parts(key)
            return BudgetCounted(
                budget=key,
                generation=generation,
                allowed=self._least(budget, parts),
                in_progress=sum(counter.progress for counter in parts),
                in_window=sum(len(counter.window) for counter in parts),
                held=sum(counter.held for counter in parts),
                counted_time=now,
            )
        return None

    def _least(self, budget: Budget, parts: list[BudgetCounter]) -> int:
        """Return the smallest number of evictions that the budget allows in any of its parts."""
        view = self._counters.view
        known = {counter.part for counter in parts}
        rooms = [counter.allowed for counter in parts]
        rooms += [BudgetCounter(budget, part, view).allowed for part in view.parts(budget) if part not in known]
        return min(rooms, default=BudgetCounter(budget, "", view).allowed)


def _differ(known: BudgetCounted, event: BudgetCounted) -> bool:
    """Return whether the numbers differ. For a rate, these include the time of its token."""
    same: dict[str, object] = {"generation": known.generation}
    if event.budget != RATE:
        same["counted_time"] = known.counted_time
    return event.model_copy(update=same) != known
