"""The partition owner: one partition of all of a service's sources, its state, and the one producer that writes for it.

Its life: start the producer (which fences every earlier owner) → read the committed offsets → end what the broker has
left open of earlier transactions → restore the state → go on from the later of the committed offsets and those that the
state records rest on → a transaction for each batch.
After any error of which the outcome is unknown everything is thrown away and it starts again from Kafka.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Generic, TypeVar

import structlog
from aiokafka import TopicPartition
from aiokafka.errors import IllegalStateError, InvalidProducerEpoch, KafkaError, ProducerFenced

from moorage.runtime import metrics
from moorage.runtime.alarm import Alarm
from moorage.runtime.engine.batch import BatchDecision
from moorage.runtime.engine.encode import Encoder
from moorage.runtime.engine.engine import EngineRules, PartitionEngine, Transaction
from moorage.runtime.engine.format import KafkaFormat
from moorage.runtime.engine.requests import CatchUp, Refresh, Request, Turn, Written
from moorage.runtime.engine.steps import with_steps
from moorage.runtime.errors import StartAfresh
from moorage.runtime.kafka.context import WorkerContext
from moorage.runtime.kafka.dangling_transactions import end_lost_transactions, markers_lost_since, mind_a_slow_commit
from moorage.runtime.kafka.producers import PartitionProducer
from moorage.runtime.kafka.table_restore import Progress, Restorer
from moorage.runtime.kafka.upstream_lag import UpstreamEnds, UpstreamWatch
from moorage.runtime.service import Freshness, Needs
from moorage_schemas.topics import Topic

log = structlog.get_logger(__name__)

S = TypeVar("S")

_BACKOFF_FIRST, _BACKOFF_MAX = 0.1, 5.0  # seconds between starts after errors
_MINE_POLL = 0.5  # seconds between two questions to the coordinator
_LOOK_AGAIN = 0.005  # seconds between two looks at how far the consumer has come
_FRESH = 0.05  # seconds that reading to the present end may take, for it to be the present end; first attempt
_STALE = 1.0  # seconds after which nothing irrevocable is begun that rests on what was read then
_STALE_COMMIT = 5.0  # seconds that a transaction with something irrevocable may take
_MARKERS_AFTER = 10.0  # seconds after a commit until it is looked whether its markers are there
_READ_AGAIN = 0.1  # seconds between two looks at whether everything has been read
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


class PartitionTask(Generic[S]):
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
        self._book = context.journals.book(partition)
        settings = context.settings
        self._engine = PartitionEngine(
            self._service,
            partition,
            rules=EngineRules(
                partitions=context.partitions,
                report_max_bytes=settings.report_max_bytes,
                batch_max_records=settings.batch_max_records,
                reconcile_interval=timedelta(seconds=settings.reconcile_interval),
            ),
            form=KafkaFormat(),
            book=self._book,
        )
        self._encoder = Encoder(self._service, prefix=settings.topic_prefix, partitions=context.partitions)
        self._throttled = False
        self._deciding = False
        self._event = asyncio.Event()
        self._quiet = asyncio.Event()
        self._parking = False
        self._returned = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._writing: asyncio.Task[None] | None = None
        self._minding: asyncio.Task[None] | None = None
        self._lost: list[str] = []
        self._producer: PartitionProducer | None = None
        self._restorer: Restorer[S] | None = None
        self._upstream = UpstreamWatch(context, partition, self._engine.progress_of)
        self._alarm = Alarm(context.clock, self._event.set)
        self._letting_in: tuple[TopicPartition, ...] = ()
        self._refreshed_at = 0.0
        self._failures = 0

    # What the worker calls.

    def start(self) -> None:
        """Begin."""
        self._task = asyncio.create_task(self._run(), name=f"{self._service.name}-{self.partition}")

    def offer(self, topic: Topic, records: Sequence[Any]) -> None:
        """Take consumed records; those that come before the owner runs, or again, are left out."""
        if self.phase is not Phase.RUNNING or self._parking:
            return
        self._engine.offer(topic, records)
        self._event.set()
        if not self._throttled and self._engine.waiting > _HIGH * self._context.settings.batch_max_records:
            self._throttled = True
            self._pause()

    def poke(self) -> None:
        """The global view has changed: let the service look."""
        self._engine.poked = True
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

    async def read_to_ends(self) -> bool:
        """Return when everything that is committed now of what it reads has come in; False when that is not known.

        One that is about to begin, or restores, reads everything anyway.

        Raises:
            KafkaError: Kafka does not answer.
            StartAfresh: a table is no longer read.
        """
        restorer = self._restorer
        if self.phase is Phase.RUNNING and restorer is not None:
            ends = await self._context.offsets.stable(self._tps.values())
            while self.phase is Phase.RUNNING:
                if not [tp for tp, end in ends.items() if await self._context.consumer.position(tp) < end]:
                    await restorer.catch_up()
                    break
                await asyncio.sleep(_READ_AGAIN)
        return self.phase is not Phase.PARKED and not self._parking

    @property
    def moves(self) -> int:
        """Changes with each step of progress, a restore's too; for the watchdog."""
        restorer = self._restorer
        moves = self._moves + self._engine.steps
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
        return self._engine.waiting

    def fetched(self, topic: Topic) -> int | None:
        """The next offset that is wanted of a source, without what waits; None before the owner runs."""
        return self._engine.fetched(topic)

    @property
    def caught_up(self) -> bool:
        """Whether it has read what was waiting when it began, and decides."""
        return self.phase is Phase.RUNNING and self._engine.caught_up

    @property
    def idle(self) -> bool:
        """Whether there is nothing to do, and nothing is being decided or written."""
        if self.phase is Phase.RUNNING:
            busy = self._deciding or self._writing is not None or self._event.is_set()
            return self._engine.caught_up and not (busy or self._engine.waiting)
        return self.phase in (Phase.PARKED, Phase.STOPPED)

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
        committed: Mapping[Topic, int | None] = await context.committed(self._tps)
        sound = await end_lost_transactions(context, self.partition, producer, committed)
        self.phase = Phase.RESTORING
        await context.globals_ready()
        restorer = Restorer(
            engine=self._engine,
            partition=self.partition,
            prefix=context.settings.topic_prefix,
            reader=context.reader,
            offsets=context.offsets,
            on_followed=self._event.set,
        )
        self._restorer = restorer
        await restorer.run(sound.committed, context.view, sound.no_later)
        self._failures = 0
        self._moves += 1
        self._engine.begin_reconciling(context.clock.now())
        self._let_in()
        log.info(
            "partition.running",
            service=service.name,
            partition=self.partition,
            positions={topic.short: offset for topic, offset in self._engine.positions.items()},
        )

    def _let_in(self) -> None:
        """Seek to where the state stands and take records from there."""
        self._engine.clear()
        self._throttled = False
        self._letting_in = ()
        if not self._parking:
            consumer = self._context.consumer
            try:
                for topic, tp in self._tps.items():
                    consumer.seek(tp, self._engine.positions[topic])
                self._resume()
            except IllegalStateError:
                # A rebalance is taking it away at this moment; the worker will say.
                self._parking = True
                self._returned.clear()
        self.phase = Phase.RUNNING
        self._event.set()

    def _resume(self) -> None:
        """Let in the sources that are wanted now.

        Raises:
            IllegalStateError: the partition is not the consumer's any more.
        """
        self._letting_in = tuple(self._tps[topic] for topic in self._engine.wanted)
        if self._letting_in:
            self._context.consumer.resume(*self._letting_in)

    async def _work(self) -> None:
        """Batch after batch, each in a transaction; the next is decided while the one before is written."""
        try:
            while True:
                self._deciding = False
                await self._event.wait()
                self._deciding = True
                if self._writing is not None and not self._parking:
                    await self._collect(self._writing)
                self._event.clear()
                if self._lost:
                    raise StartAfresh(f"the broker has lost markers of what was committed: {self._lost}")  # noqa: TRY301 - the handler waits for the write
                if self._parking:
                    await self._written()
                    await self._stay_parked()
                    continue
                await self._note_passed(self._engine.wanted)
                decision = await self._decide()
                await self._written()
                if (coming := self._engine.prepare(decision)) is not None:
                    self._writing = asyncio.create_task(self._write(coming))
                    self._writing.add_done_callback(lambda _: self._event.set())
                if decision.afresh:
                    raise StartAfresh(decision.afresh)  # noqa: TRY301 - the handler waits for the write
                self._after(decision)
        except StartAfresh:
            await self._written()  # it rests on a sound state
            raise
        finally:
            writing, self._writing = self._writing, None
            if writing is not None and not writing.done():
                writing.cancel()
                with contextlib.suppress(asyncio.CancelledError, Exception):
                    await writing

    async def _collect(self, writing: asyncio.Task[None]) -> None:
        """While a transaction is under way, let records gather to a full batch."""
        if not writing.done() and self._engine.waiting < self._context.settings.batch_max_records:
            await asyncio.wait((writing,), timeout=self._context.settings.batch_linger_ms / 1000)

    async def _written(self) -> None:
        """Wait for the transaction that is under way.

        Raises:
            KafkaError: it failed; its outcome is unknown.
        """
        writing = self._writing
        if writing is not None:
            await asyncio.shield(writing)
            self._writing = None

    async def _decide(self) -> BatchDecision:
        """Run the engine's steps, and do what it asks for."""
        steps = self._engine.decide(self._context.clock.now())
        answer: Freshness | None = None
        while True:
            try:
                request = steps.send(answer)
            except StopIteration as end:
                decision: BatchDecision = end.value
                return decision
            answer = await self._answer(request)

    async def _answer(self, request: Request) -> Freshness | None:
        match request:
            case Turn():
                async with self._context.turns:
                    await asyncio.sleep(0)
            case Written():
                await self._written()
            case CatchUp(topics):
                await self._catch_up(topics)
            case Refresh(needs):
                return await self._refresh(needs)
            case _:
                raise RuntimeError(f"the engine asks for what it may not ask while it decides: {request!r}")
        return None

    def _after(self, decision: BatchDecision) -> None:
        """See to what comes next."""
        service = self._service
        if decision.positions:
            self._moves += 1
            metrics.RECORDS.labels(service.name).inc(decision.records)
            metrics.BATCH_RECORDS.labels(service.name).observe(decision.records)
        if self._throttled and self._engine.waiting < _LOW * self._context.settings.batch_max_records:
            self._throttled = False
            self._letting_in = ()
        if not self._throttled and len(self._letting_in) < len(self._engine.wanted):
            with contextlib.suppress(IllegalStateError):
                self._resume()
        self._alarm.set(self._engine.next_due())
        if self._engine.restless:
            self._event.set()
        elif not self._engine.caught_up:
            # Past a transaction's markers there are no records, only a position.
            asyncio.get_running_loop().call_later(_LOOK_AGAIN, self._event.set)

    # What the engine asks for.

    async def _note_passed(self, topics: Iterable[Topic]) -> None:
        """Tell the engine how far the consumer has come."""
        for topic in topics:
            with contextlib.suppress(IllegalStateError):  # a rebalance is taking it away; the worker will say
                self._engine.passed(topic, await self._context.consumer.position(self._tps[topic]))

    async def _catch_up(self, topics: Collection[Topic]) -> None:
        if self._restorer is not None:
            async with asyncio.timeout(2 * self._context.settings.transaction_timeout_ms / 1000):
                await self._restorer.catch_up()
                # Kafka may hang for a moment; what is decided on older news would be written when it is back.
                while not await self._context.freshen(topics):  # noqa: ASYNC110 - Kafka is asked each time
                    await asyncio.sleep(_READ_AGAIN)

    async def _refresh(self, needs: Needs) -> Freshness | None:
        """Read what a decision needs to its present end.

        None when that cannot be now: the partition is being taken away, or the global view does not get on.

        Raises:
            TimeoutError: Kafka does not bring it.
            KafkaError: Kafka does not answer.
        """
        context, loop = self._context, asyncio.get_running_loop()
        limit = _FRESH
        async with asyncio.timeout(2 * context.settings.transaction_timeout_ms / 1000):
            while True:
                began, now = loop.time(), context.clock.now()
                found = await self._read_to_ends(needs, now)
                if found is None or loop.time() - began <= limit:
                    self._refreshed_at = began
                    return found
                # What was the end is not any more. Where everything is slow, more time is given with each attempt.
                limit *= 2

    async def _read_to_ends(self, needs: Needs, now: datetime) -> Freshness | None:
        ends, lagging = await self._read_once(needs) or (None, None)
        if ends is None:
            return None
        concerned = lagging is None or (lagging if needs.keys is None else not lagging.isdisjoint(needs.keys))
        if concerned and await self._upstream.claim(needs.upstream):
            # Upstream has come further than what it wrote says; that counts for what is read from now on.
            now = self._context.clock.now()
            ends, lagging = await self._read_once(needs) or (None, None)
            if ends is None:
                return None
        return Freshness(now, {topic: ends.stable[topic] for topic in needs.tables}, lagging)

    async def _read_once(self, needs: Needs) -> tuple[UpstreamEnds, frozenset[str] | None] | None:
        """Where what is needed ended, read to there, and of which keys upstream services lag behind."""
        context = self._context
        read = {topic: self._tps[topic] for topic in needs.tables}
        ends, fresh = await asyncio.gather(
            self._upstream.ends(needs.upstream, needs.tables), context.freshen(needs.globals)
        )
        if not fresh:
            return None
        if self._throttled:
            with contextlib.suppress(IllegalStateError):
                context.consumer.resume(*read.values())
        while True:
            if self._parking:
                return None
            await self._note_passed(read)
            if all(self._engine.reached(topic, ends.stable[topic]) for topic in read):
                break
            self._event.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_LOOK_AGAIN):
                    await self._event.wait()
        if self._throttled:
            self._pause()
        return ends, await self._upstream.lagging(needs.upstream, ends)

    # Writing.

    async def _write(self, transaction: Transaction) -> None:
        producer = self._producer
        if producer is None:
            raise StartAfresh("the producer is gone")
        if self._context.age.over:
            raise StartAfresh("the process stood still for so long that it may not know of deletions")
        decision, loop = transaction.decision, asyncio.get_running_loop()
        began = loop.time()
        if decision.fresh and decision.emits and began - self._refreshed_at > _STALE:
            raise StartAfresh("too long ago since what was decided on was read: the process stood still")
        short = {topic.short: offset for topic, offset in transaction.positions.items()}
        offsets = {self._tps[topic]: offset for topic, offset in transaction.offsets.items()}
        steps = self._book.journal.take() if decision.emits or self._book.heavy else []
        try:
            await producer.write(
                with_steps(self._book, decision, self._encoder.records(decision, short), steps, self._context.settings),
                offsets,
                within=_STALE_COMMIT if decision.fresh and decision.emits else None,
            )
        except BaseException:
            self._book.journal.give_back(steps)
            metrics.ABORTED.labels(self._service.name).inc()
            raise
        await mind_a_slow_commit(self._context, self.partition, loop.time() - began)
        self._engine.written(transaction)
        if self._minding is None:
            self._minding = asyncio.create_task(self._mind_markers())
        self._moves += 1
        metrics.COMMITTED.labels(self._service.name).inc()
        metrics.BATCH_SECONDS.labels(self._service.name).observe(loop.time() - began)
        self._encoder.count(decision)

    async def _mind_markers(self) -> None:
        """Some time after a commit, make sure that its markers are there; what came after it is looked at with it."""
        try:
            await asyncio.sleep(_MARKERS_AFTER)
            self._lost = await markers_lost_since(self._context, self.partition)
        except (KafkaError, OSError, RuntimeError) as error:
            log.debug("partition.markers_unknown", partition=self.partition, error=repr(error))
            self._lost = []
        self._minding = None
        if self._lost:
            self._event.set()

    # Rebalances.

    async def _stay_parked(self) -> None:
        """Commit what is open, then wait until the partition comes back, and make sure that nobody had it meanwhile."""
        if (rest := self._engine.rest(self._context.clock.now())) is not None:
            await self._write(rest)
        self.phase = Phase.PARKED
        self._engine.clear()
        self._quiet.set()
        await self._returned.wait()
        if self._producer is not None:
            # Any owner in between has fenced this producer, so an offset commit fails if there was one.
            positions = self._engine.positions
            await self._producer.write([], {tp: positions[topic] for topic, tp in self._tps.items()})
        self._engine.poked = True
        self._let_in()

    # Small parts.

    def _pause(self) -> None:
        with contextlib.suppress(IllegalStateError, AssertionError):  # not assigned, or never was
            self._context.consumer.pause(*self._tps.values())

    async def _throw_away(self) -> None:
        self._throttled = False
        self._alarm.cancel()
        if self.phase in (Phase.RUNNING, Phase.PARKED, Phase.RESTORING):
            self.phase = Phase.WAITING
        self._pause()
        self._quiet.set()
        if self._restorer is not None:
            self._restorer.close()
            self._restorer = None
        self._upstream.close()
        if self._minding is not None:
            self._minding.cancel()
            self._minding = None
        self._lost = []
        self._engine.forget()
        producer, self._producer = self._producer, None
        if producer is not None:
            await producer.close()
