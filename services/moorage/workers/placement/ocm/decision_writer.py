"""Writes decisions on OCM placements if they are new."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from moorage.decide.scheduling.ocm.decisions.conditions import leading_condition
from moorage.decide.scheduling.ocm.decisions.pages import DecisionPart, Layout, records_between
from moorage.decide.scheduling.ocm.decisions.result import Scheduled
from moorage.workers.placement.engine.outbox import SOURCE, Outbox
from moorage.workers.placement.engine.work_queue import Work
from moorage.workers.placement.ocm.managed_view import SelectedClusters
from moorage.workers.placement.ocm.selection_state import SelectionDecision, SelectionState
from moorage.workers.placement.ocm.spec import PLACEMENT, PLACEMENT_DECISION, SelectionSpec
from moorage_schemas.envelope import Meta, event_id
from moorage_schemas.placement import PlacementCondition, PlacementState, WorkloadPlaced
from moorage_schemas.refs import WorkloadRef
from moorage_schemas.topics import PLACEMENTS


@dataclass(frozen=True, slots=True)
class SelectionOutcome:
    """A decision, ready to be written."""

    layout: Layout
    selected: int
    conditions: tuple[PlacementCondition, ...]
    requeue_at: datetime | None
    grounds: Scheduled
    """The reasons. The written part is computed only when it is written."""


class DecisionWriter:
    """Writes the decision on one placement, and its pages.

    Args:
        partition: the partition that assumes the pages in the view.
    """

    def __init__(self, partition: object, state: SelectionState, outbox: Outbox) -> None:
        self.state = state
        self.view = state.view
        self.outbox = outbox
        self.at = outbox.now
        """The time of the decision, which is that of its cause."""

        self._partition = partition
        self._owner = WorkloadRef(kind=PLACEMENT, name="none")
        self._generation = 0
        """The last generation of the placement, or of an earlier one of that name."""

    @property
    def now(self) -> datetime:
        """The time of the call."""
        return self.outbox.now

    def begin(self, work: Work) -> None:
        """Begin with a placement. The results have its cause."""
        self._owner = WorkloadRef.parse(work.key)
        known, spec = self.state.last.get(work.key), self.state.specs.get(work.key)
        version = spec.version if spec is not None else 0
        self.outbox.begin(work.cause, work.key, version, known.generation if known is not None else 0)
        self._generation = self.state.generation(work.key)
        self.at = self.outbox.cause.time or self.now
        if known is not None:  # causes may arrive out of order, but the times of decisions must not decrease
            self.at = max(self.at, known.decided_time)

    def again(self) -> Meta:
        """Return the cause of deciding again, for a decision that changes its own basis."""
        cause = self.outbox.cause
        return Meta(
            id=event_id(SOURCE, self._owner.key, "again", self._generation, cause.id),
            source=SOURCE,
            type=PLACEMENTS.event_type,
            time=self.at,
            correlation_id=cause.correlation,
            causation_id=cause.id,
            traceparent=cause.traceparent,
        )

    def end(self, uid: str) -> None:
        """End a placement that no longer exists: write that its clusters are removed, and delete its records."""
        self._generation += 1
        self._pages(uid, self._generation, {})
        self._emit(self._owner, None)

    def write(self, spec: SelectionSpec, known: SelectionDecision | None, outcome: SelectionOutcome) -> bool:
        """Write a decision if it differs from the present one. Return whether clusters have moved."""
        generation = self._generation + 1
        changed = self._pages(spec.uid, generation, outcome.layout.parts)
        condition = leading_condition(outcome.conditions)
        reason, message = (condition.reason, condition.message) if condition is not None else ("", "")
        after = (reason, message, outcome.selected, outcome.layout.groups, outcome.conditions, outcome.requeue_at)
        if known is not None and not changed and known.spec_key == spec.spec_key and known.reported == after:
            return False
        event = WorkloadPlaced(
            workload=self._owner,
            uid=spec.uid,
            owner=self._owner,
            owner_uid=spec.uid,
            template_hash=spec.spec_key,
            generation=generation,
            state=PlacementState.PLACED if outcome.selected else PlacementState.PENDING,
            reason=reason,
            message=message,
            targets_considered=outcome.grounds.considered,
            filters=outcome.grounds.ruled_out(),
            scores=outcome.grounds.best(),
            decided_time=self.at,
            selected=outcome.selected,
            decision_groups=outcome.layout.groups,
            conditions=outcome.conditions,
            decide_again=outcome.requeue_at,
        )
        self._emit(self._owner, event)
        return changed

    def _pages(self, uid: str, generation: int, parts: Mapping[str, DecisionPart]) -> bool:
        """Write the PlacementDecisions that change. Return whether any does."""
        records = records_between(self.state.before(self._owner.key), parts)
        if not records:
            return False
        refs = [
            WorkloadRef(kind=PLACEMENT_DECISION, namespace=self._owner.namespace, name=record.name)
            for record in records
        ]
        assumed = {
            ref.key: None if record.part is None else SelectedClusters(uid, generation, record.part.clusters)
            for ref, record in zip(refs, records, strict=True)
        }
        self.view.assume(self._partition, assumed)
        for ref, record in zip(refs, records, strict=True):
            if record.part is None:
                self._emit(ref, None)
                continue
            event = WorkloadPlaced(
                workload=ref,
                uid=uid,
                owner=self._owner,
                owner_uid=uid,
                generation=generation,
                state=PlacementState.PLACED if record.part.clusters else PlacementState.PENDING,
                decided_time=self.at,
                clusters=record.part.clusters,
                added=record.added,
                removed=record.removed,
                labels=dict(record.part.labels),
            )
            self._emit(ref, event)
        self.state.notify_view(self._owner.key)
        return True

    def _emit(self, workload: WorkloadRef, event: WorkloadPlaced | None) -> None:
        self.outbox.put(PLACEMENTS, workload.key, self._owner.key, event)
