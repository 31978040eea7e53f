"""The parts of an explanation of a target: what it is reported to be, its taints, and what they evict."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime

from moorage.insight.explain.chain import Chain, EventRecord
from moorage_schemas.condition import ConditionChanged
from moorage_schemas.eviction import EvictionDecided
from moorage_schemas.taint import HeldTaint, TaintOrigin, TaintRecord
from moorage_schemas.zone import ZoneChanged


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
    """What is known of its health: `Ready`, `NotReady`, `Unknown` or `Unreported`."""

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


def taint_words(taint: TaintRecord) -> str:
    """Return a taint as kubectl writes it."""
    value = f"={taint.value}" if taint.value else ""
    return f"{taint.key}{value}:{taint.effect}"


def _since(begun: Beginning) -> str:
    return "" if begun.known else ", from the earliest record that still exists"
