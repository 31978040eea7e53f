"""The place of each exported record in the topics of a fleet, and the positions of the consumer groups there."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from moorage.cli.backup.fleet_file import Positions
from moorage.cli.backup.saved_record import SavedRecord
from moorage.cli.backup.saved_topics import READERS, SERVICES
from moorage.runtime.wire import codec
from moorage.runtime.wire.record_places import partition_key
from moorage_schemas.eviction import GenerationFloor
from moorage_schemas.topics import FLEET, GENERATION_FLOORS, PLACEMENTS, TIMERS, Topic, partition_of

_OF_EVENTS = frozenset({PLACEMENTS, TIMERS})
"""Topics whose keys do not determine the partition."""

_NEVER = 0
_PROCESSED = -1
"""An offset that every group has processed."""


class PlacedRecord(NamedTuple):
    """A record, and the partition in which it is written."""

    record: SavedRecord
    partition: int


class RestorePlan:
    """Gives exported records their places, one after another, in the order of the file.

    What every service has processed is written first. What one of them has not is written last, so that each service
    continues with it. Each partition keeps its order otherwise: that of the log decides which of two bindings came
    first.

    Args:
        positions: those of the file.
        before: the number of partitions of the exported topics.
        now: the number of partitions of the topics to write.
    """

    def __init__(self, positions: Positions, *, before: int, now: int) -> None:
        self._given = {name: positions.get(name, {}) for name in (*SERVICES, *positions)}
        self._before, self._now = before, now
        self._counts: defaultdict[tuple[Topic, int], int] = defaultdict(int)
        self._firsts: dict[tuple[str, Topic, int], int] = {}
        self._committed: set[tuple[str, Topic, int]] = set()
        self._groups: dict[Topic, list[str]] = {}
        self._waiting: list[PlacedRecord] = []
        self._places: dict[tuple[Topic, bytes | None], int] = {}
        self._floor: SavedRecord | None = None

    def take(self, record: SavedRecord) -> PlacedRecord | None:
        """Return where a record is written now; None if it is written later, or not at all."""
        if record.topic is GENERATION_FLOORS and self._before != self._now:
            self._raise_floor(record)
            return None
        partition = self._partition(record)
        if partition is None:
            return None
        placed = PlacedRecord(record, partition)
        if any(self._is_pending(name, record) for name in READERS[record.topic]):
            self._waiting.append(placed)
            return None
        return self._written(placed)

    def add(self, record: SavedRecord, key: str) -> PlacedRecord:
        """Return where a record is written that is not exported, but new. `key` determines its partition."""
        return self._written(PlacedRecord(record._replace(offset=_PROCESSED), partition_of(key, self._now)))

    def rest(self) -> Iterator[PlacedRecord]:
        """Yield the records that are written last."""
        if self._floor is not None:
            for partition in range(self._now):
                yield self._written(PlacedRecord(_floor_of(self._floor, partition), partition))
        # A partition may continue several of the exported ones.
        for placed in sorted(self._waiting, key=lambda one: one.record.timestamp) if self._merges else self._waiting:
            yield self._written(placed)
        self._waiting.clear()

    def positions(self) -> dict[str, dict[tuple[Topic, int], int]]:
        """Return for each group how many records of a partition it has processed. Call it after `rest`."""
        found: dict[str, dict[tuple[Topic, int], int]] = {}
        for topic, names in READERS.items():
            for name in names:
                for partition in range(self._now):
                    self._committed.add((name, topic, partition))
        for name, topic, partition in sorted(self._committed, key=lambda one: (one[0], one[1].short, one[2])):
            count = self._counts.get((topic, partition), 0)
            found.setdefault(name, {})[topic, partition] = self._firsts.get((name, topic, partition), count)
        return found

    @property
    def _merges(self) -> bool:
        return self._before != self._now

    def _written(self, placed: PlacedRecord) -> PlacedRecord:
        record, partition = placed
        place = (record.topic, partition)
        for name in self._groups_of(record.topic):
            if name in SERVICES or record.partition in self._given[name][record.topic.short]:
                self._committed.add((name, *place))
            if self._is_pending(name, record):
                self._firsts.setdefault((name, *place), self._counts[place])
        self._counts[place] += 1
        return placed

    def _groups_of(self, topic: Topic) -> Sequence[str]:
        if topic not in self._groups:
            self._groups[topic] = [
                name for name, topics in self._given.items() if name in READERS[topic] or topic.short in topics
            ]
        return self._groups[topic]

    def _is_pending(self, name: str, record: SavedRecord) -> bool:
        return record.offset >= self._given[name].get(record.topic.short, {}).get(record.partition, _NEVER)

    # Partitions.

    def _partition(self, record: SavedRecord) -> int | None:
        """Return the partition of a record. None for a deletion of something that was not exported."""
        if not self._merges:
            return record.partition
        topic = record.topic
        if topic in _OF_EVENTS:
            if record.value is None:
                return self._places.get((topic, record.key))
            key, event = codec.decode_table(topic, record)
            found = partition_of(partition_key(topic, key, event) or key, self._now)
            self._places[topic, record.key] = found
            return found
        try:
            event = None if record.value is None else codec.decode_table(topic, record)[1]
            decides = partition_key(topic, record.name, event)
        except ValueError:  # a report of a third party, which may be anything
            decides = None
        if decides is None:
            decides = FLEET if topic.partition_by == "the fleet" else record.name
        return partition_of(decides, self._now)

    def _raise_floor(self, record: SavedRecord) -> None:
        """Note the highest floor. It holds for every partition, because any workload may be in any of them."""
        if record.value is not None and (self._floor is None or _generation(record) > _generation(self._floor)):
            self._floor = record


def _generation(record: SavedRecord) -> int:
    event = codec.decode_table(GENERATION_FLOORS, record)[1]
    return event.generation if isinstance(event, GenerationFloor) else 0


def _floor_of(record: SavedRecord, partition: int) -> SavedRecord:
    event = GenerationFloor(partition=partition, generation=_generation(record))
    key = str(partition).encode()
    headers = tuple((name, key if name == "ce_subject" else value) for name, value in record.headers)
    return record._replace(key=key, value=event.model_dump_json().encode(), headers=headers)
