"""What the fleet's page shows, kept in short: targets by zone, open evictions, and workloads that wait.

The store tells of each change, which only notes the object. The notes are worked off when somebody looks, and in the
background when there are many. So the first look after a start, or after a quiet night, is as quick as any other, and
an object that changes again and again is read once.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final

from moorage.core.apimachinery.unstructured import at
from moorage.core.scheduling.ocm.cluster_sets import named_set
from moorage.gateway.store import FleetObjects
from moorage.kinds.families.targets import UNREPORTED
from moorage.kinds.node import zone_name
from moorage.kinds.printing.columns import condition_status, taint_text
from moorage.kinds.printing.sections import OPEN, why_evicted
from moorage.kinds.status.records import ObjectId
from moorage_schemas.placement import PlacementState
from moorage_schemas.resources.names import MANAGED_CLUSTER_AVAILABLE

NODE: Final = "Node"
CLUSTER: Final = "Cluster"
MANAGED_CLUSTER: Final = "ManagedCluster"
TARGETS: Final = (NODE, CLUSTER, MANAGED_CLUSTER)
EVICTION: Final = "Eviction"
PLACED: Final = "WorkloadPlacement"

READY: Final = "Ready"
NOT_READY: Final = "NotReady"
UNKNOWN: Final = "Unknown"
CORDONED: Final = "Cordoned"
HELD: Final = "Held"
STATES: Final = (NOT_READY, UNKNOWN, HELD, CORDONED, UNREPORTED, READY)
"""The states of targets, the ones to look at first."""

_WORDS: Final = {"True": READY, "False": NOT_READY, "Unknown": UNKNOWN}
_OPEN: Final = tuple(f'"state":"{state}"'.encode() for state in sorted(OPEN))
_PENDING: Final = f'"state":"{PlacementState.PENDING.value}"'.encode()
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
    """Of a node `region/zone`, of a cluster its region, of a managed cluster its set."""

    state: str
    """One of `STATES`: `Held` if a taint waits for its zone, `Cordoned` if it is healthy and takes nothing new."""

    readiness: str
    """What is known of its health: one of `STATES` but `Held` and `Cordoned`."""

    is_cordoned: bool
    taints: tuple[str, ...]
    held: tuple[str, ...]
    """Taints that wait, each with what it waits for."""

    metadata: Mapping[str, Any]
    """Name and labels of a managed cluster, from which its viewers follow. Empty for others."""


@dataclass(frozen=True, slots=True)
class EvictionRow:
    """An open eviction in short."""

    object_id: ObjectId
    state: str
    deadline: str
    workload: tuple[str, str, str]
    """Kind, namespace and name."""

    target: tuple[str, str]
    """Kind and name."""

    held_by: tuple[str, ...]
    why: str


@dataclass(frozen=True, slots=True)
class WaitingRow:
    """A workload that is on no target, in short."""

    object_id: ObjectId
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
        """What names it."""
        return self.kind, self.zone


class FleetIndex:
    """Follows the objects of one fleet.

    Args:
        store: the present objects.
    """

    def __init__(self, store: FleetObjects) -> None:
        self._store = store
        self._noted: dict[ObjectId, None] = {}
        self._many = asyncio.Event()
        self._places: dict[tuple[str, str], tuple[str, str]] = {}
        self._revision = 0
        self.zones: dict[tuple[str, str], ZoneRows] = {}
        self.evictions: dict[ObjectId, EvictionRow] = {}
        self.waiting: dict[ObjectId, WaitingRow] = {}
        for kind in TARGETS:
            store.tell(kind, self._target_changed)
        store.tell(EVICTION, self._eviction_changed)
        store.tell(PLACED, self._placement_changed)

    def _target_changed(self, object_id: ObjectId, _: bytes | None) -> None:
        self._note(object_id)

    def _eviction_changed(self, object_id: ObjectId, json: bytes | None) -> None:
        is_open = json is not None and any(state in json for state in _OPEN)
        if is_open or object_id in self.evictions or object_id in self._noted:
            self._note(object_id)

    def _placement_changed(self, object_id: ObjectId, json: bytes | None) -> None:
        is_pending = json is not None and _PENDING in json
        if is_pending or object_id in self.waiting or object_id in self._noted:
            self._note(object_id)

    def _note(self, object_id: ObjectId) -> None:
        self._noted[object_id] = None
        if len(self._noted) >= MANY:
            self._many.set()

    @property
    def notes(self) -> int:
        """How many objects have changed and are not read yet."""
        return len(self._noted)

    async def refresh(self) -> None:
        """Work off what was noted."""
        while self._noted:
            for object_id in list(islice(self._noted, _AT_ONCE)):
                del self._noted[object_id]
                self._read(object_id)
            await asyncio.sleep(0)

    async def follow(self) -> None:
        """Work off what was noted as soon as the store is ready, and from then on whenever it is much.

        It never returns.
        """
        while not self._store.ready:
            await self._store.history.wait()
        while True:
            await self.refresh()
            self._many.clear()
            await self._many.wait()

    def _read(self, object_id: ObjectId) -> None:
        shown = self._store.get(object_id)
        document = shown.document if shown is not None else None
        if object_id.kind == EVICTION:
            eviction = _eviction_row(object_id, document)
            if eviction is None:
                self.evictions.pop(object_id, None)
            else:
                self.evictions[object_id] = eviction
        elif object_id.kind == PLACED:
            waiting = _waiting_row(object_id, document)
            if waiting is None:
                self.waiting.pop(object_id, None)
            else:
                self.waiting[object_id] = waiting
        else:
            self._put_target(object_id, _target_row(object_id.kind, document) if document is not None else None)

    def _put_target(self, object_id: ObjectId, row: TargetRow | None) -> None:
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
        """The targets of a kind or of all, by zone and name."""
        for key in sorted(self.zones):
            if not kind or key[0] == kind:
                rows = self.zones[key].rows
                yield from (rows[name] for name in sorted(rows))

    def counts(self, zone: ZoneRows) -> dict[str, int]:
        """How many targets of a zone are in each state, those that are in none left out."""
        found: defaultdict[str, int] = defaultdict(int)
        for row in zone.rows.values():
            found[row.state] += 1
        return {state: found[state] for state in STATES if found[state]}


def zone_of(kind: str, document: Mapping[str, Any]) -> str:
    """The zone that a target is shown in."""
    if kind == NODE:
        found = zone_name(document)
        return "" if found == "/" else found
    if kind == CLUSTER:
        return str(at(document, "spec", "region") or "")
    return named_set(at(document, "metadata", "labels") or {})


def readiness(kind: str, document: Mapping[str, Any]) -> str:
    """What is known of the health of a target."""
    condition = MANAGED_CLUSTER_AVAILABLE if kind == MANAGED_CLUSTER else "Ready"
    return _WORDS.get(condition_status(document, condition), UNREPORTED)


def _target_row(kind: str, document: Mapping[str, Any]) -> TargetRow:
    health = readiness(kind, document)
    is_cordoned = bool(at(document, "spec", "unschedulable"))
    held = tuple(
        f"{taint_text(one)}: {one.get('reason') or 'held'}" for one in at(document, "status", "heldTaints") or ()
    )
    state = health
    if held:
        state = HELD
    elif is_cordoned and health in {READY, UNREPORTED}:
        state = CORDONED
    metadata = document["metadata"]
    return TargetRow(
        kind=kind,
        name=str(metadata["name"]),
        zone=zone_of(kind, document),
        state=state,
        readiness=health,
        is_cordoned=is_cordoned,
        taints=tuple(taint_text(one) for one in at(document, "spec", "taints") or ()),
        held=held,
        metadata={"name": metadata["name"], "labels": metadata.get("labels")} if kind == MANAGED_CLUSTER else {},
    )


def _eviction_row(object_id: ObjectId, document: Mapping[str, Any] | None) -> EvictionRow | None:
    """The row of an eviction. None if it is over."""
    status = at(document, "status") or {}
    if status.get("state") not in OPEN:
        return None
    workload, target = status["workload"], status["target"]
    return EvictionRow(
        object_id=object_id,
        state=str(status["state"]),
        deadline=str(status.get("deadline") or ""),
        workload=_workload(workload),
        target=(str(target["kind"]), str(target["name"])),
        held_by=tuple(map(str, status.get("heldBy") or ())),
        why=why_evicted(status),
    )


def _waiting_row(object_id: ObjectId, document: Mapping[str, Any] | None) -> WaitingRow | None:
    """The row of a workload. None if it does not wait."""
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
