"""The producer, with and without transactions, as aiokafka's `AIOKafkaProducer` shows it."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import Any, NamedTuple, Self

from aiokafka import TopicPartition
from aiokafka.errors import (
    IllegalOperation,
    KafkaConnectionError,
    KafkaError,
    MessageSizeTooLargeError,
    ProducerClosed,
    ProducerFenced,
    UnknownError,
)
from aiokafka.structs import RecordMetadata
from tests.chaos.seeded.kafka.cluster import LATER, Client, Cluster, Request
from tests.chaos.seeded.kafka.consumer import plain_offsets
from tests.chaos.seeded.kafka.loop import START_SECONDS, Process

from moorage.runtime.kafka.clients.record_batch import RecordBatch
from moorage_schemas.topics import murmur2

Header = tuple[str, bytes]

_OVERHEAD = 24  # bytes of a record beside what is in it, about
_DEFAULT_MAX = 1_048_588


class _Row(NamedTuple):
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...]
    timestamp: int


class SimBatch:
    """A batch that its caller fills."""

    def __init__(self, limit: int, now_ms: Callable[[], int]) -> None:
        self.rows: list[_Row] = []
        self.size = 0
        self._limit = limit
        self._now_ms = now_ms
        self._closed = False

    def append(
        self, *, timestamp: int | None, key: bytes | None, value: bytes | None, headers: Sequence[Header] = ()
    ) -> object | None:
        """Add a record; None when the batch is full or closed. An empty one takes a record of any size."""
        size = _OVERHEAD + len(key or b"") + len(value or b"") + sum(len(n) + len(v or b"") + 2 for n, v in headers)
        if self._closed or (self.rows and self.size + size > self._limit):
            self._closed = True
            return None
        self.size += size
        self.rows.append(_Row(key, value, tuple(headers), self._now_ms() if timestamp is None else timestamp))
        return self

    def close(self) -> None:
        """Take no more."""
        self._closed = True

    def record_count(self) -> int:
        """How many records it has."""
        return len(self.rows)


class _Sent(NamedTuple):
    tp: TopicPartition
    rows: list[_Row]
    size: int
    future: asyncio.Future[RecordMetadata]


class _State(Enum):
    UNINITIALIZED = 1
    READY = 2
    IN_TRANSACTION = 3
    COMMITTING = 4
    ABORTING = 5
    FATAL = 6


class _Underlying:
    """What `producer.client` is used for: to be closed."""

    def __init__(self, producer: SimProducer) -> None:
        self._producer = producer

    async def close(self) -> None:
        """Send and hear nothing more."""
        self._producer.gone = True


class SimProducer(Client):
    """A producer. Its requests go one after the other, as far as a transaction demands."""

    def __init__(
        self,
        cluster: Cluster,
        process: Process,
        *,
        client_id: str = "aiokafka-producer",
        transactional_id: str | None = None,
        transaction_timeout_ms: int = 60_000,
        enable_idempotence: bool = False,
        max_batch_size: int = 16_384,
        max_request_size: int = 1_048_576,
        **_ignored: Any,
    ) -> None:
        super().__init__(cluster, process, client_id)
        self.client = _Underlying(self)
        self._id = transactional_id
        self._timeout = transaction_timeout_ms / 1000
        self._idempotent = enable_idempotence or transactional_id is not None
        self._max_batch, self._max_request = max_batch_size, max_request_size
        self._pid, self._epoch = -1, -1
        self._since = 0.0
        self._state = _State.UNINITIALIZED
        self._closed = False
        self._touched = False
        self._pending: list[_Sent] = []
        self._flushing = False
        self._queue: deque[tuple[Callable[[Request], Any], Callable[[Any, BaseException | None], None]]] = deque()
        self._busy = False
        self._straying = 0
        self._fatal: BaseException | None = None
        self._idle: list[asyncio.Future[None]] = []

    # Life.

    async def start(self) -> None:
        """Connect; with a transactional id, fence every earlier producer of it.

        Raises:
            KafkaConnectionError: no broker answers.
        """
        if self._id is None:
            await self.ask(lambda _: None, error=KafkaConnectionError)
            self._pid = self.cluster.new_id() if self._idempotent else -1
            return
        id_, transactions = self._id, self.cluster.transactions

        def init(request: Request) -> Any:
            # From here on it only waits.
            request.refusable = None
            transactions.init(id_, self._timeout, lambda *given: self.cluster.answer(request, given))
            return LATER

        self._pid, self._epoch = await self.ask(init, error=KafkaConnectionError)
        self._since = self.cluster.loop.time()
        self._state = _State.READY

    async def stop(self) -> None:
        """Wait for what is on its way, and close."""
        if self._closed:
            return
        self._closed = True
        await self._settled()
        self.gone = True

    async def flush(self) -> None:
        """Wait until everything is delivered."""
        await self._settled()

    async def _settled(self) -> None:
        while self._fatal is None and (self._busy or self._pending or self._queue or self._straying):
            waiter: asyncio.Future[None] = self.loop.create_future()
            self._idle.append(waiter)
            await waiter

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    # Records.

    def create_batch(self) -> SimBatch:
        """An empty batch."""
        return SimBatch(self._max_batch, self.process.clock.milliseconds)

    async def send_batch(
        self, batch: SimBatch | RecordBatch, topic: str, *, partition: int
    ) -> asyncio.Future[RecordMetadata]:
        """Send a batch; the future is done when it is delivered."""
        self._check_sending()
        assert 0 <= partition < self.cluster.topics[topic], "Unrecognized partition"
        if isinstance(batch, RecordBatch):
            now = self.process.clock.milliseconds()
            rows = [_Row(one.key, one.value, tuple(one.headers), now) for one in batch.records]
            return self._add(TopicPartition(topic, partition), rows, batch.size())
        return self._add(TopicPartition(topic, partition), batch.rows, batch.size)

    async def send(  # noqa: PLR0917 - as in aiokafka
        self,
        topic: str,
        value: bytes | None = None,
        key: bytes | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: Sequence[Header] | None = None,
    ) -> asyncio.Future[RecordMetadata]:
        """Send a record; the future is done when it is delivered."""
        assert not (value is None and key is None), "Need at least one: key or value"
        self._check_sending()
        count = self.cluster.topics[topic]
        if partition is None:
            partition = (murmur2(key) & 0x7FFFFFFF) % count if key is not None else self.cluster.rng.randrange(count)
        assert 0 <= partition < count, "Unrecognized partition"
        batch = self.create_batch()
        batch.append(timestamp=timestamp_ms, key=key, value=value, headers=headers or ())
        if batch.size > self._max_request:
            raise MessageSizeTooLargeError(f"The message is {batch.size} bytes when serialized")
        return self._add(TopicPartition(topic, partition), batch.rows, batch.size)

    async def send_and_wait(self, topic: str, *args: Any, **options: Any) -> RecordMetadata:
        """Send a record and wait until it is delivered."""
        return await (await self.send(topic, *args, **options))

    def _check_sending(self) -> None:
        if self._closed:
            raise ProducerClosed
        if self._fatal is not None:
            raise self._fatal
        if self._id is not None and self._state is not _State.IN_TRANSACTION:
            raise IllegalOperation("Can't send messages while not in transaction")

    def _add(self, tp: TopicPartition, rows: list[_Row], size: int) -> asyncio.Future[RecordMetadata]:
        future: asyncio.Future[RecordMetadata] = self.loop.create_future()
        self._pending.append(_Sent(tp, rows, size, future))
        self._touched = True
        if not self._flushing:
            self._flushing = True
            self.loop.call_soon(self._flush)
        return future

    def _flush(self) -> None:
        """Send what has gathered."""
        self._flushing = False
        sent, self._pending = self._pending, []
        if not sent:
            return
        if self._fatal is not None:
            _fail(sent, self._fatal)
            return
        if self._id is None:
            self._enqueue(lambda _: self._write_plain(sent), lambda r, p: self._delivered(sent, r, p))
            return
        cluster = self.cluster
        straggling: list[_Sent] = []
        if cluster.rng.random() < cluster.faults.straggling:
            straggling = [one for one in sent if cluster.rng.random() < 0.5]
        first = [one for one in sent if one not in straggling]

        def added(result: Any, problem: BaseException | None) -> None:
            self._delivered(first, result, problem)
            if problem is not None:
                _fail(straggling, problem)
            else:
                for one in straggling:
                    self._stray(one)

        self._enqueue(lambda request: self._write(request, sent, first), added)

    def _write(self, request: Request, sent: list[_Sent], first: list[_Sent]) -> Any:
        """At the broker: add partitions to the transaction, and append what came with it."""
        transactions = self.cluster.transactions
        assert self._id is not None
        found = transactions.enter(self._id, self._epoch)
        if found is None:
            return self._once_over(request)
        transactions.begin(found)
        for one in sent:
            found.parts[one.tp] = None
        return [self._append(one) for one in first]

    def _once_over(self, request: Request) -> Any:
        """The transaction before is not over: the client asks again, until it is."""
        assert self._id is not None
        cluster = self.cluster

        def again() -> None:
            cluster.arrive_again(request)

        cluster.transactions.by_id[self._id].waiters.append(again)
        return LATER

    def _stray(self, one: _Sent) -> None:
        """A batch of the transaction that goes to another broker, and takes longer."""
        cluster = self.cluster
        self._straying += 1

        def write(_: Request) -> Any:
            assert self._id is not None
            cluster.transactions.writable(self._id, self._epoch, one.tp)
            return [self._append(one)]

        def done(result: Any, problem: BaseException | None) -> None:
            self._straying -= 1
            self._delivered([one], result, problem)
            self._next()

        def go() -> None:
            if not self.gone and not cluster.closed:
                cluster.send(self, write, done)

        self.loop.call_later(cluster.draw(cluster.faults.fetch_slow_seconds), go)

    def _write_plain(self, sent: list[_Sent]) -> Any:
        cluster = self.cluster
        results = []
        for one in sent:
            results.append(self._append(one))
            if not self._idempotent and cluster.faults.duplicated and cluster.rng.random() < cluster.faults.duplicated:
                results[-1] = self._append(one)
        return results

    def _append(self, one: _Sent) -> RecordMetadata | KafkaError:
        cluster = self.cluster
        tp = one.tp
        limit = int(cluster.configs[tp.topic].get("max.message.bytes", _DEFAULT_MAX))
        if one.size > limit:
            return MessageSizeTooLargeError(tp)
        found = cluster.log(tp)
        if found.compacted and any(row.key is None for row in one.rows):
            return UnknownError(tp)  # aiokafka has no name for INVALID_RECORD
        now = cluster.loop.time()
        if tp.topic not in cluster.unheard:
            cluster.written = now
        stamp = int((START_SECONDS + now) * 1000)
        by_broker = cluster.configs[tp.topic].get("message.timestamp.type") == "LogAppendTime"
        first = found.end
        transactional = self._id is not None
        for row in one.rows:
            found.append(
                row.key,
                row.value,
                row.headers,
                stamp if by_broker else row.timestamp,
                now=now,
                pid=self._pid,
                transactional=transactional,
                since=self._since,
            )
        found.settle()
        return RecordMetadata(tp.topic, tp.partition, tp, first, stamp, int(by_broker), found.start)

    def _delivered(self, sent: list[_Sent], results: Any, problem: BaseException | None) -> None:
        if problem is not None:
            _fail(sent, problem)
            return
        for one, result in zip(sent, results, strict=True):
            if not one.future.done():
                if isinstance(result, BaseException):
                    one.future.set_exception(result)
                    one.future.exception()
                else:
                    one.future.set_result(result)

    # One request after the other.

    def _enqueue(self, op: Callable[[Request], Any], done: Callable[[Any, BaseException | None], None]) -> None:
        self._queue.append((op, done))
        self._next()

    def _next(self) -> None:
        if self._busy or self._fatal is not None:
            return
        if not self._queue:
            if not self._pending and not self._straying:
                idle, self._idle = self._idle, []
                for waiter in idle:
                    if not waiter.done():
                        waiter.set_result(None)
            return
        if self.gone or self.cluster.closed:
            return
        op, done = self._queue.popleft()
        self._busy = True

        def finished(result: Any, problem: BaseException | None) -> None:
            self._busy = False
            if problem is not None and self._id is not None:
                self._fail_all(problem)
            done(result, problem)
            self._next()

        self.cluster.send(self, op, finished)

    def _fail_all(self, problem: BaseException) -> None:
        """The sender has ended: nothing can be done with this producer any more."""
        self._fatal = problem
        self._state = _State.FATAL
        pending, self._pending = self._pending, []
        _fail(pending, problem)
        queue, self._queue = self._queue, deque()
        for _, done in queue:
            done(None, problem)
        idle, self._idle = self._idle, []
        for waiter in idle:
            if not waiter.done():
                waiter.set_result(None)

    async def _request(self, op: Callable[[Request], Any], then: Callable[[], None] | None = None) -> Any:
        future = self.loop.create_future()

        def done(result: Any, problem: BaseException | None) -> None:
            if then is not None and problem is None:
                then()
            if future.done():
                return
            if problem is not None:
                future.set_exception(problem)
                future.exception()
            else:
                future.set_result(result)

        if self._pending:
            self._flush()
        self._enqueue(op, done)
        return await future

    # Transactions.

    async def begin_transaction(self) -> None:
        """Begin one; nobody is told yet."""
        self._transactional()
        self._go(_State.READY, to=_State.IN_TRANSACTION)
        self._touched = False

    async def send_offsets_to_transaction(self, offsets: Mapping[TopicPartition, Any], group_id: str) -> None:
        """Commit offsets of a group with the transaction."""
        id_ = self._transactional()
        if self._state is not _State.IN_TRANSACTION:
            raise IllegalOperation("Not in the middle of a transaction")
        if not group_id or not isinstance(group_id, str):
            raise ValueError(group_id)
        plain = plain_offsets(offsets)
        self._touched = True
        transactions = self.cluster.transactions

        def commit(request: Request) -> Any:
            found = transactions.enter(id_, self._epoch)
            if found is None:
                return self._once_over(request)
            transactions.offsets(found, group_id, plain)
            return None

        await self._request(commit)

    async def commit_transaction(self) -> None:
        """Commit; after an exception nothing is known."""
        await self._end(commit=True)

    async def abort_transaction(self) -> None:
        """Abort."""
        await self._end(commit=False)

    async def _end(self, *, commit: bool) -> None:
        id_ = self._transactional()
        self._go(_State.IN_TRANSACTION, to=_State.COMMITTING if commit else _State.ABORTING)
        if self._busy or self._pending or self._queue or self._straying:
            # It is ended even when its caller does not wait for that.
            ending = self.loop.create_task(self._end_settled(id_, commit=commit))
            ending.add_done_callback(_noted)
            await asyncio.shield(ending)
        else:
            await self._end_now(id_, commit=commit)

    async def _end_settled(self, id_: str, *, commit: bool) -> None:
        await self._settled()
        await self._end_now(id_, commit=commit)

    async def _end_now(self, id_: str, *, commit: bool) -> None:
        if self._fatal is not None:
            raise self._fatal
        begin = _State.COMMITTING if commit else _State.ABORTING
        if not self._touched:
            self._go(begin, to=_State.READY)
            return
        transactions = self.cluster.transactions

        def end(_: Request) -> None:
            found = transactions.by_id[id_]
            if found.epoch != self._epoch:
                raise ProducerFenced
            transactions.end(found, commit=commit)

        await self._request(end, lambda: self._go(begin, to=_State.READY))

    def transaction(self) -> _Transaction:
        """A context manager that commits, or aborts after an exception."""
        return _Transaction(self)

    def _transactional(self) -> str:
        if self._id is None:
            raise IllegalOperation("You need to configure transaction_id to use transactions")
        return self._id

    def _go(self, *begin: _State, to: _State) -> None:
        assert self._state in begin, f"Invalid state transition {self._state} -> {to}"
        self._state = to


class _Transaction:
    def __init__(self, producer: SimProducer) -> None:
        self._producer = producer

    async def __aenter__(self) -> Self:
        await self._producer.begin_transaction()
        return self

    async def __aexit__(self, kind: object, *_: object) -> None:
        if kind is not None:
            if self._producer._state is _State.IN_TRANSACTION:
                await self._producer.abort_transaction()
        else:
            await self._producer.commit_transaction()


def _noted(task: asyncio.Task[None]) -> None:
    """Its caller may have stopped to wait for it."""
    if not task.cancelled():
        task.exception()


def _fail(sent: Sequence[_Sent], problem: BaseException) -> None:
    for one in sent:
        if not one.future.done():
            one.future.set_exception(problem)
            one.future.exception()
