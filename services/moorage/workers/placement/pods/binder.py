"""Handles one pod at a time: places it, ends it, or determines why it must leave. The results go into the outbox."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Final

from moorage.decide.scheduling.nodes.completed_constraints import constraints_of
from moorage.decide.scheduling.nodes.plugin import PodRequest
from moorage.decide.scheduling.nodes.pod_shape import PodShape
from moorage.decide.scheduling.nodes.scheduler import Decision
from moorage.workers.placement.engine.outbox import DECISION, Outbox
from moorage.workers.placement.engine.pod_source import PodSource
from moorage.workers.placement.engine.work_queue import Work
from moorage.workers.placement.pods.pod_state import PodDecision, PodState
from moorage.workers.placement.pods.pod_view import PodListener
from moorage.workers.placement.pods.reservation import Reservation
from moorage_schemas.keys import ResourceKey, binding_key
from moorage_schemas.placement import FilterResult, PlacementState, PodConstraints, WorkloadBound, WorkloadPlaced
from moorage_schemas.refs import TargetKind, TargetRef, WorkloadRef
from moorage_schemas.resource import PodOrder
from moorage_schemas.topics import BINDINGS, PLACEMENTS
from moorage_schemas.trusted_events import trusted, workload_ref

SCHEDULED: Final = "Scheduled"
UNSCHEDULABLE: Final = "Unschedulable"
NODE_NAME_SET: Final = "NodeNameSet"
NODE_NOT_FOUND: Final = "NodeNotFound"
TAINT_EVICTION: Final = "TaintEviction"
TARGET_GONE: Final = "TargetGone"
DELETED: Final = "Deleted"
OTHER_SCHEDULER: Final = "OtherScheduler"
SCHEDULING_GATED: Final = "SchedulingGated"
CONFLICT: Final = "Conflict"
"""One-word reasons of decisions."""


INVALID: Final = "Invalid"
"""The reason of a pod that cannot be read. The gateway accepts none, so another program has written it."""

_REMEMBERED: Final = 10_000

REFRESH: Final = timedelta(seconds=30)
"""The minimum time between two updates of the counts in a waiting pod's message."""


@dataclass(frozen=True, slots=True)
class Leaving:
    """Why a pod must leave its node."""

    reason: str
    message: str
    waits: bool = False
    """Whether its binding has to stay until the deployer has acknowledged the end of the pod."""


@dataclass(frozen=True, slots=True)
class Slot:
    """A pod to place."""

    workload: WorkloadRef
    uid: str
    index: int = 0
    template_hash: str = ""
    previous: str = ""
    """The node that it was on, or the node of the pod that it replaces."""

    replaces: str = ""
    why: str = ""
    """The text about a replacement."""

    only: str | None = None
    """The only node that it may go to; None for any."""


@lru_cache(maxsize=16_384)
def node_ref(name: str, cluster: str = "") -> TargetRef:
    """Return the reference of a node."""
    return TargetRef(kind=TargetKind.NODE, name=name, cluster=cluster)


class Binder:
    """Makes and writes the decisions on the pods of one owner.

    Args:
        listener: the partition that assumes the bindings in the view.
    """

    def __init__(self, listener: PodListener, state: PodState, outbox: Outbox) -> None:
        self.state = state
        self.view = state.view
        self.outbox = outbox
        self._listener = listener
        self._report_time: datetime | None = None

    def _node(self, name: str) -> TargetRef:
        """Return the reference of a node of the owners' cluster."""
        return node_ref(name, self.view.cluster)

    def begin(self, work: Work) -> None:
        """Begin a piece of work. Its results have its cause."""
        self._report_time = None
        owner = self.state.owners.get(work.key)
        self.outbox.begin(work.cause, work.key, owner.version if owner is not None else 0)

    def resume(self, outbox: Outbox, work: Work) -> None:
        """Go on with a piece of work in a later call, which has an outbox of its own."""
        self.outbox = outbox
        self.begin(work)

    def leaving(self, last: PodDecision, work: Work) -> Leaving | None:
        """Return why a placed pod must leave, and set this as the cause of the next records; None when it may stay."""
        view = self.view
        if (order := self.ordered_away(last)) is not None:
            return Leaving(DELETED, f"deleted by {order.actor}" if order.actor else "deleted")
        if last.node not in view.fleet or (work.removed and work.pod == last.workload):
            return Leaving(TARGET_GONE, f'node "{last.node}" was deleted')
        task = view.requested(last.workload, last.uid, last.node, last.binding_generation)
        if task is not None:
            self.outbox.cause, self._report_time = task.meta, task.event.report_time
            why = task.event.message or task.event.reason or "evicted by a taint"
            return Leaving(TAINT_EVICTION, why, waits=task.waits)
        owner = self.state.owners.get(last.owner)
        if owner is not None and owner.runs_on(last.node):
            return None  # the room is taken, whatever the other decisions
        why = view.conflict_of(binding_key(last.workload, self._node(last.node)))
        return Leaving(CONFLICT, f'node "{last.node}" {why}: another worker\'s binding came first') if why else None

    def waits(self, last: PodDecision) -> bool:
        """Return whether a pod was evicted and its binding stays until the deployer has acknowledged that."""
        if not last.placed or last.node not in self.view.fleet or self.ordered_away(last) is not None:
            return False
        task = self.view.requested(last.workload, last.uid, last.node, last.binding_generation)
        return task is not None and task.waits

    def ordered_away(self, last: PodDecision) -> PodOrder | None:
        """Return the order to end a controller's pod; None when there is none."""
        owner = self.state.owners.get(last.owner)
        order = owner.orders.get(last.uid) if owner is not None else None
        return order if order is not None and not order.node else None

    def place(self, owner: PodSource, slot: Slot) -> bool:
        """Look for a node, and write the result. Return False when the pod has to wait."""
        shape = owner.shape(self.view.rules, self.view.rules_version)
        order = owner.orders.get(slot.uid)
        if name := (order.node if order is not None else "") or owner.node_name:
            return self._place_as_named(owner, slot, shape, name)
        if owner.gated:
            message = "Scheduling is blocked due to non-empty scheduling gates"
            self._wait(owner, slot, SCHEDULING_GATED, Decision(None, 0, (), (), message))
            return False
        if owner.scheduler:
            message = f'spec.schedulerName: it is bound by "{owner.scheduler}"'
            self._wait(owner, slot, OTHER_SCHEDULER, Decision(None, 0, (), (), message))
            return False
        if undecided := owner.undecided or self._unbound_claim(owner, slot, shape):
            message = f"{undecided}: Moorage does not decide on this; leave the pod to another spec.schedulerName"
            self._wait(owner, slot, UNSCHEDULABLE, Decision(None, 0, (), (), message))
            return False
        decision = self._decide(owner, slot, shape)
        if decision.target is None:
            self._wait(owner, slot, UNSCHEDULABLE, decision)
            return False
        self._bind(owner, slot, shape, decision, SCHEDULED)
        return True

    def fits_without(self, owner: PodSource, last: PodDecision, slot: Slot) -> bool:
        """Return whether a pod would find a node without another pod. Nothing is decided."""
        self.outbox.effort += DECISION
        shape = owner.shape(self.view.rules, self.view.rules_version)
        restore = self.view.set_aside(self._listener, binding_key(last.workload, self._node(last.node)))
        found = self.view.scheduler.decide(self.request(owner, shape, slot), only=slot.only)
        restore()
        if found.target is None and shape.awaits_pods:
            self.state.awaiting[owner.key] = None
        return found.target is not None

    def unbind(self, last: PodDecision) -> None:
        """End the binding of a placed pod."""
        if last.placed:
            target = self._node(last.node)
            key = binding_key(last.workload, target)
            self.view.release(self._listener, key)
            self.outbox.put(BINDINGS, key, target.key, None)

    def end(self, last: PodDecision) -> None:
        """End a pod that no longer exists."""
        self.unbind(last)
        self.outbox.put(PLACEMENTS, last.workload, last.owner, None)

    def evict(self, owner: PodSource, last: PodDecision, leaving: Leaving) -> None:
        """Evict a bare pod. It is not replaced."""
        self.unbind(last)
        slot = Slot(workload=owner.ref, uid=last.uid, previous=last.node)
        event = self._event(owner, slot, PlacementState.EVICTED, leaving.reason, leaving.message)
        self.outbox.put(PLACEMENTS, last.workload, owner.key, event)

    def refuse(self, owner: PodSource) -> None:
        """Report that a declared pod cannot be read, once."""
        known = self.state.pods_of(owner.key).get(owner.key)
        if known is None or known.uid != owner.uid:
            self._wait(owner, Slot(workload=owner.ref, uid=owner.uid), INVALID, Decision(None, 0, (), (), owner.error))

    def follow_spec(self, owner: PodSource, last: PodDecision) -> None:
        """Write a binding again when the pod's tolerations, requests or labels have changed.

        So it is too when the cluster of a mirrored pod has bound it, or it has another controller or bridge.
        """
        reservation = self.view.reservation(binding_key(last.workload, self._node(last.node)))
        shape = owner.shape(self.view.rules, self.view.rules_version)
        labels = tuple(sorted(_labels(owner, last).items()))
        if reservation is None:
            return
        bypassed = reservation.bypassed or owner.runs_on(last.node)
        known = (reservation.tolerations, reservation.requests, reservation.labels, reservation.bypassed)
        by = (reservation.owner, reservation.deployer, reservation.terminating)
        if (
            known == (shape.tolerations, shape.requests, labels, bypassed)
            and by == (owner.bound_as.key, owner.mirrored, owner.terminating)
            and (reservation.constraints is not None) is bool(shape.ports or shape.terms)
        ):
            return
        self._rewrite_binding(last, owner, shape, reservation, bypassed=bypassed)

    def follow_labels(self, owner: PodSource, last: PodDecision) -> None:
        """Write the binding of a controller's pod again if the pod's labels were edited.

        This also applies to a binding from a version without labels or constraints in bindings. If its template no
        longer exists, they are unknown. All other fields of the binding are kept.
        """
        reservation = self.view.reservation(binding_key(last.workload, self._node(last.node)))
        if reservation is None or owner.controller is None:
            return
        present = last.template_hash == owner.controller.template_hash
        shape = owner.shape(self.view.rules, self.view.rules_version) if present else None
        unstated = shape is not None and reservation.constraints is None and bool(shape.ports or shape.terms)
        if last.uid not in owner.changed_labels and not unstated and (reservation.labels or not present):
            return
        if not unstated and reservation.labels == tuple(sorted(_labels(owner, last).items())):
            return
        self._rewrite_binding(last, owner, reservation, reservation, bypassed=reservation.bypassed)

    def _rewrite_binding(
        self, last: PodDecision, owner: PodSource, shape: PodShape | Reservation, known: Reservation, *, bypassed: bool
    ) -> None:
        """Write a binding again that has changed since `known` was read. It is the same binding."""
        self._write_binding(last, owner, shape, revision=known.revision + 1, bypassed=bypassed, time=known.bound_time)

    def restore_binding(self, owner: PodSource, last: PodDecision) -> None:
        """Write a missing binding again."""
        if self.view.reservation(binding_key(last.workload, self._node(last.node))) is None:
            shape = owner.shape(self.view.rules, self.view.rules_version)
            bypassed = last.reason == NODE_NAME_SET or owner.runs_on(last.node)
            self._write_binding(last, owner, shape, revision=1, bypassed=bypassed, time=last.decided_time)

    def end_orphans(self, owner: str) -> None:
        """End the bindings of an owner that belong to none of its pods. Only the reconciler calls this."""
        last = self.state.last.get(owner, {}).values()
        wanted = {binding_key(one.workload, self._node(one.node)) for one in last if one.placed}
        for key, node in sorted(self.view.bindings_of(owner).items()):
            if key not in wanted:
                self.view.release(self._listener, key)
                self.outbox.put(BINDINGS, key, self._node(node).key, None)

    def _place_as_named(self, owner: PodSource, slot: Slot, shape: PodShape, name: str) -> bool:
        """Bind a pod to the node that `spec.nodeName` or another scheduler names, without the filters.

        If that node does not exist yet, the pod waits for it, so that every binding has a node. For a mirrored pod the
        decision keeps which filters rule the node out now.
        """
        considered = len(self.view.fleet)
        if name not in self.view.fleet:
            message = f'spec.nodeName: node "{name}" not found'
            self._wait(owner, slot, NODE_NOT_FOUND, Decision(None, considered, (), (), message))
            return False
        against: tuple[FilterResult, ...] = ()
        if owner.mirrored:
            self.outbox.effort += DECISION
            against = self.view.scheduler.objections(self.request(owner, shape, slot), name)
        self._bind(owner, slot, shape, Decision(name, considered, against, (), ""), NODE_NAME_SET)
        return True

    def _decide(self, owner: PodSource, slot: Slot, shape: PodShape) -> Decision:
        """Return the decision. For a shape that fitted nowhere, that decision is used until the next opening."""
        failed, request = self.state.failed, self.request(owner, shape, slot)
        key = self._grounds(request) if slot.only is None else None
        known = failed.get(key) if key is not None else None
        since = (self.view.openings, self.view.fleet.pods.arrivals if shape.awaits_pods else 0)
        if known is not None and known[0] == since:
            decision = known[1]
        else:
            self.outbox.effort += DECISION
            decision = self.view.scheduler.decide(request, only=slot.only)
            if key is not None and decision.target is None:
                if len(failed) >= _REMEMBERED:
                    failed.clear()
                failed[key] = (since, decision)
            elif key is not None and known is not None:
                del failed[key]
        if decision.target is None and shape.awaits_pods:
            self.state.awaiting[owner.key] = None
        return decision

    def _grounds(self, request: PodRequest) -> Hashable:
        """Return the grounds of a decision that no node fits, besides the nodes and the other pods."""
        shape = request.shape
        about = self.view.fleet.pods.objecting(request.namespace, request.labels)
        if not (about or shape.claims or shape.reads_pods):
            return shape.key
        labels = request.labels if shape.reads_pods else ()
        return shape.key, request.namespace, labels, about

    def request(self, owner: PodSource, shape: PodShape, slot: Slot) -> PodRequest:
        """Return the scheduler's request for a pod of an owner."""
        spread = owner.controller is not None or owner.bound_as is not owner.ref
        by, workload = owner.bound_as.key, slot.workload
        rows = self.view.replica_rows(by if spread else "")
        request = PodRequest(shape=shape, owner=by, replica_rows=rows, spread=spread, now=self._at(None))
        if not (shape.reads_pods or shape.claims or self.view.fleet.pods.has_terms):
            return request  # nothing reads the rest, and this is the way of most pods
        labels = owner.labels(workload.name, slot.uid, slot.index, slot.template_hash)
        return replace(
            request,
            namespace=workload.namespace,
            labels=tuple(sorted(labels.items())),
            volumes=self.view.surroundings.volumes_of(workload.namespace, shape.claims),
        )

    def _unbound_claim(self, owner: PodSource, slot: Slot, shape: PodShape) -> str:
        """Return the claim of a mirrored pod that is not bound to a volume. Empty if there is none."""
        if not owner.mirrored or not shape.claims:
            return ""
        bound = {one.claim for one in self.view.surroundings.volumes_of(slot.workload.namespace, shape.claims)}
        unbound = next((claim for claim in shape.claims if claim not in bound), None)
        return "" if unbound is None else f'spec.volumes: persistentVolumeClaim "{unbound}" is not bound'

    def _wait(self, owner: PodSource, slot: Slot, reason: str, decision: Decision) -> None:
        """Write that a pod waits. While only the counts of the reasons change, at most once in `REFRESH`."""
        known = self.state.pods_of(owner.key).get(slot.workload.key)
        message = f"{decision.message} {slot.why}".rstrip()
        grounds = tuple((result.filter, result.reason) for result in decision.filters)
        if known is not None and known.pending and known.uid == slot.uid:
            same_grounds = (known.reason, known.grounds) == (reason, grounds)
            # The message may also state why the pod has left its node, which is unknown now and still true.
            same = known.message == message or (not slot.why and known.message.startswith(f"{message} "))
            if same_grounds and (same or self._at(None) - known.decided_time < REFRESH):
                return
            slot = replace(slot, previous=slot.previous or known.previous)
        event = self._event(owner, slot, PlacementState.PENDING, reason, message, decision=decision)
        self.outbox.put(PLACEMENTS, slot.workload.key, owner.key, event)

    def _bind(self, owner: PodSource, slot: Slot, shape: PodShape, decision: Decision, reason: str) -> None:
        event = self._event(owner, slot, PlacementState.PLACED, reason, slot.why, decision=decision)
        self.outbox.put(PLACEMENTS, slot.workload.key, owner.key, event)
        last = self.state.last[owner.key][slot.workload.key]
        bypassed = reason == NODE_NAME_SET
        self._write_binding(last, owner, shape, revision=1, bypassed=bypassed, time=event.decided_time)

    def _write_binding(
        self,
        last: PodDecision,
        owner: PodSource,
        shape: PodShape | Reservation,
        *,
        revision: int,
        bypassed: bool,
        time: datetime,
    ) -> None:
        target, labels = self._node(last.node), _labels(owner, last)
        constraints = shape.constraints if isinstance(shape, Reservation) else None
        if constraints is None:
            constraints = self._constraints(owner, last, labels)
        bound = trusted(
            WorkloadBound,
            workload=workload_ref(last.workload),
            uid=last.uid,
            owner=owner.bound_as,
            target=target,
            generation=last.binding_generation,
            revision=revision,
            tolerations=shape.tolerations,
            requests=dict(shape.requests),
            bypassed=bypassed,
            bound_time=time,
            labels=labels,
            deployer=owner.mirrored,
            constraints=constraints,
            terminating=owner.terminating,
        )
        key = binding_key(last.workload, target)
        self.view.assume(self._listener, key, bound, self.outbox.cause)
        self.outbox.put(BINDINGS, key, target.key, bound)

    def _constraints(self, owner: PodSource, last: PodDecision, labels: dict[str, str]) -> PodConstraints | None:
        """Return the demands of a pod of the present template on other pods. None if it has none."""
        shape = owner.shape(self.view.rules, self.view.rules_version)
        if not shape.ports and not shape.terms:
            return None
        if owner.controller is not None and last.template_hash != owner.controller.template_hash:
            return None
        return constraints_of(shape, ResourceKey.parse(last.workload).namespace, tuple(sorted(labels.items())))

    def _event(
        self,
        owner: PodSource,
        slot: Slot,
        state: PlacementState,
        reason: str,
        message: str,
        *,
        decision: Decision | None = None,
    ) -> WorkloadPlaced:
        known = self.state.pods_of(owner.key).get(slot.workload.key)
        last = known.generation if known is not None else None
        generation = self.view.evictions.next_generation(slot.workload.key, last)
        node = decision.target if decision is not None else None
        return trusted(
            WorkloadPlaced,
            workload=slot.workload,
            uid=slot.uid,
            owner=owner.ref,
            owner_uid=owner.uid,
            template_hash=slot.template_hash,
            index=slot.index,
            generation=generation,
            state=state,
            target=self._node(node) if node else None,
            previous_target=self._node(slot.previous) if slot.previous else None,
            # The decision and its binding have the same generation, so a later binding has a higher one.
            binding_generation=generation if node else 0,
            reason=reason,
            message=message,
            targets_considered=decision.considered if decision is not None else 0,
            filters=decision.filters if decision is not None else (),
            scores=decision.scores if decision is not None else (),
            replaces=slot.replaces,
            decided_time=self._at(node),
            report_time=self._report_time or (known.report_time if known is not None and known.pending else None),
            labels={},
        )

    def _at(self, node: str | None) -> datetime:
        """Return the time of the decision: that of its cause, but not before its node had its present resources."""
        at = self.outbox.cause.time or self.outbox.now
        since = self.view.nodes.declared_at(node) if node else None
        return max(at, since) if since is not None else at


def _labels(owner: PodSource, last: PodDecision) -> dict[str, str]:
    """Return the labels of a pod."""
    return owner.labels(ResourceKey.parse(last.workload).name, last.uid, last.index, last.template_hash)
