"""The partition owner: one partition of all of a service's sources, its state, and the one producer that writes for it.

Its life: start the producer (which fences every earlier owner) → read the committed offsets → end what the broker has
left open of earlier transactions → restore the state → go on from the later of the committed offsets and those that the
state records rest on → a transaction for each batch.
After any error of which the outcome is unknown everything is thrown away and it starts again from Kafka.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Generic, TypeVar

import structlog
from aiokafka import TopicPartition
from aiokafka.errors import IllegalStateError, InvalidProducerEpoch, KafkaError, ProducerFenced

from moorage.runtime import metrics
from moorage.runtime.alarm import Alarm
from moorage.runtime.codec import Outgoing
from moorage.runtime.context import WorkerContext
from moorage.runtime.decide import Decider, Decision
from moorage.runtime.encode import Encoder
from moorage.runtime.errors import StartAfresh
from moorage.runtime.hanging import end_lost_transactions, mind_a_slow_commit
from moorage.runtime.producers import PartitionProducer
from moorage.runtime.tables.restore import Progress, Restorer
from moorage_schemas.topics import Topic

log = structlog.get_logger(__name__)

S = TypeVar("S")

_LAZY_COMMIT = 1.0  # seconds that offsets may wait: of batches without output, or carried by a state record
_BACKOFF_FIRST, _BACKOFF_MAX = 0.1, 5.0  # seconds between starts after errors
_MINE_POLL = 0.5  # seconds between two questions to the coordinator
_WAKE_HOLD = timedelta(seconds=1)  # that a wake-up which failed is put off, doubled each time
_WAKE_HOLD_MAX = timedelta(seconds=60)
_HIGH, _LOW = 16, 8  # queued batches at which fetching is paused, and resumed


class Phase(StrEnum):
    """Where an owner stands."""

    STARTING = "Starting"
    RESTORING = "Restoring"
    RUNNING = "Running"
    PARKED = "Parked"
    """Drained for a rebalance, with its state kept in case the partition comes back."""
    WAITING = "Waiting"
    """Not the owner any more, or Kafka does not answer."""
    STOPPED = "Stopped"


@dataclass(frozen=True, slots=True)
class _Transaction:
    """What is written in one transaction."""

    decision: Decision
    records: list[Outgoing]
    offsets: dict[TopicPartition, int]
    positions: dict[Topic, int]


class PartitionOwner(Generic[S]):
    """Owns one partition of a service.

    Args:
        context: what the worker's owners share.
        partition: which one.
    """

    def __init__(self, context: WorkerContext[S], partition: int) -> None:
        self.partition = partition
        self.phase = Phase.STARTING
        self._moves = 0

        self._context = context
        self._service = context.service
        self._tps = {topic: context.tp(topic, partition) for topic in self._service.sources}
        self._decider = Decider(
            self._service,
            partition,
            partitions=context.partitions,
            report_max_bytes=context.settings.report_max_bytes,
            catch_up=self._catch_up,
            turns=context.turns,
        )
        self._encoder = Encoder(self._service, prefix=context.settings.topic_prefix, partitions=context.partitions)
        self._queue: deque[tuple[Topic, Any]] = deque()
        self._throttled = False
        self._event = asyncio.Event()
        self._quiet = asyncio.Event()
        self._parking = False
        self._poked = False
        self._returned = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._producer: PartitionProducer | None = None
        self._restorer: Restorer[S] | None = None
        self._positions: dict[Topic, int] = {}
        self._committed: dict[Topic, int] = {}
        self._dirty_since: float | None = None
        self._lazy: asyncio.TimerHandle | None = None
        self._alarm = Alarm(context.clock, self._event.set)
        self._reconcile_at: datetime | None = None
        self._hold_until: datetime | None = None
        self._hold = _WAKE_HOLD
        self._failures = 0
        self._has_state = False
        self._state: S

    # What the worker calls.

    def start(self) -> None:
        """Begin."""
        self._task = asyncio.create_task(self._run(), name=f"{self._service.name}-{self.partition}")

    def offer(self, topic: Topic, records: Sequence[Any]) -> None:
        """Take consumed records; those that come before the owner runs, or again, are left out."""
        if self.phase is not Phase.RUNNING or self._parking:
            return
        self._queue.extend([(topic, record) for record in records])
        self._event.set()
        if not self._throttled and len(self._queue) > _HIGH * self._context.settings.batch_max_records:
            self._throttled = True
            self._pause()

    def poke(self) -> None:
        """The global view has changed: let the service look."""
        self._poked = True
        self._event.set()

    async def park(self) -> None:
        """Finish what is in flight, take nothing new, and keep the state; returns when nothing is written any more."""
        self._parking = True
        self._returned.clear()
        self._event.set()
        if self.phase is Phase.RUNNING:
            self._quiet.clear()
            await self._quiet.wait()

    def unpark(self) -> None:
        """The partition came back in the rebalance."""
        self._parking = False
        self._returned.set()

    async def stop(self) -> None:
        """Give the partition up, at once; park first to finish what is in flight."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
        await self._throw_away()
        self.phase = Phase.STOPPED
        metrics.forget_partition(self._service.name, self.partition)

    @property
    def moves(self) -> int:
        """Changes with each step of progress, a restore's too; for the watchdog."""
        restorer = self._restorer
        moves = self._moves + self._decider.steps
        if restorer is None or restorer.progress.finished:
            return moves
        return moves + sum(tail.position for tail, _ in restorer.progress.tails)

    @property
    def progress(self) -> Progress:
        """How far the restore is."""
        return self._restorer.progress if self._restorer is not None else Progress()

    @property
    def waiting(self) -> int:
        """Records that were fetched and are not processed."""
        return len(self._queue)

    def fetched(self, topic: Topic) -> int | None:
        """The next offset that is wanted of a source, without what waits; None before the owner runs."""
        if self.phase is not Phase.RUNNING:
            return self._positions.get(topic)
        for queued, record in reversed(self._queue):
            if queued is topic:
                return int(record.offset) + 1
        return self._positions.get(topic)

    @property
    def idle(self) -> bool:
        """Whether there is nothing to do."""
        return self.phase in (Phase.PARKED, Phase.STOPPED) or (self.phase is Phase.RUNNING and not self._queue)

    # The life.

    async def _run(self) -> None:
        while True:
            try:
                await self._begin()
                await self._work()
            except asyncio.CancelledError:
                raise
            except StartAfresh as reason:
                self._restarting("state", str(reason))
            except (ProducerFenced, InvalidProducerEpoch):
                # Another owner has started: this one is out of date, or the two overlap in a rebalance.
                self._restarting("fenced", "another owner of this partition has started")
                await self._start_over(first=False)
                continue
            except (KafkaError, TimeoutError, OSError, AssertionError) as error:
                # aiokafka's transaction manager asserts where it has failed before.
                self._restarting("kafka", repr(error))
                await self._start_over(first=True)
                continue
            except Exception:
                log.exception("partition.failed", service=self._service.name, partition=self.partition)
                self._restarting("error", "unexpected error")
                await self._start_over(first=True)
                continue
            await self._throw_away()

    def _restarting(self, why: str, message: str) -> None:
        metrics.RESTARTS.labels(self._service.name, why).inc()
        log.warning(
            "partition.starts_afresh", service=self._service.name, partition=self.partition, why=why, problem=message
        )

    async def _start_over(self, *, first: bool) -> None:
        """Throw everything away, wait a little longer each time, and make sure that the partition is still held.

        A new producer would fence whoever owns the partition now, so the coordinator is asked before one is started.
        """
        self.phase = Phase.WAITING
        await self._throw_away()
        self._failures += 1
        delay = min(_BACKOFF_MAX, _BACKOFF_FIRST * 2 ** min(self._failures - 1, 10))
        if first:
            await asyncio.sleep(delay)
        while True:
            try:
                if await self._context.holds(self.partition):
                    return
            except (KafkaError, TimeoutError, OSError) as error:
                log.debug("partition.ownership_unknown", partition=self.partition, error=repr(error))
            await asyncio.sleep(max(delay, _MINE_POLL))

    async def _begin(self) -> None:
        """Fence, restore, seek, and let records in."""
        context, service = self._context, self._service
        self.phase = Phase.STARTING
        self._pause()
        async with context.starting:
            producer = context.producer(self.partition)
            self._producer = producer
            await producer.start()
        self._moves += 1
        committed = await context.committed(self._tps)
        await end_lost_transactions(context, self.partition, producer, committed)
        self.phase = Phase.RESTORING
        self._state = service.new_state(self.partition)
        self._has_state = True
        await context.globals_ready()
        if context.view is not None:
            service.use_globals(self._state, context.view)
        restorer = Restorer(
            service=service,
            state=self._state,
            partition=self.partition,
            prefix=context.settings.topic_prefix,
            reader=context.reader,
            offsets=context.offsets,
            on_followed=self._followed,
        )
        self._restorer = restorer
        positions = await restorer.run(committed)
        self._positions = dict(positions)
        self._committed = dict(positions)
        self._failures = 0
        self._moves += 1
        self._poked = True
        if self._reconcile_at is None:
            # Spread over the interval, so that the partitions do not all reconcile at once.
            share = (self.partition % context.partitions + 1) / context.partitions
            self._reconcile_at = context.clock.now() + timedelta(
                seconds=context.settings.reconcile_interval * (0.5 + share / 2)
            )
        self._let_in()
        log.info(
            "partition.running",
            service=service.name,
            partition=self.partition,
            positions={topic.short: offset for topic, offset in positions.items()},
        )

    def _let_in(self) -> None:
        """Seek to where the state stands and take records from there."""
        self._queue.clear()
        self._throttled = False
        if not self._parking:
            consumer = self._context.consumer
            try:
                for topic, tp in self._tps.items():
                    consumer.seek(tp, self._positions[topic])
                consumer.resume(*self._tps.values())
            except IllegalStateError:
                # A rebalance is taking it away at this moment; the worker will say.
                self._parking = True
                self._returned.clear()
        self.phase = Phase.RUNNING
        self._event.set()

    async def _work(self) -> None:  # noqa: C901 - the order of the steps is what matters, so they stand together
        """Batch after batch, each in a transaction; the next is decided while the one before is written."""
        writing: asyncio.Task[None] | None = None
        try:
            while True:
                await self._event.wait()
                if writing is not None and not self._parking:
                    await self._collect(writing)
                self._event.clear()
                if self._parking:
                    if writing is not None:
                        await writing
                        writing = None
                    await self._stay_parked()
                    continue
                decision = await self._decide()
                if writing is not None:
                    await writing
                    writing = None
                if decision is not None and (coming := self._prepare(decision)) is not None:
                    writing = asyncio.create_task(self._write(coming))
                    writing.add_done_callback(lambda _: self._event.set())
                if decision is not None and decision.afresh:
                    raise StartAfresh(decision.afresh)  # noqa: TRY301 - the handler waits for the write
                self._arm()
                if self._queue:
                    self._event.set()
        except StartAfresh:
            if writing is not None:
                await writing  # it rests on a sound state
            raise
        finally:
            if writing is not None and not writing.done():
                writing.cancel()
                with contextlib.suppress(asyncio.CancelledError, Exception):
                    await writing

    async def _collect(self, writing: asyncio.Task[None]) -> None:
        """While a transaction is under way, let records gather to a full batch."""
        if not writing.done() and len(self._queue) < self._context.settings.batch_max_records:
            await asyncio.wait((writing,), timeout=self._context.settings.batch_linger_ms / 1000)

    async def _decide(self) -> Decision | None:
        """Take what waits and what has come due; None when there is nothing to write."""
        service, now = self._service, self._context.clock.now()
        records = self._take()
        decision = await self._decider.decide(self._state, records, now) if records else Decision(now)
        self._queue.extendleft(reversed(decision.left))
        if not decision.afresh:
            self._mind_the_clock(now)
            self._wake(decision)
            if self._reconcile_at is not None and now >= self._reconcile_at:
                self._reconcile_at = now + timedelta(seconds=self._context.settings.reconcile_interval)
                repairs = service.reconcile(self._state, now)
                if repairs:
                    metrics.REPAIRS.labels(service.name).inc(len(repairs))
                    log.warning(
                        "reconciler.repairs", service=service.name, partition=self.partition, events=len(repairs)
                    )
                self._decider.add(decision, repairs)
        self._positions.update(decision.positions)
        if decision.positions:
            self._moves += 1
            metrics.RECORDS.labels(service.name).inc(decision.records)
            metrics.BATCH_RECORDS.labels(service.name).observe(decision.records)
        due = self._lazy_due()
        return decision if decision.emits or decision.afresh or due else None

    def _mind_the_clock(self, now: datetime) -> None:
        """When the clock was set back, wait no longer than was meant."""
        interval = timedelta(seconds=self._context.settings.reconcile_interval)
        if self._reconcile_at is not None:
            self._reconcile_at = min(self._reconcile_at, now + interval)
        if self._hold_until is not None:
            self._hold_until = min(self._hold_until, now + _WAKE_HOLD_MAX)

    def _wake(self, decision: Decision) -> None:
        now, service = decision.now, self._service
        due = service.next_wake(self._state)
        if not self._poked and (due is None or due > now):
            return
        if self._hold_until is not None and now < self._hold_until:
            return
        self._poked = False
        try:
            self._decider.add(decision, service.wake(self._state, now))
        except Exception as error:
            # Records must go on being processed, so the next attempt waits.
            self._hold_until = now + self._hold
            self._hold = min(self._hold * 2, _WAKE_HOLD_MAX)
            log.exception("wake.failed", service=service.name, partition=self.partition)
            raise StartAfresh(f"the service failed when it was woken: {error!r}") from error
        self._hold_until, self._hold = None, _WAKE_HOLD

    def _take(self) -> list[tuple[Topic, Any]]:
        limit = self._context.settings.batch_max_records
        queue = self._queue
        if len(queue) <= limit:
            taken = list(queue)
            queue.clear()
        else:
            taken = [queue.popleft() for _ in range(limit)]
        if self._throttled and len(queue) < _LOW * limit:
            self._throttled = False
            with contextlib.suppress(IllegalStateError):
                self._context.consumer.resume(*self._tps.values())
        return taken

    def _prepare(self, decision: Decision) -> _Transaction | None:
        """What a decision's transaction holds, fixed before the next batch is decided; None when it would be empty."""
        positions = dict(self._positions)
        offsets = {
            self._tps[topic]: offset for topic, offset in positions.items() if self._committed.get(topic) != offset
        }
        if not offsets and not decision.emits:
            return None
        if self._carried(decision) and not self._overdue():
            offsets = {}
        short = {topic.short: offset for topic, offset in positions.items()}
        return _Transaction(decision, self._encoder.records(decision, short), offsets, positions)

    def _carried(self, decision: Decision) -> bool:
        """Whether a state record of the decision carries the positions, so that the offsets can follow later.

        A restore goes on from the later of the two. A tombstone does not count, for compaction removes it in the end.
        (docs/decisions/0007: it saves two of the round trips of each transaction.)
        """
        return any(emit.event is not None and emit.topic in self._service.changelogs for emit, _ in decision.emits)

    async def _write(self, transaction: _Transaction) -> None:
        producer = self._producer
        if producer is None:
            raise StartAfresh("the producer is gone")
        loop = asyncio.get_running_loop()
        began = loop.time()
        try:
            await producer.write(transaction.records, transaction.offsets)
        except BaseException:
            metrics.ABORTED.labels(self._service.name).inc()
            raise
        await mind_a_slow_commit(self._context, self.partition, loop.time() - began)
        if transaction.offsets:
            self._committed = transaction.positions
            self._dirty_since = None
        self._moves += 1
        metrics.COMMITTED.labels(self._service.name).inc()
        metrics.BATCH_SECONDS.labels(self._service.name).observe(loop.time() - began)
        self._encoder.count(transaction.decision)

    # Rebalances.

    async def _stay_parked(self) -> None:
        """Commit what is open, then wait until the partition comes back, and make sure that nobody had it meanwhile."""
        if (rest := self._prepare(Decision(self._context.clock.now()))) is not None:
            await self._write(rest)
        self.phase = Phase.PARKED
        self._queue.clear()
        self._quiet.set()
        await self._returned.wait()
        if self._producer is not None:
            # Any owner in between has fenced this producer, so an offset commit fails if there was one.
            await self._producer.write([], {tp: self._positions[topic] for topic, tp in self._tps.items()})
        self._poked = True
        self._let_in()

    # Time.

    def _lazy_due(self) -> bool:
        """Whether offsets without output have waited long enough; starts the wait when they have just begun to."""
        if all(self._committed.get(topic) == offset for topic, offset in self._positions.items()):
            return False
        now = asyncio.get_running_loop().time()
        if self._dirty_since is None:
            self._dirty_since = now
            self._lazy = asyncio.get_running_loop().call_later(_LAZY_COMMIT, self._event.set)
        return self._overdue()

    def _overdue(self) -> bool:
        """Whether offsets have waited as long as they may."""
        return self._dirty_since is not None and asyncio.get_running_loop().time() - self._dirty_since >= _LAZY_COMMIT

    def _arm(self) -> None:
        """Set the alarm to what the service waits for next."""
        due = self._service.next_wake(self._state)
        if self._hold_until is not None and (due is not None or self._poked):
            due = self._hold_until if due is None else max(due, self._hold_until)
        if self._reconcile_at is not None:
            due = self._reconcile_at if due is None else min(due, self._reconcile_at)
        self._alarm.set(due)

    # Small parts.

    def _followed(self) -> None:
        """A followed table has changed, which may have moved what the service waits for."""
        self._event.set()

    async def _catch_up(self) -> None:
        if self._restorer is not None:
            async with asyncio.timeout(2 * self._context.settings.transaction_timeout_ms / 1000):
                await self._restorer.catch_up()
                await self._context.freshen()

    def _pause(self) -> None:
        with contextlib.suppress(IllegalStateError, AssertionError):  # not assigned, or never was
            self._context.consumer.pause(*self._tps.values())

    async def _throw_away(self) -> None:
        self._queue.clear()
        self._throttled = False
        self._dirty_since = None
        if self._lazy is not None:
            self._lazy.cancel()
            self._lazy = None
        self._alarm.cancel()
        if self.phase in (Phase.RUNNING, Phase.PARKED, Phase.RESTORING):
            self.phase = Phase.WAITING
        self._pause()
        self._quiet.set()
        if self._restorer is not None:
            self._restorer.close()
            self._restorer = None
        if self._has_state:
            self._has_state = False
            self._service.drop(self._state)
        producer, self._producer = self._producer, None
        if producer is not None:
            await producer.close()
