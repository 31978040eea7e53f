"""The metrics of evictions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Final

from prometheus_client import Counter

from moorage.runtime.measures import Contribution, FleetGauge
from moorage.runtime.process.metrics import BulkHistogram, exemplar
from moorage.runtime.service import Emit
from moorage.workers.eviction.eviction_task import Task
from moorage.workers.eviction.state import EvictionPartition
from moorage_schemas.condition import FAILED, REFUSED
from moorage_schemas.eviction import EvictionDecided, EvictionState
from moorage_schemas.keys import EvictionKey

OPEN: Final = FleetGauge(
    "moorage_evictions_open", "Evictions that have not ended, by state: Scheduled, Held or Requested", ("state",)
)
OLDEST: Final = FleetGauge(
    "moorage_evictions_oldest_timestamp_seconds",
    "Unix time of the earliest deadline of evictions in a state; for Requested, of the earliest request",
    ("state",),
    merged=min,
)
HELD: Final = FleetGauge(
    "moorage_evictions_held",
    "Evictions that are held, by the kinds of what holds them; one may be held by several",
    ("by",),
)
HELD_SINCE: Final = FleetGauge(
    "moorage_evictions_held_since_timestamp_seconds",
    "Unix time at which the first of the held evictions came due",
    ("by",),
    merged=min,
)
UNREMOVED: Final = FleetGauge(
    "moorage_evictions_unremoved",
    "Requested evictions whose deployer reports that the work was not removed",
    ("reason",),
)

DECIDED = Counter("moorage_evictions_total", "Evictions that have entered a state", ["state", "reason"])
LATENESS = BulkHistogram(
    "moorage_eviction_lateness_seconds",
    "Seconds from the deadline of an eviction to its request, by whether it was held",
    ["held"],
    buckets=(0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800, 3600),
)
REMOVAL_SECONDS = BulkHistogram(
    "moorage_eviction_removal_seconds",
    "Seconds from the request of an eviction to its completion",
    [],
    buckets=(0.1, 0.5, 1, 5, 10, 30, 60, 120, 300, 600, 1800, 3600),
)
HELD_SECONDS = BulkHistogram(
    "moorage_eviction_held_seconds",
    "Seconds for which an eviction was held, by the kinds of what held it last",
    ["by"],
    buckets=(0.1, 1, 5, 10, 30, 60, 300, 600, 1800, 3600, 7200, 21600, 86400),
)
ESCALATIONS = Counter(
    "moorage_evictions_escalated_total", "Reports of deployers that evicted work was not removed", ["service", "reason"]
)

_REASONS: Final = {FAILED: FAILED, REFUSED: REFUSED}
"""The reasons by which escalations are counted. A deployer may give any other."""

_ENTERED: Final = (
    (EvictionState.SCHEDULED, "TolerationEnds"),
    (EvictionState.HELD, "Held"),
    (EvictionState.REQUESTED, "TolerationExpired"),
    (EvictionState.REQUESTED, "UntoleratedTaint"),
    (EvictionState.COMPLETED, "BindingEnded"),
    (EvictionState.CANCELLED, "TaintRemoved"),
    (EvictionState.CANCELLED, "Tolerated"),
)
"""The states with their usual reasons."""


def begin() -> None:
    """Create the usual series. Rates show nothing of the first event of a series that begins with it."""
    for state, reason in _ENTERED:
        DECIDED.labels(state.value, reason)
    for reason in (*_REASONS, "other"):
        ESCALATIONS.labels("eviction", reason)
    for was_held in ("true", "false"):
        LATENESS.observe((), was_held)
    REMOVAL_SECONDS.observe(())


_UNANSWERED: Final = "Governor"
"""The holder of an eviction until its request for a grant is answered."""


def kinds_of(held_by: Iterable[str]) -> list[str]:
    """Return the kinds of what holds an eviction, such as `EvictionBudget` for `EvictionBudget/slow`."""
    return sorted({name.partition("/")[0] for name in held_by}) or [_UNANSWERED]


def counted(state: EvictionPartition, place: tuple[str, str]) -> Iterator[Contribution]:
    """Yield the series to which an eviction contributes, by the keys of its target and its workload."""
    target = state.targets.get(place[0])
    task = target.tasks.get(place[1]) if target is not None else None
    if task is None or task.state is EvictionState.CANCELLED:  # a cancelled one may be scheduled again
        return
    labels = (task.state.value,)
    yield Contribution(OPEN, labels)
    if (since := task.requested if task.state is EvictionState.REQUESTED else task.deadline) is not None:
        yield Contribution(OLDEST, labels, since)
    if task.state is EvictionState.HELD:
        for kind in kinds_of(task.held_by):
            yield Contribution(HELD, (kind,))
            if task.deadline is not None:
                yield Contribution(HELD_SINCE, (kind,), task.deadline)
    elif task.escalated is not None and task.acknowledged is None:
        yield Contribution(UNREMOVED, (_REASONS.get(task.escalated.reason, "other"),))


def count(written: Sequence[Emit], now: datetime) -> None:
    """Count the evictions that have entered a state."""
    found = _Transitions(now)
    for emit in written:
        event, before = emit.content, emit.before
        if not isinstance(event, EvictionDecided):
            continue
        if (escalation := event.escalation) is not None:
            ESCALATIONS.labels("eviction", _REASONS.get(escalation.reason, "other")).inc()
        known = before if isinstance(before, Task) else None
        if (
            known is None or known.state is not event.state
        ):  # else another budget holds it, or its deployer has reported
            found.add(emit, event, known)
    found.count()


class _Transitions:
    """Evictions that have entered a state at one time. The metrics take many values at once."""

    def __init__(self, now: datetime) -> None:
        self._now = now
        self._entered: dict[tuple[str, str], list[Emit]] = defaultdict(list)
        self._late: dict[str, list[float]] = defaultdict(list)
        self._held: dict[str, list[float]] = defaultdict(list)
        self._removed: list[float] = []

    def add(self, emit: Emit, event: EvictionDecided, before: Task | None) -> None:
        """Add an eviction."""
        self._entered[event.state.value, event.reason].append(emit)
        if before is None:
            return
        was_held = before.state is EvictionState.HELD
        if before.deadline is not None:
            seconds = self._since(before.deadline)
            for kind in kinds_of(before.held_by) if was_held else ():
                self._held[kind].append(seconds)
            if event.state is EvictionState.REQUESTED:
                self._late["true" if was_held else "false"].append(seconds)
        if event.state is EvictionState.COMPLETED and before.requested is not None:
            self._removed.append(self._since(before.requested))

    def count(self) -> None:
        """Update the metrics."""
        for labels, emits in self._entered.items():
            workload, target, _ = EvictionKey.parse(emits[-1].key)
            about = exemplar(emits[-1].cause, workload=workload, target=target)
            DECIDED.labels(*labels).inc(len(emits), exemplar=about)
        for by, seconds in self._held.items():
            HELD_SECONDS.observe(seconds, by)
        for was, seconds in self._late.items():
            LATENESS.observe(seconds, was)
        if self._removed:
            REMOVAL_SECONDS.observe(self._removed)

    def _since(self, time: datetime) -> float:
        return max(0.0, (self._now - time).total_seconds())
