"""The index of the fleet's page: targets by zone, open evictions, and unscheduled workloads.

The watches of the console tell of each change, which only notes the object. The notes are worked off when a page is
made, and in the background when there are many. So the first page after a start, or after a quiet night, is as quick as
any other, and an object that changes again and again is read once.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final, NamedTuple, TypeVar

from typing_extensions import override

from moorage.console.kinds import CLUSTER, EVICTION, MANAGED_CLUSTER, NODE, PLACED, TARGETS, ObjectName
from moorage.console.watches import Listener, Watches
from moorage.decide.disruption.object_names import shown_zone
from moorage.decide.kubernetes import object_texts
from moorage.decide.kubernetes.object_texts import (
    UNREPORTED,
    condition_status,
    taint_text,
    why_evicted,
    zone_name,
)
from moorage.decide.kubernetes.unstructured import at
from moorage.decide.scheduling.ocm.cluster_sets import named_set
from moorage_schemas.placement import PlacementState
from moorage_schemas.resources.names import MANAGED_CLUSTER_AVAILABLE
from moorage_schemas.taint import TaintEffect
from moorage_schemas.times import parse_time

READY: Final = "Ready"
NOT_READY: Final = "NotReady"
UNKNOWN: Final = "Unknown"
STATES: Final = (NOT_READY, UNKNOWN, UNREPORTED, READY)
"""The states of the health of targets, most urgent first. They are those of `moorage get` and `moorage status`."""

TAINTED: Final = "Tainted"
HELD: Final = "Held"
CORDONED: Final = "Cordoned"
MARKS: Final[Mapping[str, str]] = {TAINTED: "Tainted", HELD: "Taint held", CORDONED: "Cordoned"}
"""The marks of targets with their texts. A target has any number of them beside its state: `Held` while a taint waits.
Evictions have a state of that name, so pages show the text."""

_EFFECTS: Final[Mapping[str, str]] = {
    TaintEffect.NO_EXECUTE: "evicts",
    TaintEffect.NO_SELECT: "evicts",
    TaintEffect.NO_SCHEDULE: "blocks",
    TaintEffect.NO_SELECT_IF_NEW: "blocks",
    TaintEffect.PREFER_NO_SCHEDULE: "avoided",
    TaintEffect.PREFER_NO_SELECT: "avoided",
}
IMPACTS: Final = tuple(dict.fromkeys(_EFFECTS.values()))
"""The impacts of taints, the strongest first: workloads leave, none are added, or other targets are preferred."""

OPEN_STATES: Final = ("Requested", "Held", "Scheduled")
"""The states of evictions that have not ended, the most urgent first."""

ENDED_STATES: Final = ("Completed", "Cancelled")

INDEXED: Final = (*TARGETS, EVICTION, PLACED)
"""The kinds that are kept in short."""

_AT_ONCE: Final = 50
"""Objects that are read before others get the processor: half a millisecond."""

MANY: Final = 1_000
"""Notes that are not left to the next look, for which they would take some 10 ms."""


@dataclass(frozen=True, slots=True)
class TargetRow:
    """A target in short."""

    kind: str
    name: str
    zone: str
    """Of a node `region/zone` or `none`, of a cluster its region, of a managed cluster its set. Empty without one."""

    state: str
    """Its health, one of `STATES`."""

    since: str
    """When its health changed last. Empty if it was never reported."""

    is_cordoned: bool
    taints: tuple[str, ...]
    held: tuple[str, ...]
    """Taints that wait, each with what it waits for."""

    metadata: Mapping[str, Any]
    """Name and labels of a managed cluster, from which its viewers follow. Empty for others."""

    @property
    def impact(self) -> str:
        """The strongest of `IMPACTS` that its taints have. Empty without taints."""
        return min((_EFFECTS.get(text.rpartition(":")[2], "") for text in self.taints), key=_rank, default="")

    @property
    def marks(self) -> tuple[str, ...]:
        """Those of `MARKS` that it has."""
        return tuple(mark for mark, has in zip(MARKS, (self.taints, self.held, self.is_cordoned), strict=True) if has)


@dataclass(frozen=True, slots=True)
class EvictionRow:
    """An open eviction in short."""

    object_id: ObjectName
    state: str
    deadline: str
    workload: tuple[str, str, str]
    """Kind, namespace and name."""

    target: tuple[str, str]
    """Kind and name."""

    held_by: tuple[str, ...]
    why: str
    since: str
    """When the taint was set for which the workload leaves. When this was decided, without such a time."""

    decided: str
    """When it got its present state, or was written last."""

    requested: str
    ended: str = ""
    """When it was completed or cancelled. Empty while it is open."""


class EndedRow(NamedTuple):
    """An eviction that has ended, as little of it as finds it again. There may be many."""

    object_id: ObjectName
    state: str
    ended: str


@dataclass(frozen=True, slots=True)
class WaitingRow:
    """A workload that is on no target, in short."""

    object_id: ObjectName
    workload: tuple[str, str, str]
    reason: str
    message: str
    since: str


@dataclass(slots=True)
class ZoneRows:
    """The targets of a kind in one zone."""

    kind: str
    zone: str
    rows: dict[str, TargetRow] = field(default_factory=dict)
    """By name."""

    revision: int = 0
    """Changes with each change of a row."""

    @property
    def key(self) -> tuple[str, str]:
        """Its identity."""
        return self.kind, self.zone


RowT = TypeVar("RowT")


def _rank(impact: str) -> int:
    return IMPACTS.index(impact) if impact in IMPACTS else len(IMPACTS)


class FleetIndex(Listener):
    """The objects of one fleet in short, as they change."""

    kinds: tuple[str, ...] = INDEXED

    def __init__(self, watches: Watches, cluster: str) -> None:
        self._watches = watches
        self._cluster = cluster
        self._noted: dict[ObjectName, Mapping[str, Any] | None] = {}
        self._many = asyncio.Event()
        self._places: dict[tuple[str, str], tuple[str, str]] = {}
        self._revision = 0
        self.zones: dict[tuple[str, str], ZoneRows] = {}
        self.evictions: dict[ObjectName, EvictionRow] = {}
        self.past: dict[ObjectName, EndedRow] = {}
        """Evictions that have ended. The API has them for a day (`MOORAGE_EVICTION_RETENTION`)."""

        self.minutes: dict[ObjectName, int] = {}
        """The minute of the epoch in which each eviction was requested."""

        self.requested: dict[str, Counter[int]] = {}
        """The number of evictions that were requested in each minute of the epoch, by namespace."""

        self.waiting: dict[ObjectName, WaitingRow] = {}
        self.is_over = False
        """Whether its watches have ended. Another index takes its place."""

        watches.listen(cluster, self)

    @override
    def changed(self, kind: str, namespace: str, name: str, document: Mapping[str, Any] | None) -> None:
        object_id = ObjectName(kind, namespace, name)
        if kind == PLACED:
            is_shown = at(document, "status", "state") == PlacementState.PENDING.value or object_id in self.waiting
        else:
            is_shown = True
        if is_shown or object_id in self._noted:
            self._noted[object_id] = document
            if len(self._noted) >= MANY:
                self._many.set()

    @override
    def ended(self) -> None:
        self.is_over = True
        self._many.set()

    @property
    def notes(self) -> int:
        """How many objects have changed and are not read yet."""
        return len(self._noted)

    async def refresh(self) -> None:
        """Work off what was noted. Raises PageError if the API does not show the objects."""
        for kind in self.kinds:
            await self._watches.of(kind, self._cluster)
        while self._noted:
            for object_id in list(islice(self._noted, _AT_ONCE)):
                self._read(object_id, self._noted.pop(object_id))
            await asyncio.sleep(0)

    async def follow(self) -> None:
        """Work off many notes in the background, until the watches end.

        Raises:
            PageError: the API does not show the objects.
        """
        while not self.is_over:
            await self.refresh()
            self._many.clear()
            if not self.is_over:
                await self._many.wait()

    def _read(self, object_id: ObjectName, document: Mapping[str, Any] | None) -> None:
        if object_id.kind == EVICTION:
            self._put_eviction(object_id, at(document, "status") or {})
        elif object_id.kind == PLACED:
            _put(self.waiting, object_id, _waiting_row(object_id, document))
        else:
            row = _target_row(object_id.kind, document) if document is not None else None
            self._put_target(object_id, row)

    def _put_eviction(self, object_id: ObjectName, status: Mapping[str, Any]) -> None:
        state = status.get("state")
        _put(self.evictions, object_id, eviction_row(object_id, status) if state in OPEN_STATES else None)
        before = self.minutes.get(object_id)
        requested = _minute(status.get("requestedTime")) if state else None
        if before != requested:
            self._count(object_id.namespace, before, -1)
            self._count(object_id.namespace, requested, 1)
            _put(self.minutes, object_id, requested)
        ended = EndedRow(object_id, str(state), str(status["decidedTime"])) if state in ENDED_STATES else None
        _put(self.past, object_id, ended)

    def _count(self, namespace: str, minute: int | None, more: int) -> None:
        """Count an eviction that was requested in a minute."""
        if minute is None:
            return
        counts = self.requested.setdefault(namespace, Counter())
        counts[minute] += more
        if not counts[minute]:
            del counts[minute]
        if not counts:
            del self.requested[namespace]

    def _put_target(self, object_id: ObjectName, row: TargetRow | None) -> None:
        named = (object_id.kind, object_id.name)
        before = self._places.pop(named, None)
        place = (row.kind, row.zone) if row is not None else None
        if before is not None and before != place:
            zone = self.zones[before]
            del zone.rows[object_id.name]
            self._mark(zone)
            if not zone.rows:
                del self.zones[before]
        if row is None or place is None:
            return
        self._places[named] = place
        zone = self.zones.setdefault(place, ZoneRows(*place))
        if zone.rows.get(row.name) != row:
            zone.rows[row.name] = row
            self._mark(zone)

    def _mark(self, zone: ZoneRows) -> None:
        self._revision += 1
        zone.revision = self._revision

    def targets(self, kind: str = "") -> Iterator[TargetRow]:
        """Yield the targets of a kind or of all, by zone and name."""
        for key in sorted(self.zones):
            if not kind or key[0] == kind:
                rows = self.zones[key].rows
                yield from (rows[name] for name in sorted(rows))


def counts(rows: Iterable[TargetRow]) -> Counter[str]:
    """Return how many targets are in each state, and how many have each mark."""
    found: Counter[str] = Counter()
    for row in rows:
        found[row.state] += 1
        found.update(row.marks)
    return found


def _put(rows: dict[ObjectName, RowT], object_id: ObjectName, row: RowT | None) -> None:
    if row is None:
        rows.pop(object_id, None)
    else:
        rows[object_id] = row


def _minute(when: Any) -> int | None:
    """Return the minute of the epoch of a time. None without one."""
    return int(parse_time(str(when)).timestamp() // 60) if when else None


def zone_of(kind: str, document: Mapping[str, Any]) -> str:
    """Return the zone that a target is shown in."""
    if kind == NODE:
        return shown_zone(zone_name(document))
    if kind == CLUSTER:
        return str(at(document, "spec", "region") or "")
    return named_set(at(document, "metadata", "labels") or {})


def readiness(kind: str, document: Mapping[str, Any]) -> str:
    """Return the health of a target."""
    return object_texts.readiness(condition_status(document, _main_condition(kind)))


def _main_condition(kind: str) -> str:
    return MANAGED_CLUSTER_AVAILABLE if kind == MANAGED_CLUSTER else "Ready"


def _health_since(kind: str, document: Mapping[str, Any]) -> str:
    conditions = at(document, "status", "conditions") or ()
    main = _main_condition(kind)
    return next((str(one.get("lastTransitionTime") or "") for one in conditions if one.get("type") == main), "")


def _target_row(kind: str, document: Mapping[str, Any]) -> TargetRow:
    held = tuple(
        f"{taint_text(one)}: {one.get('reason') or 'held'}" for one in at(document, "status", "heldTaints") or ()
    )
    metadata = document["metadata"]
    return TargetRow(
        kind=kind,
        name=str(metadata["name"]),
        zone=zone_of(kind, document),
        state=readiness(kind, document),
        since=_health_since(kind, document),
        is_cordoned=bool(at(document, "spec", "unschedulable")),
        taints=tuple(taint_text(one) for one in at(document, "spec", "taints") or ()),
        held=held,
        metadata={"name": metadata["name"], "labels": metadata.get("labels")} if kind == MANAGED_CLUSTER else {},
    )


def eviction_row(object_id: ObjectName, status: Mapping[str, Any]) -> EvictionRow:
    """Return the row of an eviction, be it open or not."""
    workload, target = status["workload"], status["target"]
    decided = str(status.get("decidedTime") or "")
    added = [str(taint["timeAdded"]) for taint in status.get("taints") or () if taint.get("timeAdded")]
    return EvictionRow(
        object_id=object_id,
        state=str(status["state"]),
        deadline=str(status.get("deadline") or ""),
        workload=_workload(workload),
        target=(str(target["kind"]), str(target["name"])),
        held_by=tuple(map(str, status.get("heldBy") or ())),
        why=why_evicted(status),
        since=min(added, default=decided),
        decided=decided,
        requested=str(status.get("requestedTime") or ""),
        ended=decided if status.get("state") in ENDED_STATES else "",
    )


def _waiting_row(object_id: ObjectName, document: Mapping[str, Any] | None) -> WaitingRow | None:
    """Return the row of a workload. None if it does not wait."""
    status = at(document, "status") or {}
    if status.get("state") != PlacementState.PENDING.value:
        return None
    return WaitingRow(
        object_id=object_id,
        workload=_workload(status["workload"]),
        reason=str(status.get("reason") or ""),
        message=str(status.get("message") or ""),
        since=str(status.get("decidedTime") or ""),
    )


def _workload(reference: Mapping[str, Any]) -> tuple[str, str, str]:
    return str(reference["kind"]), str(reference.get("namespace") or ""), str(reference["name"])
