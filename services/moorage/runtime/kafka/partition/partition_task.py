"""The partition task: one partition of all sources of a service or a chain, the states, and the one producer.

Its steps are: start the producer, which fences every earlier task → read the committed offsets → end transactions of
earlier tasks that the broker has left open → restore the state → continue from the later of the committed offsets and
those of the state records → write one transaction for each batch. After any error with an unknown outcome it discards
everything and starts again from Kafka.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

import structlog
from aiokafka import TopicPartition
from aiokafka.errors import IllegalStateError, InvalidProducerEpoch, KafkaError, ProducerFenced

from moorage.runtime.engine.chain import ChainDecision, ChainTransaction, PartitionChain
from moorage.runtime.engine.committed import Committed
from moorage.runtime.engine.encode import Encoder, with_steps
from moorage.runtime.engine.engine import EngineRules, PartitionEngine
from moorage.runtime.engine.journal import Part, TaskBook
from moorage.runtime.engine.partition_tables import PartitionTables
from moorage.runtime.engine.requests import CatchUp, Refresh, Request, Turn, Written
from moorage.runtime.kafka.clients.fenced_producer import GroupOffsets, PartitionProducer
from moorage.runtime.kafka.clients.refusals import describe
from moorage.runtime.kafka.partition.commit_watch import CommitWatch
from moorage.runtime.kafka.partition.context import WorkerContext
from moorage.runtime.kafka.partition.dangling_transactions import Sound, end_lost_transactions
from moorage.runtime.kafka.partition.fresh_reads import FreshReads
from moorage.runtime.kafka.partition.source_feed import SourceFeed
from moorage.runtime.kafka.partition.table_restore import Progress, Restorer
from moorage.runtime.kafka.partition.upstream_lag import UpstreamWatch
from moorage.runtime.process import metrics
from moorage.runtime.process.clock import Clock
from moorage.runtime.process.decision_log import decision_log
from moorage.runtime.process.failures import StartAfresh, end_task
from moorage.runtime.service import Freshness
from moorage.runtime.wire.codec import Outgoing
from moorage.runtime.wire.record_format import KafkaFormat
from moorage_schemas.topics import Topic

log = structlog.get_logger(__name__)

_BACKOFF_FIRST, _BACKOFF_MAX = 0.1, 5.0  # seconds between starts after errors
_MINE_POLL = 0.5  # seconds between two requests to the coordinator
_RIVALS_POLL = 1.0  # seconds between two checks of whether a chain still runs
_KEPT = 6 * 3600.0  # seconds after which offsets are committed again, because Kafka forgets those of unused groups
_READ_AGAIN = 0.1  # seconds between two checks of whether everything has been read
_SET_BACK = 1.0  # seconds by which a wait may be longer than intended, after the clock was set back
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
    """Calls a function at an instant. It has one setting at a time, which can be changed.

    It also calls when the wait has lasted as long as intended, though the clock was set back before it began or since.
    """

    def __init__(self, clock: Clock, ring: Callable[[], None]) -> None:
        self._clock = clock
        self._ring = ring
        self._when: datetime | None = None
        self._task: asyncio.Task[None] | None = None

    def set(self, when: datetime | None, left: timedelta | None) -> None:
        """Ring at this time, in place of any earlier setting; None for never.

        Args:
            when: the instant.
            left: how long it is until then, by the clock by which it was decided.
        """
        if when == self._when and self._task is not None and not self._task.done():
            return
        self.cancel()
        self._when = when
        if when is not None and left is not None:
            self._task = asyncio.create_task(self._wait(when, left.total_seconds()))

    def cancel(self) -> None:
        """Cancel the present setting."""
        task, self._task, self._when = self._task, None, None
        if task is not None:
            task.cancel()

    async def _wait(self, when: datetime, left: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(left + _SET_BACK):
                await self._clock.sleep_until(when)
        self._ring()


@dataclass(eq=False)
class _Link:
    """One service of a task."""

    context: WorkerContext[Any]
    engine: PartitionEngine[Any]
    encoder: Encoder
    committed: Committed
    book: TaskBook
    upstream: UpstreamWatch
    ready: PartitionTables[Any] | None
    """The tables that this worker has read as a standby."""

    restorer: Restorer | None = None

    @property
    def name(self) -> str:
        """The name of the service."""
        return self.context.service.name


class PartitionTask:
    """Runs one partition of a service, or of the services of a chain.

    Args:
        contexts: for each service, in the order in which they decide.
        ready: for each service, the tables that this worker has read as a standby; empty for none.
    """

    def __init__(
        self,
        contexts: Sequence[WorkerContext[Any]],
        partition: int,
        ready: Sequence[PartitionTables[Any] | None] = (),
    ) -> None:
        self.partition = partition
        self.phase = Phase.STARTING
        self.restores = 0
        """How often it has restored its state."""

        self.is_calm = False
        """Whether nothing needed to be written at once after the last records."""

        self._moves = 0

        self._context = context = contexts[0]
        """The context of the first service, for what all of them share."""

        found = tuple(ready) or (None,) * len(contexts)
        self._was_ready = None not in found
        self._links = tuple(_link(one, partition, tables) for one, tables in zip(contexts, found, strict=True))
        self._chain = PartitionChain([link.engine for link in self._links], [link.encoder for link in self._links])
        self._deciding = False
        self._event = asyncio.Event()
        self._quiet = asyncio.Event()
        self._parking = False
        self._returned = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._writing: asyncio.Task[None] | None = None
        self._producer: PartitionProducer | None = None
        self._alarm = _Alarm(context.clock, self._event.set)
        self._feed = SourceFeed(context, partition, self._chain)
        self._fresh = FreshReads(context, self._chain, feed=self._feed, is_parking=lambda: self._parking)
        self._commits = CommitWatch(contexts, partition, self._event.set)
        self._keeping: asyncio.TimerHandle | None = None
        self._keeps = False
        self._waits_for_rivals = False
        self._failures = 0

    # Called by the worker.

    def start(self) -> None:
        """Start."""
        self._task = asyncio.create_task(self._run(), name=f"{self._context.owners}-{self.partition}")

    def offer(self, topic: Topic, records: Sequence[Any]) -> None:
        """Queue consumed records. Those that arrive before the task runs, or while it parks, are fetched again."""
        if self.phase is not Phase.RUNNING or self._parking:
            return
        self._chain.offer(topic, records)
        self._event.set()
        self._feed.throttle()

    def polled(self) -> None:
        """Check the consumer's positions, which may have moved past transaction markers without a record."""
        if self.phase is Phase.RUNNING and not self._chain.caught_up:
            self._event.set()
        self._fresh.check()

    def poke(self, place: int = 0) -> None:
        """Wake a service, because its global view has changed.

        Args:
            place: its place in the chain.
        """
        self._chain.poke(place)
        self._event.set()

    async def park(self) -> None:
        """Finish the writes in flight, take nothing new, and keep the state. Returns when no write is in progress."""
        self._parking = True
        self._returned.clear()
        self._event.set()
        self._fresh.check()
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
        await end_task(task)
        await self._throw_away()
        self.phase = Phase.STOPPED
        for link in self._links:
            metrics.forget_partition(link.name, self.partition)

    async def read_to_ends(self) -> bool:
        """Return True when everything that is committed now has been read; False when that is uncertain.

        A task that is starting or restoring reads everything anyway.

        Raises:
            KafkaError: Kafka does not answer.
            StartAfresh: a table is no longer read.
        """
        if self.phase is Phase.RUNNING:
            ends = await self._context.offsets.stable(self.fetching)
            while self.phase is Phase.RUNNING:
                if not [tp for tp, end in ends.items() if await self._context.consumer.position(tp) < end]:
                    for restorer in self._restorers:
                        await restorer.catch_up()
                    break
                await asyncio.sleep(_READ_AGAIN)
        return self.phase is not Phase.PARKED and not self._parking

    @property
    def fetching(self) -> list[TopicPartition]:
        """The partitions of the sources that are fetched. What is handed over in memory is not."""
        return [self._feed.tps[topic] for topic in self._chain.wanted]

    @property
    def engines(self) -> tuple[PartitionEngine[Any], ...]:
        """The engine of each service."""
        return self._chain.engines

    @property
    def running(self) -> tuple[PartitionEngine[Any], ...]:
        """The engine of each service; empty while the task does not run."""
        return self.engines if self.phase is Phase.RUNNING else ()

    @property
    def _restorers(self) -> list[Restorer]:
        return [link.restorer for link in self._links if link.restorer is not None]

    @property
    def moves(self) -> int:
        """A number that changes with each step of progress, including those of a restore. The watchdog reads it."""
        moves = self._moves + self._chain.steps
        return moves + sum(
            tail.position
            for restorer in self._restorers
            if not restorer.progress.finished
            for tail, _ in restorer.progress.tails
        )

    @property
    def cold(self) -> bool:
        """Whether the task has started with nothing read, and has not read the tables yet."""
        return not self._was_ready and self.phase not in (Phase.RUNNING, Phase.PARKED)

    @property
    def progress(self) -> Progress:
        """How far the restore has come."""
        found = [restorer.progress for restorer in self._restorers]
        return Progress(
            wanted=sum(one.wanted for one in found),
            tails=tuple(tail for one in found for tail in one.tails),
            finished=len(found) == len(self._links) and all(one.finished for one in found),
        )

    @property
    def waiting(self) -> int:
        """The number of records that were fetched and are not processed yet."""
        return self._chain.waiting

    def fetched(self, topic: Topic) -> int | None:
        """Return the offset from which a source is to be fetched next; None before the task runs."""
        return self._chain.fetched(topic)

    @property
    def caught_up(self) -> bool:
        """Whether the task has read the records that were waiting when it started, and makes decisions."""
        return self.phase is Phase.RUNNING and self._chain.caught_up

    @property
    def idle(self) -> bool:
        """Whether nothing is due, being decided or being written."""
        if self.phase is Phase.RUNNING:
            busy = self._deciding or self._writing is not None or self._event.is_set()
            return self._chain.caught_up and not (busy or self._chain.waiting)
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
                log.exception("partition.failed", service=self._names, partition=self.partition)
                self._restarting("error", "unexpected error")
                await self._start_over(first=True)
                continue
            await self._throw_away()

    def _restarting(self, why: str, message: str) -> None:
        for link in self._links:
            metrics.RESTARTS.labels(link.name, why).inc()
        log.warning("partition.starts_afresh", service=self._names, partition=self.partition, why=why, problem=message)

    @property
    def _names(self) -> str:
        """The names of the services."""
        return ", ".join(link.name for link in self._links)

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
        context = self._context
        self.phase = Phase.STARTING
        self._feed.pause()
        await self._wait_for_rivals()
        rivals = context.rival_producers(self.partition)
        try:
            async with context.starting:
                producer = context.producer(self.partition)
                self._producer = producer
                for one in (producer, *rivals):
                    await one.start()
            self._commits.wrote()
            self._moves += 1
            sound = []
            for link in self._links:
                tps = {topic: self._feed.tps[topic] for topic in link.context.service.sources}
                committed: Mapping[Topic, int | None] = await link.context.committed(tps)
                sound.append(await end_lost_transactions(link.context, self.partition, (producer, *rivals), committed))
        finally:
            for one in rivals:
                await one.close()
        self.phase = Phase.RESTORING
        for link, found in zip(self._links, sound, strict=True):
            await self._restore(link, found)
        ends = await context.offsets.end([self._feed.tps[topic] for topic in self._chain.inner])
        self._failures = 0
        self.restores += 1
        self._moves += 1
        self._chain.begin_reconciling(context.clock.now())
        self._let_in({topic: ends[self._feed.tps[topic]] for topic in self._chain.inner})
        self._keep_offsets()
        log.info(
            "partition.running",
            service=self._names,
            partition=self.partition,
            positions={topic.short: offset for topic, offset in self._chain.positions.items()},
        )

    async def _wait_for_rivals(self) -> None:
        """Wait while a chain runs that this service is part of. A chain itself does not wait: it takes precedence."""
        context = self._context
        if len(self._links) > 1:
            return
        for rival in context.rivals:
            while await context.offsets.has_members(rival):
                if not self._waits_for_rivals:
                    self._waits_for_rivals = True
                    log.warning("partition.waits_for_chain", service=self._names, partition=self.partition, group=rival)
                self.phase = Phase.WAITING
                await asyncio.sleep(_RIVALS_POLL)
        self._waits_for_rivals = False
        self.phase = Phase.STARTING

    async def _restore(self, link: _Link, sound: Sound) -> None:
        """Read the tables of a service."""
        context = link.context
        await context.globals_ready()

        def fold(topic: Topic, records: Sequence[Any]) -> None:
            link.engine.fold(topic, records)
            if self.phase is Phase.RUNNING:
                self._event.set()  # the service uses the followed tables

        link.restorer = restorer = Restorer(
            partition=self.partition,
            prefix=context.settings.topic_prefix,
            reader=context.reader,
            offsets=context.offsets,
            fold=fold,
        )
        ready, link.ready = link.ready, None
        steps = link.engine.restore(sound.committed, context.view, sound.no_later, ready)
        await restorer.run(steps, context.service.follows)

    def _keep_offsets(self) -> None:
        """Commit all offsets again after some time.

        Kafka forgets the offsets of a group without members after `offsets.retention.minutes`, counted from their
        commit. The group of a service that runs in a chain has no members, and quiet topics have no new offsets.
        """

        def due() -> None:
            self._keeps = True
            self._event.set()

        if len(self._links) > 1:
            self._keeping = asyncio.get_running_loop().call_later(_KEPT, due)

    def _let_in(self, ends: Mapping[Topic, int] | None = None) -> None:
        """Seek to the positions of the states, and take records from there."""
        self._chain.begin(ends)
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
                if self._commits.is_quiet or self._keeps:
                    await self._written()
                    if (kept := self._chain.release()) is not None:
                        await self._write(kept)
                    await self._write_offsets()
                await self._feed.note_passed(self._chain.wanted)
                decision = await self._decide()
                await self._written()
                if (coming := self._chain.prepare(decision)) is not None:
                    self._writing = asyncio.create_task(self._write(coming))
                    self._writing.add_done_callback(lambda _: self._event.set())
                else:
                    self._fresh.release()
                if decision.afresh:
                    raise StartAfresh(decision.afresh)  # noqa: TRY301 - the handler waits for the write
                self._after(decision, is_calm=coming is None)
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
        if not writing.done() and self._chain.waiting < self._context.settings.batch_max_records:
            await asyncio.wait((writing,), timeout=self._context.settings.batch_linger_ms / 1000)

    async def _written(self) -> None:
        """Wait for the transaction that is being written."""
        writing = self._writing
        if writing is not None:
            await asyncio.shield(writing)
            self._writing = None

    async def _decide(self) -> ChainDecision:
        """Run the steps of the chain, and carry out their requests."""
        steps = self._chain.decide(self._context.clock.now)
        answer: Freshness | bool | None = None
        while True:
            try:
                place, request = steps.send(answer)
            except StopIteration as end:
                decision: ChainDecision = end.value
                return decision
            answer = await self._answer(self._links[place], request)

    async def _answer(self, link: _Link, request: Request) -> Freshness | bool | None:
        match request:
            case Turn():
                async with self._context.turns:
                    await asyncio.sleep(0)
            case Written():
                await self._written()
            case CatchUp(topics):
                if link.restorer is not None:
                    await self._fresh.catch_up(link.context, link.restorer, topics)
                return True
            case Refresh():
                return await self._fresh.refresh(link.context, link.upstream, request)
            case _:
                raise RuntimeError(f"the engine may not make this request while it decides: {request!r}")
        return None

    def _after(self, decision: ChainDecision, *, is_calm: bool) -> None:
        """Count the decision, fetch what is wanted now, and schedule the next decision."""
        for share in decision.shares:
            if share.decision.positions:
                self.is_calm = is_calm
                self._moves += 1
                name = self._links[share.place].name
                metrics.RECORDS.labels(name).inc(share.decision.records)
                metrics.BATCH_RECORDS.labels(name).observe(share.decision.records)
        self._feed.ease()
        self._alarm.set(self._chain.next_due(), self._chain.wait_left())
        if self._chain.restless:
            self._event.set()

    # Writing.

    async def _write(self, transaction: ChainTransaction) -> None:
        producer = self._producer
        if producer is None:
            raise StartAfresh("the producer was closed")
        if self._context.age.is_expired:
            raise StartAfresh("the process was stopped for so long that it may have missed deletions")
        loop = asyncio.get_running_loop()
        began = loop.time()
        within = self._fresh.seconds_for(is_fresh=transaction.is_fresh)
        self._fresh.release()
        records: list[Outgoing] = []
        offsets: dict[str, dict[TopicPartition, int]] = {}
        taken: list[tuple[_Link, list[Part]]] = []
        try:
            for share, one in transaction.shares:
                link = self._links[share.place]
                if one.offsets:
                    offsets[link.context.group] = {
                        self._feed.tps[topic]: offset for topic, offset in one.offsets.items()
                    }
                steps = link.book.journal.take() if share.decision.emits or link.book.heavy else []
                taken.append((link, steps))
                records += with_steps(link.book, share.decision, share.records, steps, self._context.settings)
            expected = {self._feed.tps[topic]: offset for topic, offset in transaction.expected.items()}
            await producer.write(records, offsets, within=within, expected=expected)
        except BaseException:
            for link, steps in taken:
                link.book.journal.give_back(steps)
                metrics.ABORTED.labels(link.name).inc()
            raise
        if records or offsets:  # otherwise Kafka received nothing: another task has written the many steps
            self._commits.wrote()
        await self._commits.committed(loop.time() - began)
        self._chain.written(transaction)
        self._moves += 1
        for place in {share.place for share, _ in transaction.shares}:
            metrics.COMMITTED.labels(self._links[place].name).inc()
            metrics.BATCH_SECONDS.labels(self._links[place].name).observe(loop.time() - began)
        now = self._context.clock.now()
        for share, _ in transaction.shares:
            self._links[share.place].committed(share.decision, share.records, now)

    async def _write_offsets(self) -> None:
        """Commit the positions that the states have, even if they are committed. Nothing may be written meanwhile."""
        if self._producer is not None:
            await self._producer.write([], self._all_offsets())
            self._commits.wrote()
            self._moves += 1
            if self._keeps:
                self._keeps = False
                self._keep_offsets()

    def _all_offsets(self) -> GroupOffsets:
        return {
            link.context.group: {self._feed.tps[topic]: offset for topic, offset in link.engine.positions.items()}
            for link in self._links
        }

    # Rebalances.

    async def _stay_parked(self) -> None:
        """Commit the open work, wait until the partition returns, and check that no other task had it meanwhile."""
        if (pending_offsets := self._chain.pending_offsets(self._context.clock.now())) is not None:
            await self._write(pending_offsets)
        self.phase = Phase.PARKED
        self._chain.clear()
        self._quiet.set()
        await self._returned.wait()
        # If another task ran in between, it has fenced this producer, and this commit of offsets fails.
        await self._write_offsets()
        self._chain.poke_all()
        self._let_in()

    async def _throw_away(self) -> None:
        self._feed.reset()
        self._alarm.cancel()
        if self.phase in (Phase.RUNNING, Phase.PARKED, Phase.RESTORING):
            self.phase = Phase.WAITING
        self._feed.pause()
        self._quiet.set()
        for link in self._links:
            if link.restorer is not None:
                link.restorer.close()
                link.restorer = None
            link.upstream.close()
        self._keeps = False
        if self._keeping is not None:
            self._keeping.cancel()
            self._keeping = None
        self._commits.close()
        self._chain.forget()
        producer, self._producer = self._producer, None
        if producer is not None:
            await producer.close()


def _link(context: WorkerContext[Any], partition: int, ready: PartitionTables[Any] | None) -> _Link:
    settings, service = context.settings, context.service
    book = context.journals.book(partition)
    engine = PartitionEngine(
        service,
        partition,
        rules=EngineRules(
            partitions=context.partitions,
            report_max_bytes=settings.report_max_bytes,
            batch_max_records=settings.batch_max_records,
            backlog_growth=_BACKLOG_GROWTH,
            reconcile_interval=timedelta(seconds=settings.reconcile_interval),
        ),
        form=KafkaFormat(),
        book=book,
    )
    encoder = Encoder(service, prefix=settings.topic_prefix, partitions=context.partitions)
    upstream = UpstreamWatch(context, partition, engine.progress_of)
    committed = Committed(service, encoder, decision_log(settings), prefix=settings.topic_prefix)
    return _Link(context, engine, encoder, committed, book, upstream, ready)
