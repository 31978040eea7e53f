"""Records of topics in memory."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime

from moorage.apiserver.machinery.api_errors import unavailable
from moorage.apiserver.storage.topic_pages import PagedReader, RecordName, TopicRecord
from moorage_schemas.base import Model
from moorage_schemas.topics import DEAD_LETTERS, Topic

START = int(datetime(2026, 1, 1, 12, tzinfo=UTC).timestamp() * 1000)
"""The time of a record, in milliseconds since 1970, unless a test says another."""


class MemoryRecords:
    """The records of a topic in memory. Every third position has a marker instead of a record."""

    def __init__(self, partitions: int = 3, topic: Topic = DEAD_LETTERS) -> None:
        self.topic = topic
        self.records: list[dict[int, TopicRecord]] = [{} for _ in range(partitions)]
        self.ends = [0] * partitions
        self.begins = [0] * partitions
        self.read_positions = 0
        self.fails = False

    def add(self, partition: int, event: Model | bytes, timestamp: int = START) -> str:
        offset = self.ends[partition]
        value = event if isinstance(event, bytes) else event.model_dump_json().encode()
        self.records[partition][offset] = TopicRecord(self.topic, RecordName(partition, offset), timestamp, value)
        self.ends[partition] += 2 if offset % 3 == 1 else 1
        return f"{partition}-{offset}"

    @contextlib.asynccontextmanager
    async def reading(self) -> AsyncIterator[PagedReader]:
        if self.fails:
            raise unavailable(f"{self.topic.short} cannot be read: no broker")
        yield self

    async def bounds(self) -> Mapping[int, range]:
        return {number: range(self.begins[number], end) for number, end in enumerate(self.ends)}

    async def first_since(self, milliseconds: int) -> Mapping[int, int]:
        return {
            number: min((one for one, record in found.items() if record.timestamp >= milliseconds), default=end)
            for number, (found, end) in enumerate(zip(self.records, self.ends, strict=True))
        }

    async def read(self, spans: Mapping[int, range]) -> Mapping[int, tuple[int, list[TopicRecord]]]:
        self.read_positions += sum(map(len, spans.values()))
        return {
            number: (span.start, [self.records[number][one] for one in span if one in self.records[number]])
            for number, span in spans.items()
        }


class MemoryTopics:
    """Several topics in memory (`TopicRecords`)."""

    def __init__(self, *topics: MemoryRecords) -> None:
        self._topics = {one.topic.short: one for one in topics}

    def reading(self, topic: Topic) -> AbstractAsyncContextManager[PagedReader]:
        return self._topics[topic.short].reading()
