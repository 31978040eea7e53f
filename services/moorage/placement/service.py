"""The service placement.

Consumes:
    `resources`: pods and what makes pods, by their own keys (targets are read in the global view).
Keeps:
    The owners (source table `resources`) and the last decision on each of their pods (changelog `placements`). For all
    partitions of the process together, the global view: nodes (`resources`, `taints`), what is taken of them
    (`bindings`), evictions that are requested (`evictions`), and `DedicatedNodes` rules.
Emits:
    `placements`: placed, pending or evicted, with every ground; a tombstone when the pod is no more.
    `bindings`: bound, changed (tolerations), and a tombstone when it is over.

Decisions are level-triggered: a change only says where to look; what is looked at is the present state of all. What a
change makes due is done in portions, so that no transaction grows without bounds; what is left of it after a
crash is found again, for every owner is looked at when a partition begins.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import ClassVar, Final

from moorage.core.placing.expanding import CONTROLLERS, POD
from moorage.placement.controllers import PORTION, settle_owner, settle_pod
from moorage.placement.pods import Desk
from moorage.placement.state import State, Work
from moorage.placement.view import FleetView
from moorage.runtime.service import Emit, GlobalView, Input, Service
from moorage.runtime.settings import Settings
from moorage_schemas.base import Model
from moorage_schemas.placement import WorkloadPlaced
from moorage_schemas.resource import ResourceDeclared
from moorage_schemas.topics import BINDINGS, EVICTIONS, PLACEMENTS, RESOURCES, TAINTS, Topic

AT_ONCE: Final = datetime(1970, 1, 1, tzinfo=UTC)
"""When work is due that waits for nothing."""

_OWNERS: Final = tuple(f"{kind}/" for kind in (POD, *CONTROLLERS))


class PlacementService(Service[State]):
    """Where pods belong."""

    name: ClassVar[str] = "placement"
    sources: ClassVar[tuple[Topic, ...]] = (RESOURCES,)
    source_tables: ClassVar[frozenset[Topic]] = frozenset({RESOURCES})
    changelogs: ClassVar[tuple[Topic, ...]] = (PLACEMENTS,)
    globals: ClassVar[tuple[Topic, ...]] = (RESOURCES, TAINTS, BINDINGS, EVICTIONS)

    def new_state(self, partition: int) -> State:
        """An empty state for a partition."""
        return State(partition)

    def new_globals(self) -> FleetView:
        """The view of nodes, bindings, evictions and rules."""
        return FleetView()

    def use_globals(self, state: State, view: GlobalView) -> None:
        """Give a partition its view."""
        if not isinstance(view, FleetView):
            raise TypeError(f"the view of placement must be a FleetView, not {type(view).__name__}")
        state.view = view
        view.attach(state)

    def drop(self, state: State) -> None:
        """Take back what the partition has assumed."""
        state.view.detach(state)

    def apply(self, state: State, topic: Topic, key: str, event: Model | None) -> None:
        """Fold in an owner or a decision."""
        if topic is RESOURCES:
            if not key.startswith(_OWNERS):
                return
            if isinstance(event, ResourceDeclared):
                state.put_owner(event)
            else:
                state.drop_owner(key)
        elif isinstance(event, WorkloadPlaced):
            state.put_held(event)
        else:
            state.drop_held(key)

    def process(self, state: State, batch: Sequence[Input], now: datetime, *, fresh: bool = False) -> list[Emit]:  # noqa: ARG002 - nothing is followed
        """Decide on owners that were declared, changed or deleted."""
        for record in batch:
            self.apply(state, record.topic, record.key, record.event)
            if record.key.startswith(_OWNERS):
                state.work.append(Work(record.key, "", record.meta))
        return self._settle(state, now)

    def wake(self, state: State, now: datetime) -> list[Emit]:
        """Do what a change of the view made due."""
        return self._settle(state, now)

    def next_wake(self, state: State) -> datetime | None:
        """At once while there is something to do."""
        return AT_ONCE if state.due() else None

    def reconcile(self, state: State, now: datetime) -> list[Emit]:
        """Look at every owner again; write what should be there and is not."""
        state.work.extend(Work(key, "", None, repair=True) for key in sorted(state.owners.keys() | state.held.keys()))
        return self._settle(state, now)

    def _settle(self, state: State, now: datetime) -> list[Emit]:
        desk = Desk(self, state, now)
        _gather(state)
        while state.work and len(desk.emits) < PORTION:
            work = state.work.popleft()
            desk.begin(work)
            if work.workload:
                settle_pod(desk, work)
            else:
                settle_owner(desk, work)
        return desk.emits


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


def service(settings: Settings) -> PlacementService:  # noqa: ARG001 - placement has no settings yet
    """The service placement."""
    return PlacementService()
