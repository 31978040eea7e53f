"""The budgets' part of the governor. It decides which due evictions are granted.

Three things are durable: the requests (a source table); a slot for each answer (`eviction-slots`); and the status of
each budget (`budgets`, with the token of the limit on evictions from clusters). A slot holds a grant that still counts,
or the answer to a request. Everything else is computed from these and the view.

Cost: a request is checked when it arrives, when its binding or its pod's health changes, when its patience ends, and
when it ends. Each time the guards that may concern it are checked, and it moves between queues in O(log requests). A
change of the view costs one look-up for each binding in it, and a recount of the evictions in flight of the owners
concerned. A budget that opens checks the queues that watch it, by due time, until it is shut again. So 15,000 requests
with 100 at a time cost 15,000 grants of O(log requests) each, not 15,000 checks for each grant. When a pause or an
`EvictionBudget` changes, all requests and slots are checked once; for a `PodDisruptionBudget`, only those of its
namespace. They are checked in portions, over several calls, and nothing is granted in between.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Final

from moorage.decide.disruption.budgets import RATE, Pause, own_namespace
from moorage.decide.disruption.guard_index import Guards
from moorage.decide.timers.deadline_index import DeadlineIndex
from moorage.runtime.engine.portions import CHECKS
from moorage.runtime.measures import Measure, SeriesTally
from moorage.runtime.service import CHECK_LAG_AGAIN, Freshness, Input
from moorage.runtime.settings.process_settings import Settings
from moorage.workers.governor.counters import BudgetStatuses, Counters, DisruptionCounter
from moorage.workers.governor.guard_measures import budget_measures, counted_disruption
from moorage.workers.governor.in_flight import InFlight, subject_of
from moorage.workers.governor.replies import Replies, Write
from moorage.workers.governor.view import BoundWorkload, GovernorView, Marks
from moorage.workers.governor.wait_queue import Counter, GrantRequest, ReadyQueues, WaitQueue, WaitQueueKey
from moorage_schemas.base import Model
from moorage_schemas.budget import BudgetCounted, EvictionAsked, EvictionSlot
from moorage_schemas.keys import EvictionKey
from moorage_schemas.times import format_time
from moorage_schemas.topics import BUDGETS, EVICTION_ASKS, EVICTION_SLOTS, Topic

PORTION: Final = 500
"""The maximum number of answers that are written in one call."""


class BudgetBook:
    """All requests and grants, in the one partition that has them.

    Args:
        settings: the rate of evictions from clusters, and the patience of disruption budgets.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self.at_home = False
        """Whether this is the partition that has the requests. The books of other partitions do nothing."""

        self._counters = Counters(
            settings.resource_eviction_rate, timedelta(seconds=settings.disruption_budget_patience)
        )
        self._requests: dict[str, GrantRequest] = {}
        self._slots: dict[str, EvictionSlot] = {}
        self._in_flight = InFlight(self._counters, self._slots, self._requests)
        self._statuses = BudgetStatuses(self._counters)
        self._tally: SeriesTally[str] = SeriesTally()
        self._replies = Replies(self._slots, self._valid_until)
        self._marks: Marks | None = None

        # Input since `decide` last ran.
        self._new_requests: dict[str, None] = {}
        self._repeated: dict[str, None] = {}
        self._used: dict[str, None] = {}  # requests whose evictions are carried out or have ended
        self._ended: dict[str, bool] = {}  # requests that have ended, and whether their evictions were carried out
        self._new_slots: dict[str, None] = {}

        self._of_binding: dict[str, dict[str, None]] = {}
        self._queues: dict[WaitQueueKey, WaitQueue] = {}
        self._changed: dict[WaitQueue, None] = {}
        self._patience: DeadlineIndex[str] = DeadlineIndex()
        """When a counter stops holding a waiting request, by request; the earliest such time of each."""

        self._again: datetime | None = None

        # Requests and slots that this input or a changed guard concerns. Nothing is granted before they are checked.
        self._unplaced: OrderedDict[str, None] = OrderedDict()
        self._uncounted: OrderedDict[str, None] = OrderedDict()
        self._owners: dict[str, None] = {}

        # Used while `decide` runs.
        self._now = datetime.min.replace(tzinfo=UTC)
        self._left = 0

    def configure(self, settings: Settings, now: datetime) -> None:
        """Use another rate and patience from now on. If they differ, everything is checked again."""
        if settings is self._settings:
            return
        self._settings = settings
        patience = timedelta(seconds=settings.disruption_budget_patience)
        if self._counters.use(settings.resource_eviction_rate, patience, now) and self._marks is not None:
            self._marks.guards = True

    @property
    def has_requests(self) -> bool:
        """Whether there are any requests."""
        return bool(self._requests)

    def use_unread(self, found: Freshness, view: GovernorView) -> None:
        """Note what services before this one have not processed."""
        self._counters.use_unread(found.lagging, view)

    # Input from the topics.

    def apply(self, topic: Topic, key: str, event: Model | None) -> None:
        """Fold in a request, a slot, or the status of a budget."""
        self.at_home = True
        if topic is EVICTION_ASKS:
            self._apply_request(key, event if isinstance(event, EvictionAsked) else None)
        elif topic is EVICTION_SLOTS:
            if isinstance(event, EvictionSlot):
                self._slots[key] = event
            else:
                self._slots.pop(key, None)
            self._new_slots[key] = None
        elif topic is BUDGETS:
            self._statuses.apply(key, event if isinstance(event, BudgetCounted) else None)
            self._tally.touch(key)

    def settle(self, limit: int) -> bool:
        """Count a portion of the budgets whose status has changed. Return whether nothing is left."""
        known = self._statuses.known
        return self._tally.settle(lambda key: counted_disruption(key, known.get(key)), limit)

    def measures(self, guards: Guards) -> Iterator[Measure]:
        """Yield the values of the declared budgets."""
        yield from self._tally.measures()
        yield from budget_measures(self._statuses.known, (*guards.budgets, RATE))

    def note(self, record: Input) -> None:
        """Store the cause of a request until `decide`. Call this before the request is folded in."""
        if record.topic is not EVICTION_ASKS:
            return
        self._replies.causes[record.key] = record.meta
        known = self._requests.get(record.key)
        if known is not None and record.event == known.event and not known.event.requested:
            self._repeated[record.key] = None
        requests = isinstance(record.event, EvictionAsked) and not record.event.requested
        if not requests and (known is None or not known.event.requested):
            self._used[record.key] = None

    def _apply_request(self, key: str, event: EvictionAsked | None) -> None:
        known = self._requests.get(key)
        if event is None:
            # The request itself may have been compacted away. Then only its end is read.
            self._ended[key] = known is not None and known.event.requested
            if known is not None:
                self._forget(known)
            return
        if known is not None:
            if known.event.workload_uid == event.workload_uid and not _supersedes(event, known.event):
                return
            self._forget(known)
        self._ended.pop(key, None)
        request = self._requests[key] = GrantRequest(key, event)
        self._of_binding.setdefault(request.binding, {})[key] = None
        self._new_requests[key] = None

    def _forget(self, request: GrantRequest) -> None:
        self._dequeue(request)
        del self._requests[request.key]
        of_binding = self._of_binding[request.binding]
        del of_binding[request.key]
        if not of_binding:
            del self._of_binding[request.binding]

    def held_by(self, binding: str) -> tuple[str, ...]:
        """Return what holds the eviction of a binding, according to the last answer."""
        slots = (self._slots.get(key) for key in self._of_binding.get(binding, ()))
        return next((slot.held_by for slot in slots if slot is not None and not slot.granted), ())

    # Decisions.

    def next_wake(self) -> datetime | None:
        """Return when the next patience, window, token or status is due, or when to write the rest of the answers."""
        rate = self._counters.rate
        wakes = (
            self._again,
            self._patience.next(),
            self._in_flight.next_end(),
            rate.next_token if rate.watched else None,
            self._statuses.next_time(),
            self._counters.windows.next_change(),
        )
        return min((wake for wake in wakes if wake is not None), default=None)

    def decide(self, view: GovernorView, now: datetime, write: Write) -> None:
        """Answer every request whose answer has changed, ordered by due time, and write the status of budgets."""
        if not self.at_home:
            return
        self._now, self._left, self._again = now, PORTION, None
        self._replies.begin(now, write)
        self._counters.rate.at(now)
        self._take_in(view)
        if not (self._place_portion() and self._count_portion() and self._pass_patience()):
            # Grants are given in the order of due times, so they wait until every request is in its queue again.
            self._again = now
            self._replies.pause()
            return
        self._pass_time()
        self._grant_all()
        self._in_flight.recount_later(self._now, self._end_slot)
        for queue in list(self._changed):
            self._notify(queue)
        if self._changed or self._counters.opened:
            self._again = now
        elif self._counters.unread and self._requests:
            self._again = now + CHECK_LAG_AGAIN
        self._statuses.write(now, self._put_status)
        self._counters.forget_idle()
        self._replies.end()

    def _take_in(self, view: GovernorView) -> None:
        """Apply what has changed in the view, the requests and the slots."""
        slots, self._new_slots = self._new_slots, {}
        requests, self._new_requests = self._new_requests, {}
        owners = self._check(view, requests, slots)
        for key, requested in self._ended.items():
            self._request_ended(key, requested=requested)
            slots[key] = None
        self._ended.clear()
        for key in self._repeated:
            request, slot = self._requests.get(key), self._slots.get(key)
            if request is not None and slot is not None and _replies_to(slot, request.event):
                # Old grants are repeated as well: the first answer may still be read, so the grant cannot be given to
                # another eviction.
                self._replies.repeat(request)
        self._repeated.clear()
        self._unplaced.update(requests)
        self._uncounted.update(slots)
        self._owners.update(dict.fromkeys(owners))

    def _place_portion(self) -> bool:
        """Place a portion of the requests that may belong elsewhere now. Return whether none is left."""
        for _ in range(min(CHECKS, len(self._unplaced))):
            self._place(self._unplaced.popitem(last=False)[0])
        return not self._unplaced

    def _count_portion(self) -> bool:
        """Count a portion of the slots that may count differently now. Return whether none is left."""
        for key in self._used:
            self._in_flight.use(key, self._now, self._use_slot)
        self._used.clear()
        self._uncounted.update(self._new_slots)
        self._new_slots.clear()
        keys = [self._uncounted.popitem(last=False)[0] for _ in range(min(CHECKS, len(self._uncounted)))]
        owners, self._owners = self._owners, {}
        self._in_flight.recount(keys, owners, self._now, self._end_slot)
        return not self._uncounted

    def _pass_patience(self) -> bool:
        """Place a portion of the requests for which a patience has ended. Return whether none is left."""
        for key, _ in islice(self._patience.take_due(self._now), CHECKS):
            self._place(key)
        due = self._patience.next()
        return due is None or due > self._now

    def _check(self, view: GovernorView, requests: dict[str, None], slots: dict[str, None]) -> list[str]:
        """Apply the view's changes, and add what they concern. Return the owners whose evictions may have ended."""
        if self._marks is None:  # the end of a request may be compacted away; then only its slot is left
            for key in sorted(self._slots.keys() - self._requests.keys()):
                self._ended.setdefault(key, False)
        if self._marks is None or view is not self._counters.view:
            self._counters.view, self._marks = view, view.watch()
        marks = self._marks
        self._replies.freed_by(marks.meta)
        if marks.guards:
            self._counters.windows.use(view.guards, self._now)
        self._pass_windows(marks)
        if marks.guards or marks.namespaces:
            self._guards_changed(None if marks.guards else set(marks.namespaces), requests, slots)
        for binding in sorted(marks.bindings & self._of_binding.keys()):
            requests.update(self._of_binding[binding])
        for key in sorted(marks.disruptions):
            self._counters.stale[key] = None
            if (counter := self._counters.get((key, ""))) is not None:
                self._counters.change(counter, opens=True)
        if marks.bases:
            self._counters.bases_changed()
        owners = self._in_flight.owners(marks.owners)
        marks.clear()
        return owners

    def _pass_windows(self, marks: Marks) -> None:
        """Note which guards begin or cease to hold by their schedules. A pause is then as one that has changed."""
        for key in self._counters.windows.pass_time(self._now):
            self._counters.stale[key] = None
            if key in self._counters.view.guards.pauses:
                marks.guards = True
            for counter in self._counters.parts(key):
                self._counters.change(counter, opens=True)

    def _guards_changed(self, namespaces: set[str] | None, requests: dict[str, None], slots: dict[str, None]) -> None:
        """Check again everything that a changed guard may concern: in some namespaces, or everywhere (None)."""
        self._counters.drop(namespaces)
        self._in_flight.forget(namespaces)
        for key, slot in self._slots.items():
            if namespaces is None or own_namespace(slot.workload.key) in namespaces:
                slots[key] = None
        # All of them leave their queues first, because these hold the counters that are dropped.
        if namespaces is None:
            self._dequeue_all()
            requests.update(dict.fromkeys(self._requests))
        else:
            for key, request in self._requests.items():
                if own_namespace(request.event.workload.key) in namespaces:
                    self._dequeue(request)
                    requests[key] = None
        guards = self._counters.view.guards
        self._counters.stale.update(dict.fromkeys(guards.disruptions))
        if namespaces is None:
            scheduled = (key for key, pause in guards.pauses.items() if pause.windows is not None)
            self._counters.stale.update(dict.fromkeys([*guards.budgets, *scheduled, *self._statuses.known]))

    def _pass_time(self) -> None:
        self._in_flight.pass_time(self._now, self._end_slot)
        if self._counters.rate.limits and not self._counters.rate.blocks():
            self._counters.opened[self._counters.rate] = None

    # Requests.

    def _place(self, key: str) -> None:
        """Put a request into the queue where it belongs now. It is in no queue if it was granted or has no binding."""
        request = self._requests.get(key)
        if request is None:
            return
        self._dequeue(request)
        if (cause := self._replies.causes.get(key)) is not None:
            request.correlation, request.traceparent = cause.correlation, cause.traceparent
        if request.event.requested:
            return
        slot = self._slots.get(key)
        if slot is not None and not _replies_to(slot, request.event):
            # The request was repeated, so the answer to the earlier one does not count.
            self._replies.slot(key, None, "anew")
            slot = None
        if slot is not None and slot.granted:
            return
        request.notified = frozenset(slot.held_by) if slot is not None else frozenset()
        bound = self._counters.view.bound(request.binding)
        if bound is not None and bound.generation == request.event.generation:
            self._queue_of(request, bound).add(request)

    def _queue_of(self, request: GrantRequest, bound: BoundWorkload) -> WaitQueue:
        subject = request.subject
        counters: list[Counter] = []
        overrun: list[Counter] = []
        ends: list[datetime] = []
        for counter in self._counters.of(subject):
            end = _patience_end(counter, request)
            if end is not None and end <= self._now:
                overrun.append(counter)
                continue
            counters.append(counter)
            if end is not None:
                ends.append(end)
        if ends:
            self._patience.set(request.key, min(ends))
        request.overrun = tuple(overrun)
        windows = self._counters.windows
        found = self._counters.view.guards.pauses_of(subject)
        pauses = tuple(pause for pause in found if windows.is_active(pause.key)) if windows else found
        unhealthy = bound.unhealthy and any(isinstance(counter, DisruptionCounter) for counter in counters)
        key = (tuple(pause.key for pause in pauses), tuple(counter.id for counter in counters), unhealthy)
        queue = self._queues.get(key)
        if queue is None:
            queue = self._queues[key] = WaitQueue(key, pauses, tuple(counters), unhealthy)
            for counter in counters:
                counter.queues[queue] = None
        self._changed[queue] = None
        self._counters.stale.update((counter.key, None) for counter in counters)
        return queue

    def _dequeue(self, request: GrantRequest) -> None:
        queue = request.queue
        if queue is None:
            return
        queue.remove(request)
        self._patience.remove(request.key)
        for counter in queue.counters:
            self._counters.touch(counter)
        if not len(queue):
            del self._queues[queue.key]
            self._changed.pop(queue, None)
            for counter in queue.counters:
                counter.queues.pop(queue, None)

    def _dequeue_all(self) -> None:
        """Drop all queues, of which all counters but the rate are dropped as well."""
        for request in self._requests.values():
            request.queue = None
        for queue in self._queues.values():
            queue.watches = None  # the rate stays, and would otherwise keep the queue as a waiting one
        self._patience = DeadlineIndex()
        self._queues.clear()
        self._changed.clear()
        rate = self._counters.rate
        if rate.queues:
            rate.queues.clear()
            self._counters.touch(rate)

    def _request_ended(self, key: str, *, requested: bool) -> None:
        slot = self._slots.get(key)
        if slot is None:
            return
        bound = self._counters.view.bound(EvictionKey.parse(key).binding)
        stands = bound is not None and bound.generation == slot.generation
        if not slot.granted or (stands and not requested):
            # It was held, or cancelled between the grant and the request, so it was never carried out.
            self._replies.slot(key, None, "gone")

    # Answers.

    def _grant_all(self) -> None:
        """Grant the evictions that nothing holds, in the order in which they came due."""
        ready = ReadyQueues()
        for queue in self._changed:
            ready.push(queue, None)
        opened = dict(self._counters.opened)
        self._counters.opened.clear()
        for counter in opened:
            self._push_next(ready, counter)
        while self._left > 0 and (found := ready.pop()) is not None:
            queue, watched = found
            head = queue.head()
            if head is not None and not queue.pauses and not queue.blockers():
                self._grant(head)
                ready.push(queue, None)
            if watched is not None:
                self._push_next(ready, watched)
        if ready.close():
            self._counters.opened.update(opened)

    def _push_next(self, ready: ReadyQueues, counter: Counter) -> None:
        """Add the next queue that watches an open counter to the queues to check."""
        while not counter.shut and (queue := counter.next_queue()) is not None:
            self._changed[queue] = None
            if ready.push(queue, counter):
                return

    def _grant(self, request: GrantRequest) -> None:
        self._left -= 1
        rate = self._counters.rate
        limited = request.queue is not None and rate in request.queue.counters
        message = "; ".join(
            f"is granted despite {counter.name}: its patience of {_seconds(counter.patience)} s is over"
            for counter in (self._counters.get(one.id) or one for one in request.overrun)
            if counter.blocks()
        )
        self._dequeue(request)
        slot = self._replies.record(request, granted=True, message=message)
        self._new_slots.pop(request.key, None)
        self._in_flight.grant(request.key, slot, self._now)
        if limited:
            rate.take()

    def _notify(self, queue: WaitQueue) -> None:
        """Notify the requests of a queue of their holders, and let the queue watch one of its counters."""
        blockers = queue.blockers()
        if not queue.pauses and not blockers:
            return  # its answers did not fit into this call, so it is checked again at once
        wrong = queue.take_notices(blockers)
        if wrong:
            holders = (*(pause.name for pause in queue.pauses), *(counter.name for counter in blockers))
            words = [self._pause_words(pause) for pause in queue.pauses]
            words += [f"{counter.name}: {counter.words()}" for counter in blockers]
            message = f"held by {'; '.join(words)}"
            for request in wrong[: self._left]:
                request.notified = frozenset(holders)
                self._replies.record(request, granted=False, message=message, held_by=tuple(sorted(holders)))
                self._new_slots.pop(request.key, None)
                del queue.pending_notices[request.key]
            self._left -= min(len(wrong), self._left)
        if not queue.pauses:
            next(counter for counter in blockers if counter.name in queue.notified).watch(queue)
        if not queue.pending_notices:
            self._changed.pop(queue, None)

    def _pause_words(self, pause: Pause) -> str:
        end = self._counters.windows.end_of(pause.key)
        until = "" if end is None else f", until {format_time(end)}"
        return f"{pause.name}{f': {pause.reason}' if pause.reason else ''}{until}"

    def _valid_until(self, slot: EvictionSlot) -> datetime | None:
        """Return when a guard with a schedule begins to hold an eviction that was granted."""
        counters = self._counters
        if not counters.windows or not slot.granted:
            return None
        return counters.windows.valid_until(counters.view.guards, subject_of(slot), slot.granted_time)

    def _end_slot(self, key: str, slot: EvictionSlot | None) -> None:
        """Write that an eviction has ended, or no longer counts."""
        self._replies.slot(key, slot)
        self._new_slots.pop(key, None)

    def _use_slot(self, key: str, slot: EvictionSlot | None) -> None:
        """Write that an eviction was requested long after it was granted."""
        self._replies.slot(key, slot, "used")

    def _put_status(self, key: str, event: BudgetCounted | None) -> None:
        known = self._statuses.known.get(key)
        self._replies.count(key, event, known.generation if known is not None else 0)


def _replies_to(slot: EvictionSlot, request: EvictionAsked) -> bool:
    """Return whether a slot is the answer to this request, and not to an earlier one."""
    return (slot.asked, slot.workload_uid) == (request.revision, request.workload_uid)


def _supersedes(event: EvictionAsked, known: EvictionAsked) -> bool:
    """Return whether a request supersedes the kept one: it is newer, or different guards concern it now."""
    if event.revision != known.revision:
        return event.revision > known.revision
    return not known.requested and (event.labels, event.zone, event.reason) != (known.labels, known.zone, known.reason)


def _patience_end(counter: Counter, request: GrantRequest) -> datetime | None:
    """Return the time from which a counter no longer holds a request; None for never."""
    if counter.patience is None:
        return None
    try:
        return request.event.due_time + counter.patience
    except OverflowError:  # the time is after the end of the calendar
        return None


def _seconds(patience: timedelta | None) -> str:
    return f"{patience.total_seconds():g}" if patience is not None else ""
