"""Lanes: asks that the same pauses and counters may hold wait in one queue, in the order in which they came due.

All asks of a lane are held, or may go, alike; so it is enough to look at the first. What differs between two asks puts
them in different lanes: whether their pod is well, and with which budgets their patience has ended.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field
from datetime import datetime

from moorage.core.disruption.budgets import Pause, Subject
from moorage.workers.governor.counters import Counter
from moorage_schemas.budget import EvictionAsked


@dataclass(slots=True, eq=False)
class Ask:
    """An eviction that has come due, and asks."""

    key: str
    event: EvictionAsked
    correlation: str = ""
    told: frozenset[str] = frozenset()
    """What it was told that holds it."""

    lane: Lane | None = None
    overrun: tuple[Counter, ...] = ()
    """Those that would hold it if its patience had not ended."""

    caused_by: str = ""
    """The id of the event that its last answer named as its cause."""

    @property
    def order(self) -> tuple[datetime, str]:
        """Who came due first goes first."""
        return (self.event.due_time, self.key)

    @property
    def binding(self) -> str:
        """The key of its binding."""
        return self.key.rpartition("|")[0]

    @property
    def subject(self) -> Subject:
        """Whom it is about."""
        event = self.event
        return Subject(event.workload.key, event.owner.key, event.target.key, event.zone, event.labels)

    def concerned(self, lane: set[str]) -> set[str]:
        """What concerns it: what concerns its lane, and what its patience with has ended."""
        return lane | {counter.name for counter in self.overrun} if self.overrun else lane


LaneKey = tuple[tuple[str, ...], tuple[tuple[str, str], ...], bool]


@dataclass(slots=True, eq=False)
class Lane:
    """Asks that the same things may hold."""

    key: LaneKey
    pauses: tuple[Pause, ...]
    counters: tuple[Counter, ...]
    unhealthy: bool
    told: frozenset[str] = frozenset()
    """Counters that every ask here, but for those in `untold`, was told of."""

    untold: dict[str, Ask] = field(default_factory=dict)
    """Asks that may have to be told what holds them."""

    ticket: int = 0
    watches: Counter | None = None
    queued: bool = False
    """Whether it is among those that are looked at just now."""

    _asks: dict[str, Ask] = field(default_factory=dict)
    _heap: list[tuple[datetime, str]] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self._asks)

    def add(self, ask: Ask) -> None:
        """Let an ask wait here."""
        ask.lane = self
        self._asks[ask.key] = self.untold[ask.key] = ask
        heapq.heappush(self._heap, ask.order)

    def remove(self, ask: Ask) -> None:
        """Let an ask wait here no more."""
        ask.lane = None
        del self._asks[ask.key]
        self.untold.pop(ask.key, None)

    def head(self) -> Ask | None:
        """The ask that came due first."""
        while self._heap:
            due, key = self._heap[0]
            ask = self._asks.get(key)
            if ask is not None and ask.event.due_time == due:
                return ask
            heapq.heappop(self._heap)
        return None

    def blockers(self) -> tuple[Counter, ...]:
        """The counters that hold it now."""
        return tuple(counter for counter in self.counters if counter.blocks(unhealthy=self.unhealthy))

    def to_tell(self, blockers: tuple[Counter, ...]) -> list[Ask]:
        """Note what holds the lane now; those of its asks that have to be told, in order.

        An ask knows enough while it knows every pause that holds it and, when none does, one of the counters; so
        it is not told of each of several budgets that open and close in turn. What it was told of must concern it
        still: a budget may be changed, or deleted, while a pause holds it as well.
        """
        pauses = {pause.name for pause in self.pauses}
        concerns = pauses | {counter.name for counter in self.counters}
        if pauses:
            wrong = [ask for ask in self.untold.values() if not pauses <= ask.told <= ask.concerned(concerns)]
            self.told = frozenset()
        else:
            common = self.told & {counter.name for counter in blockers}
            if not common:
                common = frozenset(counter.name for counter in blockers)
                self.untold.update(self._asks)
            wrong = []
            for ask in self.untold.values():
                knows = common & ask.told
                if knows and ask.told <= ask.concerned(concerns):
                    common = knows
                else:
                    wrong.append(ask)
            self.told = common
        self.untold = {ask.key: ask for ask in wrong}
        return sorted(wrong, key=lambda ask: ask.order)


class Queue:
    """Lanes that are looked at, by the ask of each that came due first."""

    def __init__(self) -> None:
        self._heap: list[tuple[datetime, str, int, Lane, Counter | None]] = []
        self._count = 0

    def push(self, lane: Lane, counter: Counter | None) -> bool:
        """Take a lane in, with the counter that it watched; False when it is empty, or in it already."""
        head = lane.head()
        if head is None or lane.queued:
            return False
        lane.queued = True
        self._count += 1
        heapq.heappush(self._heap, (*head.order, self._count, lane, counter))
        return True

    def pop(self) -> tuple[Lane, Counter | None] | None:
        """The next lane, with the counter that it watched; None when there is none."""
        if not self._heap:
            return None
        *_, lane, counter = heapq.heappop(self._heap)
        lane.queued = False
        return lane, counter

    def close(self) -> bool:
        """Let go what is left; whether anything was."""
        left = bool(self._heap)
        while self.pop() is not None:
            pass
        return left
