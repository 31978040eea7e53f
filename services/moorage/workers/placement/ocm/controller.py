"""The controller of OCM placements, which select managed clusters."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import ClassVar

from typing_extensions import override

from moorage.workers.placement.engine.outbox import LastDecision, Outbox, timed_cause
from moorage.workers.placement.engine.placement_controller import Controller
from moorage.workers.placement.engine.work_queue import Work
from moorage.workers.placement.ocm.decision_writer import DecisionWriter
from moorage.workers.placement.ocm.equivalence_classes import ClassMember, MemberPartition
from moorage.workers.placement.ocm.managed_view import ManagedView
from moorage.workers.placement.ocm.reconcile import reconcile
from moorage.workers.placement.ocm.selection_state import SelectionState
from moorage.workers.placement.ocm.spec import DECISION_PREFIX, PLACEMENT_PREFIX
from moorage_schemas.envelope import Meta
from moorage_schemas.placement import WorkloadPlaced
from moorage_schemas.resource import ResourceDeclared


class SelectionController(Controller, MemberPartition):
    """Reconciles the PlacementDecisions of each placement with its spec. A placement is on the queue at most once.

    Args:
        on_change: called with the key of a placement that was declared, deleted or decided.
    """

    resources: tuple[str, ...] = (PLACEMENT_PREFIX,)
    decisions: tuple[str, ...] = (PLACEMENT_PREFIX, DECISION_PREFIX)
    at_once: ClassVar[int | None] = 200

    def __init__(self, on_change: Callable[[str], None] = lambda _placement: None) -> None:
        super().__init__()
        self.state = SelectionState()
        self._on_change = on_change

    def attach(self, view: ManagedView) -> None:
        """Use a view. The placements join it when they are first checked."""
        self.state.view = view

    @override
    def leave(self) -> None:
        state = self.state
        for member in state.members.values():
            state.view.leave(member)
        state.members.clear()
        state.view.drop(self)

    # Input from the topics of the partition.

    @override
    def declare(self, key: str, event: ResourceDeclared | None) -> None:
        self.state.declare(key, event)
        self._on_change(key)

    @override
    def decided(self, key: str, event: WorkloadPlaced | None) -> None:
        self.state.decided(key, event)
        if key.startswith(PLACEMENT_PREFIX):  # written after all of its PlacementDecisions
            self._on_change(key)

    @override
    def decision(self, workload: str) -> LastDecision | None:
        return self.state.last.get(workload)

    @override
    def is_new(self, event: ResourceDeclared) -> bool:
        known = self.state.specs.get(event.key)
        return known is None or known.uid != event.uid

    @override
    def check_resource(self, key: str, cause: Meta) -> None:
        self.work.add_once(Work(key, cause))

    @override
    def keys(self) -> list[str]:
        return sorted([*self.state.specs, *self.state.undeclared()])

    @override
    def notice(self, member: ClassMember, meta: Meta) -> None:
        self.check_resource(member.key, meta)

    # Work to do.

    @override
    def due(self) -> bool:
        return not self.begun or bool(self.work)

    @override
    def next_time(self) -> datetime | None:
        return self.state.requeues.next()

    @override
    def gather(self, now: datetime) -> None:
        state = self.state
        if not self.begun:
            self.begun = True
            # All tables are read to their ends by now, so any other decisions belong to no placement.
            for key in sorted(state.undeclared()):
                self.work.add_once(Work(key, None, check=True))
            for key in sorted(state.specs):
                state.join(key, self)
                self.work.add_once(Work(key, None, check=True))
        for key, at in state.requeues.take_due(now):
            self.check_resource(key, timed_cause(key, at))

    @override
    def repair(self) -> None:
        for key in self.keys():
            self.work.add_once(Work(key, None, check=True))

    @override
    def reconcile_one(self, outbox: Outbox, work: Work) -> None:
        self.state.join(work.key, self)
        writer = DecisionWriter(self, self.state, outbox)
        again = reconcile(writer, work)
        if again is not None:
            self.check_resource(work.key, again)
