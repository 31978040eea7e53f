"""Reading of records from Kafka that the gateway does not keep: dead letters and the audit."""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections import deque
from collections.abc import AsyncIterator, Mapping
from typing import Any, Final

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import KafkaError
from typing_extensions import override

from moorage.apiserver.machinery.api_errors import unavailable
from moorage.apiserver.storage.topic_pages import PagedReader, RecordName, TopicRecord
from moorage.runtime.kafka.clients import clients
from moorage.runtime.kafka.clients.refusals import describe
from moorage.runtime.kafka.tables.read_to_end import read_to
from moorage.runtime.settings.process_settings import Settings
from moorage_schemas.topics import AUDIT, DEAD_LETTERS, Topic

READ: Final[tuple[Topic, ...]] = (DEAD_LETTERS, AUDIT)
"""The topics that are read."""

_AT_ONCE: Final = 2
"""How many requests read at a time. Each has a connection to Kafka, and up to `_KEPT_BYTES` of each partition."""

_WAITING: Final = 16
"""How many requests wait for their turn at most."""

_KEPT_BYTES: Final = 1_500_000
"""How many bytes of a partition one reading keeps, or one record."""

_SECONDS: Final = 10.0
"""Seconds that a request may take, waiting included."""


class KafkaTopicRecords:
    """The records of a fleet in Kafka (`TopicRecords`)."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._slots = asyncio.Semaphore(_AT_ONCE)
        self._waiting = 0
        self.partitions = 0
        """The number of partitions of each topic. 0 while it is not known."""

    @contextlib.asynccontextmanager
    async def reading(self, topic: Topic) -> AsyncIterator[PagedReader]:
        """Connect a reader of a topic for the time of the context."""
        if not self.partitions:
            raise unavailable(f"{topic.short} cannot be read yet: the gateway is connecting to Kafka")
        if self._waiting >= _WAITING:
            raise unavailable(f"{topic.short} cannot be read now: {self._waiting} requests are waiting to read")
        self._waiting += 1
        client_id = f"{self._settings.topic_prefix}.gateway-{topic.short}-{uuid.uuid4().hex[:12]}"
        try:
            async with asyncio.timeout(_SECONDS), self._slots:
                consumer = clients.table_consumer(self._settings, client_id=client_id)
                try:
                    await consumer.start()
                    yield _KafkaPagedReader(consumer, topic, topic.name(self._settings.topic_prefix), self.partitions)
                finally:
                    await consumer.stop()
        except TimeoutError:
            raise unavailable(f"{topic.short} cannot be read: Kafka did not answer within {_SECONDS:g} s") from None
        except (KafkaError, OSError) as error:
            raise unavailable(f"{topic.short} cannot be read: {describe(error, self._settings)}") from None
        finally:
            self._waiting -= 1


class _KafkaPagedReader(PagedReader):
    """A reader of a topic with a started consumer."""

    def __init__(self, consumer: AIOKafkaConsumer, topic: Topic, name: str, partitions: int) -> None:
        self._consumer = consumer
        self._topic = topic
        self._places = [TopicPartition(name, number) for number in range(partitions)]

    @override
    async def bounds(self) -> Mapping[int, range]:
        begins = await self._consumer.beginning_offsets(self._places)
        ends = await self._consumer.end_offsets(self._places)
        return {place.partition: range(begins[place], ends[place]) for place in self._places}

    @override
    async def first_since(self, milliseconds: int) -> Mapping[int, int]:
        found = await self._consumer.offsets_for_times(dict.fromkeys(self._places, milliseconds))
        missing = [place for place in self._places if found.get(place) is None]
        ends = await self._consumer.end_offsets(missing) if missing else {}
        return {place.partition: ends[place] if place in ends else found[place].offset for place in self._places}

    @override
    async def read(self, spans: Mapping[int, range]) -> Mapping[int, tuple[int, list[TopicRecord]]]:
        starts = {self._places[partition]: span.start for partition, span in spans.items()}
        ends = {self._places[partition]: span.stop for partition, span in spans.items()}
        kept = {partition: _Kept(self._topic, span.start) for partition, span in spans.items()}
        async for place, records in read_to(self._consumer, starts, ends):
            for record in records:
                kept[place.partition].add(record)
        return {partition: (one.begin, list(one.records)) for partition, one in kept.items()}


class _Kept:
    """The last records of a part of a partition."""

    def __init__(self, topic: Topic, begin: int) -> None:
        self._topic = topic
        self.begin = begin
        """The offset from which on everything is kept."""

        self.records: deque[TopicRecord] = deque()
        self._bytes = 0

    def add(self, record: Any) -> None:
        """Add the next record."""
        if record.value is None:
            return
        name = RecordName(record.partition, record.offset)
        self.records.append(TopicRecord(self._topic, name, record.timestamp, record.value))
        self._bytes += len(record.value)
        while self._bytes > _KEPT_BYTES and len(self.records) > 1:
            first = self.records.popleft()
            self._bytes -= len(first.value)
            self.begin = first.name.offset + 1
