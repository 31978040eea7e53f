"""The metrics of placement."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Final

from prometheus_client import Counter

from moorage.runtime.measures import Contribution, FleetGauge
from moorage.runtime.process.metrics import exemplar
from moorage.runtime.service import Emit
from moorage.workers.placement.engine.placement_controller import by_prefix
from moorage.workers.placement.state import PlacementPartition
from moorage_schemas.keys import ResourceKey
from moorage_schemas.placement import PlacementState, WorkloadPlaced

UNSCHEDULED: Final = FleetGauge(
    "moorage_workloads_unscheduled",
    "Workloads for which there is no target now, by the reason of the last decision",
    ("kind", "reason"),
    limits={"reason": 30},
)
ROLLOUTS: Final = FleetGauge(
    "moorage_rollouts",
    "Rollouts over placements, by the reason of the last decision",
    ("reason",),
    limits={"reason": 10},
)
DECIDED = Counter("moorage_placements_total", "Decisions on workloads", ["kind", "outcome", "reason"])

_USUAL: Final = (
    ("Pod", PlacementState.PLACED, "Scheduled"),
    ("Pod", PlacementState.PENDING, "Unschedulable"),
    ("Pod", PlacementState.EVICTED, "TaintEviction"),
)
"""Usual decisions: kind, outcome and reason."""


def begin() -> None:
    """Create the usual series. Rates show nothing of the first decision of a series that begins with it."""
    for kind, outcome, reason in _USUAL:
        DECIDED.labels(kind, outcome.value, reason)


def counted(state: PlacementPartition, workload: str) -> Iterator[Contribution]:
    """Yield the series to which a workload contributes."""
    controller = by_prefix(state.controllers, workload)
    last = controller.decision(workload) if controller is not None else None
    if controller is state.rollouts and last is not None:
        yield Contribution(ROLLOUTS, (last.reason,))
    elif last is not None and last.state is PlacementState.PENDING:
        yield Contribution(UNSCHEDULED, (ResourceKey.parse(workload).kind, last.reason))


def count(written: Sequence[Emit]) -> None:
    """Count the decisions on workloads."""
    decided: dict[tuple[str, str, str], list[Emit]] = defaultdict(list)
    for emit in written:
        if isinstance(event := emit.content, WorkloadPlaced):
            decided[event.workload.kind, event.state.value, event.reason].append(emit)
    for labels, emits in decided.items():
        DECIDED.labels(*labels).inc(len(emits), exemplar=exemplar(emits[-1].cause, workload=emits[-1].key))
