"""Records that the gateway does not keep, such as dead letters and the audit, and how pages of a topic are read.

30 days of a flood may be millions. A page is read when it is requested, backwards from where the page before it ended.
Records are in order of their times, the newest first; those of a partition are always in the order in which they were
written.

What one request reads is limited. So a page may have fewer records than were requested, or none, and still not be the
last one: when few records are wanted of many.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final, Protocol, Self

from moorage_schemas.base import Model
from moorage_schemas.topics import Topic

MOST_READ: Final = 20_000
"""How many positions of the topic are read for a page."""

MOST_BYTES: Final = 4_194_304
"""How many bytes of records a page may have, except that it may always have one record."""

MOST_SECONDS: Final = 3.0
"""Seconds after which a page ends."""

_FIRST_WINDOW: Final = 32
_LARGEST_WINDOW: Final = 2_048
_LONGEST_NUMBER: Final = 18


@dataclass(frozen=True, slots=True)
class RecordName:
    """The position of a record in its topic. That is its name as well: `7-1042`."""

    partition: int
    offset: int

    @classmethod
    def parse(cls, name: str) -> Self | None:
        """Read a name. None if no record can have it."""
        parts = name.split("-")
        if len(parts) != 2 or not all(_is_number(part) for part in parts):  # noqa: PLR2004 - partition and offset
            return None
        return cls(int(parts[0]), int(parts[1]))

    def __str__(self) -> str:
        return f"{self.partition}-{self.offset}"


def _is_number(text: str) -> bool:
    is_short = text.isascii() and text.isdecimal() and len(text) <= _LONGEST_NUMBER
    return is_short and str(int(text)) == text


@dataclass(frozen=True)  # without slots, because its content is read once and kept
class TopicRecord:
    """A record of a topic."""

    topic: Topic
    name: RecordName
    timestamp: int
    """Kafka's, in milliseconds since 1970."""

    value: bytes

    @cached_property
    def content(self) -> Model:
        """The event of the topic. Raises ValueError if it is none."""
        return self.topic.event.model_validate_json(self.value, extra="ignore")


class PagedReader(Protocol):
    """A connection to a topic."""

    async def bounds(self) -> Mapping[int, range]:
        """Return the offsets that there are now in each partition."""

    async def first_since(self, milliseconds: int) -> Mapping[int, int]:
        """Return the first offset of each partition that was written at some time or later."""

    async def read(self, spans: Mapping[int, range]) -> Mapping[int, tuple[int, list[TopicRecord]]]:
        """Read parts of partitions: of each the last records, if it has more bytes than are to be kept in memory.

        Returns:
            For each partition the offset from which on everything was kept, and the records in their order.
        """


class TopicRecords(Protocol):
    """The source of records."""

    def reading(self, topic: Topic) -> AbstractAsyncContextManager[PagedReader]:
        """Connect to a topic. Raises StatusError: 503 if Kafka does not answer, or if too many requests read."""


@dataclass(frozen=True, slots=True)
class Page:
    """A part of a list of records."""

    records: list[TopicRecord] = field(default_factory=list)
    rest: Mapping[int, int] | None = None
    """For each partition, the offset before which the next page begins. None if this was the last page."""


async def read_page(
    reader: PagedReader,
    selects: Callable[[TopicRecord], bool],
    *,
    limit: int,
    before: Mapping[int, int] | None = None,
    since: int | None = None,
    until: int | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> Page:
    """Read one page.

    Args:
        reader: reads the topic.
        selects: whether a record is wanted.
        limit: how many records it has at most.
        before: where the page before it ended. None for the first page.
        since: the time, in milliseconds since 1970, from which on records are wanted. None for all.
        until: the time before which they are wanted. None for all.
        clock: measures the time that it takes.
    """
    bounds = await reader.bounds()
    first = await reader.first_since(since) if since is not None else {}
    last = await reader.first_since(until) if until is not None else {}
    before = before or {}
    windows = {
        partition: _Window(
            max(span.start, first.get(partition, span.start)),
            min(span.stop, before.get(partition, span.stop), last.get(partition, span.stop)),
        )
        for partition, span in bounds.items()
    }
    chosen: list[TopicRecord] = []
    ends, size, read = clock() + MOST_SECONDS, 0, 0
    while len(chosen) < limit and size < MOST_BYTES and read < MOST_READ and clock() < ends:
        if spans := {partition: window.next for partition, window in windows.items() if window.needs_more}:
            read += sum(len(span) for span in spans.values())
            for partition, (begin, records) in (await reader.read(spans)).items():
                windows[partition].add(begin, records)
            continue
        newest = max((window for window in windows.values() if window.records), key=_newest, default=None)
        if newest is None:
            return Page(chosen)
        record = newest.records[-1]
        if selects(record):
            if chosen and size + len(record.value) > MOST_BYTES:
                break
            chosen.append(record)
            size += len(record.value)
        newest.records.pop()
    if all(window.is_over for window in windows.values()):
        return Page(chosen)
    return Page(chosen, {partition: window.position for partition, window in windows.items()})


class _Window:
    """The part of a partition that was read, and the part that was not."""

    def __init__(self, begin: int, end: int) -> None:
        self._begin = begin
        self._unread = max(begin, end)
        """Everything before this offset is unread."""

        self._size = _FIRST_WINDOW
        self.records: deque[TopicRecord] = deque()
        """The records that were read and are still kept, the newest last."""

    @property
    def needs_more(self) -> bool:
        """Whether it is not known what comes next."""
        return not self.records and self._unread > self._begin

    @property
    def next(self) -> range:
        """Return the offsets that are read next."""
        return range(max(self._begin, self._unread - self._size), self._unread)

    @property
    def position(self) -> int:
        """The offset before which the next page begins."""
        return self.records[-1].name.offset + 1 if self.records else self._unread

    @property
    def is_over(self) -> bool:
        """Whether nothing is left."""
        return not self.records and self._unread <= self._begin

    def add(self, begin: int, records: list[TopicRecord]) -> None:
        """Take what was read from an offset on."""
        self.records.extend(records)
        self._unread = begin
        self._size = min(2 * self._size, _LARGEST_WINDOW)


def _newest(window: _Window) -> tuple[int, int, int]:
    last = window.records[-1]
    return last.timestamp, last.name.partition, last.name.offset
