"""The controller of pods: declared pods, and those that Deployments, DaemonSets and similar kinds create."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar, Final

from typing_extensions import override

from moorage.workers.placement.engine.outbox import LastDecision, Outbox
from moorage.workers.placement.engine.placement_controller import EFFORT, PORTION, Controller
from moorage.workers.placement.engine.pod_source import POD_SOURCES, PodSource
from moorage.workers.placement.engine.work_queue import Work
from moorage.workers.placement.pods.binder import Binder
from moorage.workers.placement.pods.pod_state import PodState
from moorage.workers.placement.pods.pod_view import PodView
from moorage.workers.placement.pods.reconcile import owner_steps, pod_steps
from moorage_schemas.envelope import Meta
from moorage_schemas.placement import WorkloadPlaced
from moorage_schemas.resource import ResourceDeclared
from moorage_schemas.resources.workload_kinds import POD

PODS: Final = (f"{POD}/",)


@dataclass(slots=True, eq=False)
class _Begun:
    """Work that did not fit into one call."""

    work: Work
    owner: PodSource | None
    claimed: bool
    binder: Binder
    steps: Iterator[None]


class PodController(Controller):
    """Reconciles the pods of every owner with the owner's demand.

    Args:
        claimed: returns whether a policy places a resource, by its key, on clusters. Such a resource creates no pods on
    nodes.
        claimable: returns whether a policy would place a declared resource on clusters.
        cluster: the cluster whose pods it decides on; empty for the home fleet.
    """

    at_once: ClassVar[int | None] = 1000

    def __init__(
        self,
        claimed: Callable[[str], bool],
        claimable: Callable[[ResourceDeclared], bool],
        cluster: str = "",
    ) -> None:
        super().__init__()
        self.cluster = cluster
        before = f"{cluster}:" if cluster else ""
        self.resources = tuple(f"{before}{prefix}" for prefix in POD_SOURCES)
        self.decisions = tuple(f"{before}{prefix}" for prefix in PODS)
        self.state = PodState(PodView(cluster))
        self._claimed = claimed
        self._claimable = claimable
        self._openings = 0
        """The view's `openings` when waiting pods were last tried."""

        self._arrivals = 0
        self._changes = 0
        self._unfinished: _Begun | None = None

    def attach(self, view: PodView) -> None:
        """Use a view, and be notified of its changes."""
        self.state.view = view
        view.attach(self)

    @override
    def leave(self) -> None:
        self.state.view.detach(self)

    # Input from the topics of the partition.

    @override
    def declare(self, key: str, event: ResourceDeclared | None) -> None:
        self.state.declare(key, event)

    @override
    def decided(self, key: str, event: WorkloadPlaced | None) -> None:
        self.state.decided(key, event)

    @override
    def decision(self, workload: str) -> LastDecision | None:
        return self.state.decision(workload)

    @override
    def is_new(self, event: ResourceDeclared) -> bool:
        known = self.state.owners.get(event.key)
        if (
            known is not None
            and known.uid == event.uid
            and (known.controller is None or known.version == event.version)
        ):
            return False
        return not self._claimable(event)

    @override
    def check_resource(self, key: str, cause: Meta) -> None:
        self.work.add(Work(key, cause))

    @override
    def keys(self) -> list[str]:
        return sorted(self.state.owners.keys() | self.state.last.keys())

    # Work to do.

    def notice(self, owner: str, workload: str, meta: Meta, *, removed: str = "") -> None:
        """Note a change of a bound pod. A mirrored pod is decided on by itself, even if its binding names an owner."""
        for decided_under in (owner, workload):
            if workload in self.state.pods_of(decided_under):
                self.work.add(Work(decided_under, meta, pod=workload, removed=removed))
                return

    @override
    def due(self) -> bool:
        state, view = self.state, self.state.view
        if not self.begun or self.work:
            return True
        waiting = bool(state.pending or state.stuck) and self._openings != view.openings
        waiting |= bool(state.awaiting) and self._arrivals != view.fleet.pods.arrivals
        return waiting or (bool(state.daemons) and self._changes != view.changes)

    @override
    def gather(self, now: datetime) -> None:
        # after an opening the waiting owners, and DaemonSets for each node that has changed
        state, view = self.state, self.state.view
        if not self.begun:
            self.begun = True
            for key in self.keys():
                self.work.add_once(Work(key, None))
            self._openings, self._changes = view.openings, view.changes
            self._arrivals = view.fleet.pods.arrivals
            return
        if self._openings != view.openings:
            self._openings = view.openings
            waiting = state.pending.keys() | state.stuck.keys()
            for key in sorted(waiting, key=lambda key: (-state.priority(key), key)):
                self.work.add_once(Work(key, view.opened_by))
        if self._arrivals != view.fleet.pods.arrivals:
            self._arrivals = view.fleet.pods.arrivals
            for key in sorted(state.awaiting, key=lambda key: (-state.priority(key), key)):
                self.work.add_once(Work(key, view.arrived_by))
            state.awaiting.clear()
        if self._changes != view.changes:
            names = view.changed_since(self._changes)
            self._changes = view.changes
            for key in state.daemons:
                if names is None:
                    self.work.add_once(Work(key, view.changed_by))
                else:
                    self.work.add_nodes(Work(key, view.changed_by, nodes=tuple(names)))

    @override
    def reconcile_one(self, outbox: Outbox, work: Work) -> None:
        # unfinished work comes first in the next call
        claimed, owner = self._claimed(work.key), self.state.owners.get(work.key)
        known, self._unfinished = self._unfinished, None
        if known is not None and known.work is work and known.owner is owner and known.claimed == claimed:
            begun = known
            begun.binder.resume(outbox, work)
        else:
            binder = Binder(self, self.state, outbox)
            binder.begin(work)
            steps = (pod_steps if work.pod else owner_steps)(binder, work, claimed=claimed)
            begun = _Begun(work, owner, claimed, binder, steps)
        if not all(len(outbox) < PORTION and outbox.effort < EFFORT for _ in begun.steps):
            self._unfinished = begun
            self.work.put_back(work)
