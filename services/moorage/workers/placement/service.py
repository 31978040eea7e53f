"""The service placement.

Consumes:
    `resources`: pods and what makes pods, what else a policy can claim, and OCM placements, by their own keys (targets,
    policies, cluster sets and their bindings are read in the global view).
Keeps:
    The resources (source table `resources`) and the last decision on each of their pods, or on the whole of one that a
    policy places on clusters, or on an OCM placement and each of its PlacementDecisions (changelog `placements`). For
    all partitions of the process together, the global view: nodes, clusters and managed clusters (`resources`,
    `taints`), what is bound to them (`bindings`), evictions that are requested (`evictions`), `DedicatedNodes` rules,
    propagation policies, what is healthy on clusters (`workload-conditions`), sets of managed clusters, their bindings
    and the scores of add-ons (`resources`), and how often each managed cluster is selected (the PlacementDecisions of
    `placements`).
Emits:
    `placements`: placed, pending or evicted, with every ground; a tombstone when the workload is no more. Of an OCM
    placement its PlacementDecisions that change, with what is to be added and removed, and then its own record, in one
    transaction. There are no bindings of it, for the decision is itself the order, and no evictions.
    `bindings`: bound, changed (tolerations, replicas), and a tombstone when it is over.

Decisions are level-triggered: a change only says where to look; what is looked at is the present state of all. What a
change makes due is done in portions, so that no transaction grows without bounds; what is left of it after a
crash is found again, for everything is looked at when a partition begins.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import ClassVar, Final

from moorage.runtime.service import Emit, GlobalView, Input, NeedFresh, Service
from moorage.runtime.settings import Settings
from moorage.workers.placement.engine.controller import by_prefix
from moorage.workers.placement.engine.outbox import Outbox
from moorage.workers.placement.karmada.terms import rules_of
from moorage.workers.placement.state import PlacementPartition
from moorage.workers.placement.view import FleetView
from moorage_schemas.base import Model
from moorage_schemas.placement import WorkloadPlaced
from moorage_schemas.resource import ResourceDeclared
from moorage_schemas.topics import BINDINGS, EVICTIONS, PLACEMENTS, RESOURCES, TAINTS, WORKLOAD_CONDITIONS, Topic

AT_ONCE: Final = datetime(1970, 1, 1, tzinfo=UTC)
"""When work is due that waits for nothing."""


class PlacementService(Service[PlacementPartition]):
    """Where pods, and whole resources, belong."""

    name: ClassVar[str] = "placement"
    summary: ClassVar[str] = "Workloads and targets in, decisions out, with every reason kept."
    sources: ClassVar[tuple[Topic, ...]] = (RESOURCES,)
    source_tables: ClassVar[frozenset[Topic]] = frozenset({RESOURCES})
    changelogs: ClassVar[tuple[Topic, ...]] = (PLACEMENTS,)
    outputs: ClassVar[tuple[Topic, ...]] = (BINDINGS,)
    globals: ClassVar[tuple[Topic, ...]] = (RESOURCES, TAINTS, BINDINGS, EVICTIONS, WORKLOAD_CONDITIONS, PLACEMENTS)
    fresh_globals: ClassVar[frozenset[Topic]] = frozenset({RESOURCES, TAINTS})

    def __init__(self, settings: Settings) -> None:
        self._rules = rules_of(settings)

    def new_state(self, partition: int) -> PlacementPartition:
        """An empty state for a partition."""
        return PlacementPartition(partition, self._rules)

    def new_globals(self) -> FleetView:
        """The view of nodes and clusters, bindings, evictions, rules and policies."""
        return FleetView()

    def use_globals(self, state: PlacementPartition, view: GlobalView) -> None:
        """Give a partition its view."""
        if not isinstance(view, FleetView):
            raise TypeError(f"the view of placement must be a FleetView, not {type(view).__name__}")
        state.attach(view)

    def drop(self, state: PlacementPartition) -> None:
        """Take back what the partition has assumed."""
        state.detach()

    def apply(self, state: PlacementPartition, topic: Topic, key: str, event: Model | None) -> None:
        """Fold in a resource or a decision."""
        if topic is RESOURCES:
            declared = event if isinstance(event, ResourceDeclared) else None
            for controller in state.controllers:
                if key.startswith(controller.resources):
                    controller.declare(key, declared)
        elif (decider := by_prefix(state.controllers, key)) is not None:
            decider.decided(key, event if isinstance(event, WorkloadPlaced) else None)

    def process(
        self, state: PlacementPartition, batch: Sequence[Input], now: datetime, *, fresh: bool = False
    ) -> list[Emit]:
        """Decide on resources that were declared, changed or deleted.

        Raises:
            NeedFresh: one makes pods and is new or changed, or is a new OCM placement; the policy that places it on
                clusters, the binding of its sets, or a taint may have been written just before it, in another
                partition. A process that was cut off may know nothing of the last minutes.
        """
        if not fresh and any(_is_new(state, record) for record in batch):
            raise NeedFresh
        self._take(state, batch)
        return self._reconcile(state, now)

    def catch_up(
        self,
        state: PlacementPartition,
        batch: Sequence[Input],
        now: datetime,  # noqa: ARG002 - nothing is decided yet
    ) -> list[Emit]:
        """Fold in what was waiting; everything is looked at when the partition is woken first."""
        self._take(state, batch)
        return []

    def _take(self, state: PlacementPartition, batch: Sequence[Input]) -> None:
        for record in batch:
            self.apply(state, record.topic, record.key, record.event)
            for controller in state.controllers:
                if record.key.startswith(controller.resources):
                    controller.look_at(record.key, record.meta)

    def wake(self, state: PlacementPartition, now: datetime) -> list[Emit]:
        """Do what a change of the view made due."""
        return self._reconcile(state, now)

    def next_wake(self, state: PlacementPartition) -> datetime | None:
        """At once while there is something to do, else when a grace period, or a tolerated time, ends."""
        if state.due():
            return AT_ONCE
        times = (controller.next_time() for controller in state.controllers)
        return min((time for time in times if time is not None), default=None)

    def reconcile(self, state: PlacementPartition, now: datetime) -> list[Emit]:
        """Look at everything again; write what should be there and is not."""
        for controller in state.controllers:
            controller.repair()
        return self._reconcile(state, now)

    def _reconcile(self, state: PlacementPartition, now: datetime) -> list[Emit]:
        outbox = Outbox(lambda topic, key, event: self.apply(state, topic, key, event), now)
        for controller in state.controllers:
            controller.gather(now)
        for controller in state.controllers:
            controller.reconcile(outbox)
        return outbox.emits


def _is_new(state: PlacementPartition, record: Input) -> bool:
    """Whether what a resource rests on must be fresh when it is decided."""
    event = record.event
    if not isinstance(event, ResourceDeclared):
        return False
    return any(one.is_new(event) for one in state.controllers if record.key.startswith(one.resources))


def service(settings: Settings) -> PlacementService:
    """The service placement."""
    return PlacementService(settings)
