"""One partition of a service: its state, queue and positions, and the next decision and transaction.

`restore` comes first: it reads the tables and notes where the sources end. Then `decide` is called again and again.
Each decision is followed by `prepare` and, when its transaction is committed, by `written`. After any failure the
engine starts again with `restore`.
"""

from __future__ import annotations

import heapq
import itertools
import sys
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Any, Final, Generic, TypeVar

import structlog

from moorage.runtime.engine.batch import BatchDecision, BatchProcessor
from moorage.runtime.engine.isolation import IsolatedKeys
from moorage.runtime.engine.journal import Book, Flag
from moorage.runtime.engine.partition_tables import PartitionTables, source_tables_of
from moorage.runtime.engine.requests import Bounded, Bounds, CatchUp, Refresh, Steps, Turn, Written
from moorage.runtime.process import metrics
from moorage.runtime.process.failures import StartAfresh
from moorage.runtime.service import Freshness, GlobalView, Needs, Service, Upstream, source_name
from moorage.runtime.settings.moorage_configuration import configuration_of
from moorage.runtime.wire.record_format import RecordFormat
from moorage_schemas.topics import CONFIGURATION, Topic

log = structlog.get_logger(__name__)

S = TypeVar("S")
R = TypeVar("R")

_NO_LIMITS: Final[Mapping[Topic, int]] = MappingProxyType({})

_WAKE_HOLD = timedelta(seconds=1)  # how long a wake-up that failed is postponed; it doubles with each failure
_WAKE_HOLD_MAX = timedelta(seconds=60)
_SET_BACK = timedelta(seconds=5)
"""A larger step back of the clock would lengthen waits too much, so the partition starts again."""

_SHOWN = 5  # the keys of repairs that a log line has
_BACKLOG = 8  # queued batches at which waiting records are no longer taken in the order in which they were written


def _later(starts: Mapping[Topic, int], carried: Mapping[str, int], no_later: Mapping[Topic, int]) -> dict[Topic, int]:
    """Return where each source begins: at the committed offset, or at a later one on which the state rests."""
    return {
        topic: max(start, min(carried.get(topic.short, 0), no_later.get(topic, sys.maxsize)))
        for topic, start in starts.items()
    }


@dataclass(frozen=True, slots=True)
class EngineRules:
    """The part of the settings that an engine uses."""

    partitions: int
    """The number of partitions of each topic."""

    report_max_bytes: int = 65_536
    """The maximum size in bytes of a record from third parties."""

    batch_max_records: int = 500
    """The maximum number of records in one batch, unless more are waiting."""

    backlog_growth: int = 1
    """How many times larger a batch may be while records are waiting, and deciding on each takes little time."""

    reconcile_interval: timedelta | None = timedelta(seconds=30)
    """The time between two rounds of the reconciler; None leaves them to the driver."""

    lazy_commit: timedelta = timedelta(seconds=1)
    """How long offsets may wait when a batch has no output, or when a state record carries them."""


@dataclass(frozen=True, slots=True)
class Transaction:
    """The content of one transaction."""

    decision: BatchDecision
    offsets: dict[Topic, int]
    """The offsets that are committed with it; empty when they may follow later."""


class PartitionEngine(Generic[S]):
    """Decides for one partition. It does no I/O, and takes the time as an argument.

    Args:
        seconds: a clock that measures the duration of a slice of records.
        book: records the facts that do not follow from the records, or supplies them in a replay.
    """

    def __init__(
        self,
        service: Service[S],
        partition: int,
        *,
        rules: EngineRules,
        form: RecordFormat,
        seconds: Callable[[], float] = time.perf_counter,
        book: Book | None = None,
    ) -> None:
        self.service = service
        self.partition = partition
        self.poked = False
        """Whether the next decision wakes the service, even if nothing is due."""

        self.caught_up = False
        """Whether the source tables were read to the ends that they had when the partition began."""

        self._rules = rules
        self._form = form
        self._book: Book = book or Book()
        self._batches = BatchProcessor(
            service,
            partition,
            partitions=rules.partitions,
            report_max_bytes=rules.report_max_bytes,
            form=form,
            seconds=seconds,
            book=self._book,
        )
        self._source_tables = source_tables_of(service)
        self._tables: PartitionTables[S] | None = None
        self._queue: deque[tuple[Topic, Any]] = deque()
        self._positions: dict[Topic, int] = {}
        self._committed: dict[Topic, int] = {}
        self._passed: dict[str, int] = {}
        self._marks: dict[Topic, int] = {}
        self._dirty_since: datetime | None = None
        self._latest: datetime | None = None
        self._reconcile_at: datetime | None = None
        self._hold_until: datetime | None = None
        self._hold = _WAKE_HOLD
        self._isolation = IsolatedKeys()
        self._has_begun = False
        self._is_configured = False

    # For the driver and for reports.

    @property
    def state(self) -> S:
        """The state; it exists after `restore`. Raises RuntimeError if it does not exist yet."""
        return self._known.state

    @property
    def _known(self) -> PartitionTables[S]:
        if self._tables is None:
            raise RuntimeError("the engine was not restored")
        return self._tables

    @property
    def steps(self) -> int:
        """Grows with each slice of records that is decided on. The watchdog reads it."""
        return self._batches.steps

    @property
    def positions(self) -> Mapping[Topic, int]:
        """For each source, the offset of the first record that the state does not include."""
        return self._positions

    @property
    def waiting(self) -> int:
        """The number of records that were offered and are not decided on yet."""
        return len(self._queue)

    @property
    def restless(self) -> bool:
        """Whether the next decision can be made at once."""
        if not self.caught_up:
            return bool(self._oldest(1))
        return bool(self._queue) or (self.poked and self._hold_until is None)

    @property
    def wanted(self) -> tuple[Topic, ...]:
        """The sources to read now. Until the engine has caught up, these are only the tables."""
        return self.service.sources if self.caught_up else self._source_tables

    def fetched(self, topic: Topic) -> int | None:
        """Return the offset from which a source is to be offered next; None until the restore has determined it."""
        for queued, record in reversed(self._queue):
            if queued is topic:
                return int(record.offset) + 1
        return self._positions.get(topic)

    def progress_of(self, upstream: Upstream, below: int = 0) -> Mapping[str, int]:
        """Return how far an upstream service had read each of its topics by the last record of `via`; by short name.

        Args:
            upstream: the service, and its topics.
            below: records below this offset count as soon as they are offered, because they are decided on before the
                result is used. Later records count only once they are decided on.
        """
        via = upstream.via
        if via is None:
            return {}
        record = next(
            (queued for topic, queued in reversed(self._queue) if topic is via and queued.offset < below),
            None if self._tables is None else self._tables.last.get(via.short),
        )
        return self._told_by(record, upstream.teller or upstream.service)

    def _told_by(self, record: Any, writer: str) -> Mapping[str, int]:
        found = None if record is None else self._form.positions(record, source_name(writer))
        return found or {}

    def _passed_on(self) -> dict[str, int]:
        """Return how far services before this one had read, by the last records of the tables that state it."""
        found: dict[str, int] = {}
        for topic, writer in self.service.passes.items():
            found.update(self._told_by(self._known.last.get(topic.short), writer))
        return found

    # Restoring.

    def restore(
        self,
        committed: Mapping[Topic, int | None],
        view: GlobalView | None,
        no_later: Mapping[Topic, int] = _NO_LIMITS,
        ready: PartitionTables[S] | None = None,
    ) -> Steps[None]:
        """Begin with an empty state and read the tables: sources up to the committed offsets, the rest to their ends.

        Args:
            committed: the group's committed offset of each source; None where none was ever committed.
            view: the service's global view, read to its end.
            no_later: positions after which the engine must not begin, even if the state rests on later ones. Some
        decisions of an earlier task on the records from there on were lost.
            ready: the tables of a standby. The engine continues from there where it can.
        """
        self.forget()
        if ready is not None:
            self._book.stood_by(ready.contents)
        self._book.restores(committed, no_later)
        yield from self._noted(self._restore(committed, view, no_later, ready))

    def _restore(
        self,
        committed: Mapping[Topic, int | None],
        view: GlobalView | None,
        no_later: Mapping[Topic, int],
        ready: PartitionTables[S] | None,
    ) -> Steps[None]:
        service = self.service
        tables = ready or PartitionTables(service, self.partition, self._form, partitions=self._rules.partitions)
        bounds: Bounded = yield tables.bounds()
        starts = tables.starts(bounds, committed)
        if not tables.continues(bounds, _later(starts, tables.carried, no_later)):
            log.info("tables.read_anew", service=service.name, partition=self.partition)
            tables = PartitionTables(service, self.partition, self._form, partitions=self._rules.partitions)
        self._tables = tables
        self._batches.configuration = configuration_of(view)
        if view is not None:
            service.use_globals(tables.state, view)
        yield from tables.read(bounds, committed)
        # The state may rest on later offsets than were committed: offsets may follow later, and may have been lost or
        # set back.
        starts = _later(starts, tables.carried, no_later)
        yield from tables.read_sources(starts)
        self._positions = dict(starts)
        # Only the offsets in Kafka. Offsets that a state record carries are committed soon, because compaction may
        # remove it.
        self._committed = {
            topic: bounds.begin[topic] if offset is None else offset for topic, offset in committed.items()
        }
        bounds = yield Bounds(committed=self._source_tables)
        self._marks = bounds.end
        self.poked = True
        self._check_caught_up()

    def fold(self, topic: Topic, records: Sequence[Any]) -> None:
        """Fold records of a table into the state: `PartitionTables.fold`."""
        if records:
            self._book.folded(topic, records)
            self._known.fold(topic, records)

    def forget(self) -> None:
        """Discard the state and the queue."""
        self._queue.clear()
        self._passed.clear()
        self._marks.clear()
        self._dirty_since = self._latest = None
        self.caught_up = False
        self._has_begun = False
        self._is_configured = False
        tables, self._tables = self._tables, None
        if tables is not None:
            self._book.forgot()
            self.service.drop(tables.state)

    # Reading.

    def offer(self, topic: Topic, records: Sequence[Any]) -> None:
        """Queue consumed records, in the order of their topic, from the offset that `fetched` returns."""
        self._queue.extend(zip(itertools.repeat(topic), records, strict=False))

    def clear(self) -> None:
        """Drop the records that were offered but not decided on. They must be offered again."""
        self._queue.clear()
        self._passed.clear()

    def passed(self, topic: Topic, offset: int) -> None:
        """Note that the reader of a source has reached this offset: every record below it was offered."""
        self._passed[topic.short] = offset

    def reached(self, topic: Topic, offset: int) -> bool:
        """Return whether every record of a source below an offset was offered."""
        return max(self._passed.get(topic.short, 0), self._positions[topic]) >= offset

    @property
    def is_before_markers(self) -> bool:
        """Whether positions can move past transaction markers after the last record."""
        return not self._queue and any(self._passed.get(topic.short, 0) > at for topic, at in self._positions.items())

    def done(self, topic: Topic, offset: int) -> bool:
        """Return whether every record of a source below an offset was decided on."""
        return self.reached(topic, offset) and not any(
            queued is topic and record.offset < offset for queued, record in self._queue
        )

    def _take(self) -> list[tuple[Topic, Any]]:
        limit = self._rules.batch_max_records
        queue = self._queue
        if not self.caught_up:
            taken = self._oldest(limit)
            chosen = {id(record) for _, record in taken}
            self._take_where(lambda _, record: id(record) in chosen)
            return taken
        if self._batches.is_quick:
            # A large transaction takes less time for each record. If records take long, large batches would delay
            # everything else that the partition has to do.
            limit *= self._rules.backlog_growth
        if len(queue) <= limit:
            taken = list(queue)
            queue.clear()
            return taken
        return [queue.popleft() for _ in range(limit)]

    def _oldest(self, limit: int) -> list[tuple[Topic, Any]]:
        """Return the waiting records of the tables, oldest first where the order is certain.

        The reading order of topics is random. If the grant for a node's taint were read before the report that the node
        is ready again, the node would get the taint for a moment. So no record is taken while an older one may still
        arrive. The exception is a backlog so large that it would stop fetching.
        """
        waiting: dict[str, list[tuple[Topic, Any]]] = {topic.short: [] for topic in self._source_tables}
        for topic, record in self._queue:
            if topic.short in waiting:
                waiting[topic.short].append((topic, record))
        if len(self._queue) < _BACKLOG * self._rules.batch_max_records:
            unread = {topic.short for topic, mark in self._marks.items() if not self.reached(topic, mark)}
        else:
            unread = set()
        taken: list[tuple[Topic, Any]] = []
        heads = [(self._form.written(found[0][1]), short, 0) for short, found in waiting.items() if found]
        dry = unread - {short for _, short, _ in heads}
        heapq.heapify(heads)
        while heads and not dry and len(taken) < limit:
            _, short, place = heapq.heappop(heads)
            taken.append(waiting[short][place])
            if place + 1 < len(waiting[short]):
                heapq.heappush(heads, (self._form.written(waiting[short][place + 1][1]), short, place + 1))
            elif short in unread:
                dry.add(short)
        return taken

    def _take_where(self, wanted: Callable[[Topic, Any], bool]) -> list[tuple[Topic, Any]]:
        """Take the wanted records out of the queue. The others keep their order."""
        taken: list[tuple[Topic, Any]] = []
        left: deque[tuple[Topic, Any]] = deque()
        for entry in self._queue:
            (taken if wanted(*entry) else left).append(entry)
        self._queue = left
        return taken

    # Deciding.

    def begin_reconciling(self, now: datetime) -> None:
        """Set the time of the reconciler's first round, spread over the interval so that the partitions take turns."""
        interval = self._rules.reconcile_interval
        if self._reconcile_at is None and interval is not None:
            share = (self.partition % self._rules.partitions + 1) / self._rules.partitions
            self._reconcile_at = now + interval * (0.5 + share / 2)

    def decide(self, now: datetime) -> Steps[BatchDecision]:
        """Decide on the offered records, and on due work.

        Raises:
            StartAfresh: the service failed, or the clock was set back, and nothing of this decision may be written.
        """
        decision = yield from self._noted(self._decide(BatchDecision(now, number=self._book.decides(now))))
        decision.rests_on = self.rests_on()
        return decision

    def _noted(self, steps: Steps[R]) -> Steps[R]:
        """Run steps, and note the answers and the points at which other tasks may have run."""
        answer: object = None
        while True:
            try:
                request = steps.send(answer)
            except StopIteration as end:
                result: R = end.value
                return result
            answer = yield request
            self._book.resumed(request, answer)

    def _decide(self, decision: BatchDecision) -> Steps[BatchDecision]:
        now = decision.now
        decision.before = dict(self._positions)
        self._check_clock(now)
        waited = yield from self._begin_deciding()
        if self._book.flag(Flag.WAITS, waited and bool(self._queue)):
            # Reading took a while, and records that came meanwhile must not count from before it.
            self.poked = True
            self._note_dirt(now)
            return decision
        yield from self._process(self._book.took(self._take), decision)
        if not decision.afresh:
            self._pass_markers()
            self._check_caught_up()
        if self.caught_up and not decision.afresh:
            yield from self._begin_deciding()
            self._mind_the_clock(now)
            yield from self._wake(decision)
        self._note_dirt(decision.now)
        self._latest = max(now, decision.now)  # the tables may have been read to a later instant
        return decision

    def _begin_deciding(self) -> Steps[bool]:
        """Read the global topics to their committed end, once, before the first decision on the whole state.

        The restored state rests on everything that the previous task had read, and the view of this process may be
        older. A node missing in the view would count as deleted, and the work on it would be evicted.

        While the engine catches up, it may decide on single records. They need only the configuration. Returns whether
        this may have taken time.
        """
        early = not self.caught_up and not self._is_configured and self._batches.configuration is not None
        waited = False
        if self._book.flag(Flag.CONFIGURES, early):
            waited = bool((yield CatchUp(frozenset({CONFIGURATION}))))
            self._is_configured = True
        first = self.caught_up and not self._has_begun and bool(self.service.globals)
        if self._book.flag(Flag.BEGINS, first):
            waited = bool((yield CatchUp(frozenset(self.service.globals)))) or waited
            self._has_begun = True
        return waited

    def reconcile(self, decision: BatchDecision) -> None:
        """Make the service recompute a portion of the desired state, and add its output to the decision.

        Due work is done first. Otherwise it would count as a repair, though nothing was wrong. If more is due than one
        call does, the reconciler's output does not count as a repair.
        """
        service, state = self.service, self._known.state
        with self._isolation:
            woken = service.wake(state, decision.now)
        self._batches.add_apart(decision, woken)
        due = service.next_wake(state)
        with self._isolation:
            written = service.reconcile(state, decision.now)
        if written and (due is None or due > decision.now):
            metrics.REPAIRS.labels(service.name).inc(len(written))
            log.warning(
                "reconciler.repairs",
                service=service.name,
                partition=self.partition,
                events=len(written),
                first=[f"{one.topic.short} {one.key}" for one in written[:_SHOWN]],
            )
        self._batches.add_apart(decision, written)

    def _process(self, records: Sequence[tuple[Topic, Any]], decision: BatchDecision) -> Steps[None]:
        if not records:
            return
        yield from self._batches.process(self._known.state, records, decision, catching_up=not self.caught_up)
        left, decision.left = decision.left, ()
        if not decision.afresh:
            self._queue.extendleft(reversed(left))
        taken = records[: len(records) - len(left)]
        if self._isolation:
            self._isolation.release(
                (topic.short, record.offset, (record.key or b"").decode(errors="replace")) for topic, record in taken
            )
        for topic, record in taken:
            self._known.last[topic.short] = record
        self._positions.update(decision.positions)

    def _pass_markers(self) -> None:
        """Move the positions past the transaction markers after the last record, which are never offered.

        Then these positions equal the end of a topic when all of it has been read.
        """
        behind = {}
        if not self._queue:
            for topic, position in self._positions.items():
                if self._passed.get(topic.short, 0) > position:
                    behind[topic] = self._passed[topic.short]
        self._positions.update(self._book.passed(behind))

    def _check_caught_up(self) -> None:
        if self.caught_up:
            return
        done = all(self.done(topic, mark) for topic, mark in self._marks.items())
        if self._book.flag(Flag.CAUGHT_UP, done):
            self.caught_up = True
            self.poked = True

    def _wake(self, decision: BatchDecision) -> Steps[None]:
        """Do the due work, including the reconciler's round, once everything that it needs has been read."""
        service, now = self.service, decision.now
        due = service.next_wake(self._known.state)
        self.poked = self._book.flag(Flag.POKED, self.poked)
        begins = self._book.flag(Flag.RECONCILES, self._reconcile_at is not None and now >= self._reconcile_at)
        reconciling = begins or service.is_reconciling(self._known.state)
        if not reconciling and not self.poked and (due is None or due > now):
            return
        if self._book.flag(Flag.HELD, self._hold_until is not None and now < self._hold_until):
            return
        needs = service.needs(self._known.state, now)
        if needs is not None and not (yield from self._refresh(needs, decision)):
            self.poked = True  # the rest is read with the next decision
            return
        self.poked = False
        try:
            if begins:
                self._reconcile_at = now + (self._rules.reconcile_interval or timedelta(0))
            elif reconciling:
                yield Turn()  # a round may take many decisions, and nothing else would run between them
            if reconciling:
                self.reconcile(decision)
            with self._isolation:
                woken = service.wake(self._known.state, decision.now)
            self._batches.add_apart(decision, woken)
            for key, why in self._isolation.take_unwritten().items():
                self._batches.set_aside(decision, key, why)
            self.poked = service.is_reconciling(self._known.state)
        except Exception as error:
            # Records must still be processed, so the next attempt is postponed.
            if self._isolation.has_unwritten:
                self._isolation.read_to({topic.short: position for topic, position in self._positions.items()})
                self._hold = _WAKE_HOLD  # the key that has failed is set aside
            self._hold_until = now + self._hold
            self._hold = min(self._hold * 2, _WAKE_HOLD_MAX)
            log.exception("wake.failed", service=service.name, partition=self.partition)
            raise StartAfresh(f"the service failed when it was woken: {error!r}") from error
        self._hold_until, self._hold = None, _WAKE_HOLD

    def _refresh(self, needs: Needs, decision: BatchDecision) -> Steps[bool]:
        """Read the needed topics to their present ends, as part of this decision. Return whether that was possible."""
        yield Written()
        found: Freshness | None = yield Refresh(needs)
        if found is None:
            return False
        decision.now = found.now
        ends = {topic.short: end for topic, end in found.ends.items()}
        newer = self._book.took(
            lambda: self._take_where(lambda topic, record: record.offset < ends.get(topic.short, 0))
        )
        yield from self._process(newer, decision)
        if decision.afresh:
            return False
        if not self._book.flag(Flag.FRESH, all(self.done(topic, end) for topic, end in found.ends.items())):
            return False
        self.service.refreshed(self._known.state, found)
        decision.fresh = True
        return True

    def _check_clock(self, now: datetime) -> None:
        """Raise StartAfresh if the clock was set back far.

        The waits of a service are instants, most of which exist only in memory. They would last until the clock has
        caught up. After a restore they begin again.
        """
        if self._latest is not None and self.was_set_back(now):
            raise StartAfresh(f"the clock was set back by {(self._latest - now).total_seconds():.1f} s")
        self._latest = now

    def _mind_the_clock(self, now: datetime) -> None:
        """After the clock was set back a little, shorten waits that have become longer than intended."""
        interval = self._rules.reconcile_interval
        if self._reconcile_at is not None and interval is not None:
            self._reconcile_at = min(self._reconcile_at, now + interval)
        if self._hold_until is not None:
            self._hold_until = min(self._hold_until, now + _WAKE_HOLD_MAX)
        if self._dirty_since is not None:
            self._dirty_since = min(self._dirty_since, now)

    # Writing.

    def prepare(self, decision: BatchDecision) -> Transaction | None:
        """Return a decision's transaction, fixed before the next decision is made; None when nothing is to be written.

        If the decision has a state record, that record carries the positions, and the offsets can be committed later: a
        restore continues from the later of the two. A tombstone does not count, because compaction removes it in the
        end. This saves two round trips for each transaction (decision 0007).
        """
        offsets = self._uncommitted()
        due = self.commit_due
        overdue = due is not None and decision.now >= due
        if not decision.emits and not (offsets and overdue) and not self.is_heavy:
            return None
        changelogs = self.service.changelogs
        carried = any(emit.content is not None and emit.topic in changelogs for emit, _ in decision.emits)
        return Transaction(decision, {} if carried and not overdue else offsets)

    def pending_offsets(self, now: datetime) -> Transaction | None:
        """Return a transaction of the offsets that are not committed yet; None when all are."""
        offsets = self._uncommitted()
        return Transaction(BatchDecision(now, rests_on=self.rests_on()), offsets) if offsets else None

    def rests_on(self) -> dict[str, int]:
        """Return the next offset of every source, on which the state rests, by short name.

        In addition, how far services before this one had read.
        """
        return self._passed_on() | {topic.short: offset for topic, offset in self._positions.items()}

    def written(self, transaction: Transaction) -> None:
        """Note that a transaction is committed."""
        if transaction.offsets:
            self._committed.update(transaction.offsets)
            self._dirty_since = None

    def _uncommitted(self) -> dict[Topic, int]:
        return {topic: offset for topic, offset in self._positions.items() if self._committed.get(topic) != offset}

    def _note_dirt(self, now: datetime) -> None:
        if self._dirty_since is None and self._uncommitted():
            self._dirty_since = now

    @property
    def commit_due(self) -> datetime | None:
        """When the offsets that are not committed yet have waited as long as they may; None when all are committed."""
        return None if self._dirty_since is None else self._dirty_since + self._rules.lazy_commit

    @property
    def is_heavy(self) -> bool:
        """Whether so many steps wait to be written that they go out even without a record."""
        return self._book.heavy

    # Time.

    def was_set_back(self, now: datetime) -> bool:
        """Return whether the clock was set back so far since the last decision that nothing should wait for it."""
        return self._latest is not None and now < self._latest - _SET_BACK

    def wait_left(self) -> timedelta | None:
        """Return how long to wait from the last decision until `next_due`; None for ever.

        Services keep instants. Only their distance from the time of the decision is what they wait for: a clock that is
        set back must not make it longer.
        """
        due = self.next_due()
        if due is None or self._latest is None:
            return None if due is None else timedelta(0)
        return max(timedelta(0), due - self._latest)

    def next_due(self) -> datetime | None:
        """Return when `decide` has something to do even if no records are offered; None for never."""
        if self._tables is None:
            return None
        commit = self.commit_due
        if not self.caught_up:
            return commit
        waits = [one for one in (self.service.next_wake(self._known.state), self._reconcile_at) if one is not None]
        due = min(waits, default=None)
        if self._hold_until is not None and (due is not None or self.poked):
            due = self._hold_until if due is None else max(due, self._hold_until)
        return min((one for one in (due, commit) if one is not None), default=None)
