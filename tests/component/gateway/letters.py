"""Dead letters in memory."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Mapping
from datetime import UTC, datetime

from moorage.apiserver.machinery.api_errors import unavailable
from moorage.apiserver.storage.dead_letters import LetterName, LetterReader, LetterRecord
from moorage_schemas.dead_letter import DeadLettered

START = int(datetime(2026, 1, 1, 12, tzinfo=UTC).timestamp() * 1000)
"""The time of a letter, in milliseconds since 1970, unless a test says another."""


class MemoryLetters:
    """Letters in memory. Every third position has a marker instead of a record."""

    def __init__(self, partitions: int = 3) -> None:
        self.records: list[dict[int, LetterRecord]] = [{} for _ in range(partitions)]
        self.ends = [0] * partitions
        self.begins = [0] * partitions
        self.read_positions = 0
        self.fails = False

    def add(self, partition: int, letter: DeadLettered | bytes, timestamp: int = START) -> str:
        offset = self.ends[partition]
        value = letter if isinstance(letter, bytes) else letter.model_dump_json().encode()
        self.records[partition][offset] = LetterRecord(LetterName(partition, offset), timestamp, value)
        self.ends[partition] += 2 if offset % 3 == 1 else 1
        return f"{partition}-{offset}"

    @contextlib.asynccontextmanager
    async def reading(self) -> AsyncIterator[LetterReader]:
        if self.fails:
            raise unavailable("dead letters cannot be read: no broker")
        yield self

    async def bounds(self) -> Mapping[int, range]:
        return {number: range(self.begins[number], end) for number, end in enumerate(self.ends)}

    async def first_since(self, milliseconds: int) -> Mapping[int, int]:
        return {
            number: min((one for one, record in found.items() if record.timestamp >= milliseconds), default=end)
            for number, (found, end) in enumerate(zip(self.records, self.ends, strict=True))
        }

    async def read(self, spans: Mapping[int, range]) -> Mapping[int, tuple[int, list[LetterRecord]]]:
        self.read_positions += sum(map(len, spans.values()))
        return {
            number: (span.start, [self.records[number][one] for one in span if one in self.records[number]])
            for number, span in spans.items()
        }
