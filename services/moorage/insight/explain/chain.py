"""The events behind a decision: from each record back to the one that caused it, as far as records still exist.

Every record names its cause (`causationid`) and the first event of its chain (`correlationid`). Compacted topics keep
only the last record of a key, so a cause may no longer exist. The chain then shows this, and continues with the nearest
earlier record of the same chain.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Protocol

from typing_extensions import override

from moorage_schemas.base import Model
from moorage_schemas.envelope import Meta, event_id
from moorage_schemas.keys import ConditionKey, ResourceKey
from moorage_schemas.placement import WorkloadPlaced
from moorage_schemas.timer import SetTimer, TimerFired
from moorage_schemas.topics import (
    BINDINGS,
    BUDGETS,
    CONDITION_REPORTS,
    CONDITIONS,
    EVICTION_ANSWERS,
    EVICTION_ASKS,
    EVICTION_REQUESTS,
    EVICTION_SLOTS,
    EVICTIONS,
    MAINTENANCES,
    PLACEMENTS,
    RESOURCES,
    TAINTS,
    TIMER_FIRED,
    TIMERS,
    WORKLOAD_CONDITIONS,
    ZONE_GRANTS,
    ZONE_MEMBERS,
    ZONES,
    Topic,
)
from moorage_schemas.zone import NoExecuteGranted

_WAY: Final[tuple[tuple[Topic, ...], ...]] = (
    (CONDITION_REPORTS, RESOURCES),
    (CONDITIONS, WORKLOAD_CONDITIONS),
    (ZONE_MEMBERS, ZONES),
    (ZONE_GRANTS,),
    (MAINTENANCES,),
    (TAINTS, EVICTION_REQUESTS),
    (EVICTION_ASKS, EVICTION_SLOTS, BUDGETS),
    (EVICTION_ANSWERS,),
    (TIMERS,),
    (TIMER_FIRED,),
    (EVICTIONS,),
    (PLACEMENTS,),
    (BINDINGS,),
)
_STAGE: Final[Mapping[str, int]] = {topic.short: stage for stage, topics in enumerate(_WAY) for topic in topics}
"""The position of a topic on the way from a report to a binding."""

_LONGEST: Final = 50


class EventRecord(Protocol):
    """A record of a topic, with its offset and attributes. The event may be decoded on demand."""

    @property
    def topic(self) -> Topic:
        """The topic."""

    @property
    def partition(self) -> int:
        """The partition."""

    @property
    def offset(self) -> int:
        """The offset."""

    @property
    def key(self) -> str:
        """The key."""

    @property
    def event(self) -> Model | None:
        """None for a tombstone."""

    @property
    def meta(self) -> Meta:
        """The attributes."""

    @property
    def timestamp(self) -> datetime:
        """Kafka's timestamp of the record."""


@dataclass(frozen=True, slots=True)
class Step:
    """One event of a chain."""

    record: EventRecord | None
    """None if the record no longer exists, or if there never was one, because the cause is a service's clock."""

    lost: str = ""
    """The id of an event whose record no longer exists. Empty for a clock."""

    note: str = ""
    """A remark about the step."""

    @property
    def time(self) -> datetime | None:
        """The time of the event. None if it is not known."""
        if self.record is None:
            return None
        return self.record.meta.time or self.record.timestamp


@dataclass(frozen=True, slots=True)
class Chain:
    """The events behind one record, in their order. The last one is the record itself."""

    about: str
    """The record in words."""

    steps: tuple[Step, ...]

    @property
    def whole(self) -> bool:
        """Whether every record of the chain exists."""
        return not any(step.lost for step in self.steps)


class Chained(Protocol):
    """Records that can be found by their ids and by their chains."""

    def find(self, event_id: str) -> EventRecord | None:
        """Return the record of an event. None if it is not among these."""

    def chain(self, correlation: str) -> Iterable[EventRecord]:
        """Return the records of a chain, each id once."""


class Listed(Chained):
    """Some records, which can be found by their ids and by their chains.

    Args:
        records: the records. If several have the same id, the first counts.
    """

    def __init__(self, records: Iterable[EventRecord]) -> None:
        self._by_id: dict[str, EventRecord] = {}
        self._of_chain: dict[str, list[EventRecord]] = {}
        for record in records:
            if record.meta.id not in self._by_id:
                self._by_id[record.meta.id] = record
                self._of_chain.setdefault(record.meta.correlation, []).append(record)

    @override
    def find(self, event_id: str) -> EventRecord | None:
        return self._by_id.get(event_id)

    @override
    def chain(self, correlation: str) -> Iterable[EventRecord]:
        return self._of_chain.get(correlation, ())


class Trail:
    """Follows chains. The records must not change meanwhile.

    Args:
        present: the last record of each key.
        older: older records, which are used if a record is not among the present ones.
    """

    def __init__(self, present: Chained, older: Chained | None = None) -> None:
        self._present = present
        self._older = older or Listed(())
        self._chains: dict[str, list[EventRecord]] = {}

    def _find(self, event_id: str) -> EventRecord | None:
        return self._present.find(event_id) or self._older.find(event_id)

    def _chain(self, correlation: str) -> list[EventRecord]:
        """Return the records of a chain by their offsets, so that the order of reading does not matter."""
        known = self._chains.get(correlation)
        if known is None:
            found = list(self._present.chain(correlation))
            found += [one for one in self._older.chain(correlation) if self._present.find(one.meta.id) is None]
            found.sort(key=lambda one: (one.topic.short, one.partition, one.offset))
            known = self._chains[correlation] = found
        return known

    def chain(self, about: str, last: EventRecord) -> Chain:
        """Return the events behind a record."""
        return Chain(about, tuple(reversed(list(self._back(last)))))

    def chains(self, lasts: Iterable[tuple[str, EventRecord]]) -> Iterator[Chain]:
        """Yield the events behind several records. A record that is in an earlier chain has no chain of its own."""
        told: set[str] = set()
        for about, last in lasts:
            if last.meta.id not in told:
                chain = self.chain(about, last)
                told.update(step.record.meta.id for step in chain.steps if step.record is not None)
                yield chain

    def _back(self, last: EventRecord) -> Iterator[Step]:
        record, seen = last, {last.meta.id}
        note = ""
        for _ in range(_LONGEST):
            cause_id = record.meta.causation_id
            yield Step(record, note=note)
            note = ""
            if not cause_id or cause_id == record.meta.id:
                return
            cause = self._cause(record, cause_id, seen)
            if cause is None and _own_clock(record, cause_id):
                yield Step(None, note="the service was waiting for this time: its own clock was the cause")
                return
            if cause is None:
                first = cause_id == record.meta.correlation
                yield Step(None, cause_id, _first_is_lost(record) if first else _LOST)
                cause = self._nearest(record, seen)
                note = "the nearest earlier event of the same chain that still has a record"
            if cause is None or cause.meta.id in seen:
                return
            seen.add(cause.meta.id)
            record = cause

    def _cause(self, record: EventRecord, cause_id: str, seen: set[str]) -> EventRecord | None:
        found = self._find(cause_id)
        if found is not None:
            return found
        chain = record.meta.correlation
        match record.event:
            case TimerFired() as fired:
                # The cause of a timer's firing is the timer itself, not the record that set it.
                return next((one for one in self._chain(chain) if _sets(one, fired)), None)
            case NoExecuteGranted() as grant if cause_id == _remembered(grant):
                # The node had to wait for its turn, and the cause is its membership as the governor remembered it.
                mine = [one for one in self._chain(chain) if one.topic is ZONE_MEMBERS and one.key == grant.target.key]
                before = [
                    one for one in mine if one.timestamp <= record.timestamp and one.meta.causation_id not in seen
                ]
                return max(before, key=lambda one: (one.timestamp, one.offset), default=None)
            case _:
                return None

    def _nearest(self, record: EventRecord, seen: set[str]) -> EventRecord | None:
        """Return the latest event of the chain before a record, preferably one about the same target."""
        mine, stage = target_of(record), _stage(record)
        found = [
            one
            for one in self._chain(record.meta.correlation)
            if one.meta.id not in seen
            and one.meta.causation_id not in seen  # it came after
            and _stage(one) < stage
            and target_of(one) in {"", mine or target_of(one)}
        ]
        first = self._find(record.meta.correlation)
        if first is not None and first.meta.id not in seen:
            found.append(first)
        return max(found, key=lambda one: (target_of(one) == mine, _stage(one), one.timestamp), default=None)


def _sets(record: EventRecord, fired: TimerFired) -> bool:
    event = record.event
    return isinstance(event, SetTimer) and (record.key, event.generation) == (fired.id, fired.generation)


def _remembered(grant: NoExecuteGranted) -> str:
    """Return the id of the cause of a grant that had to wait."""
    return event_id(ZONE_MEMBERS.short, grant.target.key, grant.target_uid, grant.incident, grant.generation)


def _own_clock(record: EventRecord, cause_id: str) -> bool:
    """Return whether placement decided because a time that it had recorded has passed. Such a cause has no record."""
    event = record.event
    if not isinstance(event, WorkloadPlaced):
        return False
    return cause_id == event_id("moorage/placement", event.owner.key, event.decided_time.isoformat())


_LOST: Final = (
    "its record no longer exists: a later record of the same key has replaced it, or the cause was a service's own "
    "clock"
)


def _first_is_lost(record: EventRecord) -> str:
    kept = "" if record.topic is not CONDITIONS else ", because reports are kept for a limited time"
    return f"the first event; its record no longer exists{kept}, or the first cause was a service's own clock"


def target_of(record: EventRecord) -> str:
    """Return the key of the target that a record is about. Empty if there is none."""
    event: Any = record.event
    target = getattr(event, "target", None)
    if target is not None:
        return str(target)
    kind, _, name, _ = ResourceKey.parse(record.key)
    if record.topic in {TAINTS, CONDITIONS, ZONE_GRANTS, ZONE_MEMBERS}:
        return ConditionKey.parse(record.key).target
    if record.topic is RESOURCES and kind in {"Node", "Cluster", "ManagedCluster"}:
        return f"{kind}/{name}"
    return ""


def _stage(record: EventRecord) -> int:
    return _STAGE.get(record.topic.short, len(_WAY))
