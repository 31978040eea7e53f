"""One partition of a topic: records and markers with their offsets, what readers may see of them, and cleaning."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from enum import Enum
from typing import Any

from aiokafka import TopicPartition


class Outcome(Enum):
    """How far a transaction is, on one partition."""

    OPEN = "open"
    COMMITTED = "committed"
    ABORTED = "aborted"


class Part:
    """What one producer has open on one partition; a marker ends all of it, whenever it was begun."""

    __slots__ = ("first", "outcome")

    def __init__(self, first: int) -> None:
        self.first = first
        self.outcome = Outcome.OPEN


class Record:
    """A record as consumers get it (the fields of aiokafka's `ConsumerRecord` that are used), or a marker."""

    __slots__ = (
        "appended",
        "emptied",
        "headers",
        "horizon",
        "key",
        "marker",
        "offset",
        "part",
        "partition",
        "pid",
        "since",
        "timestamp",
        "timestamp_type",
        "topic",
        "value",
    )

    def __init__(  # noqa: PLR0917 - one for each record of a run, by place
        self,
        topic: str,
        partition: int,
        offset: int,
        timestamp: int,
        key: bytes | None,
        value: bytes | None,
        headers: tuple[tuple[str, bytes], ...],
        pid: int,
        part: Part | None,
        appended: float,
        marker: Outcome | None = None,
        since: float = 0.0,
    ) -> None:
        self.topic = topic
        self.partition = partition
        self.offset = offset
        self.timestamp = timestamp
        self.timestamp_type = 0
        self.key = key
        self.value = value
        self.headers = headers
        self.pid = pid
        self.part = part
        self.appended = appended
        self.marker = marker
        self.since = since
        self.horizon: int | None = None
        self.emptied = False

    @property
    def visible(self) -> bool:
        """Whether a reader of committed records sees it, once it is below the last stable offset."""
        return (
            self.marker is None and not self.emptied and (self.part is None or self.part.outcome is Outcome.COMMITTED)
        )

    def __repr__(self) -> str:
        return f"<{self.topic}/{self.partition}@{self.offset} {self.key!r}>"


class Log:
    """One partition.

    Args:
        tp: which one.
        config: the topic's settings, as Kafka names them.
        on_stable: told of records that have become readable to readers of committed ones, in order.
    """

    def __init__(self, tp: TopicPartition, config: dict[str, str], on_stable: Callable[[Record], None]) -> None:
        self.tp = tp
        self.records: list[Record] = []
        self.start = 0
        self.end = 0
        """The high watermark: the offset of the next record."""

        self.stable = 0
        """The last stable offset."""

        self.watchers: dict[Any, None] = {}
        """Consumers that have read all there is; told once of more."""

        self._open: dict[int, Part] = {}
        self._last: dict[int, Record] = {}
        self._on_stable = on_stable
        self._unseen: list[Record] = []
        self.compacted = config.get("cleanup.policy", "delete") == "compact"
        self.lag_ms = int(config.get("min.compaction.lag.ms", "0"))
        self.tombstone_ms = int(config.get("delete.retention.ms", "86400000"))
        self.retention_ms = int(config.get("retention.ms", "604800000"))

    # Writing.

    def append(
        self,
        key: bytes | None,
        value: bytes | None,
        headers: tuple[tuple[str, bytes], ...],
        timestamp: int,
        *,
        now: float,
        pid: int = -1,
        transactional: bool = False,
        since: float = 0.0,
    ) -> int:
        """Add a record and return its offset; `settle` when the batch is complete.

        `since` says when its producer was started.
        """
        part = None
        if transactional:
            part = self._open.get(pid)
            if part is None:
                part = self._open[pid] = Part(self.end)
        offset = self.end
        tp = self.tp
        record = Record(tp.topic, tp.partition, offset, timestamp, key, value, headers, pid, part, now, since=since)
        self._add(record)
        return offset

    def mark(self, pid: int, outcome: Outcome, timestamp: int, now: float) -> None:
        """End what a producer has open here, of earlier epochs too; the marker takes an offset in any case."""
        part = self._open.pop(pid, None)
        if part is not None:
            part.outcome = outcome
        self._add(
            Record(self.tp.topic, self.tp.partition, self.end, timestamp, None, None, (), pid, None, now, outcome)
        )
        self.settle()

    def _add(self, record: Record) -> None:
        self.records.append(record)
        self._unseen.append(record)
        self._last[record.pid] = record
        self.end += 1

    def settle(self) -> None:
        """Let readers see what can be seen now."""
        stable = self.end
        for part in self._open.values():
            stable = min(stable, part.first)
        if stable > self.stable:
            self.stable = stable
            unseen = self._unseen
            if stable == self.end:
                self._unseen = []
            else:
                count = bisect_left(unseen, stable, key=_offset)
                self._unseen = unseen[count:]
                unseen = unseen[:count]
            for record in unseen:
                if record.visible:
                    self._on_stable(record)
        if self.watchers:
            watchers, self.watchers = self.watchers, {}
            for watcher in watchers:
                watcher.more(self.tp)

    @property
    def open(self) -> dict[int, int]:
        """The first open offset of each producer that has a transaction here."""
        return {pid: part.first for pid, part in self._open.items()}

    # Reading.

    def limit(self, *, committed_only: bool) -> int:
        """Where a reader's view ends."""
        return self.stable if committed_only else self.end

    def read(self, position: int, *, committed_only: bool, limit: int = 1 << 62) -> tuple[list[Record], int]:
        """Records from a position on that a reader may see, and the position after them.

        The position passes markers and what was aborted; where nothing is left to read it stays.

        Args:
            position: the first offset that is wanted.
            committed_only: of committed transactions only.
            limit: entries, markers and aborted records included, at most.
        """
        records = self.records
        begin = bisect_left(records, position, key=_offset) if position > self.start or not records else 0
        end = len(records)
        if committed_only and self.stable < self.end:
            end = bisect_left(records, self.stable, key=_offset)
        end = min(end, begin + limit)
        if begin >= end:
            return [], position
        taken = records[begin:end]
        if committed_only:
            found = [record for record in taken if record.visible]
        else:
            found = [record for record in taken if record.marker is None and not record.emptied]
        return found, taken[-1].offset + 1

    # Cleaning.

    def clean(self, now_ms: int) -> int:
        """Compact it, or drop what is too old, and return how many entries went."""
        before = len(self.records)
        if self.compacted:
            self._compact(now_ms)
        else:
            self._expire(now_ms)
        return before - len(self.records)

    def _expire(self, now_ms: int) -> None:
        if self.retention_ms < 0:
            return
        count = 0
        for record in self.records:
            if record.timestamp >= now_ms - self.retention_ms or record.offset >= self.stable:
                break
            count += 1
        if count:
            self.start = self.records[count].offset if count < len(self.records) else self.end
            del self.records[:count]

    def _compact(self, now_ms: int) -> None:
        """As Kafka's cleaner: what is too young or still open neither goes nor drives anything else out."""
        cleanable = 0
        for record in self.records:
            if record.timestamp > now_ms - self.lag_ms or record.offset >= min(self.stable, self.end - 1):
                break
            cleanable += 1
        latest: dict[bytes | None, int] = {}
        for record in self.records[:cleanable]:
            if record.visible:
                latest[record.key] = record.offset
        kept = []
        for record in self.records[:cleanable]:
            if self._keeps(record, latest, now_ms):
                kept.append(record)
            elif self._last.get(record.pid) is record:
                # The last batch of a producer is kept, empty, for its sequence number.
                record.emptied = True
                kept.append(record)
        self.records[:cleanable] = kept

    def _keeps(self, record: Record, latest: dict[bytes | None, int], now_ms: int) -> bool:
        if record.marker is None and not (record.visible and latest[record.key] == record.offset):
            return False
        if record.marker is None and record.value is not None:
            return True
        if record.horizon is None:
            record.horizon = now_ms + self.tombstone_ms
        return now_ms <= record.horizon


def _offset(record: Record) -> int:
    return record.offset
