"""Wait queues. Requests that the same pauses and counters may hold wait in one queue, ordered by due time.

Either all requests of a queue are held, or all can be granted, so it is enough to check the first. Requests of healthy
and unhealthy pods are in different queues, and so are requests whose patience has ended for different budgets.
"""

from __future__ import annotations

import heapq
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from moorage.decide.disruption.budgets import Pause, Subject
from moorage.decide.timers.deadline_index import DeadlineIndex
from moorage_schemas.budget import EvictionAsked
from moorage_schemas.keys import EvictionKey


@dataclass(slots=True, eq=False)
class GrantRequest:
    """A request for the grant of an eviction that has come due."""

    key: str
    event: EvictionAsked
    correlation: str = ""
    traceparent: str = ""
    notified: frozenset[str] = frozenset()
    """The names of its holders, according to its last answer."""

    queue: WaitQueue | None = None
    overrun: tuple[Counter, ...] = ()
    """The counters that would hold it if its patience had not ended."""

    caused_by: str = ""
    """The id of the event that its last answer named as its cause."""

    @property
    def order(self) -> tuple[datetime, str]:
        """The order of requests: by due time, then by key."""
        return (self.event.due_time, self.key)

    @property
    def binding(self) -> str:
        """The key of its binding."""
        return EvictionKey.parse(self.key).binding

    @property
    def subject(self) -> Subject:
        """The workload and target, as guards see them."""
        event = self.event
        return Subject(event.workload.key, event.owner.key, event.target.key, event.zone, event.labels, event.reason)

    def concerned(self, queue: set[str]) -> set[str]:
        """Return the names that concern it: those of its queue, and the counters for which its patience has ended."""
        return queue | {counter.name for counter in self.overrun} if self.overrun else queue


WaitQueueKey = tuple[tuple[str, ...], tuple[tuple[str, str], ...], bool]


@dataclass(slots=True, eq=False)
class WaitQueue:
    """Requests that the same pauses and counters may hold."""

    key: WaitQueueKey
    pauses: tuple[Pause, ...]
    counters: tuple[Counter, ...]
    unhealthy: bool
    notified: frozenset[str] = frozenset()
    """Counters of which all requests of the queue were notified, except those in `pending_notices`."""

    pending_notices: dict[str, GrantRequest] = field(default_factory=dict)
    """Requests that may need a notice of their holders."""

    ticket: int = 0
    watches: Counter | None = None
    queued: bool = False
    """Whether it is one of the queues that are being checked."""

    _requests: dict[str, GrantRequest] = field(default_factory=dict)
    _order: DeadlineIndex[str] = field(default_factory=DeadlineIndex)
    """The due times of the requests."""

    def __len__(self) -> int:
        return len(self._requests)

    def add(self, request: GrantRequest) -> None:
        """Add a request."""
        request.queue = self
        self._requests[request.key] = self.pending_notices[request.key] = request
        self._order.set(request.key, request.event.due_time)

    def remove(self, request: GrantRequest) -> None:
        """Remove a request."""
        request.queue = None
        del self._requests[request.key]
        self._order.remove(request.key)
        self.pending_notices.pop(request.key, None)

    def head(self) -> GrantRequest | None:
        """Return the request that came due first."""
        first = self._order.first()
        return None if first is None else self._requests[first[0]]

    def blockers(self) -> tuple[Counter, ...]:
        """Return the counters that hold the queue now."""
        return tuple(counter for counter in self.counters if counter.blocks(unhealthy=self.unhealthy))

    def take_notices(self, blockers: tuple[Counter, ...]) -> list[GrantRequest]:
        """Note the present holders of the queue. Return the requests that must be notified, in order.

        A request needs no notice if its last notice contains every pause that holds it or, without a pause, one of the
        counters. So it does not get a notice for each of several budgets that open and shut in turn. Everything in its
        last notice must still concern it, because a budget may be changed or deleted while a pause holds it.
        """
        pauses = {pause.name for pause in self.pauses}
        concerns = pauses | {counter.name for counter in self.counters}
        if pauses:
            wrong = [
                request
                for request in self.pending_notices.values()
                if not pauses <= request.notified <= request.concerned(concerns)
            ]
            self.notified = frozenset()
        else:
            common = self.notified & {counter.name for counter in blockers}
            if not common:
                common = frozenset(counter.name for counter in blockers)
                self.pending_notices.update(self._requests)
            wrong = []
            for request in self.pending_notices.values():
                notified = common & request.notified
                if notified and request.notified <= request.concerned(concerns):
                    common = notified
                else:
                    wrong.append(request)
            self.notified = common
        self.pending_notices = {request.key: request for request in wrong}
        return sorted(wrong, key=lambda request: request.order)


_Watch = tuple[datetime, str, int, WaitQueue]
"""A queue that watches a counter, after the order of its first request and the number of its ticket."""

_SLACK: Final = 64
"""The number of outdated entries of `Counter._watching` that are always tolerated. They would stay for as long as an
earlier queue waits, which may be forever."""


class Counter(ABC):
    """A possible holder of evictions, with the queues that wait for it."""

    def __init__(self, key: str, name: str, part: str, patience: timedelta | None) -> None:
        self.key = key
        """The key of the resource that it counts for."""

        self.name = name
        """The name in `held_by`."""

        self.id = (key, part)
        self.patience = patience
        """How long it may hold an eviction that has come due. None means forever."""

        self.queues: dict[WaitQueue, None] = {}
        self._watching: list[_Watch] = []
        self._tickets = 0

    @abstractmethod
    def blocks(self, *, unhealthy: bool = False) -> bool:
        """Return whether it allows no eviction now: of a healthy workload, or of one that is reported unhealthy."""

    @abstractmethod
    def words(self) -> str:
        """Return a text that states why it holds."""

    @property
    def shut(self) -> bool:
        """Whether it allows no eviction at all, so that the queues that watch it need not be checked."""
        return self.blocks()

    @property
    def watched(self) -> bool:
        """Whether any queue watches it."""
        while self._watching:
            due, key, ticket, queue = self._watching[0]
            head = queue.head() if self._is_current(self._watching[0]) else None
            if head is None:
                heapq.heappop(self._watching)
            elif head.order != (due, key):  # the first request has changed
                heapq.heapreplace(self._watching, (*head.order, ticket, queue))
            else:
                return True
        return False

    @property
    def held(self) -> int:
        """The number of evictions that it holds now."""
        return sum(len(queue) for queue in self.queues if self.blocks(unhealthy=queue.unhealthy))

    def watch(self, queue: WaitQueue) -> None:
        """Add a queue that watches it."""
        self._tickets += 1
        queue.ticket = self._tickets
        queue.watches = self
        head = queue.head()
        if head is not None:
            heapq.heappush(self._watching, (*head.order, queue.ticket, queue))
            if len(self._watching) > 2 * len(self.queues) + _SLACK:
                self._watching = [entry for entry in self._watching if self._is_current(entry)]
                heapq.heapify(self._watching)

    def _is_current(self, entry: _Watch) -> bool:
        """Return whether an entry is the last one of a queue that still watches this counter."""
        _, _, ticket, queue = entry
        return queue.watches is self and queue.ticket == ticket and len(queue) > 0

    def next_queue(self) -> WaitQueue | None:
        """Remove and return the watching queue whose first eviction came due first."""
        if not self.watched:
            return None
        queue = heapq.heappop(self._watching)[-1]
        queue.watches = None
        return queue


class ReadyQueues:
    """Wait queues to check, ordered by the due time of their first request."""

    def __init__(self) -> None:
        self._heap: list[tuple[datetime, str, int, WaitQueue, Counter | None]] = []
        self._count = 0

    def push(self, queue: WaitQueue, counter: Counter | None) -> bool:
        """Add a queue, with the counter that it watched. Return False when it is empty, or was added already."""
        head = queue.head()
        if head is None or queue.queued:
            return False
        queue.queued = True
        self._count += 1
        heapq.heappush(self._heap, (*head.order, self._count, queue, counter))
        return True

    def pop(self) -> tuple[WaitQueue, Counter | None] | None:
        """Return the next queue, with the counter that it watched; None when there is none."""
        if not self._heap:
            return None
        *_, queue, counter = heapq.heappop(self._heap)
        queue.queued = False
        return queue, counter

    def close(self) -> bool:
        """Remove all queues. Return whether there were any."""
        left = bool(self._heap)
        while self.pop() is not None:
            pass
        return left
