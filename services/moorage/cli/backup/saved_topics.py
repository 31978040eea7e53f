"""The part of each topic that is exported: the last record of each key, and what services have not processed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from types import MappingProxyType
from typing import Any, Final

from moorage.cli.backup.saved_record import SavedRecord, saved
from moorage.cli.contract.kafka_roles import service_classes
from moorage.insight.copy.snapshot import COMPACTED
from moorage.runtime.service import Malformed, source_name
from moorage.runtime.wire import codec
from moorage.runtime.wire.record_places import RecordPlaces
from moorage_schemas.keys import ResourceKey
from moorage_schemas.topics import CONDITION_REPORTS, RESOURCES, TOPICS, Topic

_SERVICES: Final = tuple(service_classes())

CHANGELOGS: Final[Mapping[Topic, tuple[str, ...]]] = MappingProxyType(
    {topic: tuple(one.name for one in _SERVICES if topic in one.changelogs) for topic in TOPICS}
)
"""The services whose state is in a topic."""

READERS: Final[Mapping[Topic, tuple[str, ...]]] = MappingProxyType(
    {topic: tuple(one.name for one in _SERVICES if topic in one.sources) for topic in TOPICS}
)
"""The services that process the records of a topic."""

WHOLE: Final = frozenset(topic for topic in TOPICS if topic in COMPACTED or CHANGELOGS[topic])
"""The topics of which the last record of each key is exported."""

SAVED: Final = tuple(topic for topic in TOPICS if topic in WHOLE or READERS[topic])
"""The topics that are exported. Of those that are not in `WHOLE`, only what is still to be processed counts."""

SERVICES: Final = tuple(one.name for one in _SERVICES)

PositionTable = dict[str, dict[str, dict[int, int]]]
"""The next offsets that groups have not processed, by group, topic's short name, and partition."""


def hold_of(topic: Topic, partition: int, positions: PositionTable) -> int | None:
    """Return the offset from which each record is exported, because a service has not processed it; None for none."""
    return min(
        (positions.get(name, {}).get(topic.short, {}).get(partition, 0) for name in READERS[topic]), default=None
    )


class PartOfTopic:
    """The exported part of one partition.

    Args:
        topic: its topic.
        partition: its number.
        positions: the positions of the groups. Those that state records carry are noted in it, if they are later.
    """

    def __init__(self, topic: Topic, partition: int, positions: PositionTable) -> None:
        self._topic = topic
        self._partition = partition
        self._positions = positions
        self._hold = hold_of(topic, partition, positions)
        self._states = [(name, source_name(name)) for name in CHANGELOGS[topic]]
        self._last: dict[bytes | None, Any] = {}
        self._waiting: list[Any] = []

    def take(self, records: Iterable[Any]) -> None:
        """Take consumed records, in their order."""
        for record in records:
            for name, source in self._states:
                for short, offset in (codec.state_positions(record.headers, source) or {}).items():
                    parts = self._positions.setdefault(name, {}).setdefault(short, {})
                    parts[self._partition] = max(offset, parts.get(self._partition, 0))
            if self._hold is not None and record.offset >= self._hold:
                self._waiting.append(record)
            else:
                # The last record of a key has its place, which is later than that of the ones before.
                self._last.pop(record.key, None)
                self._last[record.key] = record

    def records(self) -> Iterator[SavedRecord]:
        """Yield what is exported, in the order of the log. A deletion that was processed is not."""
        for record in self._last.values():
            if record.value is not None:
                yield saved(self._topic, record)
        for record in self._waiting:
            yield saved(self._topic, record)


def is_secret(record: SavedRecord) -> bool:
    """Return whether a record is the declaration of a Secret."""
    return record.topic is RESOURCES and ResourceKey.parse(record.name).kind == "Secret"


def flaw_of(record: SavedRecord, partitions: int) -> str:
    """Return why no service can read a record, as `FIELD: problem: expected X`. Empty if it can be read.

    Reports of third parties may be anything: condition-ingest refuses them when it processes them.
    """
    if record.topic is CONDITION_REPORTS:
        return ""
    found = codec.decode(record.topic, record)
    if isinstance(found, Malformed):
        where = found.field if found.field in {"key", "value"} else f"data.{found.field}"
        return f"{where}: invalid value {found.value!r}: {found.rule}"
    places = _places(record.partition, partitions)
    flaw = places.flaw(record.topic, found.key, found.event)
    return f"key: invalid value {found.key!r}: {flaw}" if flaw else ""


@cache  # one for each partition
def _places(partition: int, partitions: int) -> RecordPlaces:
    return RecordPlaces(partition, partitions)
