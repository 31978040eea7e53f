"""The gateway's tables: the latest record of each key of the topics, and which objects a record changes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from moorage.apiserver.kinds.kind import View, discovered
from moorage.apiserver.kinds.status.dependents import DependentIndex
from moorage.apiserver.kinds.status.index import Index, MirroredIndex, Unsettled, ViewIndex
from moorage.apiserver.kinds.status.records import ObjectId, Records
from moorage.runtime.wire.row_reader import RowReader
from moorage_schemas.base import Model
from moorage_schemas.condition import ConditionChanged, WorkloadConditionChanged
from moorage_schemas.eviction import EvictionDecided, EvictionState
from moorage_schemas.placement import WorkloadBound, WorkloadPlaced
from moorage_schemas.timer import SetTimer
from moorage_schemas.topics import (
    BINDINGS,
    CONDITIONS,
    EVICTIONS,
    PLACEMENTS,
    RESOURCES,
    TIMERS,
    TOPICS,
    WEBHOOK_STATUSES,
    WORKLOAD_CONDITIONS,
    Topic,
)

READ: tuple[Topic, ...] = tuple(topic for topic in TOPICS if topic.short in Records().tables)
"""The topics that the gateway reads whole: those of the tables."""

_NAMED_BY_KEY = frozenset({RESOURCES.short, PLACEMENTS.short, WEBHOOK_STATUSES.short})
"""Topics whose record keys name objects."""


_ROWS: Final[Mapping[str, RowReader]] = {
    CONDITIONS.short: RowReader(ConditionChanged),
    PLACEMENTS.short: RowReader(WorkloadPlaced, shared=("leaving", "conditions")),
    BINDINGS.short: RowReader(WorkloadBound, shared=("tolerations", "labels")),
    EVICTIONS.short: RowReader(
        EvictionDecided, shared=("held_by", "taints", "requesters", "escalated", "acknowledged")
    ),
    TIMERS.short: RowReader(SetTimer),
    WORKLOAD_CONDITIONS.short: RowReader(WorkloadConditionChanged),
}
"""Readers of the topics with many records. The models of their records would take most of the time of showing them."""


class Tables(Records):
    """The latest record of each key of the topics in `READ`, of one fleet. Only `apply` changes it.

    In a cluster, other controllers settle what changes, so nothing is noted for those of the gateway.

    Raises:
        TypeError: an index follows a topic that is not read.
    """

    topics = READ

    def __init__(self, *, is_home: bool = True) -> None:
        kinds = discovered()
        views = [kind for kind in kinds if isinstance(kind, View) and kind.made_from and kind.kept]
        named = dict.fromkeys(index for kind in kinds for index in kind.indexes)
        indexes: list[Index] = [ViewIndex(views), DependentIndex(), MirroredIndex(), *(index() for index in named)]
        super().__init__(indexes, {short: reader.read for short, reader in _ROWS.items()})
        self.count = 0
        """The number of all records."""

        noted = (getattr(index, "unsettled", None) for index in indexes if not is_home)
        self._passed_over = [one for one in noted if isinstance(one, Unsettled)]
        self._followers: dict[str, list[Index]] = {topic: [] for topic in self.tables}
        for index in indexes:
            for topic in index.topics:
                if topic not in self._followers:
                    raise TypeError(
                        f"{type(index).__name__} follows the topic {topic}, which the gateway does not read"
                    )
                self._followers[topic].append(index)

    def apply(self, topic: Topic, key: str, event: Model | None, traceparent: str = "") -> set[ObjectId]:
        """Fold one record in, and return the objects that may look different now. An event of None is a tombstone."""
        short = topic.short
        if topic is EVICTIONS:
            if traceparent and isinstance(event, EvictionDecided) and event.state == EvictionState.REQUESTED:
                self.traces[key] = traceparent
            else:
                self.traces.pop(key, None)
        before, after = self.tables[short].put(key, event)
        self.count += (after is not None) - (before is not None)
        touched = {ObjectId.of(key)} if short in _NAMED_BY_KEY else set()
        for index in self._followers[short]:
            touched.update(index.changed(short, key, before, after, self))
        for unsettled in self._passed_over:
            unsettled.clear()
        return touched

    def sizes(self) -> dict[str, int]:
        """Records of each table, by the topic's short name."""
        return {topic: table.size() for topic, table in self.tables.items()}
