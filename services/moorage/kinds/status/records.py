"""The latest records of the topics, as kinds read them to show an object."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, TypeVar, cast

from moorage_schemas.base import Model
from moorage_schemas.budget import BudgetCounted
from moorage_schemas.condition import ConditionChanged, WorkloadConditionChanged
from moorage_schemas.eviction import EvictionDecided
from moorage_schemas.keys import BindingKey, ConditionKey, ResourceKey
from moorage_schemas.placement import WorkloadBound, WorkloadPlaced
from moorage_schemas.resource import ResourceDeclared
from moorage_schemas.taint import TargetTainted
from moorage_schemas.timer import SetTimer
from moorage_schemas.topics import (
    BINDINGS,
    BUDGETS,
    CONDITIONS,
    EVICTIONS,
    PLACEMENTS,
    RESOURCES,
    TAINTS,
    TIMERS,
    WORKLOAD_CONDITIONS,
    ZONES,
)
from moorage_schemas.zone import ZoneChanged

Document = dict[str, Any]


class ObjectId(NamedTuple):
    """Names one object that the API shows."""

    kind: str
    namespace: str
    name: str

    @property
    def key(self) -> str:
        """`Kind/namespace/name`, as in the topic `resources`."""
        return f"{self.kind}/{self.namespace}/{self.name}"

    @classmethod
    def of(cls, key: str) -> ObjectId:
        """The object that a record key of `resources` or `placements` names."""
        return cls(*ResourceKey.parse(key)[:3])


EventT = TypeVar("EventT", bound=Model)
IndexT = TypeVar("IndexT")


class Table(dict[str, EventT]):
    """The latest record of each key of one topic.

    Args:
        event: the model of its records.
    """

    __slots__ = ("_event",)

    def __init__(self, event: type[EventT]) -> None:
        super().__init__()
        self._event = event

    def put(self, key: str, event: Model | None) -> tuple[EventT | None, EventT | None]:
        """Take a record in. Anything but an event of the table's model is a tombstone.

        Returns:
            The earlier record of the key, and the one that is there now.
        """
        before = self.pop(key, None)
        if not isinstance(event, self._event):
            return before, None
        self[key] = event
        return before, event

    def latest(self, key: str) -> EventT | None:
        """The record of a key. None if there is none."""
        return self.get(key)

    def size(self) -> int:
        """The number of records."""
        return len(self)


class GroupedTable(dict[str, dict[str, EventT]]):
    """The latest record of each key of one topic, by group.

    Args:
        event: the model of its records.
        place: returns the group of a key, and the name of its record there.
    """

    __slots__ = ("_event", "_place")

    def __init__(self, event: type[EventT], place: Callable[[str], tuple[str, str]]) -> None:
        super().__init__()
        self._event = event
        self._place = place

    def put(self, key: str, event: Model | None) -> tuple[EventT | None, EventT | None]:
        """See `Table`. A group without records is removed."""
        group, name = self._place(key)
        known = self.get(group, {})
        before = known.get(name)
        if isinstance(event, self._event):
            if not known:
                self[group] = known
            known[name] = event
            return before, event
        if before is not None:
            del known[name]
            if not known:
                del self[group]
        return before, None

    def latest(self, key: str) -> EventT | None:
        """See `Table`."""
        group, name = self._place(key)
        return self.get(group, {}).get(name)

    def size(self) -> int:
        """See `Table`."""
        return sum(map(len, self.values()))


def _by_workload(key: str) -> tuple[str, str]:
    return BindingKey.parse(key).workload, key


class Records:
    """The latest record of each key of the topics that kinds read, and what indexes keep of them.

    Args:
        indexes: one of each class (`Index`).
    """

    def __init__(self, indexes: Iterable[object] = ()) -> None:
        self.resources = Table(ResourceDeclared)
        self.taints = Table(TargetTainted)
        self.conditions = GroupedTable(ConditionChanged, ConditionKey.parse)
        """By target key, then by type."""

        self.placements = Table(WorkloadPlaced)
        self.bindings = Table(WorkloadBound)
        self.evictions = Table(EvictionDecided)
        self.timers = Table(SetTimer)
        self.workload_conditions = GroupedTable(WorkloadConditionChanged, _by_workload)
        """By workload key, then by record key."""

        self.zones = Table(ZoneChanged)
        self.budgets = Table(BudgetCounted)
        self.tables: Mapping[str, Table[Any] | GroupedTable[Any]] = {
            RESOURCES.short: self.resources,
            TAINTS.short: self.taints,
            CONDITIONS.short: self.conditions,
            PLACEMENTS.short: self.placements,
            BINDINGS.short: self.bindings,
            EVICTIONS.short: self.evictions,
            TIMERS.short: self.timers,
            WORKLOAD_CONDITIONS.short: self.workload_conditions,
            ZONES.short: self.zones,
            BUDGETS.short: self.budgets,
        }
        """The tables by the short names of their topics."""

        self._indexes = {type(index): index for index in indexes}

    def latest(self, topic: str, key: str) -> Model | None:
        """The latest record of a key. None if there is none.

        Args:
            topic: the short name of the topic.
            key: of the record.
        """
        return self.tables[topic].latest(key)

    def index(self, of: type[IndexT]) -> IndexT:
        """The index of a class.

        Raises:
            KeyError: no kind names it.
        """
        return cast("IndexT", self._indexes[of])
