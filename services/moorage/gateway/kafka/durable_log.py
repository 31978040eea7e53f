"""The durable log on Kafka: one transactional writer for the whole fleet, and a reader of its topics.

Each gateway checks writes against its own tables, so two gateways must not both assume that theirs are up to date.
Therefore all writes use one transactional id. A gateway that starts takes it over, and Kafka refuses the earlier one
from then on. After the takeover no other gateway can write, and the new one reads the tables to their end.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass

import structlog
from aiokafka import AIOKafkaProducer
from aiokafka.errors import InvalidProducerEpoch, KafkaError, ProducerFenced

from moorage.gateway.durable_log import Place, Write
from moorage.gateway.errors import StatusError, too_large, unavailable
from moorage.gateway.kafka.reader import TAKEOVER, Reader
from moorage.gateway.metrics import Metrics
from moorage.runtime.clock import Clock
from moorage.runtime.kafka import clients
from moorage.runtime.kafka.keep_alive import KeepAlive
from moorage.runtime.kafka.session import broker_times
from moorage.runtime.kafka.table_age import TableAge
from moorage.runtime.settings import Settings
from moorage_schemas.dead_letter import Audited
from moorage_schemas.envelope import Meta, event_id, to_headers
from moorage_schemas.topics import AUDIT, partition_of

_log = structlog.get_logger(__name__)

SOURCE = "moorage/gateway"
FENCED = (
    "another gateway has taken over the writes of this fleet, and this one is fenced out: stop it, and send writes to "
    "the other one"
)
_TOO_OLD = "the gateway was stopped for so long that it may have missed deletions; it is reading its tables again"
_RECORD_OVERHEAD = 512  # bytes of a record besides key and value, at most
_START_TIMEOUT = 30.0  # seconds; the transaction of an earlier writer ends in that time
_CLOSE_TIMEOUT = 5.0
_REPORT_TIMEOUT = 15.0
_TAKEOVER_WITHIN = 2.0  # seconds in which a gateway that takes over writes its record
_RETRY = 1.0  # seconds between attempts to open the writer again
_QUIET_KEY = b"quiet"  # of a record that is aborted
_FENCING = (ProducerFenced, InvalidProducerEpoch)


@dataclass(slots=True)
class _Pending:
    """Writes that wait for a transaction, and the future of their result."""

    writes: Sequence[Write]
    done: asyncio.Future[list[Place]]


class KafkaLog:
    """The log of a fleet.

    Args:
        settings: Kafka's addresses.
        reader: reads the topics, also for the store.
        clock: gives the time of the record about the takeover.
        metrics: the durations and sizes of transactions are recorded here.
    """

    def __init__(self, settings: Settings, reader: Reader, clock: Clock, metrics: Metrics) -> None:
        self._settings = settings
        self._reader = reader
        self._clock = clock
        self._metrics = metrics
        self._instance = uuid.uuid4().hex
        self._queue: asyncio.Queue[_Pending] = asyncio.Queue()
        self._producer: AIOKafkaProducer | None = None
        self._reports: AIOKafkaProducer | None = None
        self._reports_lock = asyncio.Lock()
        self._obstacle = "the gateway is not ready: it is still starting"
        self._out = asyncio.Event()
        """Set when another gateway has taken over."""

        self._committing = False
        """Whether a commit has been sent whose outcome is unknown."""

        self._partitions = 0
        self._keep_alive: KeepAlive | None = None
        self.age: TableAge | None = None
        """The age of the tables that writes are checked against. None before they are read."""

    @property
    def _transactional_id(self) -> str:
        return f"{self._settings.topic_prefix}.gateway"

    @property
    def obstacle(self) -> str:
        """Why nothing can be written now. Empty if writes are possible."""
        return self._obstacle

    async def start(self, partitions: int) -> None:
        """Take over the writes, and wait until the tables are read to their end.

        Args:
            partitions: the number of partitions of each topic.

        Raises:
            KafkaError: Kafka does not answer, or refuses.
            TimeoutError: it took too long.
        """
        self._partitions = partitions
        times = await broker_times(self._settings)
        self._keep_alive = KeepAlive(times, transactional_id=self._transactional_id, due=self._note_quiet)
        await self._reports_producer()
        await self._open()

    async def run(self) -> None:
        """Write what is requested until cancelled. Writes that wait at the same time share a transaction."""
        while True:
            batch = [await self._queue.get()]
            count = len(batch[0].writes)
            while not self._queue.empty() and count < self._settings.batch_max_records:
                batch.append(self._queue.get_nowait())
                count += len(batch[-1].writes)
            try:
                await self._write(batch)
            finally:
                for pending in batch:
                    if not pending.done.done():
                        pending.done.set_exception(self._failure("the gateway is stopping"))
            if self._producer is None and not self._out.is_set():
                await self._reopen()

    async def close(self) -> None:
        """Close everything that is open. Never raises."""
        self._obstacle = self._obstacle or "the gateway is stopping"
        if self._keep_alive is not None:
            self._keep_alive.close()
        while not self._queue.empty():
            self._queue.get_nowait().done.set_exception(unavailable("the gateway is stopping"))
        await _stop(self._producer)
        await _stop(self._reports)

    async def commit(self, writes: Sequence[Write]) -> list[Place]:
        """Write records of the gateway's own topics, all or none. Returns when they are durable.

        Raises:
            StatusError: 503 if nothing was written, 504 if the outcome is unknown, 413 if a record is too large.
        """
        _check_sizes(writes)
        if self._obstacle:
            raise unavailable(self._obstacle)
        pending = _Pending(writes, asyncio.get_running_loop().create_future())
        self._queue.put_nowait(pending)
        return await pending.done

    async def report(self, writes: Sequence[Write]) -> None:
        """Write condition reports. Returns when all of them are durable.

        Raises:
            StatusError: 503 if not all could be written. Some may have been.
        """
        _check_sizes(writes)
        if not self._partitions:
            raise unavailable(self._obstacle)
        try:
            async with asyncio.timeout(_REPORT_TIMEOUT):
                producer = await self._reports_producer()
                sent = [await self._send(producer, write) for write in writes]
                await asyncio.gather(*sent)
        except (KafkaError, TimeoutError) as error:
            # This producer may be unusable (Kafka may have forgotten its sequence). The next report gets a new one.
            broken, self._reports = self._reports, None
            await _stop(broken)
            raise unavailable(
                f"Kafka did not accept the report within {_REPORT_TIMEOUT:g} s; send it again: {error!r}"
            ) from None

    async def _reports_producer(self) -> AIOKafkaProducer:
        async with self._reports_lock:
            if self._reports is None:
                producer = AIOKafkaProducer(
                    bootstrap_servers=clients.servers(self._settings),
                    client_id=f"{self._settings.topic_prefix}.gateway-reports",
                    enable_idempotence=True,
                    acks="all",
                    request_timeout_ms=int(_REPORT_TIMEOUT * 1000),
                )
                try:
                    await producer.start()
                except BaseException:
                    await _stop(producer)
                    raise
                self._reports = producer
            return self._reports

    def taken_over(self, instance: str) -> None:
        """Note that a gateway has taken over the writes. If it is another one, this one is fenced out."""
        if instance != self._instance and not self._out.is_set():
            self._fence()

    async def _open(self) -> None:
        """Take over the writes, write a record about it, and wait until everything before that record has been read."""
        producer = clients.transactional_producer(self._settings, transactional_id=self._transactional_id)
        try:
            async with asyncio.timeout(_START_TIMEOUT):
                await producer.start()
                (place,) = await self._transaction(producer, [self._takeover()])
                self._wrote()
        except BaseException:
            await _stop(producer)
            raise
        self._reader.watch_takeovers(place, self.taken_over)
        await self._reader.catch_up()
        self._producer = producer
        if not self._out.is_set():
            self._obstacle = ""
        _log.info("gateway.writer_open", transactional_id=self._transactional_id)

    def _wrote(self) -> None:
        if self._keep_alive is not None:
            self._keep_alive.wrote()

    async def _reopen(self) -> None:
        """Open the writer again after an error. Try until it succeeds."""
        while not self._out.is_set():
            try:
                await self._open()
            except (KafkaError, TimeoutError) as error:
                self._obstacle = f"Kafka does not accept writes: {error!r}"
                _log.warning("gateway.writer_not_open", error=repr(error))
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(_RETRY):
                        await self._out.wait()
            else:
                return

    async def _write(self, batch: Sequence[_Pending]) -> None:
        producer = self._producer
        # The tables that the writes were checked against may lack deletions. The gateway is about to start again.
        too_old = self.age is not None and self.age.over
        if self._out.is_set() or producer is None or too_old:
            for pending in batch:
                pending.done.set_exception(unavailable(_TOO_OLD if too_old else self._obstacle))
            return
        writes = [write for pending in batch for write in pending.writes]
        began = time.monotonic()
        try:
            async with asyncio.timeout(self._settings.transaction_timeout_ms / 1000):
                places = await self._transaction(producer, writes)
        except _FENCING as error:
            failure = self._failure(error)
            if await self._taken():
                failure = unavailable(FENCED)
            else:
                self._obstacle = "the writer has to start again because Kafka has aborted its transaction"
        except (KafkaError, TimeoutError) as error:
            self._obstacle = f"Kafka does not accept writes: {error!r}"
            failure = self._failure(error)
        else:
            self._wrote()
            if writes:
                self._metrics.commit_seconds.observe(time.monotonic() - began)
                self._metrics.commit_records.observe(len(writes))
            self._answer(batch, places)
            return
        for pending in batch:
            if not pending.done.done():
                pending.done.set_exception(failure)
        # After an error the state of the producer is unknown, so it is discarded.
        self._producer = None
        await _stop(producer)

    def _failure(self, why: object) -> StatusError:
        if self._committing:
            return StatusError(504, f"it is not known whether the object was written: {why!r}")
        return unavailable(f"nothing was written: {why!r}")

    @staticmethod
    def _answer(batch: Sequence[_Pending], places: Sequence[Place]) -> None:
        taken = 0
        for pending in batch:
            count = len(pending.writes)
            if not pending.done.done():
                pending.done.set_result(list(places[taken : taken + count]))
            taken += count

    def _note_quiet(self) -> None:
        """Let the writer write something so that Kafka does not forget its transactional id."""
        pending = _Pending((), asyncio.get_running_loop().create_future())
        pending.done.add_done_callback(lambda done: done.cancelled() or done.exception())  # nobody waits for it
        self._queue.put_nowait(pending)

    async def _transaction(self, producer: AIOKafkaProducer, writes: Sequence[Write]) -> list[Place]:
        """Write records in a transaction. Without any, write and abort one, which nobody sees."""
        self._committing = False
        await producer.begin_transaction()
        if not writes:
            await producer.send_and_wait(
                AUDIT.name(self._settings.topic_prefix),
                key=_QUIET_KEY,
                partition=partition_of(SOURCE, self._partitions),
            )
            await producer.abort_transaction()
            return []
        sent = [await self._send(producer, write) for write in writes]
        # A commit does not fail when one of its records did, so each write has to be confirmed.
        delivered = await asyncio.gather(*sent)
        self._committing = True
        await producer.commit_transaction()
        self._committing = False
        places = [
            Place(write.topic, found.partition, found.offset) for write, found in zip(writes, delivered, strict=True)
        ]
        if any(place.offset < 0 for place in places):
            # Kafka recognized a repeated send as a duplicate and does not return the offset of the first one.
            await self._reader.catch_up()
        return places

    async def _send(self, producer: AIOKafkaProducer, write: Write) -> asyncio.Future[_Delivered]:
        future: asyncio.Future[_Delivered] = await producer.send(
            write.topic.name(self._settings.topic_prefix),
            key=write.key.encode(),
            value=_value(write),
            partition=partition_of(write.partition_key, self._partitions),
            headers=to_headers(write.meta),
        )
        return future

    def _takeover(self) -> Write:
        now = self._clock.now()
        event = Audited(
            actor=SOURCE, verb="start", resource=TAKEOVER, uid=self._instance, outcome="committed", time=now
        )
        identity = event_id("gateway", self._instance, now)
        meta = Meta(id=identity, source=SOURCE, type=AUDIT.event_type, time=now, subject=TAKEOVER)
        return Write(AUDIT, TAKEOVER, TAKEOVER, event, meta)

    async def _taken(self) -> bool:
        """Whether Kafka refuses this gateway because another one has taken over.

        Kafka returns the same error when it has aborted a transaction that took too long, for example after the machine
        was paused. But a gateway that takes over writes a record about it.
        """
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_TAKEOVER_WITHIN):
                await self._out.wait()
        return self._out.is_set()

    def _fence(self) -> None:
        self._obstacle = FENCED
        self._out.set()
        _log.error("gateway.fenced_out")


class _Delivered:
    """What aiokafka returns for a written record (`RecordMetadata`)."""

    partition: int
    offset: int


def _value(write: Write) -> bytes | None:
    return None if write.event is None else write.event.model_dump_json().encode()


def _check_sizes(writes: Sequence[Write]) -> None:
    for write in writes:
        size = len(_value(write) or b"") + len(write.key.encode()) + _RECORD_OVERHEAD
        if size > write.topic.max_message_bytes:
            raise too_large(f"the record of {write.key} ({size} bytes)", write.topic.max_message_bytes)


async def _stop(producer: AIOKafkaProducer | None) -> None:
    if producer is None:
        return
    with contextlib.suppress(Exception):
        async with asyncio.timeout(_CLOSE_TIMEOUT):
            await producer.stop()
