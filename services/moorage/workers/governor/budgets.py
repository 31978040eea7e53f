"""The budgets' part of the governor: which evictions that have come due may go.

What is durable: the asks (a source table), one slot for each answer (`eviction-slots`: what was granted and still
counts, or what an ask was told), and what is shown of each budget (`budgets`, with the token of the limit on evictions
from clusters). Everything else is worked out from these and the view.

Cost. An ask is looked at when it comes, when its binding or its pod's health changes, when its patience ends, and when
it goes; each time it asks the guards that may concern it and moves between lanes in O(log asks). A change of the view
costs one look-up for each binding in it, and a recount of the evictions under way of the owners concerned. A budget
that opens looks at the lanes that watch it, first come first, until it is shut again: so 15,000 asks with 100 at a
time cost 15,000 grants of O(log asks) each, and not a look at 15,000 asks for each. A pause or an `EvictionBudget`
that changes costs one look at all asks and slots; a `PodDisruptionBudget` one at those of its namespace.
"""

from __future__ import annotations

import heapq
from datetime import UTC, datetime, timedelta
from typing import Final

from moorage.runtime.service import Input
from moorage.runtime.settings import Settings
from moorage.workers.governor.counters import Counter, Counters, DisruptionCounter
from moorage.workers.governor.in_flight import Granted
from moorage.workers.governor.records import Bound, Marks
from moorage.workers.governor.replies import Answers
from moorage.workers.governor.status import Shown
from moorage.workers.governor.view import GovernorView
from moorage.workers.governor.wait_queue import Ask, Lane, LaneKey, Queue
from moorage.workers.governor.writing import Write
from moorage_schemas.base import Model
from moorage_schemas.budget import BudgetCounted, EvictionAsked, EvictionSlot
from moorage_schemas.topics import BUDGETS, EVICTION_ASKS, EVICTION_SLOTS, Topic

PORTION: Final = 500
"""Answers that are written in one go, at most."""


class BudgetBook:
    """All asks and all that was granted, of the one partition that has them.

    Args:
        settings: the rate of evictions from clusters and the patience with disruption budgets.
    """

    def __init__(self, settings: Settings) -> None:
        self.at_home = False
        """Whether this is the partition that has the asks; the others' books do nothing."""

        self._counters = Counters(
            settings.resource_eviction_rate, timedelta(seconds=settings.disruption_budget_patience)
        )
        self._asks: dict[str, Ask] = {}
        self._slots: dict[str, EvictionSlot] = {}
        self._granted = Granted(self._counters, self._slots, self._asks)
        self._shown = Shown(self._counters)
        self._answers = Answers(self._slots)
        self._marks: Marks | None = None

        # What has come in since the last settling.
        self._new_asks: dict[str, None] = {}
        self._repeated: dict[str, None] = {}
        self._used: dict[str, None] = {}  # asks that tell that they are requested, or over
        self._gone: dict[str, bool] = {}  # asks, and whether they were requested
        self._new_slots: dict[str, None] = {}

        self._of_binding: dict[str, dict[str, None]] = {}
        self._lanes: dict[LaneKey, Lane] = {}
        self._changed: dict[Lane, None] = {}
        self._patience: list[tuple[datetime, str]] = []
        self._again: datetime | None = None

        # Of the settling that is going on.
        self._now = datetime.min.replace(tzinfo=UTC)
        self._left = 0

    @property
    def asked(self) -> bool:
        """Whether anybody asks."""
        return bool(self._asks)

    # From the topics.

    def apply(self, topic: Topic, key: str, event: Model | None) -> None:
        """Fold in an ask, a slot, or what a budget counted."""
        self.at_home = True
        if topic is EVICTION_ASKS:
            self._apply_ask(key, event if isinstance(event, EvictionAsked) else None)
        elif topic is EVICTION_SLOTS:
            if isinstance(event, EvictionSlot):
                self._slots[key] = event
            else:
                self._slots.pop(key, None)
            self._new_slots[key] = None
        elif topic is BUDGETS:
            self._shown.apply(key, event if isinstance(event, BudgetCounted) else None)

    def note(self, record: Input) -> None:
        """Remember the cause of an ask until `settle`; to be called before it is folded in."""
        if record.topic is not EVICTION_ASKS:
            return
        self._answers.causes[record.key] = record.meta
        known = self._asks.get(record.key)
        if known is not None and record.event == known.event and not known.event.requested:
            self._repeated[record.key] = None
        asks = isinstance(record.event, EvictionAsked) and not record.event.requested
        if not asks and (known is None or not known.event.requested):
            self._used[record.key] = None

    def _apply_ask(self, key: str, event: EvictionAsked | None) -> None:
        known = self._asks.get(key)
        if event is None:
            # What was asked may be compacted away, so that only the end of it is read.
            self._gone[key] = known is not None and known.event.requested
            if known is not None:
                self._forget(known)
            return
        if known is not None:
            if known.event.workload_uid == event.workload_uid and not _supersedes(event, known.event):
                return
            self._forget(known)
        self._gone.pop(key, None)
        ask = self._asks[key] = Ask(key, event)
        self._of_binding.setdefault(ask.binding, {})[key] = None
        self._new_asks[key] = None

    def _forget(self, ask: Ask) -> None:
        self._unlane(ask)
        del self._asks[ask.key]
        of_binding = self._of_binding[ask.binding]
        del of_binding[ask.key]
        if not of_binding:
            del self._of_binding[ask.binding]

    # Settling.

    def next_wake(self) -> datetime | None:
        """When time changes something: patience, a window, a token, numbers to show; or there was more to write."""
        while self._patience and not self._waits(self._patience[0][1]):
            heapq.heappop(self._patience)
        rate = self._counters.rate
        wakes = (
            self._again,
            self._patience[0][0] if self._patience else None,
            self._granted.next_end(),
            rate.next_token if rate.watched else None,
            self._shown.next_time(),
        )
        return min((wake for wake in wakes if wake is not None), default=None)

    def settle(self, view: GovernorView, now: datetime, write: Write) -> None:
        """Answer every ask whose answer has changed, first come first, and write what budgets count.

        Args:
            view: what budgets look at.
            now: the present.
            write: writes a record and folds it in.
        """
        if not self.at_home:
            return
        self._now, self._left, self._again = now, PORTION, None
        self._answers.begin(now, write)
        self._counters.rate.at(now)
        self._take_in(view)
        self._pass_time()
        self._grant_all()
        self._granted.recount_later(self._now, self._end_slot)
        for lane in list(self._changed):
            self._tell_lane(lane)
        if self._changed or self._counters.opened:
            self._again = now
        self._shown.write(now, self._put_shown)
        self._answers.end()

    def _take_in(self, view: GovernorView) -> None:
        """Work in what has changed: the view, asks, slots."""
        slots, self._new_slots = self._new_slots, {}
        asks, self._new_asks = self._new_asks, {}
        owners = self._look(view, asks, slots)
        for key, requested in self._gone.items():
            self._ask_gone(key, requested=requested)
            slots[key] = None
        self._gone.clear()
        for key in self._repeated:
            ask, slot = self._asks.get(key), self._slots.get(key)
            if ask is not None and slot is not None and _answers(slot, ask.event):
                # Leave as well, however old: its first answer may yet be read, so it cannot be given to another.
                self._answers.repeat(ask)
        self._repeated.clear()
        for key in asks:
            self._place(key)
        for key in self._used:
            self._granted.use(key, self._now, self._use_slot)
        self._used.clear()
        slots.update(self._new_slots)
        self._new_slots.clear()
        self._granted.recount(slots, owners, self._now, self._end_slot)

    def _look(self, view: GovernorView, asks: dict[str, None], slots: dict[str, None]) -> list[str]:
        """Take in what has changed in the view; add what it concerns; the owners whose evictions it may have ended."""
        if self._marks is None:  # the end of an ask may be compacted away, too: then only its slot is there
            for key in sorted(self._slots.keys() - self._asks.keys()):
                self._gone.setdefault(key, False)
        if self._marks is None or view is not self._counters.view:
            self._counters.view, self._marks = view, view.watch()
        marks = self._marks
        self._answers.freed_by(marks.meta)
        if marks.guards or marks.namespaces:
            self._guards_changed(None if marks.guards else set(marks.namespaces), asks, slots)
        for binding in sorted(marks.bindings & self._of_binding.keys()):
            asks.update(self._of_binding[binding])
        for key in sorted(marks.disruptions):
            self._counters.stale[key] = None
            if (counter := self._counters.get((key, ""))) is not None:
                self._counters.change(counter, opens=True)
        if marks.bases:
            self._counters.bases_changed()
        owners = self._granted.owners(marks.owners)
        marks.clear()
        return owners

    def _guards_changed(self, namespaces: set[str] | None, asks: dict[str, None], slots: dict[str, None]) -> None:
        """Let all that a changed guard may concern be looked at anew: in some namespaces, or (None) everywhere."""
        self._counters.drop(namespaces)
        self._granted.forget(namespaces)
        for key, slot in self._slots.items():
            if namespaces is None or slot.workload.namespace in namespaces:
                slots[key] = None
        for key, ask in self._asks.items():
            if namespaces is None or ask.event.workload.namespace in namespaces:
                self._unlane(ask)  # all of them first, for their lanes hold the counters that are dropped
                asks[key] = None
        guards = self._counters.view.guards
        self._counters.stale.update(dict.fromkeys(guards.disruptions))
        if namespaces is None:
            self._counters.stale.update(dict.fromkeys([*guards.budgets, *self._shown.known]))

    def _pass_time(self) -> None:
        while self._patience and self._patience[0][0] <= self._now:
            self._place(heapq.heappop(self._patience)[1])
        self._granted.pass_time(self._now, self._end_slot)
        if self._counters.rate.limits and not self._counters.rate.blocks():
            self._counters.opened[self._counters.rate] = None

    # Asks.

    def _place(self, key: str) -> None:
        """Put an ask into the lane where it belongs now; in none while it is answered, or its binding is not there."""
        ask = self._asks.get(key)
        if ask is None:
            return
        self._unlane(ask)
        if (said := self._answers.causes.get(key)) is not None:
            ask.correlation = said.correlation
        if ask.event.requested:
            return
        slot = self._slots.get(key)
        if slot is not None and not _answers(slot, ask.event):
            # It was asked anew: what was answered before means nothing.
            self._answers.slot(key, None, "anew")
            slot = None
        if slot is not None and slot.granted:
            return
        ask.told = frozenset(slot.held_by) if slot is not None else frozenset()
        bound = self._counters.view.bound(ask.binding)
        if bound is not None and bound.generation == ask.event.generation:
            self._lane_of(ask, bound).add(ask)

    def _lane_of(self, ask: Ask, bound: Bound) -> Lane:
        subject = ask.subject
        counters: list[Counter] = []
        overrun: list[Counter] = []
        for counter in self._counters.of(subject):
            end = _patience_end(counter, ask)
            if end is not None and end <= self._now:
                overrun.append(counter)
                continue
            counters.append(counter)
            if end is not None:
                heapq.heappush(self._patience, (end, ask.key))
        ask.overrun = tuple(overrun)
        pauses = self._counters.view.guards.pauses_of(subject)
        unhealthy = bound.unhealthy and any(isinstance(counter, DisruptionCounter) for counter in counters)
        key = (tuple(pause.key for pause in pauses), tuple(counter.id for counter in counters), unhealthy)
        lane = self._lanes.get(key)
        if lane is None:
            lane = self._lanes[key] = Lane(key, pauses, tuple(counters), unhealthy)
            for counter in counters:
                counter.lanes[lane] = None
        self._changed[lane] = None
        self._counters.stale.update((counter.key, None) for counter in counters)
        return lane

    def _unlane(self, ask: Ask) -> None:
        lane = ask.lane
        if lane is None:
            return
        lane.remove(ask)
        self._counters.stale.update((counter.key, None) for counter in lane.counters)
        if not len(lane):
            del self._lanes[lane.key]
            self._changed.pop(lane, None)
            for counter in lane.counters:
                counter.lanes.pop(lane, None)

    def _waits(self, key: str) -> bool:
        ask = self._asks.get(key)
        return ask is not None and ask.lane is not None

    def _ask_gone(self, key: str, *, requested: bool) -> None:
        slot = self._slots.get(key)
        if slot is None:
            return
        bound = self._counters.view.bound(key.rpartition("|")[0])
        stands = bound is not None and bound.generation == slot.generation
        if not slot.granted or (stands and not requested):
            # It was held, or cancelled between the grant and its request: it never went.
            self._answers.slot(key, None, "gone")

    # Answers.

    def _grant_all(self) -> None:
        """Let go what nothing holds, first come first."""
        queue = Queue()
        for lane in self._changed:
            queue.push(lane, None)
        opened = dict(self._counters.opened)
        self._counters.opened.clear()
        for counter in opened:
            self._push_next(queue, counter)
        while self._left > 0 and (found := queue.pop()) is not None:
            lane, watched = found
            head = lane.head()
            if head is not None and not lane.pauses and not lane.blockers():
                self._grant(head)
                queue.push(lane, None)
            if watched is not None:
                self._push_next(queue, watched)
        if queue.close():
            self._counters.opened.update(opened)

    def _push_next(self, queue: Queue, counter: Counter) -> None:
        """Have the next of those looked at that watch a counter which is open."""
        while not counter.shut and (lane := counter.next_lane()) is not None:
            self._changed[lane] = None
            if queue.push(lane, counter):
                return

    def _grant(self, ask: Ask) -> None:
        self._left -= 1
        rate = self._counters.rate
        limited = ask.lane is not None and rate in ask.lane.counters
        message = "; ".join(
            f"goes in spite of {counter.name}: its patience of {_seconds(counter.patience)} s is over"
            for counter in ask.overrun
            if counter.blocks()
        )
        self._unlane(ask)
        slot = self._answers.record(ask, granted=True, message=message)
        self._new_slots.pop(ask.key, None)
        self._granted.grant(ask.key, slot, self._now)
        if limited:
            rate.take()

    def _tell_lane(self, lane: Lane) -> None:
        """Tell a lane's asks what holds them, and have the lane watch one of its counters."""
        blockers = lane.blockers()
        if not lane.pauses and not blockers:
            return  # there was no room for its answers: again at once
        wrong = lane.to_tell(blockers)
        if wrong:
            holders = (*(pause.name for pause in lane.pauses), *(counter.name for counter in blockers))
            words = [f"{pause.name}{f': {pause.reason}' if pause.reason else ''}" for pause in lane.pauses]
            words += [f"{counter.name}: {counter.words()}" for counter in blockers]
            message = f"held by {'; '.join(words)}"
            for ask in wrong[: self._left]:
                ask.told = frozenset(holders)
                self._answers.record(ask, granted=False, message=message, held_by=tuple(sorted(holders)))
                self._new_slots.pop(ask.key, None)
                del lane.untold[ask.key]
            self._left -= min(len(wrong), self._left)
        if not lane.pauses:
            next(counter for counter in blockers if counter.name in lane.told).watch(lane)
        if not lane.untold:
            self._changed.pop(lane, None)

    def _end_slot(self, key: str, slot: EvictionSlot | None) -> None:
        """Write that an eviction is over, or counts no more."""
        self._answers.slot(key, slot)
        self._new_slots.pop(key, None)

    def _use_slot(self, key: str, slot: EvictionSlot | None) -> None:
        """Write that an eviction was requested long after it was let go."""
        self._answers.slot(key, slot, "used")

    def _put_shown(self, key: str, event: BudgetCounted | None) -> None:
        known = self._shown.known.get(key)
        self._answers.count(key, event, known.generation if known is not None else 0)


def _answers(slot: EvictionSlot, ask: EvictionAsked) -> bool:
    """Whether a slot is the answer to this ask, and not to an earlier one."""
    return (slot.asked, slot.workload_uid) == (ask.revision, ask.workload_uid)


def _supersedes(event: EvictionAsked, known: EvictionAsked) -> bool:
    """Whether an ask says more than the one that is known: it is newer, or other guards concern it now."""
    if event.revision != known.revision:
        return event.revision > known.revision
    return not known.requested and (event.labels, event.zone) != (known.labels, known.zone)


def _patience_end(counter: Counter, ask: Ask) -> datetime | None:
    """From when on a counter holds an ask no more; None for never."""
    if counter.patience is None:
        return None
    try:
        return ask.event.due_time + counter.patience
    except OverflowError:  # after the end of the calendar
        return None


def _seconds(patience: timedelta | None) -> str:
    return f"{patience.total_seconds():g}" if patience is not None else ""
