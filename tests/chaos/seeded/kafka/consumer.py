"""The consumer: positions, fetches and group membership as aiokafka's `AIOKafkaConsumer` shows them."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from aiokafka import TopicPartition
from aiokafka.abc import ConsumerRebalanceListener
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.errors import (
    CommitFailedError,
    ConsumerStoppedError,
    IllegalGenerationError,
    IllegalOperation,
    IllegalStateError,
    KafkaConnectionError,
    KafkaError,
    KafkaTimeoutError,
    OffsetOutOfRangeError,
    RebalanceInProgressError,
    UnknownMemberIdError,
)
from aiokafka.structs import OffsetAndMetadata
from tests.chaos.seeded.kafka.cluster import LATER, Client, Cluster, Request
from tests.chaos.seeded.kafka.groups import GroupState, Member
from tests.chaos.seeded.kafka.log import Record
from tests.chaos.seeded.kafka.loop import Process

log = logging.getLogger(__name__)

_RETRY = 0.1  # seconds before a failed join is tried again


class _Partition:
    """What a consumer knows of an assigned partition."""

    __slots__ = ("buffer", "highwater", "lso", "next", "paused", "position", "waiters")

    def __init__(self) -> None:
        self.position: int | None = None
        self.paused = False
        self.buffer: list[Record] | None = None
        """What was fetched and not given out."""

        self.next = 0
        """The position after the buffer."""

        self.highwater: int | None = None
        self.lso: int | None = None
        self.waiters: list[asyncio.Future[None]] = []


class SimConsumer(Client):
    """A consumer, with or without a group."""

    def __init__(
        self,
        cluster: Cluster,
        process: Process,
        *topics: str,
        client_id: str = "aiokafka",
        group_id: str | None = None,
        isolation_level: str = "read_uncommitted",
        auto_offset_reset: str = "latest",
        session_timeout_ms: int = 10_000,
        heartbeat_interval_ms: int = 3_000,
        rebalance_timeout_ms: int | None = None,
        max_poll_records: int | None = None,
        partition_assignment_strategy: Sequence[Any] = (RangePartitionAssignor,),
        **_ignored: Any,
    ) -> None:
        super().__init__(cluster, process, client_id)
        self.heartbeat_interval = heartbeat_interval_ms / 1000
        self._group = group_id
        self._committed_only = isolation_level == "read_committed"
        self._reset = auto_offset_reset
        self._session = session_timeout_ms / 1000
        self._rebalance = (session_timeout_ms if rebalance_timeout_ms is None else rebalance_timeout_ms) / 1000
        self._max_records = max_poll_records
        self.assignors = tuple(partition_assignment_strategy)
        self._topics: frozenset[str] = frozenset(topics)
        self._listener: ConsumerRebalanceListener | None = None
        self._manual = False
        self._assigned: dict[TopicPartition, _Partition] | None = None
        self._started = False
        self._closed = False
        self._fetcher: Any = None
        """Where aiokafka would tell that its fetching task has ended: here it never does."""

        self.deaf = False
        """Set to let it fetch nothing more, without a word, as when aiokafka's fetch task has ended."""

        self._ready: dict[TopicPartition, None] = {}
        self._buffered: dict[TopicPartition, None] = {}
        self._scheduled = False
        self._resolving = False
        self._waiter: asyncio.Future[None] | None = None
        self._moved = False
        """Whether a position has moved without a record since `getmany` last returned."""

        self.member_id = ""
        self.generation = -1
        self._reassigning = False
        self._assignment_waiters: list[asyncio.Future[None]] = []
        self._rejoin = asyncio.Event()
        self._beating = False
        self._task: asyncio.Task[None] | None = None
        self._error: BaseException | None = None

    # Life.

    async def start(self) -> None:
        """Connect.

        Raises:
            KafkaConnectionError: no broker answers.
        """
        await self.ask(lambda _: None, error=KafkaConnectionError)
        self._started = True
        self.cluster.consumers[self] = None
        if self._topics and not self._manual:
            self._join_group()
            if self._group is not None:
                await self._next_assignment()
        elif self._assigned:
            self._resolve_soon()

    async def stop(self) -> None:
        """Leave the group and close."""
        if self._closed:
            return
        self._closed = True
        self._wake()
        self._rejoin.set()
        if self._task is not None:
            await asyncio.shield(self._task)
        if self.member_id:
            member, self.member_id = self.member_id, ""
            group = self._group or ""
            try:
                await self.ask(lambda _: self.cluster.groups.leave(group, member), error=KafkaConnectionError)
            except KafkaError as error:
                log.debug("leave failed: %r", error)
        self._close()

    def _close(self) -> None:
        self.gone = True
        self.cluster.consumers.pop(self, None)
        self.cluster.groups.silent(self)

    # What it reads.

    def subscribe(
        self, topics: Iterable[str] = (), pattern: str | None = None, listener: ConsumerRebalanceListener | None = None
    ) -> None:
        """Read topics, as a member of the group, or all of them without one."""
        if pattern is not None:
            raise NotImplementedError("patterns are not simulated")
        if self._manual:
            raise IllegalStateError("Subscription to topics, partitions and pattern are mutually exclusive")
        self._topics, self._listener = frozenset(topics), listener
        if self._started:
            self._join_group()

    def _join_group(self) -> None:
        if self._group is None:
            self._set_assignment(
                TopicPartition(topic, partition)
                for topic in sorted(self._topics)
                for partition in range(self.cluster.topics.get(topic, 0))
            )
        elif self._task is None:
            self._reassigning = True
            self._task = self.loop.create_task(self._coordinate(), name=f"{self.client_id}-coordination")
        else:
            self._rejoin.set()

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read these partitions and no others."""
        if self._topics:
            raise IllegalStateError("Subscription to topics, partitions and pattern are mutually exclusive")
        self._manual = True
        self._set_assignment(partitions)

    def assignment(self) -> set[TopicPartition]:
        """The partitions that it reads."""
        return set(self._assigned or ())

    def subscription(self) -> frozenset[str]:
        """The topics that it reads."""
        return self._topics

    def partitions_for_topic(self, topic: str) -> set[int] | None:
        """The partitions of a topic; None when there is no such topic."""
        count = self.cluster.topics.get(topic)
        return None if count is None else set(range(count))

    def _set_assignment(self, partitions: Iterable[TopicPartition]) -> None:
        for state in (self._assigned or {}).values():
            _finish_all(state.waiters)
        self._assigned = {tp: _Partition() for tp in partitions}
        self._ready.clear()
        self._buffered.clear()
        if self._started:
            self._resolve_soon()

    def _state(self, tp: TopicPartition) -> _Partition:
        assert self._assigned is not None
        state = self._assigned.get(tp)
        if state is None:
            raise IllegalStateError(f"No current assignment for partition {tp}")
        return state

    def pause(self, *partitions: TopicPartition) -> None:
        """Fetch nothing of these partitions."""
        for tp in partitions:
            self._state(tp).paused = True

    def resume(self, *partitions: TopicPartition) -> None:
        """Fetch them again."""
        for tp in partitions:
            state = self._state(tp)
            state.paused = False
            self._want(tp, state)

    def paused(self) -> set[TopicPartition]:
        """The assigned partitions that are paused."""
        return {tp for tp, state in (self._assigned or {}).items() if state.paused}

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Go on from an offset."""
        if offset < 0:
            raise ValueError("Offset must be a positive integer")
        state = self._state(partition)
        state.buffer = None
        self._buffered.pop(partition, None)
        self._place(partition, state, offset)

    async def seek_to_beginning(self, *partitions: TopicPartition) -> bool:
        """Go on from the first offset."""
        await self._seek_to(partitions, "earliest")
        return True

    async def seek_to_end(self, *partitions: TopicPartition) -> bool:
        """Go on from the end, as the isolation level has it."""
        await self._seek_to(partitions, "latest")
        return True

    async def _seek_to(self, partitions: Iterable[TopicPartition], where: str) -> None:
        wanted = list(partitions) or list(self._assigned or ())
        for tp in wanted:
            self._state(tp)
        found = await self.ask(lambda _: {tp: self._end(tp, where) for tp in wanted})
        for tp, offset in found.items():
            self.seek(tp, offset)

    def _end(self, tp: TopicPartition, where: str) -> int:
        found = self.cluster.log(tp)
        return found.start if where == "earliest" else found.limit(committed_only=self._committed_only)

    # Positions.

    async def position(self, partition: TopicPartition) -> int:
        """The offset of the next record that it will give out, or of a marker before it."""
        while True:
            state = (self._assigned or {}).get(partition)
            if state is None:
                raise IllegalStateError(f"Partition {partition} is not assigned")
            if state.position is not None:
                return state.position
            self._check_errors()
            waiter: asyncio.Future[None] = self.loop.create_future()
            state.waiters.append(waiter)
            await waiter

    def highwater(self, partition: TopicPartition) -> int | None:
        """The high watermark, as of the last fetch."""
        assert partition in (self._assigned or ()), "Partition is not assigned"
        return self._state(partition).highwater

    def last_stable_offset(self, partition: TopicPartition) -> int | None:
        """The last stable offset, as of the last fetch; -1 for a reader of uncommitted records."""
        assert partition in (self._assigned or ()), "Partition is not assigned"
        state = self._state(partition)
        return state.lso if self._committed_only or state.lso is None else -1

    async def beginning_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The first offset of each partition."""
        return await self._ends(partitions, "earliest")

    async def end_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Where each partition ends: its last stable offset for a reader of committed records, else its end."""
        return await self._ends(partitions, "latest")

    async def _ends(self, partitions: Iterable[TopicPartition], where: str) -> dict[TopicPartition, int]:
        wanted = list(partitions)
        if not wanted:
            return {}
        found: dict[TopicPartition, int] = await self.ask(
            lambda _: {tp: self._end(tp, where) for tp in wanted}, error=KafkaTimeoutError
        )
        return found

    async def committed(self, partition: TopicPartition) -> int | None:
        """The group's committed offset; None where there is none."""
        group = self._needs_group()
        found: int | None = await self.ask(lambda _: self.cluster.groups.group(group).committed.get(partition))
        return found

    async def commit(self, offsets: Mapping[TopicPartition, Any] | None = None) -> None:
        """Commit offsets, all positions without an argument.

        Raises:
            CommitFailedError: the group has gone on without this member.
        """
        group = self._needs_group()
        if offsets is None:
            given = {tp: state.position for tp, state in (self._assigned or {}).items() if state.position is not None}
        else:
            given = plain_offsets(offsets)
        try:
            await self.ask(lambda _: self.cluster.groups.commit(group, self.member_id, self.generation, given))
        except (UnknownMemberIdError, IllegalGenerationError, RebalanceInProgressError) as error:
            raise CommitFailedError(repr(error)) from error

    def _needs_group(self) -> str:
        if self._group is None:
            raise IllegalOperation("Requires group_id")
        return self._group

    def _place(self, tp: TopicPartition, state: _Partition, offset: int) -> None:
        state.position = offset
        _finish_all(state.waiters)
        self._want(tp, state)

    def _resolve_soon(self) -> None:
        if not self._resolving:
            self._resolving = True
            self.loop.call_soon(self._resolve)

    def _resolve(self) -> None:
        """Ask where to begin what nobody has sought."""
        self._resolving = False
        assigned = self._assigned or {}
        wanted = [tp for tp, state in assigned.items() if state.position is None]
        if not wanted or self.gone or self.cluster.closed:
            return

        def find(_: Request) -> dict[TopicPartition, int]:
            committed = {} if self._group is None else self.cluster.groups.group(self._group).committed
            return {tp: committed[tp] if tp in committed else self._end(tp, self._reset) for tp in wanted}

        def found(offsets: dict[TopicPartition, int], problem: BaseException | None) -> None:
            if problem is not None:
                self.loop.call_later(_RETRY, self._resolve)
            elif self._assigned is assigned:
                for tp, offset in offsets.items():
                    if assigned[tp].position is None:
                        self._place(tp, assigned[tp], offset)
                self._moved = True
                self._wake()

        self.cluster.send(self, find, found)

    # Fetching.

    def _want(self, tp: TopicPartition, state: _Partition) -> None:
        """A partition may be fetched from now on, if nothing speaks against it."""
        if state.paused or state.position is None or state.buffer is not None or not self._started:
            return
        found = self.cluster.logs.get(tp)
        if found is None:
            return
        if found.limit(committed_only=self._committed_only) != state.position:
            self._ready[tp] = None
            self._schedule()
        else:
            found.watchers[self] = None

    def more(self, tp: TopicPartition) -> None:
        """A partition has more than it had; called by the broker, once for each time that it was watched."""
        state = None if self._assigned is None else self._assigned.get(tp)
        if state is not None and not self.gone:
            self._want(tp, state)

    def reach(self) -> None:
        """The broker can be reached again."""
        if self._ready:
            self._schedule()

    def _schedule(self, span: tuple[float, float] | None = None) -> None:
        if not self._scheduled and not self.gone:
            self._scheduled = True
            cluster = self.cluster
            delay = cluster.draw(span or cluster.faults.fetch)
            self.loop.call_later(delay, self._fetched, context=self.context)

    def _fetched(self) -> None:
        """The answer of a fetch: some or all of what there is, in any order of partitions."""
        self._scheduled = False
        cluster, assigned = self.cluster, self._assigned
        if self.gone or self.deaf or assigned is None or not cluster.reaches(self.process):
            return
        rng, faults = cluster.rng, cluster.faults
        ready = list(self._ready)
        if len(ready) > 1:
            rng.shuffle(ready)
        for tp in ready:
            state = assigned.get(tp)
            if state is None or state.paused or state.position is None or state.buffer is not None:
                del self._ready[tp]
                continue
            if faults.fetch_slow and rng.random() < faults.fetch_slow:
                continue
            del self._ready[tp]
            self._take(tp, state, state.position)
        if self._ready:
            self._schedule(faults.fetch_slow_seconds)
        if self._buffered:
            self._wake()

    def _take(self, tp: TopicPartition, state: _Partition, position: int) -> None:
        found = self.cluster.logs[tp]
        if not found.start <= position <= found.end:
            if self._reset == "none":
                self._error = OffsetOutOfRangeError({tp: position})
                self._wake()
                return
            state.position = self._end(tp, self._reset)
            self._want(tp, state)
            self._moved = True
            self._wake()
            return
        state.highwater, state.lso = found.end, found.stable
        records, after = found.read(position, committed_only=self._committed_only, limit=self.cluster.fetch_limit())
        if after == position:
            found.watchers[self] = None
        else:
            state.buffer, state.next = records, after
            self._buffered[tp] = None

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def getmany(
        self, *partitions: TopicPartition, timeout_ms: int = 0, max_records: int | None = None
    ) -> dict[TopicPartition, list[Record]]:
        """Records that were fetched; waits for some, or for a position that moves, for as long as it may."""
        if self._closed:
            raise ConsumerStoppedError
        limit = max_records or self._max_records
        timeout = timeout_ms / 1000
        loop = self.loop
        until = loop.time() + max(timeout, self.cluster.idle_poll)
        while True:
            self._check_errors()
            if self._reassigning:
                await self._next_assignment()
            drained = self._drain(partitions, limit)
            moved, self._moved = self._moved, False
            if drained or moved or not timeout or loop.time() >= until or self._closed:
                return drained
            self._waiter = waiter = loop.create_future()
            timer = loop.call_at(until, _finish, waiter)
            try:
                await waiter
            finally:
                timer.cancel()

    async def getone(self, *partitions: TopicPartition) -> Record:
        """The next record."""
        while True:
            for records in (await self.getmany(*partitions, timeout_ms=60_000, max_records=1)).values():
                return records[0]
            if self._closed:
                raise ConsumerStoppedError

    def __aiter__(self) -> SimConsumer:
        if self._closed:
            raise ConsumerStoppedError
        return self

    async def __anext__(self) -> Record:
        try:
            return await self.getone()
        except ConsumerStoppedError:
            raise StopAsyncIteration from None

    def _drain(self, partitions: tuple[TopicPartition, ...], limit: int | None) -> dict[TopicPartition, list[Record]]:
        drained: dict[TopicPartition, list[Record]] = {}
        if not self._buffered:
            return drained
        left = 1 << 62 if limit is None else limit
        for tp in list(self._buffered):
            if partitions and tp not in partitions:
                continue
            state = (self._assigned or {}).get(tp)
            if state is None or state.buffer is None or state.paused:
                # What was fetched before it was paused is fetched again afterwards.
                del self._buffered[tp]
                if state is not None:
                    state.buffer = None
                continue
            records = state.buffer
            self._moved = True
            if len(records) > left:
                drained[tp], state.buffer = records[:left], records[left:]
                state.position = drained[tp][-1].offset + 1
                break
            if len(records) == left and records:
                # As aiokafka: the rest, if it is only markers, is gone through with the next call.
                drained[tp], state.buffer = records, []
                state.position = records[-1].offset + 1
                break
            state.position, state.buffer = state.next, None
            del self._buffered[tp]
            self._want(tp, state)
            if records:
                drained[tp] = records
                left -= len(records)
        return drained

    # The group.

    async def _next_assignment(self) -> None:
        waiter: asyncio.Future[None] = self.loop.create_future()
        self._assignment_waiters.append(waiter)
        await waiter

    def _check_errors(self) -> None:
        if self._error is not None:
            error, self._error = self._error, None
            raise error
        if self._task is not None and self._task.done() and not self._closed:
            self._task.result()

    @property
    def _coordinator(self) -> SimConsumer:
        """What aiokafka's consumer has as a part is one with it here."""
        return self

    def request_rejoin(self) -> None:
        """Join the group again."""
        self._rejoin.set()

    def heartbeat(self) -> None:
        """Something happened that the answer to the next heartbeat will tell."""
        if self._group is not None and self.member_id and not self._beating and not self.gone:
            self._beating = True
            delay = self.heartbeat_interval * self.cluster.rng.random()
            self.loop.call_later(delay, self._beat, context=self.context)

    def _beat(self) -> None:
        self._beating = False
        if self.gone or not self.member_id or self._group is None or not self.cluster.reaches(self.process):
            return
        group = self.cluster.groups.group(self._group)
        member = group.members.get(self.member_id)
        if member is None or member.owner is not self:
            self.member_id, self.generation = "", -1
            self._rejoin.set()
        elif group.state is GroupState.PREPARING and member.joining is None:
            self._rejoin.set()

    async def _coordinate(self) -> None:
        """Join, and join again whenever the group rebalances."""
        while not self._is_closed():
            self._reassigning = True
            await self._tell_listener("on_partitions_revoked", set(self._assigned or ()))
            assignment: list[TopicPartition] | None = None
            while not self._is_closed():
                self._rejoin.clear()
                assignment = await self._join()
                if assignment is not None:
                    break
                await asyncio.sleep(_RETRY)
            if assignment is None:
                return
            self._set_assignment(assignment)
            self._reassigning = False
            _finish_all(self._assignment_waiters)
            began = self.loop.time()
            await self._tell_listener("on_partitions_assigned", set(assignment))
            if self.loop.time() - began > self._session:
                # No heartbeat is sent while the listener is at work.
                self.cluster.groups.leave(self._group or "", self.member_id)
            self._beat()
            await self._rejoin.wait()

    def _is_closed(self) -> bool:
        return self._closed

    async def _join(self) -> list[TopicPartition] | None:
        name = self._group or ""
        asked = Member("", self, self._topics, self._session, self._rebalance)
        asked.protocols = {one.name: one.metadata(self._topics) for one in self.assignors}
        known = self.member_id

        def join(request: Request) -> Any:
            self.cluster.groups.join(name, request, known, asked)
            return LATER

        try:
            self.member_id, self.generation, given = await self.ask(join)
        except UnknownMemberIdError:
            self.member_id, self.generation = "", -1
            return None
        except RebalanceInProgressError:
            return None
        if given is None:
            return None
        protocol, assignment = given
        next(one for one in self.assignors if one.name == protocol).on_assignment(assignment)
        found: list[TopicPartition] = assignment.partitions()
        return found

    async def _tell_listener(self, what: str, partitions: set[TopicPartition]) -> None:
        if self._listener is None:
            return
        told: Callable[[set[TopicPartition]], Any] = getattr(self._listener, what)
        try:
            result = told(partitions)
            if inspect.isawaitable(result):
                await result
        except Exception:
            log.exception("%s failed", what)  # and is forgotten, as in aiokafka


def plain_offsets(offsets: Mapping[TopicPartition, Any]) -> dict[TopicPartition, int]:
    """Offsets as numbers, whether they came with metadata or not."""
    return {
        tp: given.offset if isinstance(given, OffsetAndMetadata) else given[0] if isinstance(given, tuple) else given
        for tp, given in offsets.items()
    }


def _finish(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


def _finish_all(waiters: list[asyncio.Future[None]]) -> None:
    for waiter in waiters:
        _finish(waiter)
    waiters.clear()
