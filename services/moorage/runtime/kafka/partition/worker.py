"""A worker: one service, or one chain of services, in one process, as a member of its consumer group.

The group assigns partitions to it. It creates a task for each of them, and passes fetched records to the tasks.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import uuid
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import structlog
from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.abc import ConsumerRebalanceListener
from aiokafka.errors import IllegalStateError, KafkaError

from moorage.runtime.chains import CHAINS, chain_of
from moorage.runtime.engine.journal import Journals
from moorage.runtime.kafka.admin.broker_times import BrokerTimes, broker_times, session_timeout
from moorage.runtime.kafka.admin.topics_admin import ensure_topics
from moorage.runtime.kafka.clients import clients, fetch_connections
from moorage.runtime.kafka.clients.refusals import describe
from moorage.runtime.kafka.partition.assignor import StickyAssignor
from moorage.runtime.kafka.partition.context import WorkerContext
from moorage.runtime.kafka.partition.partition_task import PartitionTask, Phase
from moorage.runtime.kafka.partition.standbys import Standbys
from moorage.runtime.kafka.partition.upstream_follower import UpstreamFollower
from moorage.runtime.kafka.tables.global_tables import GlobalReader
from moorage.runtime.kafka.tables.offsets import Offsets
from moorage.runtime.kafka.tables.shared_reader import SharedReader
from moorage.runtime.kafka.tables.table_age import TableAge, tombstones_kept
from moorage.runtime.kafka.tables.table_reader import TableReader
from moorage.runtime.process import metrics
from moorage.runtime.process.clock import Clock, WallClock
from moorage.runtime.process.failures import RuntimeFailure, TablesTooOld, log_failure, restarted
from moorage.runtime.process.member import Behind
from moorage.runtime.service import GlobalView, Service
from moorage.runtime.settings.process_settings import Settings
from moorage_schemas.topics import Topic

log = structlog.get_logger(__name__)

_POLL_MS = 1000
_POLL_RECORDS = 4000
_REST = 0.04
"""Seconds for which heartbeats are not fetched."""
_BACKOFF_FIRST, _BACKOFF_MAX = 0.2, 5.0
_STOP_TIMEOUT = 10.0  # seconds for a client to leave
_FRESHEN_SECONDS = 2.0  # the longest that a decision waits for a global view that is as new as its input
_ANSWER_SECONDS = 5.0  # seconds within which Kafka must return the ends of partitions
_STARTING_AT_ONCE = 6  # producers; more of them only compete for the event loop


@dataclass(eq=False)
class _Link:
    """One service of a worker."""

    service: Service[Any]
    place: int
    """Its place in the chain."""

    globals: GlobalReader | None = None
    journals: Journals | None = None

    @property
    def view(self) -> GlobalView | None:
        """The service's global view; None for none."""
        return None if self.globals is None else self.globals.view

    @property
    def caught_up(self) -> asyncio.Event:
        """Set when the global view has been read to its end once."""
        return asyncio.Event() if self.globals is None else self.globals.caught_up

    @property
    def begun(self) -> Journals:
        """The journals. Raises RuntimeError if they have not been begun."""
        if self.journals is None:
            raise RuntimeError("the journals were not begun")
        return self.journals


class Worker:
    """Runs one service, or the services of a chain, against Kafka until it is stopped.

    Args:
        services: the service, or the services of a chain, in the chain's order.
        settings: the address of Kafka, and how to run.
        partitions: the number of partitions of the topics, if already read; otherwise the topics are created.
        shared: reads for the global views of all workers of the process. Without it, this worker has one of its own.
    """

    def __init__(
        self,
        services: Service[Any] | Sequence[Service[Any]],
        settings: Settings,
        *,
        clock: Clock | None = None,
        partitions: int | None = None,
        shared: SharedReader | None = None,
    ) -> None:
        self.services = (services,) if isinstance(services, Service) else tuple(services)
        """The services, in the order in which they decide."""

        self.tasks: dict[int, PartitionTask] = {}
        """The tasks by partition."""

        self._settings = settings
        self._clock = clock or WallClock()
        self._partitions = partitions
        self._name = uuid.uuid4().hex[:12]
        self._links = tuple(_Link(service, place) for place, service in enumerate(self.services))
        self._client_id = f"moorage-{self.name}-{self._name}"
        self._group = f"{settings.topic_prefix}.{self.name}"
        self._is_alone = shared is None
        self._shared = shared or SharedReader(settings, client_id=f"{self._client_id}-globals")
        self._readings = 0
        self._age: TableAge | None = None
        self._times: BrokerTimes | None = None
        self._task: asyncio.Task[None] | None = None
        self._lock = asyncio.Lock()
        self._assigned = False
        self._moves = 0
        self._heard = 0.0
        heartbeats = [topic for service in self.services for topic in service.heartbeats]
        self._heartbeats = clients.topic_names(heartbeats, settings.topic_prefix)
        self._assignor: StickyAssignor | None = None
        self._standbys: tuple[Standbys, ...] = ()
        self._requested_round = -1
        self._leaving: set[asyncio.Future[Any]] = set()
        self._failure: asyncio.Future[None] | None = None
        self._contexts: tuple[WorkerContext[Any], ...] = ()
        self._stopping = False

    # For health reports and the watchdog.

    @property
    def name(self) -> str:
        """The name of the service, or of the chain."""
        names = tuple(service.name for service in self.services)
        return names[0] if len(names) == 1 else next(name for name, chain in CHAINS.items() if chain == names)

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
            and all(view.sound for view in self._views)
            and all(context.reader.alive and not context.reader.standing for context in self._contexts)
            and all(task.caught_up for task in self.tasks.values())
        )

    @property
    def moves(self) -> int:
        """A number that changes with each step towards readiness. The watchdog reads it."""
        return self._moves + sum(view.moves for view in self._views)

    @property
    def restored(self) -> object:
        """Its standby tables, and how often each task has restored its state."""
        return self._warm_standbys, {partition: task.restores for partition, task in self.tasks.items()}

    @property
    def idle(self) -> bool:
        """Whether the group has assigned partitions. The tasks are watched separately."""
        return self._assigned

    async def behind(self) -> Behind:
        """Return where Kafka has more than was received. A permanent failure ends the worker."""
        failure = next((view.failure for view in self._views if view.failure is not None), None)
        contexts = self._contexts
        if self._assigned and not all(context.reader.alive for context in contexts):
            failure = RuntimeFailure(f"the reader of the tables of {self.name} has ended")
        if failure is not None:
            log.error("worker.tables_failed", service=self.name, why=str(failure))
            self._fail(failure)
        if failure is not None or not contexts or not self._assigned:
            return Behind()
        return await _behind(contexts, dict(self.tasks), self._views)

    def report(self) -> dict[str, Any]:
        """Return the state of each partition, and the tables that do not advance, for the readiness page."""
        standing = frozenset[TopicPartition]().union(
            *(context.reader.standing for context in self._contexts), *(view.standing for view in self._views)
        )
        views = self._views
        return {
            "ready": self.ready,
            "assigned": self._assigned,
            "services": [service.name for service in self.services],
            "globals": None if not views else round(min(view.progress for view in views), 3),
            "standing": sorted(f"{tp.topic}/{tp.partition}" for tp in standing),
            "partitions": {
                str(partition): {"phase": task.phase.value, "restored": round(task.progress.fraction, 3)}
                for partition, task in sorted(self.tasks.items())
            },
            "standbys": {
                str(partition): "Warm" if partition in self._warm_standbys else "Reading"
                for partition in sorted({one for standbys in self._standbys for one in standbys.partitions})
            },
        }

    @property
    def _views(self) -> list[GlobalReader]:
        """The readers of the global views."""
        return [link.globals for link in self._links if link.globals is not None]

    @property
    def _warm_standbys(self) -> frozenset[int]:
        """The partitions of which the tables of all services are read."""
        found = [standbys.warm for standbys in self._standbys]
        return found[0].intersection(*found[1:]) if found else frozenset()

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
                    raise RuntimeFailure(f"the worker of {self.name} has ended")
                await asyncio.sleep(0.02)

    # The life cycle.

    async def start(self) -> None:
        """Start. This returns at once; `wait_ready` waits until the worker is ready."""
        for service in self.services:
            metrics.begin_series(service.name)
            service.begin_series()
        self._failure = asyncio.get_running_loop().create_future()
        self._task = asyncio.create_task(self._run(), name=self.name)

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

    async def __aenter__(self) -> Self:
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
                    self._start_globals()
                    await self._session(self._age, self._times)
                except TablesTooOld as reason:
                    log.warning("worker.reads_anew", service=self.name, why=str(reason))
                    for service in self.services:
                        metrics.RESTARTS.labels(service.name, "age").inc()
                    await self._forget_globals()
                    self._age = None
                except (KafkaError, TimeoutError, OSError) as error:
                    log.warning("worker.session_failed", service=self.name, error=describe(error, self._settings))
                    await asyncio.sleep(backoff)
                    backoff = min(backoff * 2, _BACKOFF_MAX)
                else:
                    backoff = _BACKOFF_FIRST
        finally:
            await self._forget_globals()
            if self._is_alone:
                await self._shared.stop()

    async def _forget_globals(self) -> None:
        found = self._views
        for link in self._links:
            link.globals = link.journals = None  # the next tasks rest on another view
        for view in found:
            await view.stop()

    def _start_globals(self) -> None:
        begun = any(link.journals is not None for link in self._links)
        self._readings += not begun
        for link in self._links:
            service = link.service
            if link.journals is None:
                name = f"{self._name}-{self._readings}" + (f"-{service.name}" if len(self._links) > 1 else "")
                link.journals = Journals(name, service, self._settings, partitions=self.partitions)
            view = service.new_globals() if link.globals is None else None
            if view is not None:
                link.globals = GlobalReader(
                    service=service.name,
                    topics=service.globals,
                    view=view,
                    settings=self._settings,
                    partitions=self.partitions,
                    client_id=self._client_id,
                    on_change=functools.partial(self._poke, link.place),
                    on_failure=self._fail,
                    journal=link.journals.shared,
                    shared=self._shared,
                )
                link.globals.start()

    def _poke(self, place: int, partitions: Iterable[int] | None) -> None:
        for partition in self.tasks if partitions is None else partitions:
            task = self.tasks.get(partition)
            if task is not None:
                task.poke(place)

    async def _session(self, age: TableAge, times: BrokerTimes) -> None:
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
        first = self._context_of(self._links[0], consumer, offsets, age=age, times=times)
        contexts = (first, *(self._beside(first, link) for link in self._links[1:]))
        readers = [context.reader for context in contexts]
        warm = functools.partial(self._on_warm, consumer)
        standbys = tuple(Standbys(context, calm=lambda: self.ready, on_warm=warm) for context in contexts)
        self._assignor, self._standbys, self._requested_round = assignor, standbys, -1
        try:
            await self._consume(contexts, standbys)
        finally:
            self._contexts = self._standbys = ()
            self._assigned = False
            # A cancelled task may be cancelled again, which must not interrupt giving up the partitions.
            await asyncio.shield(self._give_up())
            stops = [*(one.stop for one in standbys), *(one.stop for one in readers), consumer.stop, offsets.stop]
            for stop in stops:
                with contextlib.suppress(Exception):  # the client is given up after any error
                    async with asyncio.timeout(_STOP_TIMEOUT):
                        await stop()

    def _context_of(
        self,
        link: _Link,
        consumer: AIOKafkaConsumer,
        offsets: Offsets,
        *,
        age: TableAge,
        times: BrokerTimes,
    ) -> WorkerContext[Any]:
        """Return the context of the first service, with everything that the services share."""
        reader = self._reader_of(self._links[0])
        return WorkerContext(
            service=link.service,
            settings=self._settings,
            clock=self._clock,
            partitions=self.partitions,
            group=f"{self._settings.topic_prefix}.{link.service.name}",
            owners=self._group,
            rivals=self._rivals(),
            client_id=self._client_id,
            consumer=consumer,
            offsets=offsets,
            reader=reader,
            view=link.view,
            caught_up=link.caught_up,
            freshen=functools.partial(self._freshen, link, offsets),
            journals=link.begun,
            age=age,
            times=times,
            starting=asyncio.Semaphore(_STARTING_AT_ONCE),
            upstream=UpstreamFollower(reader, offsets.begin),
        )

    def _beside(self, first: WorkerContext[Any], link: _Link) -> WorkerContext[Any]:
        """Return the context of another service of the chain.

        Two services may read the same partition from different positions, so each has a reader of its own.
        """
        reader = self._reader_of(link)
        return replace(
            first,
            service=link.service,
            group=f"{self._settings.topic_prefix}.{link.service.name}",
            view=link.view,
            caught_up=link.caught_up,
            reader=reader,
            upstream=UpstreamFollower(reader, first.offsets.begin),
            freshen=functools.partial(self._freshen, link, first.offsets),
            journals=link.begun,
        )

    def _reader_of(self, link: _Link) -> TableReader:
        name = self._client_id if len(self._links) == 1 else f"{self._client_id}-{link.service.name}"
        return TableReader(self._settings, client_id=f"{name}-tables")

    def _rivals(self) -> tuple[str, ...]:
        """Return the groups whose members would own the same partitions in the other form."""
        if len(self.services) > 1:
            return tuple(f"{self._settings.topic_prefix}.{service.name}" for service in self.services)
        chain = chain_of(self.name)
        return () if chain is None else (f"{self._settings.topic_prefix}.{chain}",)

    @property
    def sources(self) -> tuple[Topic, ...]:
        """The topics that the services consume."""
        return tuple({topic.short: topic for service in self.services for topic in service.sources}.values())

    async def _consume(self, contexts: tuple[WorkerContext[Any], ...], standbys: Sequence[Standbys]) -> None:
        """Start the clients of a session, and pass the records that they read to the tasks."""
        context = contexts[0]
        await context.offsets.start()
        await context.consumer.start()
        for one in contexts:
            one.reader.start()
        context.consumer.subscribe(
            topics=clients.topic_names(self.sources, self._settings.topic_prefix),
            listener=_Listener(self, context),
        )
        self._contexts = contexts
        minds: list[tuple[str, Callable[[], Awaitable[None]]]] = [
            (f"{self.name}-age", functools.partial(context.age.mind, self._read_to_ends))
        ]
        minds += [(f"{self.name}-standbys", one.mind) for one in standbys]
        minding = [asyncio.create_task(restarted(name, mind), name=name) for name, mind in minds]
        try:
            await self._poll(context.consumer, context.age)
        finally:
            for task in minding:
                task.cancel()

    @staticmethod
    async def _freshen(link: _Link, offsets: Offsets, topics: Collection[Topic]) -> bool:
        """Read global topics of a service to their committed end; return False when that took too long."""
        if link.globals is None or not topics:
            return True
        try:
            async with asyncio.timeout(_FRESHEN_SECONDS):
                await link.globals.freshen(topics, offsets)
        except (KafkaError, TimeoutError) as error:
            log.warning("globals.not_fresh", service=link.service.name, error=repr(error))
            return False
        return True

    async def _read_to_ends(self) -> bool:
        """Return True when everything that is committed now has been read; False when that is uncertain."""
        contexts = self._contexts
        if not contexts or not self._assigned or not all(view.caught_up.is_set() for view in self._views):
            return False
        for link in self._links:
            if link.globals is not None:
                await link.globals.freshen(link.service.globals, contexts[0].offsets)
        for standbys in self._standbys:
            if not await standbys.read_to_ends():
                return False
        return all(await asyncio.gather(*(task.read_to_ends() for task in list(self.tasks.values()))))

    async def _poll(self, consumer: AIOKafkaConsumer, age: TableAge) -> None:
        topics = {topic.name(self._settings.topic_prefix): topic for topic in self.sources}
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
            self._rest(consumer, batches)
            for task in self.tasks.values():
                task.polled()
            if loop.time() - last_report > 1:
                last_report = loop.time()
                self._measure(consumer)
            await asyncio.sleep(0)

    def _rest(self, consumer: AIOKafkaConsumer, batches: Collection[TopicPartition]) -> None:
        """While heartbeats come in quick succession and change nothing, fetch them only now and then."""
        topics = self._heartbeats
        if not any(tp.topic in topics for tp in batches):
            return
        before, self._heard = self._heard, asyncio.get_running_loop().time()
        if self._heard - before < 2 * _REST:
            calm = [partition for partition, task in self.tasks.items() if task.is_calm]
            tps = [TopicPartition(topic, partition) for topic in topics for partition in calm]
            fetch_connections.rest(consumer, tps, _REST)

    def _measure(self, consumer: AIOKafkaConsumer) -> None:
        for service in self.services:
            metrics.OWNED.labels(service.name).set(len(self.tasks))
        for partition, task in self.tasks.items():
            lag, progress = self.lag(consumer, partition), task.progress.fraction
            for service in self.services:
                metrics.LAG.labels(service.name, str(partition)).set(lag)
                metrics.RESTORE_PROGRESS.labels(service.name, str(partition)).set(progress)

    def lag(self, consumer: AIOKafkaConsumer, partition: int) -> int:
        """Return the largest possible number of records of a partition that are committed and not processed here."""
        task = self.tasks[partition]
        total, fetching = task.waiting, set(task.fetching)
        for topic in self.sources:
            tp = TopicPartition(topic.name(self._settings.topic_prefix), partition)
            if tp not in fetching:
                continue
            with contextlib.suppress(IllegalStateError, AssertionError):
                stable = consumer.last_stable_offset(tp)
                position = task.fetched(topic)
                if stable is not None and position is not None:
                    total += max(0, stable - position)
        return total

    # The group.

    def _warm(self) -> Iterable[int]:
        """Return the partitions that the worker can take at once. Without standbys, it is ready for all."""
        if not self._settings.standbys:
            return range(self.partitions)
        return self._warm_standbys

    def _on_warm(self, consumer: AIOKafkaConsumer) -> None:
        """Join the group again once the worker is warm for everything that it is to own, to get it."""
        assignor = self._assignor
        if assignor is None or not assignor.coming or assignor.round == self._requested_round:
            return
        if assignor.coming <= self._warm_standbys:
            self._requested_round = assignor.round
            log.info("worker.warm", service=self.name, partitions=sorted(assignor.coming))
            clients.rejoin(consumer)

    async def revoked(self) -> None:
        """Drain every task, because any partition may be taken away."""
        async with self._lock:
            self._assigned = False
            await self._drain()

    async def assigned(self, context: WorkerContext[Any], tps: Iterable[TopicPartition]) -> None:
        """Keep the tasks of partitions that came back, give up the others, and start tasks for new partitions."""
        for service in self.services:
            metrics.REBALANCES.labels(service.name).inc()
        async with self._lock:
            contexts = self._contexts
            if not contexts or context is not contexts[0]:
                return  # this session has ended in the meantime, and a task with its clients would never start
            partitions = clients.whole_partitions(tps, clients.topic_names(self.sources, self._settings.topic_prefix))
            lost = [task for partition, task in self.tasks.items() if partition not in partitions]
            for task in lost:
                del self.tasks[task.partition]
            standbys, assignor = self._standbys, self._assignor
            for partition in sorted(partitions):
                task_or_none = self.tasks.get(partition)
                if task_or_none is not None:
                    task_or_none.unpark()
                else:
                    task = PartitionTask(contexts, partition, [one.hand_over(partition) for one in standbys])
                    self.tasks[partition] = task
                    task.start()
            self._assigned = True
            self._moves += 1
            log.info("worker.assigned", service=self.name, partitions=sorted(partitions), given_up=len(lost))
            if lost:
                # The coordinator waits for this method before it sends heartbeats again.
                self._background(asyncio.gather(*(task.stop() for task in lost), return_exceptions=True))
            if assignor is not None:
                for one in standbys:
                    self._background(asyncio.ensure_future(one.hold(assignor.standby - partitions)))

    def failed(self, error: BaseException) -> None:
        """End the worker, because a listener has failed and aiokafka would swallow the error."""
        log.error("worker.rebalance_failed", service=self.name, exc_info=error)
        self._fail(RuntimeFailure(f"a rebalance of {self.name} failed: {error!r}"))

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
                log.warning("worker.not_drained", service=self.name, partition=task.partition, error=repr(result))
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

    def __init__(self, worker: Worker, context: WorkerContext[Any]) -> None:
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


async def _behind(
    contexts: Sequence[WorkerContext[Any]], tasks: Mapping[int, PartitionTask], views: Sequence[GlobalReader]
) -> Behind:
    """Return where Kafka has more than this worker has received.

    The ends are requested over a separate connection, because a consumer that no longer receives anything does not see
    new records. An open transaction may hide records of sources until its timeout. For tables, only records below every
    open transaction count. The result is empty when Kafka does not answer.
    """
    working = {partition: task for partition, task in tasks.items() if task.phase is Phase.RUNNING}
    try:
        async with asyncio.timeout(_ANSWER_SECONDS):
            return Behind(await _sources(contexts[0], working), await _tables(contexts, working, views))
    except (KafkaError, TimeoutError, OSError, RuntimeError):  # no answer, or the partitions are changing right now
        return Behind()


async def _sources(context: WorkerContext[Any], working: Mapping[int, PartitionTask]) -> frozenset[int]:
    tps = {tp: partition for partition, task in working.items() for tp in task.fetching}
    ends = await context.offsets.end(tps)
    return frozenset([tps[tp] for tp, end in ends.items() if end > await context.consumer.position(tp)])


async def _tables(
    contexts: Sequence[WorkerContext[Any]], working: Iterable[int], views: Sequence[GlobalReader]
) -> dict[TopicPartition, int]:
    followed = [
        (one.reader, {one.tp(topic, number) for number in working for topic in one.service.follows}) for one in contexts
    ]
    wanted = {tp for _, tps in followed for tp in tps}.union(*(view.followed for view in views))
    if not wanted:
        return {}
    ends = await contexts[0].offsets.stable(wanted)
    found: dict[TopicPartition, int] = {}
    for reader, tps in followed:
        found |= await reader.behind({tp: ends[tp] for tp in tps})
    for view in views:
        found |= await view.behind({tp: ends[tp] for tp in view.followed})
    return found
