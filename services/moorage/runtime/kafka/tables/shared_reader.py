"""Reads the topics of all global views of a process: each record is fetched once and decoded at most once.

Views begin at different times. One that begins when others of the same topics are complete must not hold these up, so
it reads what they have read already with a consumer of its own. What comes meanwhile waits, and is given to it
afterwards, in order. Then all views get the same records.

A view that fails, or starts again, leaves the others as they are.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import structlog
from aiokafka import TopicPartition

from moorage.runtime.kafka.tables.table_reader import Sink, StalledTables, TableReader, Tail
from moorage.runtime.process.failures import StartAfresh, end_task
from moorage.runtime.service import Input, Malformed
from moorage.runtime.settings.process_settings import Settings
from moorage.runtime.wire import codec
from moorage_schemas.topics import Topic

log = structlog.get_logger(__name__)


class _Part:
    """One partition for one view."""

    def __init__(self, sink: Sink, begin: int) -> None:
        self.next = begin
        """The offset of the next record to give to the sink."""

        self.own: Tail | None = None
        """Reads the records that the shared reader had read before the view began; None once the view has them."""

        self._sink = sink
        self._waiting: list[Sequence[Any]] = []

    def take(self, records: Sequence[Any]) -> None:
        """Take records of the shared reader."""
        if self.own is not None:
            self._waiting.append(records)
            return
        if records[0].offset < self.next:
            records = [record for record in records if record.offset >= self.next]
        if records:
            self._sink(records)
            self.next = records[-1].offset + 1

    def catch_up(self, records: Sequence[Any]) -> None:
        """Take records of the view's own reader."""
        self._sink(records)
        self.next = records[-1].offset + 1

    def join(self) -> None:
        """Take what has waited. From now on, the records of the shared reader are taken at once."""
        self.own = None
        waiting, self._waiting = self._waiting, []
        for records in waiting:
            self.take(records)


class _Feed:
    """One partition for all views."""

    def __init__(self) -> None:
        self.tail: Tail
        self.parts: dict[ViewReading, _Part] = {}

    @property
    def is_needed(self) -> bool:
        """Whether decisions rest on it."""
        return any(one.is_complete for one in self.parts)


class SharedReader:
    """Reads partitions for the views of a process. It connects when the first view begins.

    Args:
        settings: the address of Kafka.
        client_id: the client's name, for Kafka's logs.
    """

    def __init__(self, settings: Settings, *, client_id: str) -> None:
        self._settings = settings
        self._client_id = client_id
        self._reader = TableReader(settings, client_id=client_id)
        self._feeds: dict[TopicPartition, _Feed] = {}
        self._decoded: dict[int, Input | Malformed] | None = None
        """The decoded ones of the records that several views take now, by offset."""

    def start(self) -> None:
        """Start reading whatever views want."""
        self._reader.start()

    def subscribe(
        self,
        places: Mapping[TopicPartition, int],
        sink: Callable[[TopicPartition], Sink],
        *,
        on_failure: Callable[[Exception], None],
    ) -> ViewReading:
        """Read partitions for a view from given offsets on.

        Args:
            places: the partitions, each with its offset.
            sink: returns the function that takes the records of a partition, in order. If it raises, the view gets no
                more.
            on_failure: called with the error of a sink.
        """
        own = TableReader(self._settings, client_id=f"{self._client_id}-beginning")
        subscription = ViewReading(self, own, on_failure)
        for tp, begin in places.items():
            subscription.parts[tp] = self._join(tp, begin, sink(tp), subscription)
        subscription.begin()
        return subscription

    def _join(self, tp: TopicPartition, begin: int, sink: Sink, subscription: ViewReading) -> _Part:
        part = _Part(sink, begin)
        feed = self._feeds.get(tp)
        if feed is None:
            feed = self._feeds[tp] = _Feed()
            feed.tail = self._reader.add(tp, begin, lambda records: self._take(tp, records))
        elif feed.tail.position > begin:
            if feed.is_needed:
                limit = feed.tail.position
                part.own = subscription.reader.add(tp, begin, part.catch_up, limit=limit, on_failure=subscription.fail)
            else:
                feed.tail = self._reader.rewind(feed.tail, begin)
        feed.parts[subscription] = part
        return part

    def unsubscribe(self, subscription: ViewReading) -> None:
        """Give a view no more records."""
        for tp in subscription.parts:
            feed = self._feeds.get(tp)
            if feed is not None and feed.parts.pop(subscription, None) is not None and not feed.parts:
                del self._feeds[tp]
                self._reader.remove([feed.tail])

    def _take(self, tp: TopicPartition, records: Sequence[Any]) -> None:
        parts = list(self._feeds[tp].parts.items())
        self._decoded = {} if len(parts) > 1 else None
        try:
            for subscription, part in parts:
                try:
                    part.take(records)
                except Exception as error:
                    log.exception("tables.sink_failed", client=self._client_id, topic=tp.topic, partition=tp.partition)
                    subscription.fail(error)
        finally:
            self._decoded = None

    def decode(self, topic: Topic, record: Any) -> Input | Malformed:
        """Return a record as a view sees it. Sinks call it."""
        if self._decoded is None:
            return codec.decode(topic, record)
        found = self._decoded.get(record.offset)
        if found is None:
            found = self._decoded[record.offset] = codec.decode(topic, record)
        return found

    @property
    def alive(self) -> bool:
        """Whether it reads."""
        return self._reader.alive

    async def position(self, tp: TopicPartition) -> int:
        """Return the offset that has been reached, including the markers after the last record."""
        return await self._reader.position(self._feeds[tp].tail)

    async def reached_all(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Wait until everything below some offsets has been given to all views.

        Raises:
            StartAfresh: a partition is no longer read.
        """
        while True:
            tails = {tp: self._feeds[tp].tail for tp in offsets}
            try:
                await self._reader.reached_all({tails[tp]: offset for tp, offset in offsets.items()})
            except StartAfresh:
                is_same = [self._feeds[tp].tail is tail for tp, tail in tails.items() if tp in self._feeds]
                if len(is_same) < len(tails) or all(is_same):
                    raise
                # Another view has begun, for which a partition is read again.
            else:
                return

    async def stop(self) -> None:
        """Stop reading."""
        await self._reader.stop()
        self._feeds.clear()


class ViewReading:
    """The partitions of one view.

    Args:
        shared: reads for all views.
        reader: reads the records that the others have already.
        on_failure: called with the error of a sink.
    """

    def __init__(self, shared: SharedReader, reader: TableReader, on_failure: Callable[[Exception], None]) -> None:
        self.parts: dict[TopicPartition, _Part] = {}
        self.reader = reader
        self.is_complete = False
        """Whether the view has been read to its end once, and decisions may rest on it."""

        self._shared = shared
        self._on_failure = on_failure
        self._standing = StalledTables()
        self._is_over = False
        self._joining: asyncio.Task[None] | None = None

    def begin(self) -> None:
        """Read what the others have read already."""
        if any(part.own is not None for part in self.parts.values()):
            self.reader.start()
            self._joining = asyncio.create_task(self._join(), name="view-joins")

    async def _join(self) -> None:
        own = {part: part.own for part in self.parts.values() if part.own is not None}
        try:
            await self.reader.reached_all({tail: tail.limit for tail in own.values() if tail.limit is not None})
            for part in own:
                part.join()
        except StartAfresh:
            return  # `fail` was called
        except Exception as error:  # noqa: BLE001 - a sink may raise anything, and the view can no longer be used
            self.fail(error)
        await self.reader.stop()

    def fail(self, error: Exception) -> None:
        """Give the view no more records, because it has not taken some."""
        self.close()
        self._on_failure(error)

    def close(self) -> None:
        """Give the view no more records. `stop` also disconnects."""
        self._is_over = True
        self._shared.unsubscribe(self)
        self.reader.remove([part.own for part in self.parts.values() if part.own is not None])

    async def stop(self) -> None:
        """Stop reading for the view."""
        self.close()
        await end_task(self._joining)
        await self.reader.stop()

    @property
    def alive(self) -> bool:
        """Whether everything is read."""
        joining = self._joining is not None and not self._joining.done()
        return self._shared.alive and (self.reader.alive or not joining)

    @property
    def standing(self) -> frozenset[TopicPartition]:
        """The partitions that did not advance between the last two calls of `behind` although Kafka had more."""
        return self._standing.partitions

    async def behind(self, ends: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Return the partitions that are behind, with the offset that each has reached; -1 when it is not read at all.

        Args:
            ends: the last stable offsets of the partitions. No open transaction hides records below them.
        """
        return await self._standing.behind(ends, self._position)

    async def _position(self, tp: TopicPartition) -> int:
        part = self.parts.get(tp)
        if self._is_over or part is None:
            return -1
        return await (self._shared.position(tp) if part.own is None else self.reader.position(part.own))

    def taken(self, tp: TopicPartition) -> int:
        """Return the offset below which the view has taken all records of a partition."""
        part = self.parts[tp]
        return part.next if part.own is None else part.own.position

    async def reached_all(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Wait until the view has taken everything below some offsets.

        Raises:
            StartAfresh: the view is no longer read.
        """
        if self._joining is not None and any(self.parts[tp].own is not None for tp in offsets):
            await asyncio.wait((self._joining,))
        if not self._is_over:
            await self._shared.reached_all(offsets)
        if self._is_over:
            raise StartAfresh("the view is no longer read")
