"""One pod at a time: place it, end it, say why it must leave. What comes out is written and holds at once."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from moorage.core.scheduling.nodes.plugin import PodRequest
from moorage.core.scheduling.nodes.scheduler import Decision
from moorage.core.scheduling.nodes.shape import PodShape
from moorage.runtime.service import Emit, Service
from moorage.workers.placement.pods.reservation import Booking
from moorage.workers.placement.state import Held, Owner, State, Work
from moorage_schemas.base import Model
from moorage_schemas.envelope import Meta, event_id
from moorage_schemas.placement import PlacementState, WorkloadBound, WorkloadPlaced
from moorage_schemas.refs import TargetKind, TargetRef, WorkloadRef
from moorage_schemas.topics import BINDINGS, PLACEMENTS, Topic, binding_key

SCHEDULED: Final = "Scheduled"
UNSCHEDULABLE: Final = "Unschedulable"
NODE_NAME_SET: Final = "NodeNameSet"
NODE_NOT_FOUND: Final = "NodeNotFound"
TAINT_EVICTION: Final = "TaintEviction"
TARGET_GONE: Final = "TargetGone"
CONFLICT: Final = "Conflict"
"""Reasons of decisions, in one word each."""


INVALID: Final = "Invalid"
"""The reason of a pod that cannot be read; the gateway lets none through, so it was written by something else."""

_REMEMBERED: Final = 10_000

REFRESH: Final = timedelta(seconds=30)
"""How often the counts in a waiting pod's message are brought up to date, at most."""


@dataclass(frozen=True, slots=True)
class Leaving:
    """Why a pod must leave its node."""

    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Slot:
    """The pod that is to be placed."""

    workload: WorkloadRef
    uid: str
    index: int = 0
    template_hash: str = ""
    previous: str = ""
    """The node it was on, or the one that it replaces."""

    replaces: str = ""
    why: str = ""
    """What is said of a replacement."""

    only: str | None = None
    """The one node that it may go to."""


def node_ref(name: str) -> TargetRef:
    """The reference of a node."""
    return TargetRef(kind=TargetKind.NODE, name=name)


class Desk:
    """Where the decisions of one call are made and collected."""

    def __init__(self, service: Service[State], state: State, now: datetime) -> None:
        self.state = state
        self.view = state.view
        self.emits: list[Emit] = []
        self._service = service
        self._now = now
        self._cause = Meta(id="", source="", type="")
        self._report_time: datetime | None = None

    def begin(self, work: Work) -> None:
        """Take up a piece of work; what comes of it has its cause."""
        self._report_time = None
        if work.cause is not None:
            self._cause = work.cause
            return
        owner = self.state.owners.get(work.owner)
        version = owner.version if owner is not None else 0
        told = event_id("moorage/placement", work.owner, version, self._now.isoformat())
        self._cause = Meta(id=told, source="moorage/placement", type=PLACEMENTS.event_type)

    def leaving(self, held: Held, work: Work) -> Leaving | None:
        """Why a placed pod must leave; None when it may stay. The cause is from then on what makes it leave."""
        view = self.view
        if held.node not in view.fleet or (work.gone and work.workload == held.workload):
            return Leaving(TARGET_GONE, f'node "{held.node}" was deleted')
        task = view.requested(held.workload, held.uid, held.node, held.binding_generation)
        if task is not None:
            self._cause, self._report_time = task.meta, task.event.report_time
            return Leaving(TAINT_EVICTION, task.event.message or task.event.reason or "evicted by a taint")
        if view.loses(binding_key(held.workload, node_ref(held.node))):
            return Leaving(CONFLICT, f'node "{held.node}" had no room left: another worker\'s binding came first')
        return None

    def place(self, owner: Owner, slot: Slot) -> bool:
        """Look for a node and say what came of it; False when the pod has to wait."""
        shape = owner.shape(self.view.rules, self.view.rules_version)
        if owner.node_name:
            return self._place_as_named(owner, slot, shape)
        decision = self._decide(owner, slot, shape)
        if decision.target is None:
            self._wait(owner, slot, UNSCHEDULABLE, decision)
            return False
        self._bind(owner, slot, shape, decision, SCHEDULED)
        return True

    def fits_without(self, owner: Owner, held: Held, slot: Slot) -> bool:
        """Whether a pod would find a node if another one were gone; nothing is decided."""
        shape = owner.shape(self.view.rules, self.view.rules_version)
        restore = self.view.set_aside(self.state, binding_key(held.workload, node_ref(held.node)))
        found = self.view.decider.decide(self.request(owner, shape), only=slot.only)
        restore()
        return found.target is not None

    def unbind(self, held: Held) -> None:
        """End the binding of a placed pod."""
        if held.placed:
            target = node_ref(held.node)
            key = binding_key(held.workload, target)
            self.view.release(self.state, key)
            self._emit(BINDINGS, key, target.key, None)

    def end(self, held: Held) -> None:
        """A pod is no more."""
        self.unbind(held)
        self._emit(PLACEMENTS, held.workload, held.owner, None)

    def evict(self, owner: Owner, held: Held, leaving: Leaving) -> None:
        """A bare pod has to go, and nothing takes its place."""
        self.unbind(held)
        slot = Slot(workload=owner.ref, uid=held.uid, previous=held.node)
        event = self._event(owner, slot, PlacementState.EVICTED, leaving.reason, leaving.message)
        self._emit(PLACEMENTS, held.workload, owner.key, event)

    def refuse(self, owner: Owner) -> None:
        """A declared pod cannot be read: say so, once."""
        known = self.state.held.get(owner.key, {}).get(owner.key)
        if known is None or known.uid != owner.uid:
            self._wait(owner, Slot(workload=owner.ref, uid=owner.uid), INVALID, Decision(None, 0, (), (), owner.error))

    def follow_spec(self, owner: Owner, held: Held) -> None:
        """Write a binding anew when the pod's tolerations, requests or labels are others by now."""
        booking = self.view.booking(binding_key(held.workload, node_ref(held.node)))
        shape = owner.shape(self.view.rules, self.view.rules_version)
        labels = tuple(sorted(_labels(owner, held).items()))
        if booking is None or (booking.tolerations, booking.requests, booking.labels) == (
            shape.tolerations,
            shape.requests,
            labels,
        ):
            return
        self._write_binding(
            held, owner, shape, revision=booking.revision + 1, bypassed=booking.bypassed, time=booking.bound_time
        )

    def add_labels(self, owner: Owner, held: Held) -> bool:
        """Write the binding of a controller's pod anew when it is of a time when bindings had no labels.

        All else of it stays as it is. Of a template that is no more, the labels are not known either.
        """
        booking = self.view.booking(binding_key(held.workload, node_ref(held.node)))
        if booking is None or booking.labels or owner.controller is None:
            return False
        if held.template_hash != owner.controller.template_hash or not _labels(owner, held):
            return False
        self._write_binding(
            held, owner, booking, revision=booking.revision + 1, bypassed=booking.bypassed, time=booking.bound_time
        )
        return True

    def restore_binding(self, owner: Owner, held: Held) -> None:
        """Write a binding again that should be there and is not."""
        if self.view.booking(binding_key(held.workload, node_ref(held.node))) is None:
            shape = owner.shape(self.view.rules, self.view.rules_version)
            bypassed = held.reason == NODE_NAME_SET
            self._write_binding(held, owner, shape, revision=1, bypassed=bypassed, time=held.decided_time)

    def end_orphans(self, owner: str) -> None:
        """End the bindings of an owner that belong to none of its pods; only the reconciler looks for them."""
        held = self.state.held.get(owner, {}).values()
        wanted = {binding_key(one.workload, node_ref(one.node)) for one in held if one.placed}
        for key, node in sorted(self.view.bookings_of(owner).items()):
            if key not in wanted:
                self.view.release(self.state, key)
                self._emit(BINDINGS, key, node_ref(node).key, None)

    def _place_as_named(self, owner: Owner, slot: Slot, shape: PodShape) -> bool:
        """Bind a pod to the node that the person named, whatever filters say.

        A node that is not there yet is waited for, so that every binding has a node.
        """
        name = owner.node_name
        considered = len(self.view.fleet)
        if name not in self.view.fleet:
            message = f'spec.nodeName: node "{name}" not found'
            self._wait(owner, slot, NODE_NOT_FOUND, Decision(None, considered, (), (), message))
            return False
        self._bind(owner, slot, shape, Decision(name, considered, (), (), ""), NODE_NAME_SET)
        return True

    def _decide(self, owner: Owner, slot: Slot, shape: PodShape) -> Decision:
        """The decision; of a shape that fitted nowhere since the last opening, the one that was made then."""
        failed = self.state.failed
        known = failed.get(shape.key) if slot.only is None else None
        if known is not None and known[0] == self.view.openings:
            return known[1]
        decision = self.view.decider.decide(self.request(owner, shape), only=slot.only)
        if decision.target is None and slot.only is None:
            if len(failed) >= _REMEMBERED:
                failed.clear()
            failed[shape.key] = (self.view.openings, decision)
        elif known is not None:
            del failed[shape.key]
        return decision

    def request(self, owner: Owner, shape: PodShape) -> PodRequest:
        """What is asked of the decider for a pod of an owner."""
        spread = owner.controller is not None
        rows = self.view.replica_rows(owner.key if spread else "")
        return PodRequest(shape=shape, owner=owner.key, replica_rows=rows, spread=spread, now=self._at(None))

    def _wait(self, owner: Owner, slot: Slot, reason: str, decision: Decision) -> None:
        """Write that a pod waits; while only the counts of the reasons change, not more often than `REFRESH`."""
        known = self.state.held.get(owner.key, {}).get(slot.workload.key)
        message = f"{decision.message} {slot.why}".rstrip()
        grounds = tuple((result.filter, result.reason) for result in decision.filters)
        if known is not None and known.pending and known.uid == slot.uid:
            said = (known.reason, known.grounds) == (reason, grounds)
            if said and (known.message == message or self._at(None) - known.decided_time < REFRESH):
                return
            slot = replace(slot, previous=slot.previous or known.previous)
        event = self._event(owner, slot, PlacementState.PENDING, reason, message, decision=decision)
        self._emit(PLACEMENTS, slot.workload.key, owner.key, event)

    def _bind(self, owner: Owner, slot: Slot, shape: PodShape, decision: Decision, reason: str) -> None:
        event = self._event(owner, slot, PlacementState.PLACED, reason, slot.why, decision=decision)
        self._emit(PLACEMENTS, slot.workload.key, owner.key, event)
        held = self.state.held[owner.key][slot.workload.key]
        bypassed = reason == NODE_NAME_SET
        self._write_binding(held, owner, shape, revision=1, bypassed=bypassed, time=event.decided_time)

    def _write_binding(
        self, held: Held, owner: Owner, shape: PodShape | Booking, *, revision: int, bypassed: bool, time: datetime
    ) -> None:
        target = node_ref(held.node)
        bound = WorkloadBound(
            workload=WorkloadRef.parse(held.workload),
            uid=held.uid,
            owner=owner.ref,
            target=target,
            generation=held.binding_generation,
            revision=revision,
            tolerations=shape.tolerations,
            requests=dict(shape.requests),
            bypassed=bypassed,
            bound_time=time,
            labels=_labels(owner, held),
        )
        key = binding_key(held.workload, target)
        self.view.assume(self.state, key, bound)
        self._emit(BINDINGS, key, target.key, bound)

    def _event(
        self,
        owner: Owner,
        slot: Slot,
        state: PlacementState,
        reason: str,
        message: str,
        *,
        decision: Decision | None = None,
    ) -> WorkloadPlaced:
        known = self.state.held.get(owner.key, {}).get(slot.workload.key)
        least = self.view.highest_eviction(slot.workload.key)
        generation = max(known.generation if known else 0, least) + 1
        node = decision.target if decision is not None else None
        return WorkloadPlaced(
            workload=slot.workload,
            uid=slot.uid,
            owner=owner.ref,
            owner_uid=owner.uid,
            template_hash=slot.template_hash,
            index=slot.index,
            generation=generation,
            state=state,
            target=node_ref(node) if node else None,
            previous_target=node_ref(slot.previous) if slot.previous else None,
            # The generation of the decision is that of its binding: a later binding has a higher one.
            binding_generation=generation if node else 0,
            reason=reason,
            message=message,
            targets_considered=decision.considered if decision is not None else 0,
            filters=decision.filters if decision is not None else (),
            scores=decision.scores if decision is not None else (),
            replaces=slot.replaces,
            decided_time=self._at(node),
            report_time=self._report_time or (known.report_time if known is not None and known.pending else None),
        )

    def _at(self, node: str | None) -> datetime:
        """When the decision counts as made: the time of its cause, but not before its node offered what it offers."""
        at = self._cause.time or self._now
        since = self.view.nodes.declared_at(node) if node else None
        return max(at, since) if since is not None else at

    def _emit(self, topic: Topic, key: str, partition_key: str, event: Model | None) -> None:
        self.emits.append(Emit(topic, key, partition_key, event, self._cause))
        if topic is PLACEMENTS:
            self._service.apply(self.state, topic, key, event)


def _labels(owner: Owner, held: Held) -> dict[str, str]:
    """The labels of a pod."""
    return owner.labels(held.workload.rpartition("/")[2], held.index, held.template_hash)
