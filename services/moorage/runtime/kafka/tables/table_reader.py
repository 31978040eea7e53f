"""Reads many partitions with one consumer: up to an offset (restoring) or forever (following).

The reader keeps the position of each partition. So partitions can be added and removed, and the consumer can be
replaced after an error, without losing a record or reading one twice. A reader never stops silently: a consumer that
fails or stops fetching is replaced; a table whose sink raises is no longer read, and its users get an error; and
`behind` reports the tables that do not advance although Kafka has more records of them.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import structlog
from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import IllegalStateError, KafkaError

from moorage.runtime.kafka.clients import clients
from moorage.runtime.kafka.clients.refusals import describe
from moorage.runtime.process.failures import StartAfresh, end_task
from moorage.runtime.settings.process_settings import Settings

log = structlog.get_logger(__name__)

Sink = Callable[[Sequence[Any]], None]
"""Takes consumed records of one partition, in order. It must not block. After it raises, it gets no more records."""

_CHUNK = 2000  # records that are taken before other tasks get their turn
_POLL_MS = 1000  # a poll returns earlier when a position moves, with or without records
_BACKOFF = 0.5  # seconds before a failed consumer is replaced
_QUIET_SECONDS = 0.01  # seconds without another new partition after which the new ones are assigned
_QUIET_TIMES = 10  # times that it is waited for them


@dataclass(eq=False)
class Tail:
    """One partition that is read."""

    tp: TopicPartition
    sink: Sink
    position: int
    """The next offset to read."""

    limit: int | None
    """The first offset that is not read. None means to follow forever."""

    on_failure: Callable[[Exception], None] | None = None
    """Called with the error of the sink. The sink has taken some of the records, but it is unknown which."""

    waiters: list[tuple[int, asyncio.Future[None]]] = field(default_factory=list)

    @property
    def done(self) -> bool:
        """Whether no more records are wanted for now."""
        return self.limit is not None and self.position >= self.limit


class StalledTables:
    """The partitions that do not advance, by two observations."""

    def __init__(self) -> None:
        self.partitions: frozenset[TopicPartition] = frozenset()
        """The partitions that were behind at the same offset in the last two observations."""

        self._behind: Mapping[TopicPartition, int] = {}

    async def behind(
        self, ends: Mapping[TopicPartition, int], position: Callable[[TopicPartition], Awaitable[int]]
    ) -> dict[TopicPartition, int]:
        """Observe how far partitions are read. Return those that are behind, with the offset that each has reached.

        Args:
            ends: their ends.
            position: returns the offset that a partition has reached; -1 when it is not read at all.
        """
        found = {tp: reached for tp, end in ends.items() if (reached := await position(tp)) < end}
        self.partitions = frozenset(tp for tp, reached in found.items() if self._behind.get(tp) == reached)
        self._behind = found
        return found


class TableReader:
    """A consumer without a group that reads the partitions that are added to it, `read_committed`."""

    def __init__(self, settings: Settings, *, client_id: str) -> None:
        self._settings = settings
        self._client_id = client_id
        self._by_partition: dict[TopicPartition, Tail] = {}
        self._changed = asyncio.Event()
        self._interrupted: asyncio.Future[None] | None = None
        self._task: asyncio.Task[None] | None = None
        self._consumer: AIOKafkaConsumer | None = None
        self._polled: asyncio.Future[Any] | None = None
        self._reading: dict[TopicPartition, Tail] = {}
        self._idle: set[TopicPartition] = set()
        """Partitions that are assigned, but paused until they are wanted again."""

        self._standing = StalledTables()

    @property
    def alive(self) -> bool:
        """Whether it reads. False before the start, and when it has ended without `stop`."""
        return self._task is not None and not self._task.done()

    @property
    def standing(self) -> frozenset[TopicPartition]:
        """The partitions that did not advance between the last two calls of `behind` although Kafka had more."""
        return self._standing.partitions

    async def behind(self, ends: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Return the partitions that are behind, with the offset that each has reached; -1 when it is not read at all.

        Args:
            ends: the last stable offsets of the partitions. No open transaction hides records below them.
        """
        return await self._standing.behind(ends, self._position_of)

    async def _position_of(self, tp: TopicPartition) -> int:
        tail = self._by_partition.get(tp)
        return -1 if tail is None else await self.position(tail)

    async def _passed(self, tail: Tail) -> int:
        """Return the offset below which the tail's sink has received everything, by the consumer's present position."""
        taken = self._polled is None or not self._polled.done()  # otherwise the sink is about to get fetched records
        # A tail with a limit may have been fetched beyond it, and a paused one is sought back before it continues.
        followed = tail.limit is None and tail.tp not in self._idle
        return await self.position(tail) if taken and followed else tail.position

    async def position(self, tail: Tail) -> int:
        """Return the offset that a tail has reached, including the markers after its last record."""
        consumer = self._consumer
        if consumer is None or not self.alive or self._reading.get(tail.tp) is not tail:
            return tail.position
        try:
            return max(tail.position, int(await consumer.position(tail.tp)))
        except (KafkaError, IllegalStateError):  # the consumer is being replaced
            return tail.position

    def start(self) -> None:
        """Start reading whatever is added."""
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name=f"{self._client_id}-reader")

    async def stop(self) -> None:
        """Stop reading."""
        task, self._task = self._task, None
        await end_task(task)
        self.remove(list(self._by_partition.values()))

    def add(
        self,
        tp: TopicPartition,
        position: int,
        sink: Sink,
        *,
        limit: int | None = None,
        on_failure: Callable[[Exception], None] | None = None,
    ) -> Tail:
        """Read a partition from a position on, up to a limit if any. This replaces the partition's earlier tail."""
        if (known := self._by_partition.get(tp)) is not None:
            self.remove([known])
        tail = Tail(tp, sink, position, limit, on_failure)
        self._by_partition[tp] = tail
        self._interrupt()
        return tail

    def extend(self, tail: Tail, limit: int | None) -> None:
        """Move a tail's limit forward. None means to follow forever."""
        tail.limit = limit
        self._interrupt()

    def rewind(self, tail: Tail, position: int) -> Tail:
        """Read a tail's partition again from an earlier position. Return its new tail, for which waiting tasks wait."""
        waiters, tail.waiters = tail.waiters, []
        made = self._by_partition[tail.tp] = replace(tail, position=position, waiters=waiters)
        self._interrupt()
        return made

    def remove(self, tails: Iterable[Tail]) -> None:
        """Stop reading for these tails. Tasks that still wait for them get `StartAfresh`.

        A tail that another has replaced is no longer read, and the other stays.
        """
        self._remove(tails, "the table is no longer read")

    def _remove(self, tails: Iterable[Tail], why: str) -> None:
        for tail in tails:
            if self._by_partition.get(tail.tp) is tail:
                del self._by_partition[tail.tp]
                self._interrupt()
                for _, waiter in tail.waiters:
                    if not waiter.done():
                        waiter.set_exception(StartAfresh(why))
                tail.waiters.clear()

    async def reached(self, tail: Tail, offset: int) -> None:
        """Wait until everything below an offset has been passed to the tail's sink.

        Raises:
            StartAfresh: the tail was removed in the meantime.
        """
        await self.reached_all({tail: offset})

    async def reached_all(self, offsets: Mapping[Tail, int]) -> None:
        """Wait until everything below each tail's offset has been passed to its sink.

        Raises:
            StartAfresh: a tail was removed in the meantime.
        """
        missing = [
            (tail, offset)
            for tail, offset in offsets.items()
            if tail.position < offset and await self._passed(tail) < offset
        ]
        waiters = [self._waiter(tail, offset) for tail, offset in missing]
        if waiters:
            await asyncio.gather(*waiters)

    def _waiter(self, tail: Tail, offset: int) -> asyncio.Future[None]:
        """Return a future that is done when the tail has reached an offset."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if self._by_partition.get(tail.tp) is tail:
            tail.waiters.append((offset, waiter))
            self._interrupt()
        else:
            waiter.set_exception(StartAfresh("the table is no longer read"))
        return waiter

    def _interrupt(self) -> None:
        """Interrupt the wait for records, because the set of partitions to read has changed."""
        self._changed.set()
        if self._interrupted is not None and not self._interrupted.done():
            self._interrupted.set_result(None)

    async def _run(self) -> None:
        while True:
            if not self._wanted():
                self._changed.clear()
                await self._changed.wait()
                continue
            consumer = clients.table_consumer(self._settings, client_id=self._client_id)
            try:
                await consumer.start()
                self._consumer = consumer
                await self._read(consumer)
            except KafkaError as error:
                log.warning("tables.reader_failed", client=self._client_id, error=describe(error, self._settings))
            except asyncio.CancelledError:
                task = asyncio.current_task()
                if task is None or task.cancelling():
                    raise
                # This task was not cancelled: the client has cancelled the request that was waited for.
                log.warning("tables.reader_failed", client=self._client_id, error="the client cancelled a request")
            except Exception:
                # The positions are kept after any error, and a new consumer continues from them.
                log.exception("tables.reader_failed", client=self._client_id)
            finally:
                self._consumer = self._polled = None
                await self._give_up(consumer)
            await asyncio.sleep(_BACKOFF)

    @staticmethod
    async def _give_up(consumer: AIOKafkaConsumer) -> None:
        try:
            await consumer.stop()
        except Exception as error:  # noqa: BLE001 - the consumer has failed, and may fail again in the same way
            log.debug("tables.reader_not_stopped", error=repr(error))
            with contextlib.suppress(Exception):  # its connections at least
                await consumer._client.close()  # noqa: SLF001 - a fetcher that has failed makes `stop` fail

    def _wanted(self) -> dict[TopicPartition, Tail]:
        return {tp: tail for tp, tail in self._by_partition.items() if not tail.done}

    async def _read(self, consumer: AIOKafkaConsumer) -> None:
        reading = self._reading = {}
        idle = self._idle = set()
        while True:
            if has_ended(consumer):
                raise KafkaError("the consumer has stopped fetching")
            self._changed.clear()
            wanted = self._wanted()
            if any(reading.get(tp) is not tail for tp, tail in wanted.items()):
                # A new assignment interrupts all fetches, and the broker still answers them, one after the other. So
                # the partitions of a worker that starts are assigned together, including those only announced.
                await self._pause_for_others()
                reading, idle = dict(self._by_partition), set()
                self._reading, self._idle = reading, idle
                consumer.assign(list(reading))
                for tp, tail in reading.items():
                    consumer.seek(tp, tail.position)
            self._pause_idle(consumer, reading, idle)
            if not wanted:
                await self._changed.wait()
                continue
            batches = await self._poll(consumer)
            for tp, records in batches.items():
                tail = reading[tp]
                if self._by_partition.get(tp) is tail and not tail.done:
                    self._take(tail, records)
            self._polled = None
            # This is done before any waiter is woken. The consumer has dropped the records that were fetched beyond a
            # limit. A tail whose limit is moved must be paused, so that the consumer seeks back.
            self._pause_idle(consumer, reading, idle)
            for tp, tail in reading.items():
                if self._by_partition.get(tp) is tail and not tail.done and (tail.waiters or tail.limit is not None):
                    # After a transaction's markers there are no records, only a position.
                    tail.position = max(tail.position, await consumer.position(tp))
                self._wake(tail)
            await asyncio.sleep(0)

    async def _pause_for_others(self) -> None:
        """Wait a moment for other partitions that are about to be added."""
        for _ in range(_QUIET_TIMES):
            known = len(self._by_partition)
            await asyncio.sleep(_QUIET_SECONDS)
            if len(self._by_partition) == known:
                return

    def _pause_idle(
        self, consumer: AIOKafkaConsumer, reading: dict[TopicPartition, Tail], idle: set[TopicPartition]
    ) -> None:
        """Fetch the partitions that are wanted now, and pause all others that are assigned."""
        for tp, tail in reading.items():
            if self._by_partition.get(tp) is not tail or tail.done:
                if tp not in idle:
                    consumer.pause(tp)
                    idle.add(tp)
            elif tp in idle:
                consumer.seek(tp, tail.position)
                consumer.resume(tp)
                idle.discard(tp)

    async def _poll(self, consumer: AIOKafkaConsumer) -> dict[TopicPartition, list[Any]]:
        """Return records, or nothing when a position or the set of partitions has changed, or after a while."""
        polled = self._polled = asyncio.ensure_future(consumer.getmany(timeout_ms=_POLL_MS, max_records=_CHUNK))
        changed = self._interrupted = asyncio.get_running_loop().create_future()
        if self._changed.is_set():
            changed.set_result(None)
        try:
            await asyncio.wait((polled, changed), return_when=asyncio.FIRST_COMPLETED)
            if polled.done():
                return dict(polled.result())
            # The request still waits for records and has taken none, so none are lost.
            polled.cancel()
            await asyncio.wait((polled,))  # ends with an error only if this task itself is cancelled
            return {}
        finally:
            self._interrupted = None
            if not polled.done():
                polled.cancel()

    def _take(self, tail: Tail, records: list[Any]) -> None:
        wanted = records
        if wanted[0].offset < tail.position:
            wanted = [record for record in records if record.offset >= tail.position]
        if tail.limit is not None and wanted and wanted[-1].offset >= tail.limit:
            wanted = [record for record in wanted if record.offset < tail.limit]
            tail.position = tail.limit
        if wanted:
            try:
                tail.sink(wanted)
            except Exception as error:
                log.exception("tables.sink_failed", client=self._client_id, topic=tail.tp.topic, partition=tail.tp[1])
                self._remove([tail], f"records of {tail.tp.topic} could not be processed: {error!r}")
                if tail.on_failure is not None:
                    tail.on_failure(error)
                return
            tail.position = max(tail.position, wanted[-1].offset + 1)

    @staticmethod
    def _wake(tail: Tail) -> None:
        if not tail.waiters:
            return
        still = []
        for offset, waiter in tail.waiters:
            if tail.position >= offset:
                if not waiter.done():
                    waiter.set_result(None)
            elif not waiter.done():
                still.append((offset, waiter))
        tail.waiters = still


def has_ended(consumer: AIOKafkaConsumer) -> bool:
    """Return whether the fetching task has ended. The consumer then waits forever and raises nothing."""
    fetcher = consumer._fetcher  # noqa: SLF001 - aiokafka has no public way to find out
    return fetcher is not None and bool(fetcher.error_future.done())
