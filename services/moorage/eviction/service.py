"""The service eviction, the only writer of `evictions`.

Consumes:
    `taints`, `bindings`, and `timer-fired` for its own timers.
Keeps:
    The taints that evict and the bindings of each target (source tables), its tasks and its own timers (changelogs
    `evictions` and `timers`).
Emits:
    `evictions`: each task's states. Requested stays until the binding goes, whatever becomes of the taint.
    `timers`: set, moved and cancelled with the deadline of a scheduled task, tombstoned when the task is over.

A deadline is worked out when the taints or the tolerations change, never otherwise. The time of a decision is that of
its cause (the CloudEvents time of the record, `firedTime` of a timer), so that the same topics give the same bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import ClassVar, Final

from moorage.core.evicting import EvictAt, EvictNow, Keep, Verdict, verdict
from moorage.eviction.state import (
    BINDING_ENDED,
    OWNER,
    State,
    Target,
    Task,
    Tolerations,
    newer_binding,
    newer_taints,
    timer_id,
)
from moorage.runtime.service import Emit, Input, Service
from moorage.runtime.settings import Settings
from moorage_schemas.base import Model
from moorage_schemas.envelope import Meta, event_id
from moorage_schemas.eviction import EvictionDecided, EvictionState
from moorage_schemas.placement import WorkloadBound
from moorage_schemas.refs import TargetRef, WorkloadRef
from moorage_schemas.taint import Taint, TargetTainted
from moorage_schemas.timer import SetTimer, TimerFired
from moorage_schemas.topics import BINDINGS, EVICTIONS, TAINTS, TIMER_FIRED, TIMERS, Topic, eviction_key

_GRACE: Final = timedelta(seconds=10)
"""The reconciler leaves a deadline that has just passed to the timer."""


@dataclass(slots=True)
class _Round:
    """One look at a target: its cause, its time, and the verdict for each distinct tuple of tolerations."""

    target: str
    cause: Meta
    time: datetime
    reported: datetime | None = None
    due: datetime | None = None
    """Deadlines up to here are due; the time of the round when not set."""

    emits: list[Emit] = field(default_factory=list)
    verdicts: dict[int, Verdict] = field(default_factory=dict)

    def judge(self, target: Target, tolerations: Tolerations) -> Verdict:
        """What the target's taints mean for work with these tolerations (one object each, so its id will do)."""
        known = self.verdicts.get(id(tolerations))
        if known is None:
            known = self.verdicts[id(tolerations)] = verdict(target.taints, tolerations, seen_at=self.time)
        return known


class Eviction(Service[State]):
    """Taints and bindings in, evictions out."""

    name: ClassVar[str] = "eviction"
    sources: ClassVar[tuple[Topic, ...]] = (TAINTS, BINDINGS, TIMER_FIRED)
    source_tables: ClassVar[frozenset[Topic]] = frozenset({TAINTS, BINDINGS})
    changelogs: ClassVar[tuple[Topic, ...]] = (EVICTIONS, TIMERS)

    def new_state(self, partition: int) -> State:  # noqa: ARG002 - every partition begins alike
        """An empty state for a partition."""
        return State()

    def apply(self, state: State, topic: Topic, key: str, event: Model | None) -> None:
        """Fold in taints, a binding, a task or a timer."""
        if topic is BINDINGS:
            state.apply_binding(key, event if isinstance(event, WorkloadBound) else None)
        elif topic is TAINTS:
            state.apply_taints(key, event if isinstance(event, TargetTainted) else None)
        elif topic is EVICTIONS:
            state.apply_eviction(key, event if isinstance(event, EvictionDecided) else None)
        elif topic is TIMERS:
            state.apply_timer(key, event if isinstance(event, SetTimer) else None)

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
            elif isinstance(record.event, TimerFired) and record.event.owner == OWNER:
                emits += self._fired(state, record, record.event)
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
                look = _Round(key, cause, now, due=now - _GRACE, emits=emits, verdicts=verdicts)
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
        look = _Round(
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
        look = _Round(key, record.meta, record.meta.time or now)
        task = target.tasks.get(workload) if target is not None else None
        if task is not None and (event is None or task.generation < event.generation or task.uid != event.uid):
            self._end(state, look, workload, task)
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
        look = _Round(key, record.meta, event.fired_time)
        self._decide(state, look, target, workload)
        return look.emits

    def _decide(self, state: State, look: _Round, target: Target, workload: str) -> None:
        binding = target.bindings[workload]
        task = target.tasks.get(workload)
        if task is not None and (task.state is EvictionState.REQUESTED or task.generation != binding.generation):
            return
        scheduled = task is not None and task.state is EvictionState.SCHEDULED
        found = look.judge(target, binding.tolerations)
        match found:
            case EvictNow():
                reason = "TolerationExpired" if found.tolerated else "UntoleratedTaint"
                self._request(state, look, workload, taints=found.taints, why=(reason, found.reason))
            case EvictAt() if found.deadline <= (look.due or look.time):
                why = ("TolerationExpired", found.reason)
                self._request(state, look, workload, taints=(found.taint,), why=why)
            case EvictAt():
                if not (
                    task is not None
                    and scheduled
                    and task.deadline == found.deadline
                    and task.taints[0].identity == found.taint.identity
                ):
                    self._schedule(state, look, workload, found)
            case Keep() if scheduled:
                reason = "Tolerated" if found.tolerated else "TaintRemoved"
                self._write(state, look, workload, EvictionState.CANCELLED, reason=reason, message=found.reason)
                self._move_timer(state, look, workload, binding.generation, None)
            case Keep():
                pass

    def _request(
        self, state: State, look: _Round, workload: str, *, taints: tuple[Taint, ...], why: tuple[str, str]
    ) -> None:
        reason, message = why
        self._write(state, look, workload, EvictionState.REQUESTED, taints=taints, reason=reason, message=message)
        self._drop_timer(state, look, workload)

    def _schedule(self, state: State, look: _Round, workload: str, found: EvictAt) -> None:
        self._write(
            state,
            look,
            workload,
            EvictionState.SCHEDULED,
            taints=(found.taint,),
            deadline=found.deadline,
            reason="TolerationEnds",
            message=found.reason,
        )
        generation = state.targets[look.target].bindings[workload].generation
        self._move_timer(state, look, workload, generation, found.deadline)

    def _end(self, state: State, look: _Round, workload: str, task: Task) -> None:
        """The binding is gone: so is the task."""
        self._drop_timer(state, look, workload)
        if task.state is EvictionState.CANCELLED:
            # It came to nothing, and now it cannot be scheduled again.
            key = eviction_key(workload, look.target, task.generation)
            self._emit(state, look, EVICTIONS, key, None)
            return
        over = EvictionState.COMPLETED if task.state is EvictionState.REQUESTED else EvictionState.CANCELLED
        self._write(
            state, look, workload, over, taints=task.taints, reason=BINDING_ENDED, message="the binding has ended"
        )

    def _write(
        self,
        state: State,
        look: _Round,
        workload: str,
        to: EvictionState,
        *,
        reason: str,
        message: str,
        taints: tuple[Taint, ...] = (),
        deadline: datetime | None = None,
    ) -> None:
        target = state.targets[look.target]
        task = target.tasks.get(workload)
        about = task or target.bindings[workload]
        ref = WorkloadRef.parse(workload)
        event = EvictionDecided(
            workload=ref,
            workload_uid=about.uid,
            owner=WorkloadRef.parse(about.owner) if about.owner else ref,
            target=TargetRef.parse(look.target),
            generation=about.generation,
            revision=(task.revision if task is not None else 0) + 1,
            state=to,
            deadline=deadline,
            taints=taints,
            taint_generation=target.generation,
            reason=reason,
            message=message,
            decided_time=look.time,
            report_time=look.reported,
        )
        self._emit(state, look, EVICTIONS, eviction_key(workload, look.target, about.generation), event)

    def _move_timer(
        self, state: State, look: _Round, workload: str, generation: int, deadline: datetime | None
    ) -> None:
        key = timer_id(workload, look.target, generation)
        known = state.timers.get(key)
        if (known[1] if known is not None else None) == deadline:
            return
        event = SetTimer(
            id=key,
            target=TargetRef.parse(look.target),
            owner=OWNER,
            generation=(known[0] if known is not None else 0) + 1,
            deadline=deadline,
            subject=workload,
            correlation_id=look.cause.correlation,
        )
        self._emit(state, look, TIMERS, key, event)

    def _drop_timer(self, state: State, look: _Round, workload: str) -> None:
        task = state.targets[look.target].tasks.get(workload)
        if task is not None and (key := timer_id(workload, look.target, task.generation)) in state.timers:
            self._emit(state, look, TIMERS, key, None)

    def _emit(self, state: State, look: _Round, topic: Topic, key: str, event: Model | None) -> None:
        self.apply(state, topic, key, event)
        look.emits.append(Emit(topic, key, look.target, event, look.cause))


def service(settings: Settings) -> Eviction:  # noqa: ARG001 - every service is made alike
    """The service, for the command line to run."""
    return Eviction()
