"""The latest records of the topics, as kinds read them to show an object."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from copy import copy
from types import MappingProxyType
from typing import Any, Generic, NamedTuple, TypeGuard, TypeVar, cast

import orjson

from moorage.runtime.wire.packing import Packer
from moorage_schemas.base import Model
from moorage_schemas.budget import BudgetCounted
from moorage_schemas.condition import ConditionChanged, WorkloadConditionChanged
from moorage_schemas.eviction import EvictionDecided
from moorage_schemas.keys import BindingKey, ConditionKey, ResourceKey
from moorage_schemas.leave_request import LeaveRequested
from moorage_schemas.maintenance import MaintenanceProgressed
from moorage_schemas.placement import WorkloadBound, WorkloadPlaced
from moorage_schemas.resource import ResourceDeclared
from moorage_schemas.taint import TargetTainted
from moorage_schemas.timer import SetTimer
from moorage_schemas.topics import (
    BINDINGS,
    BUDGETS,
    CONDITIONS,
    EVICTION_REQUESTS,
    EVICTIONS,
    MAINTENANCES,
    PLACEMENTS,
    RESOURCES,
    TAINTS,
    TIMERS,
    WEBHOOK_STATUSES,
    WORKLOAD_CONDITIONS,
    ZONES,
)
from moorage_schemas.webhook_status import WebhookStatusChanged
from moorage_schemas.zone import ZoneChanged

Document = dict[str, Any]
Read = Callable[[bytes], Any | None]


class ObjectId(NamedTuple):
    """Names one object that the API shows."""

    kind: str
    namespace: str
    name: str
    cluster: str = ""
    """The cluster that it is in. Empty for the home fleet, and wherever only one fleet is known."""

    @property
    def key(self) -> str:
        """`Kind/namespace/name`, as in the topic `resources`. A cluster and a colon precede it."""
        key = f"{self.kind}/{self.namespace}/{self.name}"
        return f"{self.cluster}:{key}" if self.cluster else key

    @property
    def place(self) -> str:
        """The place of its kind (`place_of`)."""
        return place_of(self.kind, self.cluster)

    @property
    def local(self) -> ObjectId:
        """The object as its own fleet names it: without the cluster."""
        return self._replace(cluster="") if self.cluster else self

    @classmethod
    def of(cls, key: str) -> ObjectId:
        """Return the object that a record key of `resources` or `placements` names."""
        return cls(*ResourceKey.parse(key))


def place_of(kind: str, cluster: str = "") -> str:
    """Return where the objects of a kind are kept: under its name, after the name of the cluster if there is one."""
    return f"{cluster}:{kind}" if cluster else kind


EventT = TypeVar("EventT", bound=Model)
IndexT = TypeVar("IndexT")
ValueT = TypeVar("ValueT")

_RECENT = 64
"""Decoded records that each table keeps. The record that was just applied is read next, and owners are read often."""


class ObjectMap(Generic[ValueT]):
    """Values by the objects that they belong to, without keeping an `ObjectId` for each."""

    __slots__ = ("_kinds",)

    def __init__(self) -> None:
        self._kinds: dict[str, dict[str, dict[str, ValueT]]] = {}
        """By the place of their kind (`place_of`), the namespace and the name."""

    def get(self, object_id: ObjectId) -> ValueT | None:
        """Return the value of an object. None if there is none."""
        return self._kinds.get(object_id.place, {}).get(object_id.namespace, {}).get(object_id.name)

    def put(self, object_id: ObjectId, value: ValueT) -> None:
        """Set the value of an object."""
        namespaces = self._kinds.setdefault(object_id.place, {})
        namespaces.setdefault(object_id.namespace, {})[object_id.name] = value

    def discard(self, object_id: ObjectId) -> None:
        """Remove the value of an object, if there is one."""
        place, namespace = object_id.place, object_id.namespace
        namespaces = self._kinds.get(place, {})
        names = namespaces.get(namespace, {})
        if names.pop(object_id.name, None) is not None and not names:
            del namespaces[namespace]
            if not namespaces:
                del self._kinds[place]

    def sorted(self, place: str, namespace: str = "") -> Iterator[ValueT]:
        """Yield the values of a kind (`place_of`) in one namespace or in all, by namespace and name."""
        namespaces = self._kinds.get(place, {})
        for one in (namespace,) if namespace else sorted(namespaces):
            names = namespaces.get(one, {})
            for name in sorted(names):
                yield names[name]

    def __iter__(self) -> Iterator[ObjectId]:
        """Iterate over the objects in order. Others may be put and discarded meanwhile, and may be left out."""
        for place in sorted(self._kinds):
            cluster, _, kind = place.rpartition(":")
            for namespace in sorted(self._kinds.get(place, ())):
                for name in sorted(self._kinds.get(place, {}).get(namespace, ())):
                    yield ObjectId(kind, namespace, name, cluster)

    def names(self, place: str, namespace: str = "") -> dict[str, list[str]]:
        """Return the present names of the objects of a kind (`place_of`) by namespace, of one or of all."""
        namespaces = self._kinds.get(place, {})
        wanted = (namespace,) if namespace else tuple(namespaces)
        return {one: list(namespaces[one]) for one in wanted if one in namespaces}

    def __contains__(self, object_id: ObjectId) -> bool:
        return object_id.name in self._kinds.get(object_id.place, {}).get(object_id.namespace, {})

    def __len__(self) -> int:
        return sum(len(names) for namespaces in self._kinds.values() for names in namespaces.values())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ObjectMap) and self._kinds == other._kinds

    __hash__ = None  # type: ignore[assignment]  # it changes


class _Packed(Generic[EventT]):
    """Turns the records of one topic into few bytes and back."""

    __slots__ = ("_event", "_packer", "_read", "_recent")

    def __init__(self, event: type[EventT], read: Read | None) -> None:
        self._event = event
        self._read = read
        self._packer = Packer()
        self._recent: dict[bytes, EventT] = {}
        """The latest decoded records, by what is kept of them."""

    def takes(self, event: Model | None) -> TypeGuard[EventT]:
        """Return whether it is a record of the model."""
        return isinstance(event, self._event)

    def pack(self, event: EventT) -> bytes:
        """Return the bytes that are kept of a record."""
        packed = self._packer.pack(event.__pydantic_serializer__.to_json(event))
        self._remember(packed, event)
        return packed

    def event(self, packed: bytes) -> EventT:
        """Return the record."""
        found = self._recent.get(packed)
        if found is None:
            value = self._packer.unpack(packed)
            row = None if self._read is None else self._read(value)
            found = self._event.model_validate_json(value) if row is None else cast("EventT", row)
            self._remember(packed, found)
        return found

    def document(self, packed: bytes) -> Document:
        """Return the record as JSON."""
        found: Document = orjson.loads(self._packer.unpack(packed))
        return found

    def _remember(self, packed: bytes, event: EventT) -> None:
        if len(self._recent) >= _RECENT:
            del self._recent[next(iter(self._recent))]
        self._recent[packed] = event


class Table(Mapping[str, EventT]):
    """The latest record of each key of one topic, packed. A record is decoded each time it is read."""

    __slots__ = ("_kept", "_packed")

    def __init__(self, event: type[EventT], read: Read | None = None) -> None:
        self._packed = _Packed(event, read)
        self._kept: dict[str, bytes] = {}

    def __getitem__(self, key: str) -> EventT:
        return self._packed.event(self._kept[key])

    def __contains__(self, key: object) -> bool:
        return key in self._kept

    def __iter__(self) -> Iterator[str]:
        return iter(self._kept)

    def __len__(self) -> int:
        return len(self._kept)

    def records(self) -> Iterator[EventT]:
        """Yield the records of the present moment, however long it takes to go through them."""
        for kept in list(self._kept.values()):
            yield self._packed.event(kept)

    def put(self, key: str, event: Model | None) -> tuple[EventT | None, EventT | None]:
        """Take a record in. Anything but an event of the table's model is a tombstone.

        Returns:
            The earlier record of the key, and the one that is there now.
        """
        before = self.get(key)
        if not self._packed.takes(event):
            self._kept.pop(key, None)
            return before, None
        self._kept[key] = self._packed.pack(event)
        return before, event

    def latest(self, key: str) -> EventT | None:
        """Return the record of a key. None if there is none."""
        return self.get(key)

    def kept(self, key: str) -> bytes | None:
        """Return the bytes that are kept of the record of a key. Another record has another object."""
        return self._kept.get(key)

    def document(self, key: str) -> Document | None:
        """Return the record of a key as JSON. None if there is none."""
        kept = self._kept.get(key)
        return self._packed.document(kept) if kept is not None else None

    def size(self) -> int:
        """Return the number of records."""
        return len(self._kept)

    def with_record(self, key: str, event: EventT) -> Table[EventT]:
        """Return a copy of the table in which one record is another one. What is kept of the others is shared."""
        changed = copy(self)
        changed._kept = dict(self._kept)  # noqa: SLF001 - of the copy
        changed.put(key, event)
        return changed


class GroupedTable(Generic[EventT]):
    """The latest record of each key of one topic, packed, by group. Groups are small.

    `place` returns the group of a key, and the name of its record there. `read` is as in `Records`.
    """

    __slots__ = ("_groups", "_packed", "_place")

    def __init__(self, event: type[EventT], place: Callable[[str], tuple[str, str]], read: Read | None = None) -> None:
        self._packed = _Packed(event, read)
        self._place = place
        self._groups: dict[str, tuple[Any, ...]] = {}
        """Name, record, name, record, …: a tuple, because most groups have one or a few, and there are many groups."""

    def __contains__(self, group: object) -> bool:
        return group in self._groups

    def __len__(self) -> int:
        return len(self._groups)

    def group(self, group: str) -> dict[str, EventT]:
        """Return the records of a group, by name."""
        found = self._groups.get(group, ())
        return {name: self._packed.event(kept) for name, kept in zip(found[::2], found[1::2], strict=True)}

    def one(self, group: str, name: str) -> EventT | None:
        """Return one record of a group. None if there is none."""
        kept = self._find(group, name)
        return self._packed.event(kept) if kept is not None else None

    def records(self) -> Iterator[EventT]:
        """Yield the records of the present moment, however long it takes to go through them."""
        for found in list(self._groups.values()):
            for kept in found[1::2]:
                yield self._packed.event(kept)

    def put(self, key: str, event: Model | None) -> tuple[EventT | None, EventT | None]:
        """Put or remove a record. A group without records is removed."""
        group, name = self._place(key)
        known, before = self._groups.get(group, ()), self.one(group, name)
        at = len(known) if before is None else known[::2].index(name) * 2
        if self._packed.takes(event):
            self._groups[group] = (*known[:at], name, self._packed.pack(event), *known[at + 2 :])
            return before, event
        if before is not None:
            known = (*known[:at], *known[at + 2 :])
            if known:
                self._groups[group] = known
            else:
                del self._groups[group]
        return before, None

    def latest(self, key: str) -> EventT | None:
        """Return the record of a key. None if there is none."""
        return self.one(*self._place(key))

    def document(self, key: str) -> Document | None:
        """Return the record of a key as JSON. None if there is none."""
        kept = self._find(*self._place(key))
        return self._packed.document(kept) if kept is not None else None

    def size(self) -> int:
        """Return the number of records."""
        return sum(len(found) for found in self._groups.values()) // 2

    def _find(self, group: str, name: str) -> bytes | None:
        found = self._groups.get(group, ())
        return next((kept for known, kept in zip(found[::2], found[1::2], strict=True) if known == name), None)


def _by_target(key: str) -> tuple[str, str]:
    target, kind = ConditionKey.parse(key)
    return target, sys.intern(kind)


def _by_workload(key: str) -> tuple[str, str]:
    return BindingKey.parse(key).workload, key


class Records:
    """The latest record of each key of the topics that kinds read, and what indexes keep of them.

    Records are packed, and each is decoded when it is read. What is returned has the fields of the model. It may
    be a row, which is no instance of the model and has none of its methods.

    Args:
        indexes: one of each class (`Index`).
        reads: what reads the JSON of records of a topic faster than their model, by the topic's short name. It returns
            an object with the same fields, or None for what it leaves to the model.
    """

    def __init__(self, indexes: Iterable[object] = (), reads: Mapping[str, Read] = MappingProxyType({})) -> None:
        self.resources = Table(ResourceDeclared)
        self.taints = Table(TargetTainted)
        self.conditions = GroupedTable(ConditionChanged, _by_target, reads.get(CONDITIONS.short))
        """By target key, then by type."""

        self.placements = Table(WorkloadPlaced, reads.get(PLACEMENTS.short))
        self.bindings = Table(WorkloadBound, reads.get(BINDINGS.short))
        self.evictions = Table(EvictionDecided, reads.get(EVICTIONS.short))
        self.leaves = Table(LeaveRequested)
        self.timers = Table(SetTimer, reads.get(TIMERS.short))
        self.workload_conditions = GroupedTable(
            WorkloadConditionChanged, _by_workload, reads.get(WORKLOAD_CONDITIONS.short)
        )
        """By workload key, then by record key."""

        self.zones = Table(ZoneChanged)
        self.budgets = Table(BudgetCounted)
        self.maintenances = Table(MaintenanceProgressed)
        self.webhooks = Table(WebhookStatusChanged)
        self.tables: Mapping[str, Table[Any] | GroupedTable[Any]] = {
            RESOURCES.short: self.resources,
            TAINTS.short: self.taints,
            CONDITIONS.short: self.conditions,
            PLACEMENTS.short: self.placements,
            BINDINGS.short: self.bindings,
            EVICTIONS.short: self.evictions,
            EVICTION_REQUESTS.short: self.leaves,
            TIMERS.short: self.timers,
            WORKLOAD_CONDITIONS.short: self.workload_conditions,
            ZONES.short: self.zones,
            BUDGETS.short: self.budgets,
            MAINTENANCES.short: self.maintenances,
            WEBHOOK_STATUSES.short: self.webhooks,
        }
        """The tables by the short names of their topics."""

        self.traces: dict[str, str] = {}
        """The trace context of each eviction that is Requested, by its record key."""

        self._indexes = {type(index): index for index in indexes}

    def latest(self, topic: str, key: str) -> Model | None:
        """Return the latest record of a key. None if there is none."""
        return self.tables[topic].latest(key)

    def document(self, topic: str, key: str) -> Document | None:
        """Return the latest record of a key as JSON. None if there is none."""
        return self.tables[topic].document(key)

    def with_resource(self, key: str, resource: ResourceDeclared) -> Records:
        """Return the same records with another declaration of one object. Indexes do not count it."""
        changed = copy(self)
        changed.resources = self.resources.with_record(key, resource)
        changed.tables = {**self.tables, RESOURCES.short: changed.resources}
        return changed

    def indexes(self) -> Iterable[object]:
        """Return all indexes."""
        return self._indexes.values()

    def index(self, of: type[IndexT]) -> IndexT:
        """Return the index of a class. Raises KeyError if no kind names it."""
        return cast("IndexT", self._indexes[of])
