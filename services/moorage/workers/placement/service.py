"""The service placement.

Consumes:
    `resources`, by their own keys: pods and their controllers, other resources that a policy can claim, and OCM
    placements. Targets, policies, cluster sets and their bindings are read into the global view.
Keeps:
    Source table: `resources`. Changelog `placements`: the last decision on each pod, on each resource that a policy
    places on clusters, and on each OCM placement and its PlacementDecisions. Global view, for all partitions of the
    process: the configuration; nodes, clusters and managed clusters with their taints; `bindings`; requested evictions
    (`evictions`, `generation-floors`); `DedicatedNodes` rules and propagation policies; health on clusters
    (`workload-conditions`); sets of managed clusters, their bindings, and scores of add-ons. It also counts how often
    each managed cluster is selected: by the PlacementDecisions of `placements`, and by those of another scheduler on a
    real hub in `resources`.
Emits:
    `placements`: placed, pending or evicted, with all reasons; a tombstone when the workload no longer exists. For an
    OCM placement, the PlacementDecisions that change, with the clusters to add and to remove, and then its own record,
    in one transaction. An OCM placement has no bindings and no evictions, because the decision itself is the order.
    `bindings`: bound, changed (tolerations, replicas), and a tombstone when the binding ends.

Decisions are level-triggered: a change only determines what to check, and the check uses the present state. The work
that a change makes due is done in portions, so that transactions stay bounded. After a crash the rest is found again,
because everything is checked when a partition starts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any, ClassVar, Final

from typing_extensions import override

from moorage.runtime.measures import Measure
from moorage.runtime.service import Describe, Emit, GlobalView, Input, NeedFresh, Service
from moorage.runtime.settings.moorage_configuration import Configuration
from moorage.runtime.settings.process_settings import Settings
from moorage.runtime.wire.row_reader import RowReader
from moorage.workers.placement import placement_measures
from moorage.workers.placement.engine.outbox import Outbox
from moorage.workers.placement.engine.placement_controller import by_prefix
from moorage.workers.placement.fleet_view import FleetView
from moorage.workers.placement.placement_lines import binding_lines, placement_lines
from moorage.workers.placement.pods.controller import PODS
from moorage.workers.placement.state import PlacementPartition
from moorage_schemas.keys import split_cluster
from moorage_schemas.placement import WorkloadPlaced
from moorage_schemas.resource import ResourceDeclared
from moorage_schemas.topics import (
    BINDINGS,
    CONFIGURATION,
    EVICTIONS,
    GENERATION_FLOORS,
    PLACEMENTS,
    RESOURCES,
    TAINTS,
    WORKLOAD_CONDITIONS,
    Topic,
)

AT_ONCE: Final = datetime(1970, 1, 1, tzinfo=UTC)
"""The time of work that is due at once."""

_POD: Final = PODS[0].encode()


def _is_pod(key: bytes) -> bool:
    """Return whether a decision is about a pod. There are far fewer of the others, and they are kept as models."""
    return key.startswith(_POD) or split_cluster(key.decode())[1].startswith(PODS)


class PlacementService(Service[PlacementPartition]):
    """Decides on the targets of pods and of whole resources."""

    name: ClassVar[str] = "placement"
    summary: ClassVar[str] = "Reads workloads and targets, and writes decisions with all reasons."
    sources: ClassVar[tuple[Topic, ...]] = (RESOURCES,)
    source_tables: ClassVar[frozenset[Topic]] = frozenset({RESOURCES})
    changelogs: ClassVar[tuple[Topic, ...]] = (PLACEMENTS,)
    outputs: ClassVar[tuple[Topic, ...]] = (BINDINGS,)
    globals: ClassVar[tuple[Topic, ...]] = (
        CONFIGURATION,
        RESOURCES,
        TAINTS,
        BINDINGS,
        EVICTIONS,
        GENERATION_FLOORS,
        WORKLOAD_CONDITIONS,
        PLACEMENTS,
    )
    rows: ClassVar[Mapping[Topic, RowReader]] = {
        PLACEMENTS: RowReader(WorkloadPlaced, shared=("leaving", "conditions"), keys=_is_pod)
    }
    fresh_globals: ClassVar[frozenset[Topic]] = frozenset({RESOURCES, TAINTS})
    lines: ClassVar[Mapping[Topic, Describe]] = {PLACEMENTS: placement_lines, BINDINGS: binding_lines}

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    @override
    def new_state(self, partition: int) -> PlacementPartition:
        return PlacementPartition(partition, Configuration(self._settings))

    @override
    def new_globals(self) -> FleetView:
        return FleetView(Configuration(self._settings, self.name))

    @override
    def use_globals(self, state: PlacementPartition, view: GlobalView) -> None:
        if not isinstance(view, FleetView):
            raise TypeError(f"the view of placement must be a FleetView, not {type(view).__name__}")
        state.attach(view)

    @override
    def drop(self, state: PlacementPartition) -> None:
        state.detach()

    @override
    def apply(self, state: PlacementPartition, topic: Topic, key: str, event: Any) -> None:
        if ":" in key:
            state.ensure_controller(key)
        if topic is RESOURCES:
            declared = event if isinstance(event, ResourceDeclared) else None
            for controller in state.controllers:
                if key.startswith(controller.resources):
                    controller.declare(key, declared)
            return
        if event is None:
            state.tally.end(key)
        else:
            state.tally.touch(key)
        if key.startswith(PODS):  # nearly all decisions of a restore
            state.pods.decided(key, event)
        elif (decider := by_prefix(state.controllers, key)) is not None:
            decider.decided(key, event)

    @override
    def settle(self, state: PlacementPartition, limit: int) -> bool:
        return state.tally.settle(partial(placement_measures.counted, state), limit)

    @override
    def measures(self, state: PlacementPartition, now: datetime) -> Iterable[Measure]:
        return state.tally.measures()

    @override
    def begin_series(self) -> None:
        placement_measures.begin()

    @override
    def committed(self, written: Mapping[Topic, Sequence[Emit]], now: datetime) -> None:
        if (placed := written.get(PLACEMENTS)) is not None:
            placement_measures.count(placed)

    @override
    def process(
        self, state: PlacementPartition, batch: Sequence[Input], now: datetime, *, fresh: bool = False
    ) -> list[Emit]:
        if not fresh and any(_is_new(state, record) for record in batch):
            raise NeedFresh
        self._take(state, batch)
        return self._reconcile(state, now)

    @override
    def catch_up(
        self,
        state: PlacementPartition,
        batch: Sequence[Input],
        now: datetime,
    ) -> list[Emit]:
        # everything is checked when the partition is first woken
        self._take(state, batch)
        return []

    def _take(self, state: PlacementPartition, batch: Sequence[Input]) -> None:
        for record in batch:
            self.apply(state, record.topic, record.key, record.event)  # may add a controller
            for controller in state.controllers:
                if record.key.startswith(controller.resources):
                    controller.check_resource(record.key, record.meta)

    @override
    def wake(self, state: PlacementPartition, now: datetime) -> list[Emit]:
        return self._reconcile(state, now)

    @override
    def next_wake(self, state: PlacementPartition) -> datetime | None:
        if state.due():
            return AT_ONCE
        times = (controller.next_time() for controller in state.controllers)
        return min((time for time in times if time is not None), default=None)

    @override
    def reconcile(self, state: PlacementPartition, now: datetime) -> list[Emit]:
        for controller in state.controllers:
            controller.repair()
        return self._reconcile(state, now)

    def _reconcile(self, state: PlacementPartition, now: datetime) -> list[Emit]:
        outbox = Outbox(lambda topic, key, event: self.apply(state, topic, key, event), now, state.last_decision)
        for controller in state.controllers:
            controller.gather(now)
        for controller in state.controllers:
            controller.reconcile(outbox)
        return outbox.emits


def _is_new(state: PlacementPartition, record: Input) -> bool:
    """Return whether the data that a decision on a resource rests on must be up to date."""
    event = record.event
    if not isinstance(event, ResourceDeclared):
        return False
    if ":" in record.key:
        state.ensure_controller(record.key)
    return any(one.is_new(event) for one in state.controllers if record.key.startswith(one.resources))


def service(settings: Settings) -> PlacementService:
    """Return the service for the command line to run."""
    return PlacementService(settings)
