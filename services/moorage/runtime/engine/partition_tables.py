"""The state of one partition as its tables give it, in its task and in standbys, and the progress of each table.

A task reads the tables when it starts. A standby reads them before, and hands them to the task, which then only reads
the rest.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Generic, TypeVar

import structlog

from moorage.runtime.engine.requests import Announce, Bounded, Bounds, Read, Span, Steps
from moorage.runtime.process import metrics
from moorage.runtime.service import Service, source_name
from moorage.runtime.wire.record_format import RecordFormat
from moorage.runtime.wire.record_places import RecordPlaces
from moorage_schemas.topics import Topic

log = structlog.get_logger(__name__)

S = TypeVar("S")

_SHOWN = 256  # bytes of an invalid key that are logged


def source_tables_of(service: Service[Any]) -> tuple[Topic, ...]:
    """Return the sources of a service that are tables, in the order of its sources."""
    return tuple(topic for topic in service.sources if topic in service.source_tables)


class PartitionTables(Generic[S]):
    """One partition's state, empty at first. It does no I/O.

    Args:
        form: how records are read.
    """

    def __init__(self, service: Service[S], partition: int, form: RecordFormat, *, partitions: int) -> None:
        self.state = service.new_state(partition)
        self.positions: dict[Topic, int] = {}
        """For each table of which something was folded in, the offset below which everything is in the state."""

        self.folded: dict[Topic, int] = {}
        """The number of records of each table that were folded in."""

        self.carried: dict[str, int] = {}
        """The highest positions that state records rest on, by the short name of the source."""

        self.last: dict[str, Any] = {}
        """The last record of each table, by its short name."""

        self._service = service
        self._form = form
        self._places = RecordPlaces(partition, partitions)
        self._own = source_name(service.name)
        self.sources = source_tables_of(service)
        """The sources that are tables."""

    @property
    def every(self) -> tuple[Topic, ...]:
        """All tables, in the order in which they are read."""
        return (*self.sources, *self._service.changelogs, *self._service.follows)

    @property
    def contents(self) -> dict[Topic, tuple[int, int]]:
        """For each table of which something was read, the offset below which, and how many records were folded in."""
        return {
            topic: (self.positions[topic], self.folded.get(topic, 0)) for topic in self.every if topic in self.positions
        }

    # Reading.

    def bounds(self) -> Bounds:
        """Return the request with which a read begins."""
        service = self._service
        return Bounds(
            begin=(*service.sources, *service.changelogs, *service.follows),
            end=(*service.changelogs, *service.follows),
        )

    def starts(self, bounds: Bounded, committed: Mapping[Topic, int | None]) -> dict[Topic, int]:
        """Return for each source the offset from which its records were not processed, by the committed offsets."""
        return {topic: max(committed[topic] or 0, bounds.begin[topic]) for topic in self._service.sources}

    def continues(self, bounds: Bounded, limits: Mapping[Topic, int]) -> bool:
        """Return whether a read may continue from these tables, instead of beginning with empty ones.

        It may not when they include source records that are to be processed again, or when unread records were deleted.
        Nor may it when the topic has lost records that they include.

        Args:
            bounds: the answer to `bounds`.
            limits: for each source, the offset from which its records are processed.
        """
        for topic, position in self.positions.items():
            if position < bounds.begin[topic] or position > limits.get(topic, bounds.end.get(topic, position)):
                return False
        return True

    def read(self, bounds: Bounded, committed: Mapping[Topic, int | None]) -> Steps[None]:
        """Read the tables: sources up to the committed offsets, the rest to their ends."""
        service = self._service
        starts = self.starts(bounds, committed)
        ends = {topic: starts[topic] for topic in self.sources} | {topic: bounds.end[topic] for topic in bounds.end}
        spans = {
            topic: Span(topic, max(bounds.begin[topic], self.positions.get(topic, 0)), end)
            for topic, end in ends.items()
        }
        yield Announce(tuple(spans.values()))
        for phase in (self.sources, service.changelogs, service.follows):
            yield Read(tuple(spans[topic] for topic in phase))
            self._have_read(spans[topic] for topic in phase)

    def read_sources(self, ends: Mapping[Topic, int]) -> Steps[None]:
        """Read the tables among the sources further."""
        spans = tuple(Span(topic, self.positions[topic], ends[topic]) for topic in self.sources)
        yield Read(spans)
        self._have_read(spans)

    def _have_read(self, spans: Iterable[Span]) -> None:
        """Note that everything in these spans is in the state. A span may end with offsets that hold no record."""
        for span in spans:
            self.positions[span.topic] = max(span.end, self.positions.get(span.topic, 0))

    # Folding.

    def fold(self, topic: Topic, records: Sequence[Any]) -> None:
        """Fold records of a table into the state. One that fails, or has a wrong key, is logged, counted and skipped.

        Otherwise the partition could never start again.
        """
        if not records:
            return
        service, state, table, flaw = self._service, self.state, self._form.table, self._places.flaw
        if topic in service.changelogs:
            self._note_carried(records)
        reader = service.rows.get(topic)
        row_of = None if reader is None else self._form.rows(topic, reader)
        for record in records:
            try:
                row = None if row_of is None else row_of(record)
                key, event = table(topic, record) if row is None else (record.key.decode(), row)
                if rule := flaw(topic, key, event):
                    self._skip(topic, record, rule)
                    continue
                service.apply(state, topic, key, event)
            except Exception:
                metrics.TABLE_RECORDS_SKIPPED.labels(service.name).inc()
                log.exception(
                    "tables.record_not_applied",
                    service=service.name,
                    topic=topic.short,
                    partition=record.partition,
                    offset=record.offset,
                    key=record.key,
                )
        self.last[topic.short] = records[-1]
        self.folded[topic] = self.folded.get(topic, 0) + len(records)
        self.positions[topic] = max(records[-1].offset + 1, self.positions.get(topic, 0))

    def _skip(self, topic: Topic, record: Any, rule: str) -> None:
        """Log a record with a wrong key. As a record of a source, it had a dead letter when its turn came."""
        metrics.TABLE_RECORDS_SKIPPED.labels(self._service.name).inc()
        log.error(
            "tables.record_misplaced",
            service=self._service.name,
            topic=topic.short,
            partition=record.partition,
            offset=record.offset,
            key=(record.key or b"")[:_SHOWN],
            rule=rule,
        )

    def _note_carried(self, records: Sequence[Any]) -> None:
        """Note the highest positions that state records rest on."""
        positions, own, carried = self._form.positions, self._own, self.carried
        last: Mapping[str, int] | None = None
        for record in records:
            found = positions(record, own)
            if found and found is not last:  # the records of one transaction share their positions
                last = found
                for short, position in found.items():
                    if position > carried.get(short, 0):
                        carried[short] = position


class Standby(Generic[S]):
    """Follows the task of a partition. It does no I/O, and decides nothing.

    A record of a source counts for the task once it is processed: until then decisions rest on the state without it,
    and a new task must process it. So records of sources are held back until the task has committed offsets beyond
    them, or has written a state record that rests on them. Records of all other tables are folded in at once.

    Args:
        tables: the tables, read to their ends.
        most: the number of held records of a source from which on no more should be read.
    """

    def __init__(self, tables: PartitionTables[S], *, most: int) -> None:
        self.tables = tables
        self.taken = 0
        """The number of records that were offered."""

        self._most = most
        self._sources = frozenset(tables.sources)
        self._processed: dict[str, int] = {}
        self._held: dict[Topic, deque[Any]] = {topic: deque() for topic in tables.sources}

    def offer(self, topic: Topic, records: Sequence[Any]) -> None:
        """Take records of a table, in their order."""
        self.taken += len(records)
        if topic in self._sources:
            self._held[topic].extend(records)
        else:
            self.tables.fold(topic, records)
        self._fold_counted()

    def processed(self, committed: Mapping[Topic, int]) -> None:
        """Note the committed offsets of the sources that have any."""
        for topic, offset in committed.items():
            self._processed[topic.short] = max(offset, self._processed.get(topic.short, 0))
        self._fold_counted()

    def is_full(self, topic: Topic) -> bool:
        """Return whether so many records of a source are held back that no more should be read."""
        return len(self._held.get(topic, ())) >= self._most

    def has_room(self, topic: Topic) -> bool:
        """Return whether reading a source that was full may continue."""
        return len(self._held[topic]) <= self._most // 2

    def last_held(self) -> dict[Topic, int]:
        """Return the offset of the last record that is held back, of each source with any."""
        return {topic: held[-1].offset for topic, held in self._held.items() if held}

    def holds(self, offsets: Mapping[Topic, int]) -> bool:
        """Return whether records of some sources are held back up to these offsets."""
        return any(self._held[topic] and self._held[topic][0].offset <= offset for topic, offset in offsets.items())

    def _fold_counted(self) -> None:
        """Fold in the held records that the task has processed."""
        carried = self.tables.carried
        for topic, held in self._held.items():
            end = max(self._processed.get(topic.short, 0), carried.get(topic.short, 0))
            if held and held[0].offset < end:
                ready = []
                while held and held[0].offset < end:
                    ready.append(held.popleft())
                self.tables.fold(topic, ready)
