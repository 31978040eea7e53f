"""Tasks: the records of evictions and their timers, as they are folded in and written."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from sys import intern
from typing import Any, Final

from moorage.decide.disruption.eviction_transitions import OwnTimer, Stage
from moorage.decide.disruption.leave_verdict import (
    Demand,
    LeaveAt,
    LeaveNow,
    deadline_of_demand,
    requested_by,
    requesters_of,
    taints_of,
)
from moorage.decide.taints.eviction_verdict import EvictAt, EvictNow, Keep
from moorage.runtime.service import Emit
from moorage.workers.eviction.check import EvictionCheck
from moorage.workers.eviction.eviction_task import BoundTarget, Task
from moorage.workers.eviction.state import EvictionPartition
from moorage_schemas.eviction import Acknowledgement, Escalation, EvictionDecided, EvictionState
from moorage_schemas.keys import EvictionKey, eviction_key
from moorage_schemas.leave_request import Requester
from moorage_schemas.taint import Taint
from moorage_schemas.timer import SetTimer
from moorage_schemas.topics import EVICTIONS, TIMERS, Topic
from moorage_schemas.trusted_events import target_ref, trusted, workload_ref

ISSUER: Final = "eviction"
"""The issuer of this service's timers."""

_BINDING_ENDED: Final = "BindingEnded"
"""The reason in the last record of a task. After it, the task is dropped from the state."""

REQUEST_WITHDRAWN: Final = "RequestWithdrawn"
"""The reason to cancel an eviction that only requests to leave have caused."""

_GRACEFULLY: Final = "Gracefully"
"""The purge mode of work that runs until placement ends its binding, so no earlier acknowledgement is needed."""

_UPSTREAM_LAG: Final = "UpstreamLag"
"""The blocker of an eviction while a service before this one still has records about it to process."""

_STAGES: Final[Mapping[EvictionState, Stage]] = {
    EvictionState.SCHEDULED: Stage.SCHEDULED,
    EvictionState.HELD: Stage.HELD,
    EvictionState.REQUESTED: Stage.REQUESTED,
    EvictionState.CANCELLED: Stage.CANCELLED,
}
_ENDED: Final[Mapping[EvictionState, Stage]] = {
    EvictionState.REQUESTED: Stage.LEFT_REQUESTED,
    EvictionState.CANCELLED: Stage.LEFT_CANCELLED,
}


def fold_task(state: EvictionPartition, key: str, event: EvictionDecided | None) -> None:
    """Fold in the state of a task."""
    workload, target_key, generation = EvictionKey.parse(key)
    if event is not None:
        _fold_state(state, key, workload, target_key, event)
        return
    state.ended.remove(key)
    target = state.targets.get(target_key)
    task = target.tasks.get(workload) if target is not None else None
    if target is not None and task is not None and task.generation == generation:
        del target.tasks[workload]
        state.tally.end((target_key, workload))
        state.tidy(target_key, target)


def _fold_state(state: EvictionPartition, key: str, workload: str, target_key: str, event: EvictionDecided) -> None:
    """Fold in the next state of a task. For an ended task, only the time is kept."""
    target = state.targets.setdefault(target_key, BoundTarget())
    known = target.tasks.get(workload)
    if known is not None and (known.generation, known.revision) >= (event.generation, event.revision):
        return
    if known is not None and known.generation < event.generation and known.state is EvictionState.CANCELLED:
        # A restore does not see that its binding has ended, so it cannot be scheduled again.
        state.ended.set(eviction_key(workload, target_key, known.generation), known.decided)
    if event.state is EvictionState.COMPLETED or event.reason == _BINDING_ENDED:
        target.tasks.pop(workload, None)
        state.tally.end((target_key, workload))
        state.ended.set(key, event.decided_time)
        state.tidy(target_key, target)
        return
    state.tally.touch((target_key, workload))
    owner = event.owner.key
    task = target.tasks[workload] = Task(
        uid=event.workload_uid,
        owner="" if owner == workload else intern(owner),
        generation=event.generation,
        revision=event.revision,
        state=event.state,
        deadline=event.deadline,
        taints=event.taints,
        requesters=event.requesters,
        held_by=event.held_by,
        asked=event.asked,
        decided=event.decided_time,
    )
    if event.state is EvictionState.REQUESTED:
        # A mass eviction has few different texts.
        task.reason, task.message = intern(event.reason), intern(event.message)
        task.deployer = intern(event.deployer)
        task.escalated, task.acknowledged = event.escalated, event.acknowledged
        task.requested = event.requested_time or event.decided_time  # earlier versions have written only this


def fold_timer(state: EvictionPartition, key: str, event: SetTimer | None) -> None:
    """Fold in one of this service's own timers."""
    if event is None:
        state.timers.pop(key, None)
    elif event.owner == ISSUER and state.timers.get(key, (0, None))[0] < event.generation:
        state.timers[key] = (event.generation, event.deadline)


def stage_of(it: EvictionCheck) -> Stage:
    """Return the stage of the eviction."""
    task, binding = it.task, it.binding
    if task is None:
        return Stage.UNBOUND if binding is None else Stage.NONE
    if binding is None or task.generation < binding.generation or task.uid != binding.uid:
        return _ENDED.get(task.state, Stage.LEFT)
    if task.generation > binding.generation:
        return Stage.UNBOUND
    stage = _STAGES[task.state]
    if stage is Stage.HELD:
        return Stage.ASKED if task.asked else stage
    if stage is Stage.REQUESTED and task.acknowledged is None:
        kept = binding.kept_time
        is_kept = kept is not None and kept >= (task.requested or task.decided)
        return Stage.OPEN_REQUEST if is_kept or binding.traits.deployer else stage
    return stage


def timer_of(it: EvictionCheck) -> OwnTimer:
    """Return whether the timer of a pending eviction is set for its deadline."""
    if it.pending is None and not it.state.is_pending(it.place):
        return OwnTimer.OTHER
    deadline = deadline_of_demand(it.verdict)
    return OwnTimer.SET if deadline is not None and _timer(it)[2] == deadline else OwnTimer.OTHER


def emit(it: EvictionCheck, topic: Topic, key: str, event: Any, step: str) -> None:
    """Write a record of the target's partition, and fold it in.

    A cause may have several results, which `step` distinguishes.
    """
    before = it.task if topic is EVICTIONS else None
    if topic is EVICTIONS:
        _fold_state(it.state, key, it.workload, it.target, event)
    else:
        fold_timer(it.state, key, event)
    it.emits.append(Emit(topic, key, it.target, event, it.cause, step=step, before=before))


def _write(
    it: EvictionCheck,
    to: EvictionState,
    *,
    reason: str,
    message: str,
    taints: tuple[Taint, ...] = (),
    requesters: tuple[Requester, ...] = (),
    deadline: datetime | None = None,
    held_by: tuple[str, ...] = (),
    asked: int = 0,
    deployer: str = "",
    escalated: Escalation | None = None,
    acknowledged: Acknowledgement | None = None,
) -> None:
    """Write a task's next state. Fields about its deployer are kept unless given."""
    task, binding = it.task, it.binding
    about = task or it.bound.bindings[it.workload]
    requested = task.requested if task is not None else None
    if to is EvictionState.REQUESTED and requested is None:
        requested = it.time
    ref = workload_ref(it.workload)
    event = trusted(
        EvictionDecided,
        workload=ref,
        workload_uid=about.uid,
        owner=workload_ref(about.owner) if about.owner else ref,
        target=target_ref(it.target),
        generation=about.generation,
        revision=(task.revision if task is not None else 0) + 1,
        state=to,
        deadline=deadline,
        held_by=held_by,
        asked=asked,
        purge_mode=binding.traits.purge_mode if binding is not None else "",
        taints=taints,
        requesters=requesters,
        taint_generation=it.bound.generation,
        reason=reason,
        message=message,
        decided_time=it.time,
        requested_time=requested,
        report_time=it.reported,
        deployer=deployer or (task.deployer if task is not None else ""),
        escalated=escalated or (task.escalated if task is not None else None),
        acknowledged=acknowledged or (task.acknowledged if task is not None else None),
    )
    emit(it, EVICTIONS, eviction_key(it.workload, it.target, about.generation), event, str(event.revision))


def schedule(it: EvictionCheck) -> None:
    """Write that the eviction is scheduled, and set its timer."""
    if (deadline := deadline_of_demand(it.verdict)) is not None:
        taints, requesters = taints_of(it.verdict), requesters_of(it.verdict)
        _write(
            it,
            EvictionState.SCHEDULED,
            taints=taints,
            requesters=requesters,
            deadline=deadline,
            reason="TolerationEnds" if taints else requested_by(requesters),
            message=it.verdict.reason,
        )
        set_timer(it)


def cancel(it: EvictionCheck) -> None:
    """Write that the eviction is cancelled."""
    task = it.task
    if task is not None and task.requesters and not task.taints:
        _write(it, EvictionState.CANCELLED, reason=REQUEST_WITHDRAWN, message="every request was withdrawn")
        return
    reason = "Tolerated" if isinstance(it.verdict, Keep) and it.verdict.tolerated else "TaintRemoved"
    _write(it, EvictionState.CANCELLED, reason=reason, message=it.verdict.reason)


def complete(it: EvictionCheck) -> None:
    """Write that the eviction is completed."""
    _end(it, EvictionState.COMPLETED)


def end(it: EvictionCheck) -> None:
    """Write that the binding has ended before the request."""
    _end(it, EvictionState.CANCELLED)


def _end(it: EvictionCheck, to: EvictionState) -> None:
    task, it.binding = it.task, it.former
    by = f"{task.acknowledged.source} has acknowledged; " if task is not None and task.acknowledged is not None else ""
    taints, requesters = (task.taints, task.requesters) if task is not None else ((), ())
    message = f"{by}the binding has ended"
    _write(it, to, taints=taints, requesters=requesters, reason=_BINDING_ENDED, message=message)


def forget(it: EvictionCheck) -> None:
    """Note that a cancelled task has ended, because its binding has ended. It can no longer be scheduled again."""
    task = it.bound.tasks.pop(it.workload)
    it.state.tally.end((it.target, it.workload))
    it.state.ended.set(eviction_key(it.workload, it.target, task.generation), task.decided)
    it.state.tidy(it.target, it.bound)


def hold(it: EvictionCheck) -> None:
    """Write that the eviction is held until a grant."""
    task = it.task
    due = task.deadline if task is not None and task.state is EvictionState.HELD else None
    revision = (task.revision if task is not None else 0) + 1
    _hold(it, f"{it.verdict.reason}; {it.because}", due=due or _due_time(it), asked=revision)


def hold_by_answer(it: EvictionCheck) -> None:
    """Write which guards hold the eviction according to the governor's answer."""
    if (answer := it.answer) is not None:
        message = answer.message or f"held by {', '.join(answer.held_by)}"
        _hold(it, message, held_by=answer.held_by)


def hold_for_lag(it: EvictionCheck) -> None:
    """Write that the eviction is held because a service may be about to change it."""
    about = "workload" if it.lagging == "placement" else "target"
    message = f"{it.lagging} has not processed all records about the {about}"
    _hold(it, message, due=_due_time(it), held_by=(_UPSTREAM_LAG,))


def hold_again(it: EvictionCheck) -> None:
    """Write that the eviction waits for a new grant, so that answers to earlier requests do not count."""
    if (task := it.task) is not None:
        held_by = it.paused or task.held_by
        joined = ", " if it.paused else "; "
        message = f"held by {', '.join(held_by)}{joined}{it.because}" if held_by else it.because
        _hold(it, message, held_by=held_by, asked=task.revision + 1)


def _hold(
    it: EvictionCheck,
    message: str,
    *,
    held_by: tuple[str, ...] = (),
    due: datetime | None = None,
    asked: int | None = None,
) -> None:
    """Write that an eviction is held: as of now if it has come due now (`due`), else by the same taints as before."""
    task = it.task
    _write(
        it,
        EvictionState.HELD,
        taints=taints_of(it.verdict) if due is not None or task is None else task.taints,
        requesters=requesters_of(it.verdict) if due is not None or task is None else task.requesters,
        deadline=due if due is not None or task is None else task.deadline,
        reason="Held",
        message=message,
        held_by=held_by,
        asked=asked if asked is not None else task.asked if task is not None else 0,
    )


def _due_time(it: EvictionCheck) -> datetime:
    """Return when the eviction came due."""
    return deadline_of_demand(it.verdict) or it.time


def request(it: EvictionCheck) -> None:
    """Write that the eviction is requested."""
    found, binding = it.verdict, it.bound.bindings[it.workload]
    granted = it.answer.message if it.answer is not None else ""
    _write(
        it,
        EvictionState.REQUESTED,
        taints=taints_of(found),
        requesters=requesters_of(found),
        reason=_reason_of(found),
        message=f"{found.reason}; {granted}" if granted else found.reason,
        asked=it.task.asked if it.task is not None else 0,
        deployer="" if binding.traits.purge_mode == _GRACEFULLY else binding.deployer,
    )


def _reason_of(found: Demand) -> str:
    """Return the reason for requesting an eviction: that of the taints that demand it, if any does."""
    if not taints_of(found):
        return requested_by(requesters_of(found))
    match found:
        case EvictAt() | LeaveAt():
            return "TolerationExpired"
        case EvictNow() | LeaveNow():
            return "TolerationExpired" if found.tolerated else "UntoleratedTaint"
        case Keep():
            return ""


def write_report(
    it: EvictionCheck, *, escalated: Escalation | None = None, acknowledged: Acknowledgement | None = None
) -> None:
    """Write a deployer's report about a requested eviction. It stays requested until its binding ends."""
    if (task := it.task) is not None:
        _write(
            it,
            EvictionState.REQUESTED,
            reason=task.reason,
            message=task.message,
            taints=task.taints,
            requesters=task.requesters,
            asked=task.asked,
            escalated=escalated,
            acknowledged=acknowledged,
        )


def _timer(it: EvictionCheck) -> tuple[str, int, datetime | None]:
    """Return the id of the eviction's timer, its generation and its deadline; 0 and None when it has none.

    The id contains the binding's generation, so that no id is used again after its tombstone, which removes the timer's
    generations.
    """
    about = it.task or it.bound.bindings[it.workload]
    key = f"evict|{eviction_key(it.workload, it.target, about.generation)}"
    return key, *it.state.timers.get(key, (0, None))


def set_timer(it: EvictionCheck) -> None:
    """Set the timer for the deadline."""
    if (deadline := deadline_of_demand(it.verdict)) is not None:
        move_timer(it, deadline)


def stop_timer(it: EvictionCheck) -> None:
    """Cancel the timer. It is kept until the task ends."""
    move_timer(it, None)


def move_timer(it: EvictionCheck, deadline: datetime | None) -> None:
    """Set the timer, or cancel it (None)."""
    key, number, known = _timer(it)
    if known == deadline:
        return
    event = SetTimer(
        id=key,
        target=target_ref(it.target),
        owner=ISSUER,
        generation=number + 1,
        deadline=deadline,
        subject=it.workload,
        correlation_id=it.cause.correlation,
        traceparent=it.cause.traceparent,
    )
    emit(it, TIMERS, key, event, str(event.generation))


def delete_timer(it: EvictionCheck) -> None:
    """Delete the timer of a task that no longer needs it."""
    if (key := _timer(it)[0]) in it.state.timers:
        emit(it, TIMERS, key, None, "end")
