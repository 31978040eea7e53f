"""Where decisions on OCM placements are written, and only what is new of them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING

from moorage.core.scheduling.ocm.decision_pages import DecisionPart, records_between
from moorage.core.scheduling.ocm.statuses import deciding
from moorage.runtime.service import Emit, Service
from moorage.workers.placement.ocm.state import PLACEMENT_DECISION, Asked, ManagedWork, Standing
from moorage.workers.placement.ocm.view import Decided
from moorage.workers.placement.state import State
from moorage_schemas.envelope import Meta, event_id
from moorage_schemas.placement import PlacementState, WorkloadPlaced
from moorage_schemas.refs import WorkloadRef
from moorage_schemas.topics import PLACEMENTS

if TYPE_CHECKING:
    from moorage.workers.placement.ocm.settling import Outcome


class ManagedDesk:
    """Where the decisions of one call are made and collected."""

    def __init__(self, service: Service[State], pods: State, now: datetime) -> None:
        self.state = pods.managed
        self.view = pods.managed.view
        self.now = now
        self.emits: list[Emit] = []
        self.at = now
        """When what is decided counts as decided: the time of its cause."""

        self._service = service
        self._pods = pods
        self._owner = WorkloadRef(kind="Placement", name="none")
        self._cause = Meta(id="", source="", type="")
        self._generation = 0
        """The last one of the placement, or of one that had its name."""

    def begin(self, work: ManagedWork) -> None:
        """Take up a placement; what comes of it has its cause."""
        self._owner = WorkloadRef.parse(work.owner)
        known, asked = self.state.standing.get(work.owner), self.state.asked.get(work.owner)
        cause = work.cause
        if cause is None:
            grounds = (asked.version if asked else 0, known.generation if known else 0, self.now.isoformat())
            told = event_id("moorage/placement", work.owner, *grounds)
            cause = Meta(id=told, source="moorage/placement", type=PLACEMENTS.event_type)
        self._cause = cause
        self._generation = self.state.generation(work.owner)
        self.at = cause.time or self.now
        if known is not None:  # causes may come out of order; decisions do not go back in time
            self.at = max(self.at, known.decided_time)

    def look_again(self) -> None:
        """What was decided changes what it was decided by: the placement is to be decided on once more."""
        cause = self._cause
        told = event_id("moorage/placement", self._owner.key, "again", self._generation, cause.id)
        meta = Meta(
            id=told,
            source="moorage/placement",
            type=PLACEMENTS.event_type,
            time=self.at,
            correlation_id=cause.correlation,
            causation_id=cause.id,
            traceparent=cause.traceparent,
        )
        self.state.look_at(self._owner.key, meta)

    def end(self, uid: str) -> None:
        """A placement is no more: what it has is told to be over, then everything about it goes."""
        self._generation += 1
        self._parts(uid, self._generation, {})
        self._emit(self._owner, None)

    def write(self, asked: Asked, known: Standing | None, outcome: Outcome) -> bool:
        """Write a decision, as far as it differs from what is there. Returns whether clusters moved."""
        generation = self._generation + 1
        changed = self._parts(asked.uid, generation, outcome.layout.parts)
        condition = deciding(outcome.conditions)
        reason, message = (condition.reason, condition.message) if condition is not None else ("", "")
        after = (reason, message, outcome.selected, outcome.layout.groups, outcome.conditions, outcome.decide_again)
        if known is not None and not changed and known.spec_key == asked.spec_key and known.says == after:
            return False
        event = WorkloadPlaced(
            workload=self._owner,
            uid=asked.uid,
            owner=self._owner,
            owner_uid=asked.uid,
            template_hash=asked.spec_key,
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
            decide_again=outcome.decide_again,
        )
        self._emit(self._owner, event)
        return changed

    def _parts(self, uid: str, generation: int, parts: Mapping[str, DecisionPart]) -> bool:
        """Write the PlacementDecisions that change. Returns whether any does."""
        records = records_between(self.state.before(self._owner.key), parts)
        if not records:
            return False
        refs = [
            WorkloadRef(kind=PLACEMENT_DECISION, namespace=self._owner.namespace, name=record.name)
            for record in records
        ]
        assumed = {
            ref.key: None if record.part is None else Decided(uid, generation, record.part.clusters)
            for ref, record in zip(refs, records, strict=True)
        }
        self.view.assume(self.state, assumed)
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
        self.state.tell_view(self._owner.key)
        return True

    def _emit(self, workload: WorkloadRef, event: WorkloadPlaced | None) -> None:
        self.emits.append(Emit(PLACEMENTS, workload.key, self._owner.key, event, self._cause))
        self._service.apply(self._pods, PLACEMENTS, workload.key, event)
