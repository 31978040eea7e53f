"""A worker: one service in one process, as a member of the service's consumer group.

The group assigns partitions to it. It creates a task for each of them, and passes fetched records to the tasks.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import uuid
from collections.abc import Collection, Iterable, Mapping
from typing import Any, Generic, TypeVar

import structlog
from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.abc import ConsumerRebalanceListener
from aiokafka.errors import IllegalStateError, KafkaError

from moorage.runtime.engine.journal import Journals
from moorage.runtime.kafka.admin.broker_times import BrokerTimes, broker_times, session_timeout
from moorage.runtime.kafka.admin.topics_admin import ensure_topics
from moorage.runtime.kafka.clients import clients
from moorage.runtime.kafka.clients.refusals import describe
from moorage.runtime.kafka.partition.assignor import StickyAssignor
from moorage.runtime.kafka.partition.context import WorkerContext
from moorage.runtime.kafka.partition.partition_task import PartitionTask, Phase
from moorage.runtime.kafka.partition.standbys import Standbys
from moorage.runtime.kafka.tables.global_tables import GlobalReader
from moorage.runtime.kafka.tables.offsets import Offsets
from moorage.runtime.kafka.tables.table_age import TableAge, tombstones_kept
from moorage.runtime.kafka.tables.table_reader import TableReader
from moorage.runtime.process import metrics
from moorage.runtime.process.clock import Clock, WallClock
from moorage.runtime.process.failures import RuntimeFailure, TablesTooOld, log_failure, restarted
from moorage.runtime.process.member import Behind
from moorage.runtime.service import Service
from moorage.runtime.settings.process_settings import Settings
from moorage_schemas.topics import Topic

log = structlog.get_logger(__name__)

S = TypeVar("S")

_POLL_MS = 500
_POLL_RECORDS = 4000
_BACKOFF_FIRST, _BACKOFF_MAX = 0.2, 5.0
_STOP_TIMEOUT = 10.0  # seconds for a client to leave
_FRESHEN_SECONDS = 2.0  # the longest that a decision waits for a global view that is as new as its input
_ANSWER_SECONDS = 5.0  # seconds within which Kafka must return the ends of partitions
_STARTING_AT_ONCE = 6  # producers; more of them only compete for the event loop


class Worker(Generic[S]):
    """Runs one service against Kafka until it is stopped.

    Args:
        settings: the address of Kafka, and how to run.
        partitions: the number of partitions of the topics, if already read; otherwise the topics are created.
    """

    def __init__(
        self,
        service: Service[S],
        settings: Settings,
        *,
        clock: Clock | None = None,
        partitions: int | None = None,
    ) -> None:
        self.service = service
        self.tasks: dict[int, PartitionTask[S]] = {}
        """The tasks by partition."""

        self._settings = settings
        self._clock = clock or WallClock()
        self._partitions = partitions
        self._name = uuid.uuid4().hex[:12]
        self._client_id = f"moorage-{service.name}-{self._name}"
        self._group = f"{settings.topic_prefix}.{service.name}"
        self._globals: GlobalReader | None = None
        self._journals: Journals | None = None
        self._readings = 0
        self._age: TableAge | None = None
        self._times: BrokerTimes | None = None
        self._task: asyncio.Task[None] | None = None
        self._lock = asyncio.Lock()
        self._assigned = False
        self._moves = 0
        self._assignor: StickyAssignor | None = None
        self._standbys: Standbys[S] | None = None
        self._requested_round = -1
        self._leaving: set[asyncio.Future[Any]] = set()
        self._failure: asyncio.Future[None] | None = None
        self._context: WorkerContext[S] | None = None
        self._stopping = False

    # For health reports and the watchdog.

    @property
    def name(self) -> str:
        """The service's name."""
        return self.service.name

    @property
    def lacks(self) -> str:
        """The missing part while the group has assigned no partitions."""
        return "is not in its group"

    @property
    def group(self) -> str:
        """The consumer group."""
        return self._group

    @property
    def partitions(self) -> int:
        """The number of partitions of the topics; 0 before the start."""
        return self._partitions or 0

    @property
    def ready(self) -> bool:
        """Whether every assigned partition is restored, the global view has caught up, and every table advances."""
        return (
            self._assigned
            and (self._globals is None or self._globals.sound)
            and (self._context is None or (self._context.reader.alive and not self._context.reader.standing))
            and all(task.caught_up for task in self.tasks.values())
        )

    @property
    def moves(self) -> int:
        """A number that changes with each step towards readiness. The watchdog reads it."""
        return self._moves + (0 if self._globals is None else self._globals.moves)

    @property
    def restored(self) -> object:
        """Its standby tables, and how often each task has restored its state."""
        warm = frozenset() if self._standbys is None else self._standbys.warm
        return warm, {partition: task.restores for partition, task in self.tasks.items()}

    @property
    def idle(self) -> bool:
        """Whether the group has assigned partitions. The tasks are watched separately."""
        return self._assigned

    async def behind(self) -> Behind:
        """Return where Kafka has more than was received. A permanent failure ends the worker."""
        failure = None if self._globals is None else self._globals.failure
        if self._context is not None and not self._context.reader.alive and self._assigned:
            failure = RuntimeFailure(f"the reader of the tables of {self.service.name} has ended")
        if failure is not None:
            log.error("worker.tables_failed", service=self.service.name, why=str(failure))
            self._fail(failure)
        if failure is not None or self._context is None or not self._assigned:
            return Behind()
        phases = {partition: task.phase for partition, task in self.tasks.items()}
        return await _behind(self._context, phases, self._globals)

    def report(self) -> dict[str, Any]:
        """Return the state of each partition, and the tables that do not advance, for the readiness page."""
        standing = self._context.reader.standing if self._context is not None else frozenset()
        standing |= self._globals.standing if self._globals is not None else frozenset()
        return {
            "ready": self.ready,
            "assigned": self._assigned,
            "globals": None if self._globals is None else round(self._globals.progress, 3),
            "standing": sorted(f"{tp.topic}/{tp.partition}" for tp in standing),
            "partitions": {
                str(partition): {"phase": task.phase.value, "restored": round(task.progress.fraction, 3)}
                for partition, task in sorted(self.tasks.items())
            },
            "standbys": {} if self._standbys is None else self._standbys.report(),
        }

    async def wait_ready(self, seconds: float = 60.0) -> None:
        """Return when the worker is ready.

        Raises:
            TimeoutError: it was not ready within that time.
            RuntimeFailure: it has failed.
        """
        async with asyncio.timeout(seconds):
            while not self.ready:
                if self._task is not None and self._task.done():
                    await self._task
                    raise RuntimeFailure(f"the worker of {self.service.name} has ended")
                await asyncio.sleep(0.02)

    # The life cycle.

    async def start(self) -> None:
        """Start. This returns at once; `wait_ready` waits until the worker is ready."""
        self._failure = asyncio.get_running_loop().create_future()
        self._task = asyncio.create_task(self._run(), name=self.service.name)

    async def join(self) -> None:
        """Wait until the worker ends. Raises RuntimeFailure if the worker cannot continue."""
        if self._task is not None:
            await asyncio.shield(self._task)

    async def stop(self) -> None:
        """Finish the batches in flight, commit, and leave the group."""
        self._stopping = True
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError, RuntimeFailure):
                await task

    async def __aenter__(self) -> Worker[S]:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def _run(self) -> None:
        backoff = _BACKOFF_FIRST
        try:
            while True:
                try:
                    if self._partitions is None:
                        counts = await ensure_topics(self._settings)
                        self._partitions = next(iter(counts.values()))
                    if self._times is None:
                        self._times = await broker_times(self._settings)
                    if self._age is None:
                        self._age = TableAge(self._clock, await tombstones_kept(self._settings))
                    await self._session(self._age, await self._start_globals(), self._times)
                except TablesTooOld as reason:
                    log.warning("worker.reads_anew", service=self.service.name, why=str(reason))
                    metrics.RESTARTS.labels(self.service.name, "age").inc()
                    await self._forget_globals()
                    self._age = None
                except (KafkaError, TimeoutError, OSError) as error:
                    log.warning(
                        "worker.session_failed", service=self.service.name, error=describe(error, self._settings)
                    )
                    await asyncio.sleep(backoff)
                    backoff = min(backoff * 2, _BACKOFF_MAX)
                else:
                    backoff = _BACKOFF_FIRST
        finally:
            await self._forget_globals()

    async def _forget_globals(self) -> None:
        found, self._globals = self._globals, None
        self._journals = None  # the next tasks rest on another view
        if found is not None:
            await found.stop()

    async def _start_globals(self) -> Journals:
        if self._journals is None:
            self._readings += 1
            name = f"{self._name}-{self._readings}"
            self._journals = Journals(name, self.service, self._settings, partitions=self.partitions)
        view = self.service.new_globals() if self._globals is None else None
        if view is not None:
            self._globals = GlobalReader(
                service=self.service.name,
                topics=self.service.globals,
                view=view,
                settings=self._settings,
                partitions=self.partitions,
                client_id=self._client_id,
                on_change=self._poke,
                on_failure=self._fail,
                journal=self._journals.shared,
            )
            self._globals.start()
        return self._journals

    def _poke(self, partitions: Iterable[int] | None) -> None:
        for partition in self.tasks if partitions is None else partitions:
            task = self.tasks.get(partition)
            if task is not None:
                task.poke()

    async def _session(self, age: TableAge, journals: Journals, times: BrokerTimes) -> None:
        """Run one consumer until an exception ends it."""
        settings = self._settings
        assignor = StickyAssignor(
            owned=lambda: self.tasks,
            cold=lambda: [partition for partition, task in self.tasks.items() if task.cold],
            warm=self._warm,
            partitions=self.partitions,
            standbys=settings.standbys,
        )
        consumer = clients.group_consumer(
            settings,
            group=self._group,
            client_id=self._client_id,
            assignor=assignor,
            session_timeout_ms=session_timeout(settings, times),
        )
        offsets = Offsets(settings, name=self._client_id)
        reader = TableReader(settings, client_id=f"{self._client_id}-tables")
        context = WorkerContext(
            service=self.service,
            settings=settings,
            clock=self._clock,
            partitions=self.partitions,
            group=self._group,
            client_id=self._client_id,
            consumer=consumer,
            offsets=offsets,
            reader=reader,
            view=None if self._globals is None else self._globals.view,
            caught_up=asyncio.Event() if self._globals is None else self._globals.caught_up,
            freshen=functools.partial(self._freshen, offsets),
            journals=journals,
            age=age,
            times=times,
            starting=asyncio.Semaphore(_STARTING_AT_ONCE),
        )
        standbys = Standbys(context, calm=lambda: self.ready, on_warm=functools.partial(self._on_warm, consumer))
        self._assignor, self._standbys, self._requested_round = assignor, standbys, -1
        try:
            await self._consume(context, standbys)
        finally:
            self._context = self._standbys = None
            self._assigned = False
            # A cancelled task may be cancelled again, which must not interrupt giving up the partitions.
            await asyncio.shield(self._give_up())
            for stop in (standbys.stop, reader.stop, consumer.stop, offsets.stop):
                with contextlib.suppress(Exception):  # the client is given up after any error
                    async with asyncio.timeout(_STOP_TIMEOUT):
                        await stop()

    async def _consume(self, context: WorkerContext[S], standbys: Standbys[S]) -> None:
        """Start the clients of a session, and pass the records that they read to the tasks."""
        await context.offsets.start()
        await context.consumer.start()
        context.reader.start()
        context.consumer.subscribe(
            topics=clients.topic_names(self.service.sources, self._settings.topic_prefix),
            listener=_Listener(self, context),
        )
        self._context = context
        minding = [
            asyncio.create_task(restarted(name, mind), name=name)
            for name, mind in (
                (f"{self.service.name}-age", functools.partial(context.age.mind, self._read_to_ends)),
                (f"{self.service.name}-standbys", standbys.mind),
            )
        ]
        try:
            await self._poll(context.consumer, context.age)
        finally:
            for task in minding:
                task.cancel()

    async def _freshen(self, offsets: Offsets, topics: Collection[Topic]) -> bool:
        """Read global topics to their committed end; return False when that took too long."""
        if self._globals is None or not topics:
            return True
        try:
            async with asyncio.timeout(_FRESHEN_SECONDS):
                await self._globals.freshen(topics, offsets)
        except (KafkaError, TimeoutError) as error:
            log.warning("globals.not_fresh", service=self.service.name, error=repr(error))
            return False
        return True

    async def _read_to_ends(self) -> bool:
        """Return True when everything that is committed now has been read; False when that is uncertain."""
        context, view = self._context, self._globals
        if context is None or not self._assigned or not (view is None or view.caught_up.is_set()):
            return False
        if view is not None:
            await view.freshen(self.service.globals, context.offsets)
        if self._standbys is not None and not await self._standbys.read_to_ends():
            return False
        return all(await asyncio.gather(*(task.read_to_ends() for task in list(self.tasks.values()))))

    async def _poll(self, consumer: AIOKafkaConsumer, age: TableAge) -> None:
        topics = {topic.name(self._settings.topic_prefix): topic for topic in self.service.sources}
        last_report = 0.0
        loop = asyncio.get_running_loop()
        while True:
            if self._failure is not None and self._failure.done():
                self._failure.result()
            age.check()
            # Nothing may be awaited between this call and the offers, so that no seek comes between them.
            batches = await consumer.getmany(timeout_ms=_POLL_MS, max_records=_POLL_RECORDS)
            for tp, records in batches.items():
                task = self.tasks.get(tp.partition)
                if task is not None:
                    task.offer(topics[tp.topic], records)
            if loop.time() - last_report > 1:
                last_report = loop.time()
                self._measure(consumer)
            await asyncio.sleep(0)

    def _measure(self, consumer: AIOKafkaConsumer) -> None:
        name = self.service.name
        metrics.OWNED.labels(name).set(len(self.tasks))
        for partition, task in self.tasks.items():
            metrics.LAG.labels(name, str(partition)).set(self.lag(consumer, partition))
            metrics.RESTORE_PROGRESS.labels(name, str(partition)).set(task.progress.fraction)

    def lag(self, consumer: AIOKafkaConsumer, partition: int) -> int:
        """Return the largest possible number of records of a partition that are committed and not processed here."""
        total = self.tasks[partition].waiting
        for topic in self.service.sources:
            tp = TopicPartition(topic.name(self._settings.topic_prefix), partition)
            with contextlib.suppress(IllegalStateError, AssertionError):
                stable = consumer.last_stable_offset(tp)
                position = self.tasks[partition].fetched(topic)
                if stable is not None and position is not None:
                    total += max(0, stable - position)
        return total

    # The group.

    def _warm(self) -> Iterable[int]:
        """Return the partitions that the worker can take at once. Without standbys, it is ready for all."""
        if not self._settings.standbys:
            return range(self.partitions)
        return () if self._standbys is None else self._standbys.warm

    def _on_warm(self, consumer: AIOKafkaConsumer) -> None:
        """Join the group again once the worker is warm for everything that it is to own, to get it."""
        assignor, standbys = self._assignor, self._standbys
        if assignor is None or standbys is None or not assignor.coming or assignor.round == self._requested_round:
            return
        if assignor.coming <= standbys.warm:
            self._requested_round = assignor.round
            log.info("worker.warm", service=self.service.name, partitions=sorted(assignor.coming))
            clients.rejoin(consumer)

    async def revoked(self) -> None:
        """Drain every task, because any partition may be taken away."""
        async with self._lock:
            self._assigned = False
            await self._drain()

    async def assigned(self, context: WorkerContext[S], tps: Iterable[TopicPartition]) -> None:
        """Keep the tasks of partitions that came back, give up the others, and start tasks for new partitions."""
        metrics.REBALANCES.labels(self.service.name).inc()
        async with self._lock:
            if context is not self._context:
                return  # this session has ended in the meantime, and a task with its clients would never start
            partitions = clients.whole_partitions(
                tps, clients.topic_names(self.service.sources, self._settings.topic_prefix)
            )
            lost = [task for partition, task in self.tasks.items() if partition not in partitions]
            for task in lost:
                del self.tasks[task.partition]
            standbys, assignor = self._standbys, self._assignor
            for partition in sorted(partitions):
                task_or_none = self.tasks.get(partition)
                if task_or_none is not None:
                    task_or_none.unpark()
                else:
                    ready = None if standbys is None else standbys.hand_over(partition)
                    task = PartitionTask(context, partition, ready)
                    self.tasks[partition] = task
                    task.start()
            self._assigned = True
            self._moves += 1
            log.info("worker.assigned", service=self.service.name, partitions=sorted(partitions), given_up=len(lost))
            if lost:
                # The coordinator waits for this method before it sends heartbeats again.
                self._background(asyncio.gather(*(task.stop() for task in lost), return_exceptions=True))
            if standbys is not None and assignor is not None:
                self._background(asyncio.ensure_future(standbys.hold(assignor.standby - partitions)))

    def failed(self, error: BaseException) -> None:
        """End the worker, because a listener has failed and aiokafka would swallow the error."""
        log.error("worker.rebalance_failed", service=self.service.name, exc_info=error)
        self._fail(RuntimeFailure(f"a rebalance of {self.service.name} failed: {error!r}"))

    def _fail(self, error: BaseException) -> None:
        """End the worker: its poll raises this error."""
        if self._failure is not None and not self._failure.done():
            self._failure.set_exception(error)

    async def _drain(self) -> None:
        """Let every task finish its writes in flight. A task that cannot is given up."""
        limit = self._settings.transaction_timeout_ms / 1000
        tasks = list(self.tasks.values())
        results = await asyncio.gather(
            *(asyncio.wait_for(task.park(), limit) for task in tasks), return_exceptions=True
        )
        for task, result in zip(tasks, results, strict=True):
            if isinstance(result, BaseException):
                log.warning(
                    "worker.not_drained", service=self.service.name, partition=task.partition, error=repr(result)
                )
                del self.tasks[task.partition]
                self._background(asyncio.ensure_future(task.stop()))

    async def _give_up(self) -> None:
        async with self._lock:
            if self._stopping:
                await self._drain()
            tasks, self.tasks = list(self.tasks.values()), {}
            await asyncio.gather(*(task.stop() for task in tasks), return_exceptions=True)
            if self._leaving:
                await asyncio.gather(*self._leaving, return_exceptions=True)

    def _background(self, work: asyncio.Future[Any]) -> None:
        self._leaving.add(work)
        work.add_done_callback(self._leaving.discard)
        work.add_done_callback(log_failure)


class _Listener(ConsumerRebalanceListener):  # type: ignore[misc]  # aiokafka publishes no types
    """Passes rebalances to the worker. It pauses first, and lets no exception disappear."""

    def __init__(self, worker: Worker[Any], context: WorkerContext[Any]) -> None:
        self._worker = worker
        self._context = context

    async def on_partitions_revoked(self, revoked: set[TopicPartition]) -> None:
        try:
            if revoked:
                self._context.consumer.pause(*revoked)
            await self._worker.revoked()
        except Exception as error:  # noqa: BLE001 - aiokafka would log and forget it, so it is passed on
            self._worker.failed(error)

    async def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
        try:
            # Records come in before this method returns: nothing may be fetched until a task is ready for it.
            self._context.consumer.pause(*assigned)
            await self._worker.assigned(self._context, assigned)
        except Exception as error:  # noqa: BLE001 - aiokafka would log and forget it, so it is passed on
            self._worker.failed(error)


async def _behind(context: WorkerContext[Any], phases: Mapping[int, Phase], view: GlobalReader | None) -> Behind:
    """Return where Kafka has more than this worker has received.

    The ends are requested over a separate connection, because a consumer that no longer receives anything does not see
    new records. An open transaction may hide records of sources until its timeout. For tables, only records below every
    open transaction count. The result is empty when Kafka does not answer.
    """
    working = [partition for partition, phase in phases.items() if phase is Phase.RUNNING]
    try:
        async with asyncio.timeout(_ANSWER_SECONDS):
            return Behind(await _sources(context, working), await _tables(context, working, view))
    except (KafkaError, TimeoutError, OSError, RuntimeError):  # no answer, or the partitions are changing right now
        return Behind()


async def _sources(context: WorkerContext[Any], working: Iterable[int]) -> frozenset[int]:
    tps = {context.tp(topic, partition): partition for partition in working for topic in context.service.sources}
    ends = await context.offsets.end(tps)
    return frozenset([tps[tp] for tp, end in ends.items() if end > await context.consumer.position(tp)])


async def _tables(
    context: WorkerContext[Any], working: Iterable[int], view: GlobalReader | None
) -> dict[TopicPartition, int]:
    followed = {context.tp(topic, partition) for partition in working for topic in context.service.follows}
    shared = view.followed if view is not None else frozenset()
    if not followed and not shared:
        return {}
    ends = await context.offsets.stable(followed | shared)
    found = await context.reader.behind({tp: ends[tp] for tp in followed})
    return found if view is None else found | await view.behind({tp: ends[tp] for tp in shared})
