"""One look at a target: the verdicts on what is bound there, and the records that follow from them."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from moorage.core.taints.eviction_verdict import Keep, Verdict, verdict
from moorage.runtime.service import Emit
from moorage.runtime.trusted_events import target_ref, trusted, workload_ref
from moorage.workers.eviction.state import OWNER, BoundTarget, EvictionPartition, OpenRequest, Tolerations, timer_id
from moorage_schemas.base import Model
from moorage_schemas.budget import EvictionAnswered, EvictionAsked
from moorage_schemas.envelope import Meta
from moorage_schemas.eviction import EvictionDecided, EvictionState
from moorage_schemas.keys import TargetKey, eviction_key
from moorage_schemas.taint import Taint
from moorage_schemas.timer import SetTimer
from moorage_schemas.times import format_time
from moorage_schemas.topics import EVICTION_ASKS, EVICTIONS, FLEET, TIMERS, Topic


@dataclass(slots=True)
class TargetView:
    """One look at a target: its cause, its time, the verdict for each distinct tuple of tolerations, what is written.

    Whatever is written is folded into the state at once.
    """

    state: EvictionPartition
    target: str
    cause: Meta
    time: datetime
    reported: datetime | None = None
    due: datetime | None = None
    """Deadlines up to here are due; the time of the round when not set. Set by the reconciler only."""

    answer: EvictionAnswered | None = None
    """The governor's leave to go, when it is what is looked at."""

    stale: bool = False
    """Whether that leave has been kept for so long that others may have gone in its place."""

    emits: list[Emit] = field(default_factory=list)
    verdicts: dict[int, Verdict] = field(default_factory=dict)

    def judge(self, target: BoundTarget, tolerations: Tolerations) -> Verdict:
        """What the target's taints mean for work with these tolerations (one object each, so its id will do)."""
        known = self.verdicts.get(id(tolerations))
        if known is None:
            dialect = self.state.dialects.get(TargetKey.parse(self.target).kind)
            known = (
                Keep((), "nothing leaves targets of this kind")
                if dialect is None
                else verdict(target.taints, tolerations, seen_at=self.time, dialect=dialect)
            )
            self.verdicts[id(tolerations)] = known
        return known

    def write(
        self,
        workload: str,
        to: EvictionState,
        *,
        reason: str,
        message: str,
        taints: tuple[Taint, ...] = (),
        deadline: datetime | None = None,
        held_by: tuple[str, ...] = (),
        asked: int = 0,
    ) -> None:
        """Write a task's next state."""
        target = self.state.targets[self.target]
        task, binding = target.tasks.get(workload), target.bindings.get(workload)
        about = task or target.bindings[workload]
        ref = workload_ref(workload)
        event = trusted(
            EvictionDecided,
            workload=ref,
            workload_uid=about.uid,
            owner=workload_ref(about.owner) if about.owner else ref,
            target=target_ref(self.target),
            generation=about.generation,
            revision=(task.revision if task is not None else 0) + 1,
            state=to,
            deadline=deadline,
            held_by=held_by,
            asked=asked,
            purge_mode=binding.traits.purge_mode if binding is not None else "",
            taints=taints,
            taint_generation=target.generation,
            reason=reason,
            message=message,
            decided_time=self.time,
            report_time=self.reported,
        )
        self.emit(EVICTIONS, eviction_key(workload, self.target, about.generation), event, step=str(event.revision))

    def ask(self, workload: str, *, due: datetime, revision: int, requested: bool = False) -> None:
        """Ask the governor, or tell it that what was asked for is requested."""
        target = self.state.targets[self.target]
        binding, ref = target.bindings[workload], workload_ref(workload)
        event = EvictionAsked(
            workload=ref,
            workload_uid=binding.uid,
            owner=workload_ref(binding.owner) if binding.owner else ref,
            target=target_ref(self.target),
            generation=binding.generation,
            revision=revision,
            labels=dict(binding.traits.labels),
            zone=target.zone,
            due_time=due,
            requested=requested,
        )
        # One that is asked again, because its answer may be lost, is an event of its own.
        step = f"{revision}/{'requested' if requested else format_time(self.time)}"
        self._put_ask(eviction_key(workload, self.target, binding.generation), event, step)
        self.state.asked[self.target, workload] = OpenRequest(self.time, binding.traits.labels, target.zone)

    def unask(self, workload: str) -> None:
        """The governor need not think of this task any more."""
        task = self.state.targets[self.target].tasks.get(workload)
        self.state.asked.pop((self.target, workload), None)
        if task is not None and task.asked:
            self._put_ask(eviction_key(workload, self.target, task.generation), None, "end")

    def _put_ask(self, key: str, event: EvictionAsked | None, step: str) -> None:
        """Asks are the governor's to remember: a task knows by its `asked` whether it has one."""
        self.emits.append(Emit(EVICTION_ASKS, key, FLEET, event, self.cause, step=step))

    def timer(self, workload: str, generation: int) -> tuple[int, datetime | None]:
        """The generation and the deadline of a task's timer; 0 and None while it has none."""
        return self.state.timers.get(timer_id(workload, self.target, generation), (0, None))

    def move_timer(self, workload: str, generation: int, deadline: datetime | None) -> None:
        """Set a task's timer, or cancel it (None): it is remembered until the task is over."""
        number, known = self.timer(workload, generation)
        if known == deadline:
            return
        key = timer_id(workload, self.target, generation)
        event = SetTimer(
            id=key,
            target=target_ref(self.target),
            owner=OWNER,
            generation=number + 1,
            deadline=deadline,
            subject=workload,
            correlation_id=self.cause.correlation,
        )
        self.emit(TIMERS, key, event, step=str(event.generation))

    def drop_timer(self, workload: str) -> None:
        """The task has no more use for its timer."""
        task = self.state.targets[self.target].tasks.get(workload)
        if task is not None and (key := timer_id(workload, self.target, task.generation)) in self.state.timers:
            self.emit(TIMERS, key, None, step="end")

    def emit(self, topic: Topic, key: str, event: Model | None, *, step: str = "") -> None:
        """Write a record of the target's partition, and fold it in; a pending eviction's cause may lead to several."""
        self.state.fold(topic, key, event)
        self.emits.append(Emit(topic, key, self.target, event, self.cause, step=step))
