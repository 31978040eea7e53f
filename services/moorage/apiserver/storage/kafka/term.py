"""One term of the leading gateway: from its takeover of the writes until it loses them.

All gateways write with one transactional id. A gateway that begins a term takes it over, and Kafka refuses the earlier
one from then on. Then it reads the topics that objects are built from to their ends, so that the writes that it accepts
are checked against everything that was written before. After an error of a transaction its outcome may be unknown. So
the term ends with it, and what was read in it is discarded.

A write is answered when it was read back. Kafka confirms a commit before it has written the markers of the transaction.
A broker that ends in between may lose them: after its restart the coordinator takes a partition that has no leader yet
as deleted, and skips its marker (docs/decisions/0013). Readers cannot get past such a record, and the next transaction
of the same id decides what becomes of it. No gateway has answered that it is written (docs/decisions/0041), so it is
aborted.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Final

import structlog
from aiokafka import AIOKafkaProducer, TopicPartition
from aiokafka.errors import InvalidProducerEpoch, KafkaError, ProducerFenced

from moorage.apiserver.kinds.status.records import ObjectId
from moorage.apiserver.machinery.api_errors import StatusError, unavailable
from moorage.apiserver.metrics import Metrics
from moorage.apiserver.storage.derivation import AT_ONCE, Derivation
from moorage.apiserver.storage.durable_log import RECORD_OVERHEAD, Write, check_sizes
from moorage.apiserver.storage.kafka.log_reader import SourceReader
from moorage.apiserver.storage.kafka.object_reader import object_partition
from moorage.apiserver.storage.object_log import Emission
from moorage.apiserver.storage.store import Store
from moorage.runtime.kafka.admin.broker_times import BrokerTimes
from moorage.runtime.kafka.clients import clients
from moorage.runtime.kafka.clients.fenced_producer import KeepAlive, send_batches, write_to_each
from moorage.runtime.kafka.tables.offsets import Offsets
from moorage.runtime.kafka.tables.table_age import TableAge
from moorage.runtime.process.clock import Clock
from moorage.runtime.process.failures import first_of
from moorage.runtime.settings.process_settings import Settings
from moorage.runtime.wire.codec import Outgoing
from moorage_schemas.dead_letter import Audited
from moorage_schemas.envelope import Meta, event_id, to_headers
from moorage_schemas.shown import COMPLETE_KEY, LEADER_KEY, GatewayLeader, ObjectShown
from moorage_schemas.topics import AUDIT, FLEET, OBJECTS, RESOURCES, partition_of

_log = structlog.get_logger(__name__)

SOURCE = "moorage/gateway"
TAKEOVER = "gateway"
"""The `resource` of the audit records about a gateway that has taken over the writes."""

_TOO_OLD = "the gateway was stopped for so long that it may have missed deletions; it is reading its tables again"
_FENCED = "another gateway has taken over the writes of this fleet"
_START_TIMEOUT: Final = 30.0  # seconds; the transaction of an earlier writer ends in that time
_CLOSE_TIMEOUT: Final = 5.0
_RESTS: Final = 2.0  # times as long as what follows from other topics took to write, so that more of it is one change
_LONGEST_REST: Final = 0.25  # seconds
_TAKEOVER_WITHIN: Final = 2.0  # seconds in which a gateway that takes over writes its record
_QUIET_KEY: Final = b"quiet"  # of a record that is aborted
_FENCING: Final = (ProducerFenced, InvalidProducerEpoch)

Beginning = Callable[[], AbstractAsyncContextManager[None]]
"""Makes the context in which this gateway leads."""


class TermEnded(Exception):  # noqa: N818 - a request inside the gateway, not an error
    """The term has ended. The message has the reason."""


class Deposed(TermEnded):
    """Another gateway has taken over."""


@dataclass(slots=True)
class _Pending:
    """Writes that wait for a transaction, and the future of their result."""

    writes: Sequence[Write]
    done: asyncio.Future[int]
    is_shown: bool = True


class Term:
    """One term."""

    def __init__(
        self,
        settings: Settings,
        partitions: int,
        store: Store,
        clock: Clock,
        metrics: Metrics,
        *,
        leader: GatewayLeader,
        times: BrokerTimes,
        age: TableAge,
    ) -> None:
        self._settings = settings
        self._partitions = partitions
        self._store = store
        self._clock = clock
        self._metrics = metrics
        self._leader = leader
        self._age = age
        self._queue: list[_Pending] = []
        self._work = asyncio.Event()
        self._derivation = Derivation(store)
        self._sources = SourceReader(
            settings,
            partitions,
            self._derivation,
            metrics,
            folded=self._work.set,
            progress=self._note_progress,
        )
        self._objects = object_partition(settings, partitions)
        self._resources = RESOURCES.name(settings.topic_prefix)
        self._id = f"{settings.topic_prefix}.gateway"
        self._keep_alive = KeepAlive(times.ids_kept_ms, transactional_id=self._id, due=self._note_quiet)
        self._count = itertools.count()
        self._producer: AIOKafkaProducer | None = None
        self._deposed = asyncio.Event()
        self._committing = False
        """Whether a commit has been sent whose outcome is unknown."""

        self._rests_until = 0.0
        """The time of `time.monotonic` until which nothing is written for which no request waits.

        Where much is decided, each object would be written after each decision about it, and the decisions would wait
        for the processor. What comes meanwhile is written together.
        """

        self.began = 0
        """The version of the takeover. 0 before it."""

        self.obstacle = "the gateway is not ready: it is about to take over the writes"
        """Why nothing can be written now. Empty if writes are possible."""

    async def run(self, during: Beginning) -> None:
        """Lead until cancelled, or until the term ends.

        `during` is entered when writes are possible, and left at the end.

        Raises:
            TermEnded: the term has ended.
            KafkaError: Kafka does not answer, or refuses.
            TimeoutError: it took too long.
            TablesTooOld: the tables may lack deletions.
            StartAfresh: a reader makes no progress.
        """
        try:
            async with asyncio.TaskGroup() as tasks:
                await self._sources.reader.start()
                tasks.create_task(self._sources.reader.run(), name="gateway-sources")
                await self._take_over()
                await self._sources.reader.catch_up()
                tasks.create_task(self._age.mind(self._sources.reader.read_to_ends), name="gateway-sources-age")
                self._store.lead(self._derivation.tables, self._derivation.builder, self._derivation.clusters)
                async with during():
                    self._derivation.begin()
                    self._work.set()
                    if not self._deposed.is_set():
                        self.obstacle = ""
                    _log.info("gateway.leads", version=self.began)
                    self._store.history.wake()  # for who waits until writes are possible
                    await self._write_on()
        except BaseExceptionGroup as errors:
            raise first_of(errors) from None
        finally:
            await self._end()

    async def _end(self) -> None:
        self.obstacle = self.obstacle or "the gateway is stopping"
        self._keep_alive.close()
        self._store.follow()
        _refuse(self._queue, unavailable(self.obstacle))
        self._queue.clear()
        await stop(self._producer)
        await self._sources.reader.close()

    def depose(self) -> None:
        """Note that another gateway has taken over."""
        if not self._deposed.is_set():
            self.obstacle = _FENCED
            self._deposed.set()
            self._work.set()
            _log.warning("gateway.deposed")

    async def commit(self, writes: Sequence[Write], *, is_shown: bool = True) -> int:
        """Write records as `Log.commit` does."""
        check_sizes(writes)
        if self.obstacle:
            raise unavailable(self.obstacle)
        pending = _Pending(writes, asyncio.get_running_loop().create_future(), is_shown)
        self._queue.append(pending)
        self._work.set()
        return await pending.done

    async def _take_over(self) -> None:
        """Take over the writes, and wait until everything that earlier leaders have written is in the store."""
        self._producer = producer = clients.transactional_producer(self._settings, transactional_id=self._id)
        async with asyncio.timeout(_START_TIMEOUT):
            await producer.start()
            await end_open_transactions(self._settings, producer, self._written_to(), self._metrics)
            ends = await self._transaction(producer, self._takeover(), [])
        self.began = ends[self._objects]
        self._keep_alive.wrote()
        await self._store.reached(self.began)

    def _written_to(self) -> list[TopicPartition]:
        """Return the partitions that the leading gateway writes."""
        names = [topic.name(self._settings.topic_prefix) for topic in (RESOURCES, AUDIT)]
        return [self._objects, *(TopicPartition(name, number) for name in names for number in range(self._partitions))]

    def _takeover(self) -> list[Write]:
        now, instance = self._clock.now(), self._leader.instance
        event = Audited(actor=SOURCE, verb="start", resource=TAKEOVER, uid=instance, outcome="committed", time=now)
        identity = event_id("gateway", instance, now)
        meta = Meta(id=identity, source=SOURCE, type=AUDIT.event_type, time=now, subject=TAKEOVER)
        audited = Write(AUDIT, TAKEOVER, TAKEOVER, event, meta)
        return [audited, self._note(LEADER_KEY, ObjectShown(leader=self._leader))]

    def _note(self, key: str, event: ObjectShown) -> Write:
        return Write(OBJECTS, key, FLEET, event, self._meta(key))

    def _meta(self, key: str) -> Meta:
        identity = event_id(OBJECTS.short, self._leader.instance, next(self._count))
        return Meta(id=identity, source=SOURCE, type=OBJECTS.event_type, time=self._clock.now(), subject=key)

    async def _write_on(self) -> None:
        """Write what is requested, and what follows from records of other topics, until the term ends."""
        complete = self._store.complete
        while True:
            await self._work.wait()
            self._work.clear()
            self._check()
            while self._queue or self._derivation.due:
                self._check()
                if not self._queue and (rest := self._rests_until - time.monotonic()) > 0:
                    await self._wait(rest)
                    continue
                await self._write(self._next_batch())
                await asyncio.sleep(0)  # records and requests have their turn
            if not complete:
                await self._write([_Pending([self._note(COMPLETE_KEY, ObjectShown())], _nobody())])
                complete = True

    async def _wait(self, seconds: float) -> None:
        """Return when there is something new, or after a while."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._work.wait()
        self._work.clear()

    def _check(self) -> None:
        """Check that writes may go on."""
        if self._deposed.is_set():
            raise Deposed(_FENCED)
        if self._age.is_expired:
            self.obstacle = _TOO_OLD
            self._age.check()

    def _next_batch(self) -> list[_Pending]:
        batch: list[_Pending] = []
        count = 0
        while self._queue and count < self._settings.batch_max_records:
            batch.append(self._queue.pop(0))
            count += len(batch[-1].writes)
        return batch

    async def _write(self, batch: Sequence[_Pending]) -> None:
        """Write what a batch requests in one transaction, with the objects that it changes and others that are due."""
        producer = self._producer
        if producer is None:
            raise TermEnded("the writer is not open")
        woken = time.monotonic()
        writes = [write for pending in batch for write in pending.writes]
        touched = self._take_in(batch)
        takes_others = self._derivation.due and woken >= self._rests_until
        changes = self._fitting(self._derivation.take(touched, at_once=AT_ONCE if takes_others else 0))
        quiet = any(not pending.writes for pending in batch)
        if not writes and not changes and not quiet:
            return
        began = time.monotonic()
        try:
            async with asyncio.timeout(self._settings.transaction_timeout_ms / 1000):
                await self._read_back(await self._transaction(producer, writes, changes))
        except (KafkaError, TimeoutError) as error:
            failure, ended = await self._failure(error)
            _refuse(batch, failure)
            raise ended from None
        except asyncio.CancelledError:
            _refuse(batch, self._outcome("the gateway is stopping"))
            raise
        self._committing = False
        self._keep_alive.wrote()
        self._derivation.written()
        if takes_others:
            self._rest(time.monotonic() - woken)
        if writes:
            self._metrics.commit_seconds.observe(time.monotonic() - began)
            self._metrics.commit_records.observe(len(writes))
        for pending in batch:
            if not pending.done.done():
                pending.done.set_result(self._store.version)

    def _take_in(self, batch: Sequence[_Pending]) -> dict[ObjectId, None]:
        """Take in the records of a batch. Return the objects that are written with them if they look different."""
        touched: dict[ObjectId, None] = {}
        for pending in batch:
            for write in pending.writes:
                found = self._derivation.write(write.topic, write.key, write.event)
                if pending.is_shown:
                    touched.update(dict.fromkeys(found))
                else:
                    self._derivation.note(found)
        return touched

    def _rest(self, took: float) -> None:
        """Write nothing for a while for which no request waits, unless much of it is left.

        Args:
            took: the seconds that the last of it took.
        """
        if not self._derivation.due:
            self._rests_until = time.monotonic() + min(_RESTS * took, _LONGEST_REST)

    def _fitting(self, changes: Sequence[Emission]) -> list[Emission]:
        """Return the changes without those that no record can hold. Their objects are shown as they were."""
        limit = OBJECTS.max_message_bytes - RECORD_OVERHEAD
        found = []
        for change in changes:
            if change.json is not None and len(change.json) + 2 * len(change.object_id.key) > limit:
                _log.error("gateway.object_too_large", object=change.object_id.key, bytes=len(change.json))
            else:
                found.append(change)
        return found

    async def _failure(self, error: Exception) -> tuple[StatusError, TermEnded]:
        """Return the error of a transaction that has failed, and what ends the term."""
        failure = self._outcome(error)
        if isinstance(error, _FENCING):
            if await self._taken():
                return unavailable(_FENCED), Deposed(_FENCED)
            self.obstacle = "the writer has to start again because Kafka has aborted its transaction"
        else:
            self.obstacle = f"Kafka does not accept writes: {error!r}"
        return failure, TermEnded(self.obstacle)

    def _outcome(self, why: object) -> StatusError:
        if self._committing:
            return StatusError(504, f"it is not known whether the object was written: {why!r}")
        return unavailable(f"nothing was written: {why!r}")

    async def _taken(self) -> bool:
        """Return whether Kafka refuses this gateway because another one has taken over.

        Kafka returns the same error when it has aborted a transaction that took too long, for example after the machine
        was paused. But a gateway that takes over writes a record about it.
        """
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_TAKEOVER_WITHIN):
                await self._deposed.wait()
        return self._deposed.is_set()

    def _note_quiet(self) -> None:
        """Let the writer write something so that Kafka does not forget its transactional id."""
        self._queue.append(_Pending((), _nobody()))
        self._work.set()

    def _note_progress(self, read: int, total: int) -> None:
        if self.obstacle and self.began and not self._deposed.is_set():
            part = f"{read / total:.0%}" if total else "100%"
            self.obstacle = f"the gateway is not ready: reading its tables: {read} of {total} positions ({part})"

    async def _transaction(
        self, producer: AIOKafkaProducer, writes: Sequence[Write], changes: Sequence[Emission]
    ) -> dict[TopicPartition, int]:
        """Write records in a transaction. Returns the offset after the last one of each partition.

        Without any, write and abort one, which no reader sees.
        """
        self._committing = False
        await producer.begin_transaction()
        if not writes and not changes:
            await producer.send_and_wait(
                AUDIT.name(self._settings.topic_prefix),
                key=_QUIET_KEY,
                partition=partition_of(SOURCE, self._partitions),
            )
            await producer.abort_transaction()
            return {}
        records = [outgoing(write, self._settings, self._partitions) for write in writes]
        for change in changes:
            key = change.object_id.key
            headers = to_headers(self._meta(key))
            records.append(
                Outgoing.of(self._objects.topic, self._objects.partition, key.encode(), change.value, headers)
            )
        ends: dict[TopicPartition, int] = {}
        # A commit does not fail when one of its batches did, so each one has to be confirmed.
        for batch in await send_batches(producer, records):
            begin = (await batch.delivered).offset
            if begin < 0:
                # Kafka has recognized a repeated send as a duplicate, and does not return the offset of the first one.
                raise KafkaError("the offset of a record is not known")
            ends[batch.tp] = end = begin + len(batch.records)
            if batch.tp.topic == self._resources:
                for offset in range(begin, end):
                    self._sources.written(batch.tp.partition, offset)
        self._committing = True
        await producer.commit_transaction()
        return ends

    async def _read_back(self, ends: Mapping[TopicPartition, int]) -> None:
        """Wait until all clients can read what was written."""
        await self._store.reached(ends.get(self._objects, 0))
        await self._sources.passed(ends)


def outgoing(write: Write, settings: Settings, partitions: int) -> Outgoing:
    """Return the record of a write."""
    topic = write.topic.name(settings.topic_prefix)
    partition = partition_of(write.partition_key, partitions)
    return Outgoing.of(topic, partition, write.key.encode(), write.value, to_headers(write.meta))


def _refuse(batch: Sequence[_Pending], why: StatusError) -> None:
    for pending in batch:
        if not pending.done.done():
            pending.done.set_exception(why)


def _nobody() -> asyncio.Future[int]:
    """Return a future whose result may be ignored."""
    done: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    done.add_done_callback(lambda found: found.cancelled() or found.exception())
    return done


async def stop(producer: AIOKafkaProducer | None) -> None:
    """Stop a producer if there is one. Never raises."""
    if producer is None:
        return
    with contextlib.suppress(Exception):
        async with asyncio.timeout(_CLOSE_TIMEOUT):
            await producer.stop()


async def end_open_transactions(
    settings: Settings, producer: AIOKafkaProducer, partitions: Iterable[TopicPartition], metrics: Metrics
) -> None:
    """Abort what earlier producers of the same transactional id have left open.

    A transaction of another id that is open at this moment is not touched. The producer is the leader's. It has
    started, so all transactions of its id have ended, and it is in none.

    Raises:
        KafkaError: Kafka does not answer, or refuses.
    """
    offsets = Offsets(settings, name=f"{settings.topic_prefix}.gateway-open")
    try:
        await offsets.start()
        ends = await offsets.end(partitions)
        stable = await offsets.stable(ends)
    finally:
        await offsets.stop()
    still_open = [tp for tp, end in sorted(ends.items()) if stable[tp] < end]
    if not still_open:
        return
    metrics.lost_markers.inc()
    _log.warning("gateway.marker_lost", open=[f"{tp.topic}/{tp.partition}" for tp in still_open])
    await producer.begin_transaction()
    await write_to_each(producer, still_open)
    await producer.abort_transaction()
