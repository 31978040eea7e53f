"""The partition task: one partition of all of a service's sources, its state, and the one producer that writes for it.

Its steps are: start the producer, which fences every earlier task → read the committed offsets → end transactions of
earlier tasks that the broker has left open → restore the state → continue from the later of the committed offsets and
those of the state records → write one transaction for each batch. After any error with an unknown outcome it discards
everything and starts again from Kafka.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Generic, TypeVar

import structlog
from aiokafka.errors import IllegalStateError, InvalidProducerEpoch, KafkaError, ProducerFenced

from moorage.runtime.engine.batch import BatchDecision
from moorage.runtime.engine.encode import Encoder, with_steps
from moorage.runtime.engine.engine import EngineRules, PartitionEngine, Transaction
from moorage.runtime.engine.partition_tables import PartitionTables
from moorage.runtime.engine.requests import CatchUp, Refresh, Request, Turn, Written
from moorage.runtime.kafka.clients.fenced_producer import PartitionProducer
from moorage.runtime.kafka.clients.refusals import describe
from moorage.runtime.kafka.partition.commit_watch import CommitWatch
from moorage.runtime.kafka.partition.context import WorkerContext
from moorage.runtime.kafka.partition.dangling_transactions import (
    end_lost_transactions,
)
from moorage.runtime.kafka.partition.fresh_reads import FreshReads
from moorage.runtime.kafka.partition.source_feed import SourceFeed
from moorage.runtime.kafka.partition.table_restore import Progress, Restorer
from moorage.runtime.process import metrics
from moorage.runtime.process.clock import Clock
from moorage.runtime.process.failures import StartAfresh
from moorage.runtime.service import Freshness
from moorage.runtime.wire.record_format import KafkaFormat
from moorage_schemas.topics import Topic

log = structlog.get_logger(__name__)

S = TypeVar("S")

_BACKOFF_FIRST, _BACKOFF_MAX = 0.1, 5.0  # seconds between starts after errors
_MINE_POLL = 0.5  # seconds between two requests to the coordinator
_CHECK_AGAIN = 0.005  # seconds between two checks of how far the consumer has come
_READ_AGAIN = 0.1  # seconds between two checks of whether everything has been read
_BACKLOG_GROWTH = 4  # how many times larger a batch may be while records are waiting


class Phase(StrEnum):
    """The state of a task."""

    STARTING = "Starting"
    RESTORING = "Restoring"
    RUNNING = "Running"
    PARKED = "Parked"
    """Drained for a rebalance, with its state kept in case the partition returns."""
    WAITING = "Waiting"
    """The worker has lost the partition, or Kafka does not answer."""
    STOPPED = "Stopped"


class _Alarm:
    """Calls a function at or after an instant, never before. It has one setting at a time, which can be changed."""

    def __init__(self, clock: Clock, ring: Callable[[], None]) -> None:
        self._clock = clock
        self._ring = ring
        self._when: datetime | None = None
        self._task: asyncio.Task[None] | None = None

    def set(self, when: datetime | None) -> None:
        """Ring at this time, in place of any earlier setting; None for never."""
        if when == self._when and self._task is not None and not self._task.done():
            return
        self.cancel()
        self._when = when
        if when is not None:
            self._task = asyncio.create_task(self._wait(when))

    def cancel(self) -> None:
        """Cancel the present setting."""
        task, self._task, self._when = self._task, None, None
        if task is not None:
            task.cancel()

    async def _wait(self, when: datetime) -> None:
        await self._clock.sleep_until(when)
        self._ring()


class PartitionTask(Generic[S]):
    """Runs one partition of a service.

    Args:
        ready: the tables that this worker has read as a standby.
    """

    def __init__(self, context: WorkerContext[S], partition: int, ready: PartitionTables[S] | None = None) -> None:
        self.partition = partition
        self.phase = Phase.STARTING
        self.restores = 0
        """How often it has restored its state."""

        self._moves = 0

        self._context = context
        self._ready = ready
        self._was_ready = ready is not None
        self._service = context.service
        self._book = context.journals.book(partition)
        settings = context.settings
        self._engine = PartitionEngine(
            self._service,
            partition,
            rules=EngineRules(
                partitions=context.partitions,
                report_max_bytes=settings.report_max_bytes,
                batch_max_records=settings.batch_max_records,
                backlog_growth=_BACKLOG_GROWTH,
                reconcile_interval=timedelta(seconds=settings.reconcile_interval),
            ),
            form=KafkaFormat(),
            book=self._book,
        )
        self._encoder = Encoder(self._service, prefix=settings.topic_prefix, partitions=context.partitions)
        self._deciding = False
        self._event = asyncio.Event()
        self._quiet = asyncio.Event()
        self._parking = False
        self._returned = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._writing: asyncio.Task[None] | None = None
        self._producer: PartitionProducer | None = None
        self._restorer: Restorer | None = None
        self._alarm = _Alarm(context.clock, self._event.set)
        self._feed = SourceFeed(context, partition, self._engine)
        self._fresh = FreshReads(
            context,
            partition,
            self._engine,
            feed=self._feed,
            arrived=self._event,
            is_parking=lambda: self._parking,
        )
        self._commits = CommitWatch(context, partition, self._event.set)
        self._failures = 0

    # Called by the worker.

    def start(self) -> None:
        """Start."""
        self._task = asyncio.create_task(self._run(), name=f"{self._service.name}-{self.partition}")

    def offer(self, topic: Topic, records: Sequence[Any]) -> None:
        """Queue consumed records. Those that arrive before the task runs, or while it parks, are fetched again."""
        if self.phase is not Phase.RUNNING or self._parking:
            return
        self._engine.offer(topic, records)
        self._event.set()
        self._feed.throttle()

    def poke(self) -> None:
        """Wake the service, because the global view has changed."""
        self._engine.poked = True
        self._event.set()

    async def park(self) -> None:
        """Finish the writes in flight, take nothing new, and keep the state. Returns when no write is in progress."""
        self._parking = True
        self._returned.clear()
        self._event.set()
        if self.phase is Phase.RUNNING:
            self._quiet.clear()
            await self._quiet.wait()

    def unpark(self) -> None:
        """Continue, because the partition came back in the rebalance."""
        self._parking = False
        self._returned.set()

    async def stop(self) -> None:
        """Give up the partition at once. Park first to finish the writes in flight."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
        await self._throw_away()
        self.phase = Phase.STOPPED
        metrics.forget_partition(self._service.name, self.partition)

    async def read_to_ends(self) -> bool:
        """Return True when everything that is committed now has been read; False when that is uncertain.

        A task that is starting or restoring reads everything anyway.

        Raises:
            KafkaError: Kafka does not answer.
            StartAfresh: a table is no longer read.
        """
        restorer = self._restorer
        if self.phase is Phase.RUNNING and restorer is not None:
            ends = await self._context.offsets.stable(self._feed.tps.values())
            while self.phase is Phase.RUNNING:
                if not [tp for tp, end in ends.items() if await self._context.consumer.position(tp) < end]:
                    await restorer.catch_up()
                    break
                await asyncio.sleep(_READ_AGAIN)
        return self.phase is not Phase.PARKED and not self._parking

    @property
    def moves(self) -> int:
        """A number that changes with each step of progress, including those of a restore. The watchdog reads it."""
        restorer = self._restorer
        moves = self._moves + self._engine.steps
        if restorer is None or restorer.progress.finished:
            return moves
        return moves + sum(tail.position for tail, _ in restorer.progress.tails)

    @property
    def cold(self) -> bool:
        """Whether the task has started with nothing read, and has not read the tables yet."""
        return not self._was_ready and self.phase not in (Phase.RUNNING, Phase.PARKED)

    @property
    def progress(self) -> Progress:
        """How far the restore has come."""
        return self._restorer.progress if self._restorer is not None else Progress()

    @property
    def waiting(self) -> int:
        """The number of records that were fetched and are not processed yet."""
        return self._engine.waiting

    def fetched(self, topic: Topic) -> int | None:
        """Return the offset from which a source is to be fetched next; None before the task runs."""
        return self._engine.fetched(topic)

    @property
    def caught_up(self) -> bool:
        """Whether the task has read the records that were waiting when it started, and makes decisions."""
        return self.phase is Phase.RUNNING and self._engine.caught_up

    @property
    def idle(self) -> bool:
        """Whether nothing is due, being decided or being written."""
        if self.phase is Phase.RUNNING:
            busy = self._deciding or self._writing is not None or self._event.is_set()
            return self._engine.caught_up and not (busy or self._engine.waiting)
        return self.phase in (Phase.PARKED, Phase.STOPPED)

    # The life cycle.

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
                # Another task of the partition has started: this one is outdated, or the two overlap in a rebalance.
                self._restarting("fenced", "another task of this partition has started")
                await self._start_over(first=False)
                continue
            except (KafkaError, TimeoutError, OSError, AssertionError) as error:
                # aiokafka's transaction manager raises AssertionError when it has failed before.
                self._restarting("kafka", describe(error, self._context.settings))
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
        """Discard everything, wait a little longer after each failure, and check that the partition is still assigned.

        A new producer would fence the present task of the partition, so the assignment is checked with the coordinator
        first.
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
        """Fence earlier tasks, restore, seek, and start to take records."""
        context, service = self._context, self._service
        self.phase = Phase.STARTING
        self._feed.pause()
        async with context.starting:
            producer = context.producer(self.partition)
            self._producer = producer
            await producer.start()
        self._commits.wrote()
        self._moves += 1
        committed: Mapping[Topic, int | None] = await context.committed(self._feed.tps)
        sound = await end_lost_transactions(context, self.partition, producer, committed)
        self.phase = Phase.RESTORING
        await context.globals_ready()
        restorer = Restorer(
            partition=self.partition,
            prefix=context.settings.topic_prefix,
            reader=context.reader,
            offsets=context.offsets,
            fold=self._fold,
        )
        self._restorer = restorer
        ready, self._ready = self._ready, None
        await restorer.run(self._engine.restore(sound.committed, context.view, sound.no_later, ready), service.follows)
        self._failures = 0
        self.restores += 1
        self._moves += 1
        self._engine.begin_reconciling(context.clock.now())
        self._let_in()
        log.info(
            "partition.running",
            service=service.name,
            partition=self.partition,
            positions={topic.short: offset for topic, offset in self._engine.positions.items()},
        )

    def _fold(self, topic: Topic, records: Sequence[Any]) -> None:
        self._engine.fold(topic, records)
        if self.phase is Phase.RUNNING:
            self._event.set()  # the service uses the followed tables

    def _let_in(self) -> None:
        """Seek to the positions of the state, and take records from there."""
        self._engine.clear()
        self._feed.reset()
        if not self._parking:
            try:
                self._feed.seek()
            except IllegalStateError:
                # A rebalance is taking the partition away at this moment. The worker will report it.
                self._parking = True
                self._returned.clear()
        self.phase = Phase.RUNNING
        self._event.set()

    async def _work(self) -> None:
        """Process batch after batch, each in a transaction. The next is decided while the previous one is written."""
        try:
            while True:
                self._deciding = False
                await self._event.wait()
                self._deciding = True
                if self._writing is not None and not self._parking:
                    await self._collect(self._writing)
                self._event.clear()
                self._commits.check()
                if self._parking:
                    await self._written()
                    await self._stay_parked()
                    continue
                if self._commits.is_quiet:
                    await self._written()
                    await self._write_offsets()
                await self._feed.note_passed(self._engine.wanted)
                decision = await self._decide()
                await self._written()
                if (coming := self._engine.prepare(decision)) is not None:
                    self._writing = asyncio.create_task(self._write(coming))
                    self._writing.add_done_callback(lambda _: self._event.set())
                else:
                    self._fresh.release()
                if decision.afresh:
                    raise StartAfresh(decision.afresh)  # noqa: TRY301 - the handler waits for the write
                self._after(decision)
        except StartAfresh:
            await self._written()  # the transaction being written rests on a valid state
            raise
        finally:
            self._fresh.release()
            writing, self._writing = self._writing, None
            if writing is not None and not writing.done():
                writing.cancel()
                with contextlib.suppress(asyncio.CancelledError, Exception):
                    await writing

    async def _collect(self, writing: asyncio.Task[None]) -> None:
        """While a transaction is being written, collect records for a full batch."""
        if not writing.done() and self._engine.waiting < self._context.settings.batch_max_records:
            await asyncio.wait((writing,), timeout=self._context.settings.batch_linger_ms / 1000)

    async def _written(self) -> None:
        """Wait for the transaction that is being written."""
        writing = self._writing
        if writing is not None:
            await asyncio.shield(writing)
            self._writing = None

    async def _decide(self) -> BatchDecision:
        """Run the engine's steps, and carry out its requests."""
        steps = self._engine.decide(self._context.clock.now())
        answer: Freshness | bool | None = None
        while True:
            try:
                request = steps.send(answer)
            except StopIteration as end:
                decision: BatchDecision = end.value
                return decision
            answer = await self._answer(request)

    async def _answer(self, request: Request) -> Freshness | bool | None:
        match request:
            case Turn():
                async with self._context.turns:
                    await asyncio.sleep(0)
            case Written():
                await self._written()
            case CatchUp(topics):
                if self._restorer is not None:
                    await self._fresh.catch_up(self._restorer, topics)
                return True
            case Refresh(needs):
                return await self._fresh.refresh(needs)
            case _:
                raise RuntimeError(f"the engine may not make this request while it decides: {request!r}")
        return None

    def _after(self, decision: BatchDecision) -> None:
        """Count the decision, resume fetching where it was paused, and schedule the next decision."""
        service = self._service
        if decision.positions:
            self._moves += 1
            metrics.RECORDS.labels(service.name).inc(decision.records)
            metrics.BATCH_RECORDS.labels(service.name).observe(decision.records)
        self._feed.ease()
        self._alarm.set(self._engine.next_due())
        if self._engine.restless:
            self._event.set()
        elif not self._engine.caught_up:
            # After a transaction's markers there are no records, only a position, so the position is checked again.
            asyncio.get_running_loop().call_later(_CHECK_AGAIN, self._event.set)

    # Writing.

    async def _write(self, transaction: Transaction) -> None:
        producer = self._producer
        if producer is None:
            raise StartAfresh("the producer was closed")
        if self._context.age.is_expired:
            raise StartAfresh("the process was stopped for so long that it may have missed deletions")
        decision, loop = transaction.decision, asyncio.get_running_loop()
        began = loop.time()
        within = self._fresh.seconds_for(decision)
        self._fresh.release()
        short = {topic.short: offset for topic, offset in transaction.positions.items()}
        offsets = {self._feed.tps[topic]: offset for topic, offset in transaction.offsets.items()}
        steps = self._book.journal.take() if decision.emits or self._book.heavy else []
        try:
            records = with_steps(
                self._book, decision, self._encoder.records(decision, short), steps, self._context.settings
            )
            await producer.write(records, offsets, within=within)
        except BaseException:
            self._book.journal.give_back(steps)
            metrics.ABORTED.labels(self._service.name).inc()
            raise
        if records or offsets:  # otherwise Kafka received nothing: another task has written the many steps
            self._commits.wrote()
        await self._commits.committed(loop.time() - began)
        self._engine.written(transaction)
        self._moves += 1
        metrics.COMMITTED.labels(self._service.name).inc()
        metrics.BATCH_SECONDS.labels(self._service.name).observe(loop.time() - began)
        self._encoder.count(decision)

    async def _write_offsets(self) -> None:
        """Commit the positions that the state has, even if they are committed. Nothing may be written meanwhile."""
        if self._producer is not None:
            positions = self._engine.positions
            await self._producer.write([], {tp: positions[topic] for topic, tp in self._feed.tps.items()})
            self._commits.wrote()
            self._moves += 1

    # Rebalances.

    async def _stay_parked(self) -> None:
        """Commit the open work, wait until the partition returns, and check that no other task had it meanwhile."""
        if (pending_offsets := self._engine.pending_offsets(self._context.clock.now())) is not None:
            await self._write(pending_offsets)
        self.phase = Phase.PARKED
        self._engine.clear()
        self._quiet.set()
        await self._returned.wait()
        # If another task ran in between, it has fenced this producer, and this commit of offsets fails.
        await self._write_offsets()
        self._engine.poked = True
        self._let_in()

    async def _throw_away(self) -> None:
        self._feed.reset()
        self._alarm.cancel()
        if self.phase in (Phase.RUNNING, Phase.PARKED, Phase.RESTORING):
            self.phase = Phase.WAITING
        self._feed.pause()
        self._quiet.set()
        if self._restorer is not None:
            self._restorer.close()
            self._restorer = None
        self._fresh.close()
        self._commits.close()
        self._engine.forget()
        producer, self._producer = self._producer, None
        if producer is not None:
            await producer.close()
