"""Services whose topics are partitioned alike, decided on together: one partition of all of them, one transaction.

What one service writes for another one of the chain is the other one's input in the same decision. It is handed over in
memory, under the offset that it will have, and it is in the topic once the transaction is committed. So each service
reads the same records at the same positions as it does alone, and its state, its headers and its offsets are the same.
A fleet can change from one form to the other. A chain of one service is that service.

Which offset a record will have follows from the end of the topic, because the task of the partition is the only writer
there. Its records come after that end, in their order, and each transaction adds one marker. The driver compares this
with the broker's answer before it commits, and begins anew if the two differ.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final

from moorage.runtime.engine.batch import DECISION_EVENTS, BatchDecision
from moorage.runtime.engine.encode import Encoder
from moorage.runtime.engine.engine import PartitionEngine, Transaction
from moorage.runtime.engine.requests import Refresh, Request, Turn
from moorage.runtime.service import Freshness, Needs, Service
from moorage.runtime.wire.codec import Outgoing, decode_written
from moorage.runtime.wire.record_format import HandedOver
from moorage_schemas.topics import Topic

_ROUNDS: Final = 8
"""The maximum number of times that services decide again in one transaction, on records that were handed over."""

_DRAINED: Final = 2_000
"""The number of unread records before a decision above which it does not wait for all of them. Which of its keys they
concern is then found out as if the services were not chained."""

_DRAINED_WITHIN: Final = timedelta(seconds=0.5)
"""How long the services before may take to decide on these records. After that, the present end has moved on, and the
service decides in the next transaction."""

ChainSteps = Generator[tuple[int, Request], Any, "ChainDecision"]
"""The steps of a chain: the requests of its engines, each with the engine's place in the chain."""


@dataclass(frozen=True, slots=True)
class ServiceDecision:
    """One service's share of a decision."""

    place: int
    """The place of the service in the chain."""

    decision: BatchDecision
    records: list[Outgoing]
    """Its records."""


@dataclass(frozen=True, slots=True)
class ChainDecision:
    """The decision of a chain, service after service."""

    shares: list[ServiceDecision] = field(default_factory=list)

    @property
    def afresh(self) -> str:
        """Why the states must be restored once this is written; empty when they are sound."""
        return next((share.decision.afresh for share in self.shares if share.decision.afresh), "")

    @property
    def events(self) -> int:
        """The number of records that it writes."""
        return sum(len(share.decision.emits) for share in self.shares)


@dataclass(frozen=True, slots=True)
class ChainTransaction:
    """The content of one transaction."""

    shares: list[tuple[ServiceDecision, Transaction]]
    expected: Mapping[Topic, int]
    """For each topic of whose records the offsets were used already, the offset that its first record must get."""

    @property
    def is_fresh(self) -> bool:
        """Whether it holds decisions on tables that were read to their present ends."""
        return any(share.decision.fresh and share.decision.emits for share, _ in self.shares)


class PartitionChain:
    """Decides for one partition of several services. It does no I/O, and takes the time as an argument.

    Args:
        engines: the engines of the services, in the order in which they decide.
        encoders: the encoder of each.
    """

    def __init__(self, engines: Sequence[PartitionEngine[Any]], encoders: Sequence[Encoder]) -> None:
        self.engines = tuple(engines)
        self._encoders = tuple(encoders)
        services = [engine.service for engine in engines]
        self.sources = tuple({topic.short: topic for one in services for topic in one.sources}.values())
        """Everything that the services consume."""

        self.inner = inner_topics(services) if len(services) > 1 else frozenset()
        """The topics that only these services write for each other."""

        self._readers = {
            topic.short: [place for place, one in enumerate(services) if topic in one.sources] for topic in self.sources
        }
        self._before = [_before(services, self.inner, place) for place in range(len(services))]
        self._floors: dict[tuple[int, str], int] = {}
        self._marks: dict[str, int] = {}
        self._next: dict[str, int] = {}
        self._first: dict[Topic, int] = {}
        self._later: dict[tuple[int, str], list[HandedOver]] = {}
        self._handed = [False] * len(services)
        self._names = frozenset(one.name for one in services)
        self._kept: list[ServiceDecision] = []
        """Shares of earlier decisions that are not in a transaction yet, because all of their records can wait."""

    # For the driver and for reports.

    @property
    def caught_up(self) -> bool:
        """Whether all source tables were read to the ends that they had when the partition began."""
        return all(engine.caught_up for engine in self.engines)

    @property
    def restless(self) -> bool:
        """Whether the next decision can be made at once."""
        catching_up = not self.caught_up
        return any(engine.restless for engine in self.engines if not (catching_up and engine.caught_up))

    @property
    def waiting(self) -> int:
        """The number of records that were offered and are not decided on yet."""
        return sum(engine.waiting for engine in self.engines)

    @property
    def steps(self) -> int:
        """Grows with each slice of records that is decided on. The watchdog reads it."""
        return sum(engine.steps for engine in self.engines)

    @property
    def positions(self) -> dict[Topic, int]:
        """For each source, the offset of the first record that some state does not include."""
        found: dict[Topic, int] = {}
        for engine in self.engines:
            for topic, offset in engine.positions.items():
                found[topic] = min(offset, found.get(topic, offset))
        return found

    @property
    def wanted(self) -> tuple[Topic, ...]:
        """The sources to fetch now. What is handed over need not be fetched."""
        wanted = {
            topic.short: topic
            for place, engine in enumerate(self.engines)
            for topic in engine.wanted
            if topic not in self.inner or not self._is_handed_over(place, topic)
        }
        return tuple(wanted.values())

    def fetched(self, topic: Topic) -> int | None:
        """Return the offset from which a source is to be offered next; None until the restore has determined it."""
        found = [self.engines[place].fetched(topic) for place in self._readers[topic.short]]
        known = [offset for offset in found if offset is not None]
        return min(known) if len(known) == len(found) else None

    def poke(self, place: int) -> None:
        """Wake a service with the next decision, even if nothing is due."""
        self.engines[place].poked = True

    def poke_all(self) -> None:
        """Wake all services with the next decision."""
        for engine in self.engines:
            engine.poked = True

    def forget(self) -> None:
        """Discard the states and the queues."""
        self.clear()
        self._next.clear()
        for engine in self.engines:
            engine.forget()

    # Reading.

    def begin(self, ends: Mapping[Topic, int] | None = None) -> None:
        """Begin to take records at the positions of the states, as `positions` has them.

        Args:
            ends: the present ends of the inner topics. None if they are known, because nothing was discarded since.
        """
        self.clear()
        if ends is not None:
            self._next = {topic.short: end for topic, end in ends.items()}
        self._marks = dict(self._next)
        self._floors = {
            (place, topic.short): offset
            for place, engine in enumerate(self.engines)
            for topic, offset in engine.positions.items()
        }

    def clear(self) -> None:
        """Drop the records that were offered but not decided on. They must be offered again."""
        self._later.clear()
        self._handed = [False] * len(self.engines)
        self._first = {}
        self._kept = []
        for engine in self.engines:
            engine.clear()

    def offer(self, topic: Topic, records: Sequence[Any]) -> None:
        """Queue consumed records, in the order of their topic."""
        end = self._marks.get(topic.short) if topic in self.inner else None
        for place in self._readers[topic.short]:
            taken, floor = records, self._floors.get((place, topic.short), 0)
            if taken[0].offset < floor or (end is not None and taken[-1].offset >= end):
                taken = [one for one in taken if one.offset >= floor and (end is None or one.offset < end)]
            if taken:
                self.engines[place].offer(topic, taken)

    def passed(self, topic: Topic, offset: int) -> None:
        """Note that the reader of a source has reached this offset: every record below it was offered."""
        mark = self._marks.get(topic.short) if topic in self.inner else None
        for place in self._readers[topic.short]:
            if mark is None or offset < mark:
                self.engines[place].passed(topic, offset)
            elif not self._is_handed_over(place, topic):
                self.engines[place].passed(topic, mark)
        if mark is not None and offset >= mark:
            self._offer_later()

    def reached(self, topic: Topic, offset: int) -> bool:
        """Return whether every record of a source below an offset was offered."""
        return all(self.engines[place].reached(topic, offset) for place in self._readers[topic.short])

    def _is_handed_over(self, place: int, topic: Topic) -> bool:
        """Return whether a service has read an inner topic up to what is handed over to it."""
        engine, mark = self.engines[place], self._marks.get(topic.short)
        return mark is not None and engine.caught_up and engine.reached(topic, mark)

    # Deciding.

    def decide(self, now: Callable[[], datetime]) -> ChainSteps:
        """Decide on the offered records, and on due work.

        While services have tables to read, only these decide.

        Raises:
            StartAfresh: a service failed, or the clock was set back, and nothing of this decision may be written.
        """
        decision = ChainDecision()
        if not self._kept:
            self._first = {}
        self._offer_later()
        catching_up = [place for place, engine in enumerate(self.engines) if not engine.caught_up]
        for place in catching_up or self._order():
            if decision.events >= DECISION_EVENTS:
                break
            if len(self.engines) == 1 or self._has_work(place, now()):
                yield from self._run(place, now, decision)
        for _ in range(0 if catching_up else _ROUNDS):
            left = [place for place, handed in enumerate(self._handed) if handed]
            if not left or decision.afresh or decision.events >= DECISION_EVENTS:
                break
            yield from self._run(left[0], now, decision)
        return decision

    def _order(self) -> Sequence[int]:
        """Return the places of the services in the order in which they decide.

        With a backlog, the first service could fill every transaction, while what it hands over piles up.
        """
        places = range(len(self.engines))
        return places[::-1] if any(self.engines[place].waiting >= DECISION_EVENTS for place in places[1:]) else places

    def _has_work(self, place: int, now: datetime) -> bool:
        engine = self.engines[place]
        if not engine.caught_up or engine.restless or engine.is_before_markers:
            return True
        due = engine.next_due()
        return due is not None and due <= now

    def _run(
        self, place: int, now: Callable[[], datetime], decision: ChainDecision
    ) -> Generator[tuple[int, Request], Any, None]:
        """Let one service decide, and hand over what it writes."""
        if decision.afresh:
            return
        engine = self.engines[place]
        made = yield from self._steps(place, now, decision)
        self._handed[place] = self._handed[place] and engine.waiting > 0
        records = self._encoders[place].records(made, made.rests_on)
        decision.shares.append(ServiceDecision(place, made, records))
        self._hand_over(place, made, records)

    def _steps(
        self, place: int, now: Callable[[], datetime], decision: ChainDecision
    ) -> Generator[tuple[int, Request], Any, BatchDecision]:
        steps = self.engines[place].decide(now())
        answer: Any = None
        while True:
            try:
                request = steps.send(answer)
            except StopIteration as end:
                made: BatchDecision = end.value
                return made
            if isinstance(request, Refresh) and self._before[place]:
                answer = yield from self._refresh(place, request, now, decision)
            else:
                answer = yield place, request

    def _refresh(
        self, place: int, request: Refresh, now: Callable[[], datetime], decision: ChainDecision
    ) -> Generator[tuple[int, Request], Any, Freshness | None]:
        """Read what a service needs to its present end.

        What the services before it have not read can change what they write for it. So all of that is read, and they
        decide on it first. If that is too much, the service finds out which keys it concerns.
        """
        needs, before = request.needs, self._before[place]
        if not all(self.engines[one].caught_up for one in before):
            yield place, Turn()
            return None
        roots = {topic.short: topic for topic in needs.tables if topic not in self.inner}
        for one in before:
            roots |= {topic.short: topic for topic in self.engines[one].service.sources if topic not in self.inner}
        names = {self.engines[one].service.name for one in before}
        upstream = tuple(one for one in needs.upstream if one.service not in names)
        outer = Needs(tuple(roots.values()), needs.globals, upstream, needs.keys)
        found: Freshness | None = yield place, Refresh(outer, most=_DRAINED)
        if found is None:
            alone: Freshness | None = yield place, request
            return alone
        for one in before:
            engine = self.engines[one]
            mine = [topic for topic in engine.service.sources if topic.short in roots]
            while not all(engine.done(topic, found.ends[topic]) for topic in mine) or self._handed[one]:
                if decision.afresh or decision.events >= DECISION_EVENTS:
                    return None
                yield from self._run(one, now, decision)  # of what was written since, none counts from earlier
        unread = any(topic in self.inner and not self._is_handed_over(place, topic) for topic in needs.tables)
        if decision.afresh or unread or now() - found.now > _DRAINED_WITHIN:
            yield place, Turn()
            return None
        ends = {topic: self._next[topic.short] if topic in self.inner else found.ends[topic] for topic in needs.tables}
        return Freshness(found.now, ends, found.lagging, found.keys)

    def _hand_over(self, writer: int, made: BatchDecision, records: Sequence[Outgoing]) -> None:
        """Offer records to the services that read them."""
        if not self.inner:
            return
        attributes = self._encoders[writer].attributes
        for (emit, _), generation, record in zip(made.emits, made.configurations, records, strict=True):
            topic = emit.topic
            if topic not in self.inner:
                continue
            offset = self._next[topic.short]
            self._first.setdefault(topic, offset)
            self._next[topic.short] = offset + 1
            meta = attributes(emit, record, made.now, generation)
            event = decode_written(topic, record, offset, emit.event, meta)
            handed = HandedOver(offset, record, event)
            for place in self._readers[topic.short]:
                self._later.setdefault((place, topic.short), []).append(handed)
        self._offer_later()

    def _offer_later(self) -> None:
        """Offer what was handed over to services that have read everything before it."""
        for topic in self.inner:
            for place in self._readers[topic.short]:
                if not self._is_handed_over(place, topic):
                    continue
                engine = self.engines[place]
                if (handed := self._later.pop((place, topic.short), None)) is not None:
                    engine.offer(topic, handed)
                    self._handed[place] = True
                engine.passed(topic, self._next[topic.short])

    # Writing.

    def prepare(self, decision: ChainDecision) -> ChainTransaction | None:
        """Return a decision's transaction, with what has waited for it; None when nothing is to be written yet."""
        if self._can_wait(decision.shares):
            self._kept += [share for share in decision.shares if share.decision.emits]
            return None
        return self._prepare([*self._kept, *decision.shares])

    def release(self) -> ChainTransaction | None:
        """Return the transaction of what has waited; None for nothing."""
        return self._prepare(self._kept) if self._kept else None

    def _can_wait(self, decided: Sequence[ServiceDecision]) -> bool:
        """Return whether these and what waits can wait, for a decision that comes or until offsets are committed."""
        count = sum(len(share.decision.emits) for share in (*self._kept, *decided))
        if not 0 < count < DECISION_EVENTS or any(share.decision.afresh or share.decision.fresh for share in decided):
            return False
        names = self._names
        if any(not emit.can_wait and emit.reader not in names for share in decided for emit, _ in share.decision.emits):
            return False
        due = [engine.commit_due for engine in self.engines]
        commit = min((one for one in due if one is not None), default=None)
        is_early = commit is not None and (decided or self._kept)[-1].decision.now < commit
        return is_early and not any(engine.is_heavy for engine in self.engines)

    def _prepare(self, decided: Sequence[ServiceDecision]) -> ChainTransaction | None:
        self._kept = []
        last = {share.place: share for share in decided}
        shares: list[tuple[ServiceDecision, Transaction]] = []
        for share in decided:
            if share is last[share.place]:
                transaction = self.engines[share.place].prepare(share.decision)
            else:
                transaction = Transaction(share.decision, {}) if share.decision.emits else None
            if transaction is not None:
                shares.append((share, transaction))
        first, self._first = self._first, {}
        for topic in first:
            self._next[topic.short] += 1  # the marker
        self._offer_later()
        return ChainTransaction(shares, first) if shares else None

    def pending_offsets(self, now: datetime) -> ChainTransaction | None:
        """Return a transaction of what has waited, and of the offsets that are not committed yet; None for neither."""
        kept = self.release() or ChainTransaction([], {})
        shares = [
            (ServiceDecision(place, transaction.decision, []), transaction)
            for place, engine in enumerate(self.engines)
            if (transaction := engine.pending_offsets(now)) is not None
        ]
        return ChainTransaction([*kept.shares, *shares], kept.expected) if kept.shares or shares else None

    def written(self, transaction: ChainTransaction) -> None:
        """Note that a transaction is committed."""
        for share, one in transaction.shares:
            self.engines[share.place].written(one)

    def next_due(self) -> datetime | None:
        """Return when `decide` has something to do even if no records are offered; None for never."""
        return min((due for engine in self.engines if (due := engine.next_due()) is not None), default=None)

    def wait_left(self) -> timedelta | None:
        """Return how long to wait from the last decision until `next_due`; None for ever."""
        return min((left for engine in self.engines if (left := engine.wait_left()) is not None), default=None)

    def begin_reconciling(self, now: datetime) -> None:
        """Set the times of the reconcilers' first rounds."""
        for engine in self.engines:
            engine.begin_reconciling(now)


def inner_topics(services: Iterable[Service[Any]]) -> frozenset[Topic]:
    """Return the topics that some services, chained in this order, write for each other."""
    given = tuple(services)
    written = {topic for one in given for topic in one.changelogs}
    return frozenset(topic for one in given for topic in one.sources if topic in written)


def _before(services: Sequence[Service[Any]], inner: frozenset[Topic], place: int) -> tuple[int, ...]:
    """Return the services that write source tables of a service, and those that write for these, in their order."""
    found: set[int] = set()
    left = [place]
    while left:
        reader = services[left.pop()]
        for number, writer in enumerate(services[:place]):
            tables = (topic for topic in reader.source_tables if topic in inner)
            if number not in found and any(topic in writer.changelogs for topic in tables):
                found.add(number)
                left.append(number)
    return tuple(sorted(found))
