"""The controller of OCM placements, which select managed clusters."""

from __future__ import annotations

from datetime import datetime
from typing import ClassVar

from typing_extensions import override

from moorage.workers.placement.engine.outbox import Outbox, timed_cause
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
    """Reconciles the PlacementDecisions of each placement with its spec. A placement is on the queue at most once."""

    resources: tuple[str, ...] = (PLACEMENT_PREFIX,)
    decisions: tuple[str, ...] = (PLACEMENT_PREFIX, DECISION_PREFIX)
    at_once: ClassVar[int | None] = 200

    def __init__(self) -> None:
        super().__init__()
        self.state = SelectionState()

    def attach(self, view: ManagedView) -> None:
        """Use a view. The placements join it when they are first checked."""
        self.state.view = view

    def leave(self) -> None:
        """Leave the view, because the partition is taken away."""
        state = self.state
        for member in state.members.values():
            state.view.leave(member)
        state.members.clear()
        state.view.drop(self)

    # Input from the topics of the partition.

    def declare(self, key: str, event: ResourceDeclared | None) -> None:
        """Fold in a placement that is declared, or deleted (None)."""
        self.state.declare(key, event)

    def decided(self, key: str, event: WorkloadPlaced | None) -> None:
        """Fold in a decision on a placement, or one of its pages; None when it no longer exists."""
        self.state.decided(key, event)

    def is_new(self, event: ResourceDeclared) -> bool:
        """Return whether a declared placement is not known yet."""
        known = self.state.specs.get(event.key)
        return known is None or known.uid != event.uid

    def check_resource(self, key: str, cause: Meta) -> None:
        """Add a placement to the queue."""
        self.work.add_once(Work(key, cause))

    def keys(self) -> list[str]:
        """Return the placements, including undeclared ones with decisions, sorted."""
        return sorted([*self.state.specs, *self.state.undeclared()])

    @override
    def notice(self, member: ClassMember, meta: Meta) -> None:
        self.check_resource(member.key, meta)

    # Work to do.

    def due(self) -> bool:
        """Return whether there is something to do now, independent of the time."""
        return not self.begun or bool(self.work)

    def next_time(self) -> datetime | None:
        """Return when the next placement must be decided again; None when none must."""
        return self.state.requeues.next()

    def gather(self, now: datetime) -> None:
        """Add placements to the queue that are due to be decided again."""
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

    def repair(self) -> None:
        """Add everything to the queue, to repair decisions that can no longer be right."""
        for key in self.keys():
            self.work.add_once(Work(key, None, check=True))

    def reconcile_one(self, outbox: Outbox, work: Work) -> None:
        """Decide on a placement."""
        self.state.join(work.key, self)
        writer = DecisionWriter(self, self.state, outbox)
        again = reconcile(writer, work)
        if again is not None:
            self.check_resource(work.key, again)
