"""The metrics of zones, pauses and budgets."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Final

from moorage.decide.disruption.budgets import DISRUPTION
from moorage.decide.disruption.object_names import shown_zone
from moorage.decide.disruption.token_bucket import Bucket
from moorage.runtime.measures import Contribution, FleetGauge, Measure
from moorage_schemas.budget import BudgetCounted
from moorage_schemas.keys import ResourceKey, split_cluster
from moorage_schemas.zone import ZoneChanged, ZoneState

_ZONES: Final = {"zone": 100}

ZONE_STATE: Final = FleetGauge(
    "moorage_zone_state",
    "1 for the state of the zone, 0 for the others: Normal, PartialDisruption, FullDisruption",
    ("zone", "state"),
    max,
    _ZONES,
)
ZONE_NODES: Final = FleetGauge("moorage_zone_nodes", "Nodes of the zone", ("zone",), limits=_ZONES)
ZONE_NOT_READY: Final = FleetGauge(
    "moorage_zone_not_ready_nodes", "Nodes of the zone that are not ready", ("zone",), limits=_ZONES
)
ZONE_RATE: Final = FleetGauge(
    "moorage_zone_eviction_rate",
    "Nodes of the zone per second that may get the taint that evicts",
    ("zone",),
    limits=_ZONES,
)
ZONE_TOKENS: Final = FleetGauge(
    "moorage_zone_tokens", "Tokens of the zone, 0 to 1; a node takes a whole one", ("zone",), limits=_ZONES
)
ZONE_WAITING: Final = FleetGauge(
    "moorage_zone_waiting_nodes", "Nodes that wait for a token of the zone", ("zone",), limits=_ZONES
)
ZONE_WAITING_SINCE: Final = FleetGauge(
    "moorage_zone_waiting_since_timestamp_seconds",
    "Unix time since when the first of the waiting nodes waits",
    ("zone",),
    min,
    _ZONES,
)
STOPPED: Final = FleetGauge(
    "moorage_zones_stopped", "1 while every zone of a cluster is fully disrupted, so that nothing is tainted", (), max
)
THRESHOLD: Final = FleetGauge(
    "moorage_zone_unhealthy_threshold_ratio",
    "Part of a zone's nodes that are not ready from which it is in PartialDisruption, 0 to 1",
    (),
    max,
)
PAUSES: Final = FleetGauge("moorage_eviction_pauses", "Declared pauses of evictions")

_BUDGETS: Final = {"budget": 100}
ALLOWED: Final = FleetGauge(
    "moorage_eviction_budget_allowed",
    "Evictions that the budget allows now; with parts, in the part that allows the fewest",
    ("budget",),
    min,
    _BUDGETS,
)
IN_PROGRESS: Final = FleetGauge(
    "moorage_eviction_budget_in_progress",
    "Granted evictions whose replacement is not healthy yet",
    ("budget",),
    limits=_BUDGETS,
)
BUDGET_HOLDS: Final = FleetGauge(
    "moorage_eviction_budget_held", "Evictions that the budget holds", ("budget",), limits=_BUDGETS
)
DISRUPTIONS: Final = FleetGauge(
    "moorage_disruption_budgets",
    "PodDisruptionBudgets by whether they allow an eviction: SufficientPods, InsufficientPods or SyncFailed",
    ("reason",),
)


def zone_measures(records: Iterable[ZoneChanged], now: datetime) -> Iterator[Measure]:
    """Yield the values of zones. Tokens are those of this time."""
    stopped = False
    for record in records:
        zone = (shown_zone(record.zone),)
        for state in ZoneState:
            yield Measure(ZONE_STATE, (*zone, state.value), record.state is state)
        yield Measure(ZONE_NODES, zone, record.nodes)
        yield Measure(ZONE_NOT_READY, zone, record.not_ready)
        yield Measure(ZONE_RATE, zone, record.rate)
        yield Measure(ZONE_TOKENS, zone, Bucket(record.rate, record.tokens, record.tokens_time).tokens_at(now))
        yield Measure(ZONE_WAITING, zone, record.waiting)
        if record.queue:
            yield Measure(ZONE_WAITING_SINCE, zone, record.queue[0].since.timestamp())
        stopped = stopped or record.stopped
    yield Measure(STOPPED, (), stopped)


def budget_measures(known: Mapping[str, BudgetCounted], keys: Iterable[str]) -> Iterator[Measure]:
    """Yield the values of the budgets with these keys, as far as they are counted."""
    for key in keys:
        if (counted := known.get(key)) is not None:
            budget = (ResourceKey.parse(key).name or key,)
            yield Measure(ALLOWED, budget, counted.allowed)
            yield Measure(IN_PROGRESS, budget, counted.in_progress)
            yield Measure(BUDGET_HOLDS, budget, counted.held)


def counted_disruption(key: str, known: BudgetCounted | None) -> Iterator[Contribution]:
    """Yield the series to which a PodDisruptionBudget contributes."""
    if known is not None and split_cluster(key)[1].startswith(f"{DISRUPTION}/"):
        reason = "SyncFailed" if known.failure else "SufficientPods" if known.allowed > 0 else "InsufficientPods"
        yield Contribution(DISRUPTIONS, (reason,))
