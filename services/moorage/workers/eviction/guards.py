"""Guards: the pauses and budgets that may hold evictions, the requests to the governor, and its answers.

An eviction that no guard may hold is requested as soon as it is due, without the governor. Otherwise the eviction
becomes Held and requests a grant. A grant is used at once or returned: after a restart, or a wait for a service before
this one, the eviction requests a new one.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from typing_extensions import override

from moorage.decide.disruption.budgets import LEAVE_LASTS, Subject, is_guard
from moorage.decide.disruption.eviction_reasons import eviction_reason
from moorage.decide.disruption.eviction_transitions import Guard, Occasion
from moorage.decide.disruption.guard_index import Guards
from moorage.decide.disruption.leave_verdict import requesters_of, taints_of
from moorage.runtime.service import Emit, Input
from moorage.runtime.settings.moorage_configuration import Configuration, ConfiguredView
from moorage.workers.eviction.check import EvictionCheck
from moorage.workers.eviction.eviction_task import OpenRequest, Task
from moorage.workers.eviction.freshness import is_cluster
from moorage_schemas.budget import EvictionAnswered, EvictionAsked
from moorage_schemas.eviction import EvictionState
from moorage_schemas.keys import eviction_key
from moorage_schemas.resource import ResourceDeclared
from moorage_schemas.times import format_time
from moorage_schemas.topics import CONFIGURATION, EVICTION_ASKS, FLEET, Topic
from moorage_schemas.trusted_events import target_ref, workload_ref

_REQUEST_AGAIN: Final = timedelta(seconds=60)
"""The time after which a held eviction requests its grant again. Answers may be lost, and their topic expires them."""


class GuardView(ConfiguredView):
    """The declared pauses, budgets and disruption budgets, and the configuration. Other resources are ignored.

    A changed guard wakes no partition: the governor releases held evictions, and an eviction that comes due later
    checks the guards then.

    Args:
        configuration: the settings to decide by; None for a view that does not follow them.
    """

    def __init__(self, configuration: Configuration | None = None) -> None:
        super().__init__(configuration)
        self.guards = Guards()

    @override
    def apply(self, record: Input) -> None:
        # an invalid guard holds nothing; an invalid configuration leaves the known one
        if record.topic is CONFIGURATION:
            super().apply(record)
            return
        event = record.event if isinstance(record.event, ResourceDeclared) else None
        self.guards.put(record.key, event.object if event is not None else None)

    @override
    def wants(self, topic: Topic, key: str) -> bool:
        return super().wants(topic, key) or is_guard(key)


def guarded(it: EvictionCheck) -> Guard:
    """Return which guards may hold the eviction, or the state of its request for a grant."""
    task = it.task
    if task is None or task.state is not EvictionState.HELD or not task.asked:
        return Guard.CONCERNED if is_concerned(it) else Guard.FREE
    if it.occasion is Occasion.ANSWER and it.answer is not None:
        return _answered(it.answer, task)
    if it.answer is not None and (paused := pauses_of(it)):
        it.paused = paused
        return Guard.PAUSED
    return _requested(it)


def _requested(it: EvictionCheck) -> Guard:
    """Return the state of the request for a grant. No pause holds the eviction."""
    request = it.state.requests.get(it.place)
    if request is None:
        return Guard.RESTARTED  # the answer may be old, and others may have been granted since
    if is_outdated(it, request):
        return Guard.OUTDATED
    if it.answer is None:
        return Guard.LOST if request.time <= it.time - _REQUEST_AGAIN else Guard.OPEN
    return Guard.EXPIRED if _is_expired(it) else Guard.GRANTED


def _answered(answer: EvictionAnswered, task: Task) -> Guard:
    """Return the governor's answer to the present request."""
    if (task.generation, task.asked) != (answer.generation, answer.asked):
        return Guard.NOT_MINE
    if answer.granted:
        return Guard.GRANTED
    return Guard.DENIED_AGAIN if answer.held_by == task.held_by else Guard.DENIED


def is_outdated(it: EvictionCheck, request: OpenRequest) -> bool:
    """Return whether the labels, the zone or the reason have changed since the grant was requested."""
    labels = it.binding.traits.labels if it.binding is not None else request.labels
    return request.zone != it.bound.zone or request.labels != labels or request.reason != reason_of(it)


def _is_expired(it: EvictionCheck) -> bool:
    """Return whether a grant was kept for so long that other evictions may have been carried out instead.

    It has also expired when a guard with a schedule holds by now.
    """
    until = it.answer.valid_until if it.answer is not None else None
    if until is not None and it.fresh is not None and it.fresh.now >= until:
        return True
    kept = it.pending.kept if it.pending is not None else None
    return kept is not None and it.fresh is not None and not timedelta(0) <= it.fresh.now - kept < LEAVE_LASTS


def is_concerned(it: EvictionCheck) -> bool:
    """Return whether a guard may hold this eviction, so that it needs the governor's grant."""
    if it.state.rules.value.rated and is_cluster(it.target):
        return True
    if not it.state.guards:  # a fast path for fleets without guards
        return False
    return it.state.guards.concern(_subject(it))


def pauses_of(it: EvictionCheck) -> tuple[str, ...]:
    """Return the names of the pauses that hold an eviction now.

    The governor grants no eviction that it sees paused. A pause after a grant means that the governor had not read it
    yet, or that this process has not read its end. So the grant is requested again, without comparing clocks.
    """
    if not it.state.guards.pauses:
        return ()
    # The governor's grant ends when a pause with a schedule begins.
    return tuple(pause.name for pause in it.state.guards.pauses_of(_subject(it)) if pause.windows is None)


def reason_of(it: EvictionCheck) -> str:
    """Return the reason of the eviction, by the taints and requests that demand it now."""
    return eviction_reason(taints_of(it.verdict), requesters_of(it.verdict)).value


def _subject(it: EvictionCheck) -> Subject:
    """Return the bound workload in the form that guards use."""
    binding = it.bound.bindings[it.workload]
    return Subject(
        it.workload, binding.owner or it.workload, it.target, it.bound.zone, binding.traits.labels, reason_of(it)
    )


def ask(it: EvictionCheck) -> None:
    """Write the request for a grant that the task's record names."""
    if (task := it.bound.tasks.get(it.workload)) is not None:
        _ask(it, due=task.deadline or it.time, revision=task.asked)


def notify(it: EvictionCheck) -> None:
    """Notify the governor that an eviction that had requested a grant is now Requested."""
    if (task := it.task) is not None and task.asked:
        _ask(it, due=task.deadline or it.time, revision=task.revision + 1, requested=True)


def release(it: EvictionCheck) -> None:
    """Release the place in budgets of an eviction that was not carried out."""
    if (task := it.task) is not None and task.asked:
        _ask(it, due=it.time, revision=task.revision + 1)


def withdraw(it: EvictionCheck) -> None:
    """Withdraw the request for a grant."""
    it.state.requests.pop(it.place, None)
    if (task := it.task) is not None and task.asked:
        key = eviction_key(it.workload, it.target, task.generation)
        it.emits.append(Emit(EVICTION_ASKS, key, FLEET, None, it.cause, step="end"))


def _ask(it: EvictionCheck, *, due: datetime, revision: int, requested: bool = False) -> None:
    binding, ref, reason = it.bound.bindings[it.workload], workload_ref(it.workload), reason_of(it)
    event = EvictionAsked(
        workload=ref,
        workload_uid=binding.uid,
        owner=workload_ref(binding.owner) if binding.owner else ref,
        target=target_ref(it.target),
        generation=binding.generation,
        revision=revision,
        labels=dict(binding.traits.labels),
        zone=it.bound.zone,
        due_time=due,
        requested=requested,
        reason=reason,
    )
    # A request that is repeated, because its answer may be lost, is a separate event.
    step = f"{revision}/{'requested' if requested else format_time(it.time)}"
    key = eviction_key(it.workload, it.target, binding.generation)
    it.emits.append(Emit(EVICTION_ASKS, key, FLEET, event, it.cause, step=step))
    it.state.requests[it.place] = OpenRequest(it.time, binding.traits.labels, it.bound.zone, reason)
