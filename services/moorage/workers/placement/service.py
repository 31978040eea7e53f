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
from moorage.workers.placement.karmada.desk import ClusterDesk
from moorage.workers.placement.karmada.settling import settle
from moorage.workers.placement.karmada.state import CLAIMABLE, PLACED, ClusterWork
from moorage.workers.placement.karmada.terms import rules_of
from moorage.workers.placement.ocm.desk import ManagedDesk
from moorage.workers.placement.ocm.settling import settle as settle_managed
from moorage.workers.placement.ocm.state import MINE, PLACEMENT_PREFIX
from moorage.workers.placement.pods.controllers import PORTION, settle_owner, settle_pod
from moorage.workers.placement.pods.reconcile import Desk
from moorage.workers.placement.state import State, Work
from moorage.workers.placement.view import FleetView
from moorage_schemas.base import Model
from moorage_schemas.placement import WorkloadPlaced
from moorage_schemas.resource import ResourceDeclared
from moorage_schemas.resources.workloads import CONTROLLERS, POD
from moorage_schemas.topics import BINDINGS, EVICTIONS, PLACEMENTS, RESOURCES, TAINTS, WORKLOAD_CONDITIONS, Topic

AT_ONCE: Final = datetime(1970, 1, 1, tzinfo=UTC)
"""When work is due that waits for nothing."""

_AT_A_TIME: Final = 200
"""Resources on clusters, and OCM placements, that are looked at in one call; the rest waits for the next one."""

_OWNERS: Final = tuple(f"{kind}/" for kind in (POD, *CONTROLLERS))


class PlacementService(Service[State]):
    """Where pods, and whole resources, belong."""

    name: ClassVar[str] = "placement"
    sources: ClassVar[tuple[Topic, ...]] = (RESOURCES,)
    source_tables: ClassVar[frozenset[Topic]] = frozenset({RESOURCES})
    changelogs: ClassVar[tuple[Topic, ...]] = (PLACEMENTS,)
    outputs: ClassVar[tuple[Topic, ...]] = (BINDINGS,)
    globals: ClassVar[tuple[Topic, ...]] = (RESOURCES, TAINTS, BINDINGS, EVICTIONS, WORKLOAD_CONDITIONS, PLACEMENTS)
    fresh_globals: ClassVar[frozenset[Topic]] = frozenset({RESOURCES, TAINTS})

    def __init__(self, settings: Settings) -> None:
        self._rules = rules_of(settings)

    def new_state(self, partition: int) -> State:
        """An empty state for a partition."""
        return State(partition)

    def new_globals(self) -> FleetView:
        """The view of nodes and clusters, bindings, evictions, rules and policies."""
        return FleetView()

    def use_globals(self, state: State, view: GlobalView) -> None:
        """Give a partition its view."""
        if not isinstance(view, FleetView):
            raise TypeError(f"the view of placement must be a FleetView, not {type(view).__name__}")
        state.view = view
        state.clusters.view = view.clusters
        view.attach(state)
        view.clusters.attach(state.clusters)
        state.managed.view = view.managed

    def drop(self, state: State) -> None:
        """Take back what the partition has assumed."""
        state.view.detach(state)
        state.view.clusters.detach(state.clusters)
        state.managed.leave()

    def apply(self, state: State, topic: Topic, key: str, event: Model | None) -> None:
        """Fold in a resource or a decision."""
        if topic is RESOURCES:
            if key.startswith(CLAIMABLE):
                _fold_resource(state, key, event)
            elif key.startswith(PLACEMENT_PREFIX):
                state.managed.fold(key, event if isinstance(event, ResourceDeclared) else None)
        elif key.startswith(MINE):
            if isinstance(event, WorkloadPlaced):
                state.managed.put_decided(event)
            else:
                state.managed.drop_decided(key)
        elif key.startswith(PLACED):
            if isinstance(event, WorkloadPlaced):
                state.clusters.put_placed(event)
            else:
                state.clusters.drop_placed(key)
        elif isinstance(event, WorkloadPlaced):
            state.put_held(event)
        else:
            state.drop_held(key)

    def process(self, state: State, batch: Sequence[Input], now: datetime, *, fresh: bool = False) -> list[Emit]:
        """Decide on resources that were declared, changed or deleted.

        Raises:
            NeedFresh: one makes pods and is new or changed, or is a new OCM placement; the policy that places it on
                clusters, the binding of its sets, or a taint may have been written just before it, in another
                partition. A process that was cut off may know nothing of the last minutes.
        """
        if not fresh and any(_is_new(state, record) for record in batch):
            raise NeedFresh
        self._take(state, batch)
        return self._settle(state, now)

    def catch_up(
        self,
        state: State,
        batch: Sequence[Input],
        now: datetime,  # noqa: ARG002 - nothing is decided yet
    ) -> list[Emit]:
        """Fold in what was waiting; everything is looked at when the partition is woken first."""
        self._take(state, batch)
        return []

    def _take(self, state: State, batch: Sequence[Input]) -> None:
        for record in batch:
            self.apply(state, record.topic, record.key, record.event)
            if state.clusters.concerned(record.key):
                state.clusters.work.append(ClusterWork(record.key, record.meta))
            if record.key.startswith(_OWNERS):
                state.work.append(Work(record.key, "", record.meta))
            elif record.key.startswith(PLACEMENT_PREFIX):
                state.managed.look_at(record.key, record.meta)

    def wake(self, state: State, now: datetime) -> list[Emit]:
        """Do what a change of the view made due."""
        return self._settle(state, now)

    def next_wake(self, state: State) -> datetime | None:
        """At once while there is something to do, else when a grace period, or a tolerated time, ends."""
        if state.due():
            return AT_ONCE
        ends = (state.clusters.next_end(), state.managed.next_end())
        return min((end for end in ends if end is not None), default=None)

    def reconcile(self, state: State, now: datetime) -> list[Emit]:
        """Look at everything again; write what should be there and is not."""
        state.work.extend(Work(key, "", None, repair=True) for key in sorted(state.owners.keys() | state.held.keys()))
        state.clusters.repair()
        state.managed.repair()
        return self._settle(state, now)

    def _settle(self, state: State, now: datetime) -> list[Emit]:
        gone: set[str] = set()
        if not state.begun:
            # All tables are read to their ends by now, so what is decided for anything else is for nobody.
            gone = (state.held.keys() | state.clusters.placed.keys()) - state.clusters.resources.keys()
            gone |= state.managed.unasked()
        _gather(state)
        state.clusters.gather(now)
        for key in sorted(gone):
            if key.startswith(PLACEMENT_PREFIX):
                state.managed.look_at(key, None, check=True)
            else:
                state.work.append(Work(key, "", None))
                state.clusters.work.append(ClusterWork(key, None))
        state.managed.gather(now)
        emits = self._settle_clusters(state, now)
        emits += self._settle_managed(state, now, PORTION - len(emits))
        desk = Desk(self, state, now)
        while state.work and len(emits) + len(desk.emits) < PORTION:
            work = state.work.popleft()
            desk.begin(work)
            if work.workload:
                settle_pod(desk, work)
            else:
                settle_owner(desk, work)
        return emits + desk.emits

    def _settle_clusters(self, state: State, now: datetime) -> list[Emit]:
        """The same of what is placed on clusters; what that changes about pods on nodes becomes work for them."""
        desk = ClusterDesk(self, state, now, self._rules)
        left = _AT_A_TIME
        while state.clusters.work and left and len(desk.emits) < PORTION:
            settle(desk, state.clusters.take())
            left -= 1
        state.work.extend(Work(work.owner, "", work.cause) for work in desk.flipped if work.owner.startswith(_OWNERS))
        return desk.emits

    def _settle_managed(self, state: State, now: datetime, portion: int) -> list[Emit]:
        """The same of OCM placements; what is written of one of them stays together, however much it is."""
        desk = ManagedDesk(self, state, now)
        left = _AT_A_TIME
        while state.managed.work and left and len(desk.emits) < portion:
            settle_managed(desk, state.managed.take())
            left -= 1
        return desk.emits


def _is_new(state: State, record: Input) -> bool:
    """Whether a resource that no policy is known to place may make pods anew, or is a new OCM placement."""
    key, event = record.key, record.event
    if key.startswith(PLACEMENT_PREFIX) and isinstance(event, ResourceDeclared):
        return state.managed.is_new(event)
    if not key.startswith(_OWNERS) or not isinstance(event, ResourceDeclared):
        return False
    known = state.owners.get(key)
    if known is not None and known.uid == event.uid and (known.controller is None or known.version == event.version):
        return False
    return state.clusters.is_unclaimed(event)


def _fold_resource(state: State, key: str, event: Model | None) -> None:
    if isinstance(event, ResourceDeclared):
        state.clusters.put_resource(event)
        if key.startswith(_OWNERS):
            state.put_owner(event)
    else:
        state.clusters.drop_resource(key)
        state.drop_owner(key)


def _gather(state: State) -> None:
    """Put what has become due on the list of work."""
    view = state.view
    if not state.begun:
        state.begun = True
        state.work.extend(Work(key, "", None) for key in sorted(state.owners.keys() | state.held.keys()))
        state.openings, state.changes = view.openings, view.changes
        return
    if state.openings != view.openings:
        state.openings = view.openings
        owners = sorted(state.pending.keys() | state.stuck.keys(), key=lambda key: (-_priority(state, key), key))
        state.work.extend(Work(key, "", view.opened_by) for key in owners)
    if state.changes != view.changes:
        state.changes = view.changes
        state.work.extend(Work(key, "", view.changed_by) for key in state.daemons)


def _priority(state: State, key: str) -> int:
    owner = state.owners.get(key)
    if owner is None or owner.error:
        return 0
    return owner.shape(state.view.rules, state.view.rules_version).priority


def service(settings: Settings) -> PlacementService:
    """The service placement."""
    return PlacementService(settings)
