"""Granted evictions: how long each counts, and for which counters.

An eviction is in flight while its binding exists. After that, the eviction of a controller's pod stays in flight while
the controller has fewer healthy pods bound than it wants. The number of such evictions is at most the number of missing
pods, the newest first. An ended eviction stays ended, and counts only in windows. One that no longer counts anywhere is
dropped.

A window counts evictions that are carried out. The request follows the grant only after another service has read the
grant, and that service may be down. So a granted eviction without a request stays in its windows, and one that is
requested late counts in them from then on. The limit on evictions from clusters works in the same way: it waits for
overdue grants, and a late request takes a token.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import islice

from moorage.decide.disruption.budgets import LEAVE_LASTS, Subject, is_pod, own_namespace
from moorage.decide.timers.deadline_index import DeadlineIndex
from moorage.runtime.engine.portions import RECORDS
from moorage.workers.governor.counters import BudgetCounter, Counters, DisruptionCounter
from moorage.workers.governor.wait_queue import GrantRequest
from moorage_schemas.budget import EvictionSlot
from moorage_schemas.keys import EvictionKey

Put = Callable[[str, EvictionSlot | None], None]
"""Writes a slot, or None for its end, and folds it in."""


@dataclass(slots=True)
class _Counted:
    """The counters for which a granted eviction counts."""

    slot: EvictionSlot
    budgets: tuple[BudgetCounter, ...]
    disruptions: tuple[DisruptionCounter, ...]
    under_way: bool = False
    leaving: bool = False
    windows: int = 0
    """The number of windows that it is in."""


class InFlight:
    """All evictions that were granted and still count.

    An eviction with a request counts as bound, because the request is kept slightly longer than the binding. When the
    request ends, the present binding has been read. A request also states whether its eviction was requested.

    Args:
        slots: every slot, by the eviction's key.
    """

    def __init__(
        self, counters: Counters, slots: dict[str, EvictionSlot], requests: Mapping[str, GrantRequest]
    ) -> None:
        self._counters = counters
        self._slots = slots
        self._requests = requests
        self._counted: dict[str, _Counted] = {}
        self._of_owner: dict[str, dict[str, None]] = {}
        self._windows: DeadlineIndex[tuple[str, tuple[str, str]]] = DeadlineIndex()
        """When evictions leave windows, by eviction and counter."""

        self._later: dict[str, None] = {}

    def next_end(self) -> datetime | None:
        """Return when the next eviction leaves a window."""
        return self._windows.next()

    def owners(self, names: set[str]) -> list[str]:
        """Return the given owners that have evictions in flight."""
        return sorted(names & self._of_owner.keys())

    def forget(self, namespaces: set[str] | None) -> None:
        """Stop counting the evictions of these namespaces (None for all), because their guards may have changed."""
        if namespaces is None:
            self._forget_all()
            return
        for key, counted in list(self._counted.items()):
            if own_namespace(counted.slot.workload.key) in namespaces:
                self._count_out(key)

    def _forget_all(self) -> None:
        """Stop counting everything. All counters but the rate are dropped as well."""
        self._counted.clear()
        self._of_owner.clear()
        self._windows = DeadlineIndex()
        rate = self._counters.rate
        if rate.unused:
            rate.unused.clear()
            self._counters.change(rate, opens=True)

    def recount(self, keys: Iterable[str], owners: Iterable[str], now: datetime, put: Put) -> None:
        """Count slots again, together with the other evictions of their owners."""
        concerned = dict.fromkeys(owners)
        for key in keys:
            slot, counted = self._slots.get(key), self._counted.get(key)
            if counted is not None:
                concerned[counted.slot.owner.key] = None
            if slot is None or not slot.granted:
                self._count_out(key)
                continue
            if counted is None or counted.slot is not slot:
                self._count_in(key, slot, now)
            if slot.over:
                self._end(key, put)
            else:
                concerned[slot.owner.key] = None
        for owner in concerned:
            self._recount_owner(owner, put)

    def grant(self, key: str, slot: EvictionSlot, now: datetime) -> None:
        """Count an eviction that has just been granted, and whose binding exists.

        The other evictions of its owner are not counted again: they change only when the workload is not healthy, and
        then `recount_later` handles them.
        """
        self._count_in(key, slot, now)
        bound = self._counters.view.bound(EvictionKey.parse(key).binding)
        well = bound is not None and not bound.unhealthy
        self._set(self._counted[key], under_way=True, leaving=well)
        if not well:
            self._later[slot.owner.key] = None

    def use(self, key: str, now: datetime, put: Put) -> None:
        """Note that an eviction is being requested now. If its grant is old, it counts from now on.

        Call this before its slot is counted again.
        """
        rate, slot = self._counters.rate, self._slots.get(key)
        if rate.unused.pop(key, None) is not None:
            self._counters.change(rate, opens=True)
        if slot is None or not slot.granted or now - slot.granted_time < LEAVE_LASTS:
            return
        counters = self._counters.of(subject_of(slot))
        if rate in counters:
            rate.take()
        if any(isinstance(counter, BudgetCounter) and counter.budget.in_window is not None for counter in counters):
            put(key, slot.model_copy(update={"granted_time": now}))

    def recount_later(self, now: datetime, put: Put) -> None:
        """Count again the evictions of owners with a grant for a workload that was not healthy."""
        owners, self._later = self._later, {}
        self.recount((), owners, now, put)

    def pass_time(self, now: datetime, put: Put) -> None:
        """Remove a portion of the evictions from windows that were granted too long ago."""
        for (key, counter_id), _ in islice(self._windows.take_due(now), RECORDS):  # `next_end` names the rest
            counter, counted = self._counters.get(counter_id), self._counted.get(key)
            if not isinstance(counter, BudgetCounter) or counted is None or key not in counter.window:
                continue
            if _end_of(counter, counted.slot) > now:
                continue  # it has been granted again since
            if self._is_unused(key):
                self._windows.set((key, counter_id), now + LEAVE_LASTS)
                continue
            del counter.window[key]
            counted.windows -= 1
            self._counters.change(counter, opens=True)
            if counted.slot.over:
                self._end(key, put)

    def _count_in(self, key: str, slot: EvictionSlot, now: datetime) -> None:
        self._count_out(key)
        counters = self._counters.of(subject_of(slot))
        counted = self._counted[key] = _Counted(
            slot,
            tuple(counter for counter in counters if isinstance(counter, BudgetCounter)),
            tuple(counter for counter in counters if isinstance(counter, DisruptionCounter)),
        )
        if not slot.over:
            self._of_owner.setdefault(slot.owner.key, {})[key] = None
        unused = self._is_unused(key)
        if unused and self._counters.rate in counters:
            self._counters.rate.unused[key] = slot.granted_time
        for counter in counted.budgets:
            end = _end_of(counter, slot)
            if unused and end <= now:
                end = now + LEAVE_LASTS
            if counter.budget.in_window is not None and end > now:
                counter.window[key] = slot.granted_time
                counted.windows += 1
                self._windows.set((key, counter.id), end)
                self._counters.change(counter, opens=False)

    def _count_out(self, key: str) -> None:
        counted = self._counted.pop(key, None)
        if counted is None:
            return
        self._set(counted, under_way=False, leaving=False)
        for counter in counted.budgets:
            self._windows.remove((key, counter.id))
            if counter.window.pop(key, None) is not None:
                self._counters.change(counter, opens=True)
        if self._counters.rate.unused.pop(key, None) is not None:
            self._counters.change(self._counters.rate, opens=True)
        self._disown(key, counted.slot)

    def _is_unused(self, key: str) -> bool:
        """Return whether an eviction was granted and has not been requested yet."""
        request = self._requests.get(key)
        return request is not None and not request.event.requested

    def _disown(self, key: str, slot: EvictionSlot) -> None:
        owned = self._of_owner.get(slot.owner.key, {})
        owned.pop(key, None)
        if not owned:
            self._of_owner.pop(slot.owner.key, None)

    def _recount_owner(self, owner: str, put: Put) -> None:
        ended: list[tuple[datetime, str]] = []
        standing: set[str] = set()
        for key in self._of_owner.get(owner, ()):
            counted, binding = self._counted[key], EvictionKey.parse(key).binding
            bound = self._counters.view.bound(binding)
            stands = bound is not None and bound.generation == counted.slot.generation
            if stands or key in self._requests:
                standing.add(binding)
                self._set(counted, under_way=True, leaving=stands and bound is not None and not bound.unhealthy)
            else:
                ended.append((counted.slot.granted_time, key))
        if not ended:
            return
        lacks = self._lacks(owner, standing) if is_pod(ended[0][1]) else 0
        ended.sort(reverse=True)
        for _, key in ended[:lacks]:
            self._set(self._counted[key], under_way=True, leaving=False)
        for _, key in ended[lacks:]:
            self._end(key, put)

    def _lacks(self, owner: str, standing: set[str]) -> int:
        """Return how many pods a controller lacks: unbound, or reported unhealthy (without those about to be evicted).

        A controller that a policy has placed on clusters in the meantime creates no pods on nodes, so it lacks none.
        """
        found = self._counters.view.owner(owner)
        if found is None or found.wanted is None or found.on_clusters:
            return 0
        ill = sum(1 for key in found.unhealthy if key not in standing)
        return max(0, found.wanted - found.bound + ill)

    def _set(self, counted: _Counted, *, under_way: bool, leaving: bool) -> None:
        if under_way != counted.under_way:
            counted.under_way = under_way
            for budget in counted.budgets:
                budget.progress += 1 if under_way else -1
                self._counters.change(budget, opens=not under_way)
        if leaving != counted.leaving:
            counted.leaving = leaving
            for disruption in counted.disruptions:
                disruption.leaving += 1 if leaving else -1
                self._counters.change(disruption, opens=not leaving)

    def _end(self, key: str, put: Put) -> None:
        """Note that an eviction has ended: it counts only in windows, or no longer at all."""
        counted = self._counted[key]
        self._set(counted, under_way=False, leaving=False)
        if not counted.windows:
            self._count_out(key)
            put(key, None)
        elif not counted.slot.over:
            self._disown(key, counted.slot)
            counted.slot = counted.slot.model_copy(update={"over": True})
            put(key, counted.slot)


def subject_of(slot: EvictionSlot) -> Subject:
    """Return the workload and target of a slot, as guards see them."""
    return Subject(slot.workload.key, slot.owner.key, slot.target.key, slot.zone, slot.labels, slot.reason)


def _end_of(counter: BudgetCounter, slot: EvictionSlot) -> datetime:
    """Return when an eviction leaves a window. From that time on it does not count."""
    try:
        return slot.granted_time + timedelta(seconds=counter.budget.window)
    except OverflowError:
        return datetime.max.replace(tzinfo=UTC)
