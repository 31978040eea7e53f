"""The service eviction, the only writer of `evictions`.

Consumes:
    `taints`, `bindings`, `timer-fired` for its own timers, and `eviction-answers` of the governor.
Keeps:
    The taints that evict and the bindings of each target (source tables), its tasks and its own timers (changelogs
    `evictions` and `timers`). A global view of what may hold evictions back: pauses, budgets, disruption budgets.
Emits:
    `evictions`: each task's states. Requested stays until the binding goes, whatever becomes of the taint.
    `timers`: set, moved and cancelled with the deadline of a scheduled task, tombstoned when the task is over.
    `eviction-asks`: a question to the governor when a task comes due that something may hold; written again when the
    eviction is requested, tombstoned when the task needs it no more.

What nothing may hold is requested as soon as it is due, and nobody is asked. What may be held is Held, and asks. The
answer lets it go or says what holds it; whatever the answer, the present taints and tolerations are looked at again
before anything is requested, and so are pauses that came after the answer. Work leaves a Karmada cluster only with the
feature gate Failover and `enable-no-execute-taint-eviction`, and there the limit on evictions per second may hold it,
too.

A deadline is worked out when the taints or the tolerations change, never otherwise. The time of a decision is that of
its cause (the CloudEvents time of the record, `firedTime` of a timer), so that the same topics give the same bytes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import ClassVar, Final

from moorage.core.budgets import Subject
from moorage.core.dialects.table import DIALECTS
from moorage.core.evicting import EvictAt, EvictNow, Keep, Verdict
from moorage.eviction.guards import GuardView
from moorage.eviction.looking import Look
from moorage.eviction.state import (
    BINDING_ENDED,
    NODES_ONLY,
    OWNER,
    Binding,
    State,
    Target,
    Task,
    newer_binding,
    newer_taints,
)
from moorage.runtime.service import Emit, GlobalView, Input, Service
from moorage.runtime.settings import Settings
from moorage_schemas.base import Model
from moorage_schemas.budget import EvictionAnswered
from moorage_schemas.envelope import Meta, event_id
from moorage_schemas.eviction import EvictionState
from moorage_schemas.placement import WorkloadBound
from moorage_schemas.refs import TargetKind
from moorage_schemas.taint import Taint, TargetTainted
from moorage_schemas.timer import TimerFired
from moorage_schemas.topics import (
    BINDINGS,
    EVICTION_ANSWERS,
    EVICTION_ASKS,
    EVICTIONS,
    RESOURCES,
    TAINTS,
    TIMER_FIRED,
    TIMERS,
    Topic,
    eviction_key,
)

_GRACE: Final = timedelta(seconds=10)
"""The reconciler leaves a deadline that has just passed to the timer, and a question to the governor."""

_CLUSTERS: Final = f"{TargetKind.CLUSTER.value}/"


class Eviction(Service[State]):
    """Taints and bindings in, evictions out."""

    name: ClassVar[str] = "eviction"
    sources: ClassVar[tuple[Topic, ...]] = (TAINTS, BINDINGS, TIMER_FIRED, EVICTION_ANSWERS)
    source_tables: ClassVar[frozenset[Topic]] = frozenset({TAINTS, BINDINGS})
    changelogs: ClassVar[tuple[Topic, ...]] = (EVICTIONS, TIMERS)
    outputs: ClassVar[tuple[Topic, ...]] = (EVICTION_ASKS,)
    globals: ClassVar[tuple[Topic, ...]] = (RESOURCES,)

    def __init__(self, settings: Settings | None = None) -> None:
        settings = settings or Settings()
        self._dialects = NODES_ONLY
        if settings.failover and settings.enable_no_execute_taint_eviction:
            self._dialects = {**NODES_ONLY, TargetKind.CLUSTER.value: DIALECTS[TargetKind.CLUSTER.value]}
        self._clusters_wait = not math.isinf(settings.resource_eviction_rate)

    def new_state(self, partition: int) -> State:  # noqa: ARG002 - every partition begins alike
        """An empty state for a partition."""
        return State(dialects=self._dialects)

    def new_globals(self) -> GlobalView:
        """What may hold evictions back."""
        return GuardView()

    def use_globals(self, state: State, view: GlobalView) -> None:
        """Give a partition the view of what may hold evictions back."""
        if isinstance(view, GuardView):
            state.guards, state.paused = view.guards, view.paused

    def apply(self, state: State, topic: Topic, key: str, event: Model | None) -> None:
        """Fold in taints, a binding, a task or a timer."""
        state.fold(topic, key, event)

    def process(
        self,
        state: State,
        batch: Sequence[Input],
        now: datetime,
        *,
        fresh: bool = False,  # noqa: ARG002 - it follows nothing
    ) -> list[Emit]:
        """Fold each record in, and decide anew on what it concerns."""
        emits: list[Emit] = []
        for record in batch:
            if record.topic is TAINTS:
                emits += self._taints(state, record, now)
            elif record.topic is BINDINGS:
                emits += self._binding(state, record, now)
            elif isinstance(record.event, TimerFired):
                if record.event.owner == OWNER:
                    emits += self._fired(state, record, record.event)
            elif isinstance(record.event, EvictionAnswered):
                emits += self._answered(state, record, record.event, now)
        return emits

    def reconcile(self, state: State, now: datetime) -> list[Emit]:
        """Decide anew on everything; what differs, or was never followed by its timer, is repaired."""
        emits: list[Emit] = []
        for key, target in sorted(state.targets.items()):
            if not target.taints and not target.tasks:
                continue
            verdicts: dict[int, Verdict] = {}
            for workload in sorted(target.bindings):
                task = target.tasks.get(workload)
                step = (task.generation, task.revision) if task is not None else (0, 0)
                cause = Meta(
                    id=event_id("reconcile", EVICTIONS.short, key, target.generation, workload, *step),
                    source=f"moorage/{self.name}",
                    type=EVICTIONS.event_type,
                    time=now,
                    subject=key,
                )
                look = Look(state, key, cause, now, due=now - _GRACE, emits=emits, verdicts=verdicts)
                self._decide(state, look, target, workload)
        return emits

    def _taints(self, state: State, record: Input, now: datetime) -> list[Emit]:
        event = record.event if isinstance(record.event, TargetTainted) else None
        target = state.targets.get(record.key)
        if event is not None and target is not None and not newer_taints(event, target):
            return []
        before = target.taints if target is not None else ()
        self.apply(state, TAINTS, record.key, event)
        target = state.targets.get(record.key)
        if target is None or (target.taints == before and not target.tasks):
            return []
        look = Look(
            state,
            record.key,
            record.meta,
            record.meta.time or now,
            reported=event.report_time if event is not None else None,
        )
        for workload in sorted(target.bindings):
            self._decide(state, look, target, workload)
        return look.emits

    def _binding(self, state: State, record: Input, now: datetime) -> list[Emit]:
        event = record.event if isinstance(record.event, WorkloadBound) else None
        workload, _, key = record.key.partition("|")
        target = state.targets.get(key)
        known = target.bindings.get(workload) if target is not None else None
        if event is not None and not newer_binding(event, known):
            return []
        look = Look(state, key, record.meta, record.meta.time or now)
        task = target.tasks.get(workload) if target is not None else None
        if task is not None and (event is None or task.generation < event.generation or task.uid != event.uid):
            self._end(look, workload, task)
        self.apply(state, BINDINGS, record.key, event)
        if event is not None:
            self._decide(state, look, state.targets[key], workload)
        return look.emits

    def _fired(self, state: State, record: Input, event: TimerFired) -> list[Emit]:
        if state.timers.get(event.id) != (event.generation, event.deadline):
            return []  # it was moved, cancelled, or is over
        key, workload = event.target.key, event.subject
        target = state.targets.get(key)
        if target is None or workload not in target.bindings:
            return []
        look = Look(state, key, record.meta, event.fired_time)
        self._decide(state, look, target, workload)
        return look.emits

    def _answered(self, state: State, record: Input, event: EvictionAnswered, now: datetime) -> list[Emit]:
        """The governor has answered: look again before anything is requested."""
        key, workload = event.target.key, event.workload.key
        target = state.targets.get(key)
        task = target.tasks.get(workload) if target is not None else None
        if target is None or task is None or workload not in target.bindings:
            return []
        mine = (task.generation, task.asked) == (event.generation, event.asked)
        if task.state is not EvictionState.HELD or not mine or (not event.granted and event.held_by == task.held_by):
            return []  # it was cancelled, went, asked anew, or knows that
        look = Look(state, key, record.meta, record.meta.time or now)
        if event.granted and (held_by := self._paused_since(state, target, event)):
            look.write(
                workload,
                EvictionState.HELD,
                taints=task.taints,
                deadline=task.deadline,
                reason="Held",
                message=f"held by {', '.join(held_by)}, which came after the leave to go; asks again",
                held_by=held_by,
                asked=task.revision + 1,
            )
            look.ask(workload, due=task.deadline or look.time, revision=task.revision + 1)
        elif event.granted:
            look.answer = event
            self._decide(state, look, target, workload)
        else:
            look.write(
                workload,
                EvictionState.HELD,
                taints=task.taints,
                deadline=task.deadline,
                reason="Held",
                message=event.message or f"held by {', '.join(event.held_by)}",
                held_by=event.held_by,
                asked=task.asked,
            )
        return look.emits

    @staticmethod
    def _paused_since(state: State, target: Target, answer: EvictionAnswered) -> tuple[str, ...]:
        """The pauses that hold an eviction and that the governor cannot have known when it let it go, by name."""
        if not state.guards.pauses:
            return ()
        workload = answer.workload.key
        binding = target.bindings[workload]
        subject = Subject(workload, binding.owner or workload, answer.target.key, target.zone, binding.traits.labels)
        return tuple(
            pause.name
            for pause in state.guards.pauses_of(subject)
            if (since := state.paused.get(pause.key)) is not None and since > answer.answered_time
        )

    def _decide(self, state: State, look: Look, target: Target, workload: str) -> None:
        binding = target.bindings[workload]
        task = target.tasks.get(workload)
        if task is not None and (task.state is EvictionState.REQUESTED or task.generation != binding.generation):
            return
        scheduled = task is not None and task.state is EvictionState.SCHEDULED
        held = task is not None and task.state is EvictionState.HELD
        found = look.judge(target, binding.tolerations)
        match found:
            case EvictNow():
                reason = "TolerationExpired" if found.tolerated else "UntoleratedTaint"
                self._due(state, look, workload, due=look.time, taints=found.taints, why=(reason, found.reason))
            case EvictAt() if found.deadline <= ((None if held else look.due) or look.time):
                why = ("TolerationExpired", found.reason)
                self._due(state, look, workload, due=found.deadline, taints=(found.taint,), why=why)
            case EvictAt():
                if not (
                    task is not None
                    and scheduled
                    and task.deadline == found.deadline
                    and task.taints[0].identity == found.taint.identity
                ):
                    self._schedule(state, look, workload, found)
            case Keep() if scheduled or held:
                reason = "Tolerated" if found.tolerated else "TaintRemoved"
                look.unask(workload)
                look.write(workload, EvictionState.CANCELLED, reason=reason, message=found.reason)
                look.move_timer(workload, binding.generation, None)
            case Keep():
                pass

    def _due(
        self,
        state: State,
        look: Look,
        workload: str,
        *,
        due: datetime,
        taints: tuple[Taint, ...],
        why: tuple[str, str],
    ) -> None:
        """It has come due: ask when something may hold it, else it goes."""
        target = state.targets[look.target]
        task = target.tasks.get(workload)
        if task is not None and task.state is EvictionState.HELD:
            if look.answer is not None:
                self._request(state, look, workload, taints=taints, why=why)
            elif look.due is not None and not task.held_by and (task.deadline or look.due) <= look.due:
                look.ask(workload, due=task.deadline or look.time, revision=task.asked)
        elif (state.guards or self._clusters_wait) and self._may_wait(
            state, look.target, target, workload, target.bindings[workload]
        ):
            revision = (task.revision if task is not None else 0) + 1
            look.write(
                workload,
                EvictionState.HELD,
                taints=taints,
                deadline=due,
                reason="Held",
                message=f"{why[1]}; asks whether anything holds it",
                asked=revision,
            )
            generation = target.bindings[workload].generation
            look.move_timer(workload, generation, None)
            look.ask(workload, due=due, revision=revision)
        else:
            self._request(state, look, workload, taints=taints, why=why)

    def _may_wait(self, state: State, key: str, target: Target, workload: str, binding: Binding) -> bool:
        """Whether something may hold this eviction, so that the governor has to be asked."""
        if self._clusters_wait and key.startswith(_CLUSTERS):
            return True
        if not state.guards:
            return False
        return state.guards.concern(
            Subject(workload, binding.owner or workload, key, target.zone, binding.traits.labels)
        )

    def _request(
        self, state: State, look: Look, workload: str, *, taints: tuple[Taint, ...], why: tuple[str, str]
    ) -> None:
        reason, message = why
        task = state.targets[look.target].tasks.get(workload)
        asked = task.asked if task is not None else 0
        if look.answer is not None and look.answer.message:
            message = f"{message}; {look.answer.message}"
        look.write(workload, EvictionState.REQUESTED, taints=taints, reason=reason, message=message, asked=asked)
        look.drop_timer(workload)
        if asked and task is not None:
            look.ask(workload, due=task.deadline or look.time, revision=task.revision + 1, requested=True)

    def _schedule(self, state: State, look: Look, workload: str, found: EvictAt) -> None:
        look.unask(workload)
        look.write(
            workload,
            EvictionState.SCHEDULED,
            taints=(found.taint,),
            deadline=found.deadline,
            reason="TolerationEnds",
            message=found.reason,
        )
        generation = state.targets[look.target].bindings[workload].generation
        look.move_timer(workload, generation, found.deadline)

    def _end(self, look: Look, workload: str, task: Task) -> None:
        """The binding is gone: so is the task."""
        look.drop_timer(workload)
        look.unask(workload)
        if task.state is EvictionState.CANCELLED:
            # It came to nothing, and now it cannot be scheduled again.
            key = eviction_key(workload, look.target, task.generation)
            look.emit(EVICTIONS, key, None)
            return
        over = EvictionState.COMPLETED if task.state is EvictionState.REQUESTED else EvictionState.CANCELLED
        look.write(workload, over, taints=task.taints, reason=BINDING_ENDED, message="the binding has ended")


def service(settings: Settings) -> Eviction:
    """The service, for the command line to run."""
    return Eviction(settings)
