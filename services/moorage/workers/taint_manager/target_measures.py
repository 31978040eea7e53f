"""The metrics of targets and their taints."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from moorage.decide.disruption.object_names import shown_zone
from moorage.decide.kubernetes.object_texts import readiness
from moorage.decide.taints.desired.incidents import zone_of_target
from moorage.runtime.measures import Contribution, FleetGauge
from moorage.workers.taint_manager.state import TaintManagerPartition
from moorage_schemas.refs import TargetKind
from moorage_schemas.resources.names import MANAGED_CLUSTER_AVAILABLE

_KEYS: Final = {"key": 50}

TARGETS: Final = FleetGauge(
    "moorage_targets",
    "Targets by kind, zone and state: Ready, NotReady, Unknown or Unreported",
    ("kind", "zone", "state"),
    limits={"zone": 100},
)
TAINTS: Final = FleetGauge(
    "moorage_taints", "Targets that have a taint, by its key and effect", ("kind", "key", "effect"), limits=_KEYS
)
WAITING_TAINTS: Final = FleetGauge(
    "moorage_taints_waiting",
    "Targets on which a taint waits for its zone, or until its condition has lasted long enough",
    ("kind", "key", "effect"),
    limits=_KEYS,
)


def counted(state: TaintManagerPartition, target: str) -> Iterator[Contribution]:
    """Yield the series to which a target contributes."""
    resource = state.resources.get(target)
    if resource is None:
        return
    kind = resource.kind
    name = MANAGED_CLUSTER_AVAILABLE if kind == TargetKind.MANAGED_CLUSTER.value else "Ready"
    ready = state.conditions.get(target, {}).get(name)
    status = ready.status.value if ready is not None and ready.target_uid in {"", resource.uid} else ""
    tainted = state.taints.get(target)
    zone = tainted.zone if tainted is not None else ""
    yield Contribution(TARGETS, (kind, shown_zone(zone or zone_of_target(resource)), readiness(status)))
    if tainted is not None:
        for taint in tainted.taints:
            yield Contribution(TAINTS, (kind, taint.key, taint.effect))
        for held in tainted.held:
            yield Contribution(WAITING_TAINTS, (kind, held.key, held.effect))
