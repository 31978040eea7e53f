"""Explains a target: what was reported of it, where its taints come from, what holds others, and what they evict."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from moorage.decide.kubernetes.object_texts import readiness
from moorage.decide.kubernetes.unstructured import at
from moorage.insight.explain.chain import Chain, EventRecord, Trail
from moorage.insight.explain.explanation import NotFoundError
from moorage.insight.explain.grounds import Grounds, declared_as
from moorage.insight.explain.wording import taint_words
from moorage_schemas.condition import ConditionChanged
from moorage_schemas.eviction import EvictionDecided, EvictionState
from moorage_schemas.keys import TargetKey
from moorage_schemas.refs import TargetKind
from moorage_schemas.resource import ResourceDeclared, resource_key
from moorage_schemas.resources.names import MANAGED_CLUSTER_AVAILABLE
from moorage_schemas.taint import HeldTaint, TaintEffect, TaintOrigin, TaintRecord, TargetTainted
from moorage_schemas.topics import CONDITIONS, EVICTIONS, TAINTS, ZONES
from moorage_schemas.zone import ZoneChanged

EVICTIONS_SHOWN: Final = 25
"""The largest number of evictions that are shown, unless all are requested."""

_URGENCY: Final = {
    state: number
    for number, state in enumerate(
        (
            EvictionState.REQUESTED,
            EvictionState.HELD,
            EvictionState.SCHEDULED,
            EvictionState.COMPLETED,
            EvictionState.CANCELLED,
        )
    )
}
_OVER: Final = frozenset({EvictionState.COMPLETED, EvictionState.CANCELLED})
_NEVER: Final = datetime.max.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class ExplainedCondition:
    """One condition of the target."""

    event: ConditionChanged
    record: EventRecord


@dataclass(frozen=True, slots=True)
class Beginning:
    """The record with which something began."""

    record: EventRecord
    """The earliest record that still exists in which it is."""

    known: bool = True
    """Whether it began with that record. False if earlier records of the target's taints no longer exist."""


@dataclass(frozen=True, slots=True)
class ExplainedTaint:
    """One taint on the target."""

    taint: TaintRecord
    origins: tuple[tuple[TaintOrigin, Beginning], ...]
    """Each origin of the taint, and since when it is one."""

    evictions: int = 0
    """The number of evictions that are not over and are due to this taint."""


@dataclass(frozen=True, slots=True)
class ExplainedWait:
    """One taint that should be on the target but has to wait."""

    taint: HeldTaint
    began: Beginning
    zone: ZoneChanged | None = None
    """The zone whose rate holds it. None if something else does, or the zone is not known."""

    place: int | None = None
    """The target's place among those that wait in the zone, from 1. None if it is not among the first."""


@dataclass(frozen=True, slots=True)
class ExplainedEviction:
    """One eviction from the target."""

    event: EvictionDecided
    record: EventRecord


@dataclass(slots=True)
class TargetExplanation:
    """The explanation of a target's state."""

    target: str
    """Its key, such as `Node/n1`."""

    at: datetime
    """The time of the state that is explained."""

    status: str
    """Its health: `Ready`, `NotReady`, `Unknown` or `Unreported`."""

    is_cordoned: bool = False
    zone: str = ""
    """The zone of a node, `region/zone`. Empty for clusters."""

    zone_state: ZoneChanged | None = None
    """The state of that zone. None if it is not known."""

    incident_time: datetime | None = None
    """Since when a node is not ready. None while it is ready, and for clusters."""

    tainted: EventRecord | None = None
    """The last record of its taints. None if there is none."""

    conditions: tuple[ExplainedCondition, ...] = ()
    taints: tuple[ExplainedTaint, ...] = ()
    waits: tuple[ExplainedWait, ...] = ()
    evictions: tuple[ExplainedEviction, ...] = ()
    """Those that are shown, the most urgent first."""

    counts: dict[str, int] = field(default_factory=dict)
    """The number of all its evictions in each state."""

    left_out: int = 0
    """The number of evictions that are not shown."""

    every: bool = False
    """Whether the chain of each eviction is wanted, not only that of the first."""

    chains: tuple[Chain, ...] = ()

    def behind(self) -> Iterable[tuple[str, EventRecord]]:
        """Yield the records whose chains are shown, with what they are."""
        where = called(self.target)
        for taint in self.taints:
            for origin, begun in taint.origins:
                more = f" ({origin.value})" if len(taint.origins) > 1 else ""
                yield f"the taint {taint_words(taint.taint)} of {where}{more}{_since(begun)}", begun.record
        for wait in self.waits:
            what = f"{wait.taint.key}:{wait.taint.effect}"
            yield f"the wait of taint {what} of {where}{_since(wait.began)}", wait.began.record
        for condition in self.conditions:
            event = condition.event
            yield f"the condition {event.type}={event.status.value} of {where}", condition.record
        for eviction in self.evictions if self.every else self.evictions[:1]:
            ref = eviction.event.workload
            name = f"{ref.namespace}/{ref.name}" if ref.namespace else ref.name
            yield f"the eviction of {ref.kind.lower()} {name} from {where}", eviction.record


def called(target: str) -> str:
    """Return a target by its key in words: `node n1`."""
    kind, _, name = target.partition("/")
    return f"{kind.lower()} {name}"


def _since(begun: Beginning) -> str:
    return "" if begun.known else ", from the earliest record that still exists"


def explain_target(
    grounds: Grounds, kind: str, name: str, resource: str, *, every: bool = False, cluster: str = ""
) -> TargetExplanation:
    """Explain the state of a target.

    Args:
        grounds: the present state.
        kind: `Node`, `Cluster` or `ManagedCluster`.
        name: the name of the target.
        resource: the plural of its kind, for the message.
        every: whether to show all evictions, each with its chain.
        cluster: the cluster that it is in; empty for the home fleet.

    Raises:
        NotFoundError: there is no such target.
    """
    declared = declared_as(grounds, resource_key(kind, "", name, cluster))
    if declared is None:
        raise NotFoundError(resource, name)
    return _Target(grounds, str(TargetKey(kind, name, cluster)), declared, every=every).tell()


def trace_taints(told: TargetExplanation, older: Iterable[EventRecord]) -> None:
    """Find the records with which the present taints and waits of a target began.

    Args:
        told: the explanation.
        older: earlier records of the target's taints, in any order.
    """
    if told.tainted is None:
        return
    records = _newest_first(told.tainted, older)
    told.taints = tuple(
        ExplainedTaint(
            one.taint,
            tuple((origin, _beginning(records, _is_there(one.taint, origin))) for origin in one.taint.origins),
            one.evictions,
        )
        for one in told.taints
    )
    told.waits = tuple(
        ExplainedWait(one.taint, _beginning(records, _is_held(one.taint)), one.zone, one.place) for one in told.waits
    )


class _Target:
    """Explains one target."""

    def __init__(self, grounds: Grounds, target: str, declared: ResourceDeclared, *, every: bool) -> None:
        self.grounds, self.target, self.declared, self.every = grounds, target, declared, every
        self.kind = TargetKey.parse(target).kind
        kept = grounds.last(TAINTS, target)
        event = kept.event if kept is not None else None
        is_mine = isinstance(event, TargetTainted) and self._is_mine(event.target_uid)
        self.kept = kept if is_mine else None
        self.tainted = event if isinstance(event, TargetTainted) and is_mine else None

    def tell(self) -> TargetExplanation:
        """Return the explanation."""
        tainted = self.tainted
        zone = tainted.zone if tainted is not None and self.kind == TargetKind.NODE.value else ""
        conditions = tuple(self._conditions())
        told = TargetExplanation(
            target=self.target,
            at=self.grounds.taken,
            status=self._status(conditions),
            is_cordoned=bool(at(self.declared.object, "spec", "unschedulable")),
            zone=zone,
            zone_state=self._zone(zone),
            incident_time=tainted.incident_time if tainted is not None else None,
            tainted=self.kept,
            conditions=conditions,
            every=self.every,
        )
        self._evictions(told)
        if tainted is not None and self.kept is not None:
            self._taints(told, tainted, self.kept)
        told.chains = tuple(Trail(self.grounds.records).chains(told.behind()))
        return told

    def _is_mine(self, uid: str) -> bool:
        """Return whether a record is about this target, and not about an earlier one of its name."""
        return uid in {"", self.declared.uid}

    def _conditions(self) -> Iterator[ExplainedCondition]:
        """Yield the conditions: first the one about the target's health, then the others by name."""
        found = [
            ExplainedCondition(record.event, record)
            for record in self.grounds.about(CONDITIONS, self.target)
            if isinstance(record.event, ConditionChanged) and self._is_mine(record.event.target_uid)
        ]
        yield from sorted(found, key=lambda one: (one.event.type != self._readiness, one.event.type))

    @property
    def _readiness(self) -> str:
        return MANAGED_CLUSTER_AVAILABLE if self.kind == TargetKind.MANAGED_CLUSTER.value else "Ready"

    def _status(self, conditions: Iterable[ExplainedCondition]) -> str:
        ready = next((one.event for one in conditions if one.event.type == self._readiness), None)
        return readiness("" if ready is None else ready.status.value)

    def _zone(self, zone: str) -> ZoneChanged | None:
        kept = self.grounds.last(ZONES, zone) if zone else None
        return kept.event if kept is not None and isinstance(kept.event, ZoneChanged) else None

    def _evictions(self, told: TargetExplanation) -> None:
        found = [
            ExplainedEviction(record.event, record)
            for record in self.grounds.about(EVICTIONS, self.target)
            if isinstance(record.event, EvictionDecided)
        ]
        found.sort(key=_urgency)
        told.counts = dict(sorted(Counter(one.event.state.value for one in found).items()))
        told.evictions = tuple(found if self.every else found[:EVICTIONS_SHOWN])
        told.left_out = len(found) - len(told.evictions)
        self.causing = Counter(
            taint.identity for one in found if one.event.state not in _OVER for taint in one.event.taints
        )

    def _taints(self, told: TargetExplanation, tainted: TargetTainted, kept: EventRecord) -> None:
        last = Beginning(kept)
        told.taints = tuple(
            ExplainedTaint(taint, tuple((origin, last) for origin in taint.origins), self.causing[taint.identity])
            for taint in tainted.taints
        )
        told.waits = tuple(self._wait(held, last, told, tainted) for held in tainted.held)
        trace_taints(told, ())

    def _wait(self, held: HeldTaint, last: Beginning, told: TargetExplanation, tainted: TargetTainted) -> ExplainedWait:
        # Only an incident of a node waits for its zone. A taint with that effect on a cluster waits for a hold.
        zone = told.zone_state if tainted.incident and held.effect == TaintEffect.NO_EXECUTE else None
        queue = [one.target for one in zone.queue] if zone is not None else []
        place = queue.index(self.target) + 1 if self.target in queue else None
        return ExplainedWait(held, last, zone, place)


def _urgency(one: ExplainedEviction) -> tuple[int, datetime, str]:
    """Return the rank of an eviction: by state, then the earliest first, and of ended ones the latest first."""
    event = one.event
    when = event.deadline or event.decided_time
    if event.state in _OVER:
        when = datetime.min.replace(tzinfo=UTC) + (_NEVER - event.decided_time)
    return _URGENCY[event.state], when, one.record.key


def _newest_first(last: EventRecord, older: Iterable[EventRecord]) -> Sequence[tuple[EventRecord, TargetTainted]]:
    """Return the records of a target's taints by generation, each once."""
    newest = last.event
    found: dict[int, tuple[EventRecord, TargetTainted]] = {}
    for record in (last, *older):
        event = record.event
        if (
            isinstance(newest, TargetTainted)
            and isinstance(event, TargetTainted)
            and event.generation <= newest.generation
        ):
            found.setdefault(event.generation, (record, event))
    return [found[generation] for generation in sorted(found, reverse=True)]


def _beginning(records: Sequence[tuple[EventRecord, TargetTainted]], has: Callable[[TargetTainted], bool]) -> Beginning:
    """Return the record with which something of the last record began."""
    first, event = records[0]
    for record, before in records[1:]:
        if before.target_uid != event.target_uid or not has(before):  # generations go on in the next life of a name
            return Beginning(first, known=before.generation == event.generation - 1)
        first, event = record, before
    return Beginning(first, known=event.generation == 1)


def _is_there(taint: TaintRecord, origin: TaintOrigin) -> Callable[[TargetTainted], bool]:
    def has(event: TargetTainted) -> bool:
        return any(
            (one.identity, one.time_added) == (taint.identity, taint.time_added) and origin in one.origins
            for one in event.taints
        )

    return has


def _is_held(held: HeldTaint) -> Callable[[TargetTainted], bool]:
    def has(event: TargetTainted) -> bool:
        return any((one.key, one.effect, one.since) == (held.key, held.effect, held.since) for one in event.held)

    return has
