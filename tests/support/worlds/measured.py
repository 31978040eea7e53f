"""The metrics of the fleet in a flow: what a process shows that owns every partition, and a walk over the topics."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from tests.support.worlds.flow import Flow

from moorage.decide.conditions.heartbeats import HEARTBEAT_STOPPED
from moorage.decide.kubernetes.object_texts import readiness
from moorage.decide.taints.desired.incidents import zone_of_target
from moorage.runtime.measures import LabelLimits, Measure, merged
from moorage_schemas.eviction import EvictionState
from moorage_schemas.placement import PlacementState
from moorage_schemas.resource import target_of_resource
from moorage_schemas.topics import CONDITIONS, EVICTIONS, PLACEMENTS, RESOURCES, TAINTS, ZONES

Values = dict[str, dict[tuple[str, ...], float]]
"""Values by the metric's name and its labels."""

OPEN = (EvictionState.SCHEDULED, EvictionState.HELD, EvictionState.REQUESTED)


def _shown(zone: str) -> str:
    """The zone as people read it."""
    return "none" if zone == "/" else zone


def measures_of(flow: Flow, service: str, partition: int) -> Iterable[Measure]:
    """Return the numbers of one partition, brought up to date in small portions."""
    one, state = flow.services[service], flow.state(service, partition)
    while not one.settle(state, 3):
        pass
    return one.measures(state, flow.now)


def shown(flow: Flow, *services: str) -> Values:
    """Return what a process shows that owns all partitions of some services, or of all."""
    found = [
        measure
        for service in services or flow.services
        for partition in range(flow.partitions)
        for measure in measures_of(flow, service, partition)
    ]
    return {gauge.name: values for gauge, values in merged(found, LabelLimits()).items()}


def walked(flow: Flow) -> Values:
    """Return the same values from the topics that the gateway shows, counted one by one."""
    found: dict[str, Counter[tuple[str, ...]]] = defaultdict(Counter)
    _walk_targets(flow, found)
    _walk_evictions(flow, found)
    for event in flow.table(PLACEMENTS).values():
        if event.state is PlacementState.PENDING:
            found["moorage_workloads_unscheduled"][event.workload.kind, event.reason] += 1
    for event in flow.table(ZONES).values():
        found["moorage_zone_nodes"][_shown(event.zone),] = event.nodes
        found["moorage_zone_waiting_nodes"][_shown(event.zone),] = event.waiting
    return {name: dict(counts) for name, counts in found.items()}


def _walk_targets(flow: Flow, found: dict[str, Counter[tuple[str, ...]]]) -> None:
    conditions: dict[str, list[Any]] = defaultdict(list)
    for event in flow.table(CONDITIONS).values():
        conditions[event.target.key].append(event)
    for key, resource in flow.table(RESOURCES).items():
        if (target := target_of_resource(key)) is None:
            continue
        mine = {one.type: one for one in conditions[target.key] if one.target_uid == resource.uid}
        status = mine["Ready"].status.value if "Ready" in mine else ""
        found["moorage_targets"][resource.kind, _shown(zone_of_target(resource)), readiness(status)] += 1
        for source in {one.source for one in mine.values()}:
            silent = any(one.reason == HEARTBEAT_STOPPED for one in mine.values() if one.source == source)
            state = "Silent" if silent else "Reporting"
            found["moorage_source_targets"][resource.kind, source, state] += 1
    for event in flow.table(TAINTS).values():
        for taint in event.taints:
            found["moorage_taints"][event.target.kind.value, taint.key, taint.effect] += 1
        for held in event.held:
            found["moorage_taints_waiting"][event.target.kind.value, held.key, held.effect] += 1


def _walk_evictions(flow: Flow, found: dict[str, Counter[tuple[str, ...]]]) -> None:
    for event in flow.table(EVICTIONS).values():
        if event.state in OPEN:
            found["moorage_evictions_open"][event.state.value,] += 1
        if event.state is EvictionState.HELD:
            for kind in {name.partition("/")[0] for name in event.held_by} or {"Governor"}:
                found["moorage_evictions_held"][kind,] += 1


def without_zeros(values: Mapping[tuple[str, ...], float]) -> dict[tuple[str, ...], float]:
    """Return the values that are not 0."""
    return {labels: value for labels, value in values.items() if value}
