"""One check of a target: the verdicts on its workloads and their records, and the view of guards that may hold them."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from typing_extensions import override

from moorage.decide.disruption.budgets import is_guard
from moorage.decide.disruption.guard_index import Guards
from moorage.decide.taints.eviction_verdict import Keep, Verdict, verdict
from moorage.runtime.service import Emit, Input
from moorage.runtime.settings.moorage_configuration import Configuration, ConfiguredView
from moorage.workers.eviction.eviction_task import BoundTarget, OpenRequest, Task, Tolerations
from moorage.workers.eviction.state import ISSUER, EvictionPartition, timer_id
from moorage_schemas.base import Model
from moorage_schemas.budget import EvictionAnswered, EvictionAsked
from moorage_schemas.envelope import Meta
from moorage_schemas.eviction import Acknowledgement, Escalation, EvictionDecided, EvictionState
from moorage_schemas.keys import TargetKey, eviction_key
from moorage_schemas.resource import ResourceDeclared
from moorage_schemas.taint import Taint
from moorage_schemas.timer import SetTimer
from moorage_schemas.times import format_time
from moorage_schemas.topics import CONFIGURATION, EVICTION_ASKS, EVICTIONS, FLEET, TIMERS, Topic
from moorage_schemas.trusted_events import target_ref, trusted, workload_ref


@dataclass(slots=True)
class TargetView:
    """One check of a target: its cause and time, the verdict for each distinct tuple of tolerations, and the output.

    Every record that is written is folded into the state at once.
    """

    state: EvictionPartition
    target: str
    cause: Meta
    time: datetime
    reported: datetime | None = None
    due: datetime | None = None
    """Deadlines up to this time are due; up to `time` if this is None. Only the reconciler sets it."""

    answer: EvictionAnswered | None = None
    """The governor's answer that grants the eviction, if it is the reason of the check."""

    stale: bool = False
    """Whether the grant was kept for so long that other evictions may have been carried out instead."""

    emits: list[Emit] = field(default_factory=list)
    verdicts: dict[int, Verdict] = field(default_factory=dict)

    def judge(self, target: BoundTarget, tolerations: Tolerations) -> Verdict:
        """Return the verdict of the target's taints on these tolerations. Equal tolerations are one object."""
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
        deployer: str = "",
        escalated: Escalation | None = None,
        acknowledged: Acknowledgement | None = None,
    ) -> None:
        """Write a task's next state. Fields about its deployer are kept unless given."""
        target = self.state.targets[self.target]
        task, binding = target.tasks.get(workload), target.bindings.get(workload)
        requested = task.requested if task is not None else None
        if to is EvictionState.REQUESTED and requested is None:
            requested = self.time
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
            requested_time=requested,
            report_time=self.reported,
            deployer=deployer or (task.deployer if task is not None else ""),
            escalated=escalated or (task.escalated if task is not None else None),
            acknowledged=acknowledged or (task.acknowledged if task is not None else None),
        )
        self.emit(EVICTIONS, eviction_key(workload, self.target, about.generation), event, step=str(event.revision))

    def acknowledge(
        self,
        workload: str,
        task: Task,
        *,
        escalated: Escalation | None = None,
        acknowledged: Acknowledgement | None = None,
    ) -> None:
        """Write a deployer's report about a requested eviction. It stays requested until its binding ends."""
        self.write(
            workload,
            EvictionState.REQUESTED,
            reason=task.reason,
            message=task.message,
            taints=task.taints,
            asked=task.asked,
            escalated=escalated,
            acknowledged=acknowledged,
        )

    def request_grant(self, workload: str, *, due: datetime, revision: int, requested: bool = False) -> None:
        """Write an eviction request for the governor, or notify the governor that the eviction is now Requested."""
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
        # A request that is repeated, because its answer may be lost, is a separate event.
        step = f"{revision}/{'requested' if requested else format_time(self.time)}"
        self._put_request(eviction_key(workload, self.target, binding.generation), event, step)
        self.state.requests[self.target, workload] = OpenRequest(self.time, binding.traits.labels, target.zone)

    def withdraw_request(self, workload: str) -> None:
        """Withdraw a task's eviction request from the governor."""
        task = self.state.targets[self.target].tasks.get(workload)
        self.state.requests.pop((self.target, workload), None)
        if task is not None and task.asked:
            self._put_request(eviction_key(workload, self.target, task.generation), None, "end")

    def _put_request(self, key: str, event: EvictionAsked | None, step: str) -> None:
        """Write an eviction request. The governor keeps it; the task's `asked` shows whether it has one."""
        self.emits.append(Emit(EVICTION_ASKS, key, FLEET, event, self.cause, step=step))

    def timer(self, workload: str, generation: int) -> tuple[int, datetime | None]:
        """Return the generation and the deadline of a task's timer; 0 and None when it has none."""
        return self.state.timers.get(timer_id(workload, self.target, generation), (0, None))

    def move_timer(self, workload: str, generation: int, deadline: datetime | None) -> None:
        """Set a task's timer, or cancel it (None). It is kept until the task ends."""
        number, known = self.timer(workload, generation)
        if known == deadline:
            return
        key = timer_id(workload, self.target, generation)
        event = SetTimer(
            id=key,
            target=target_ref(self.target),
            owner=ISSUER,
            generation=number + 1,
            deadline=deadline,
            subject=workload,
            correlation_id=self.cause.correlation,
        )
        self.emit(TIMERS, key, event, step=str(event.generation))

    def drop_timer(self, workload: str) -> None:
        """Delete the timer of a task that no longer needs it."""
        task = self.state.targets[self.target].tasks.get(workload)
        if task is not None and (key := timer_id(workload, self.target, task.generation)) in self.state.timers:
            self.emit(TIMERS, key, None, step="end")

    def emit(self, topic: Topic, key: str, event: Model | None, *, step: str = "") -> None:
        """Write a record of the target's partition, and fold it in.

        The cause of a pending eviction may have several results, which `step` distinguishes.
        """
        self.state.fold(topic, key, event)
        self.emits.append(Emit(topic, key, self.target, event, self.cause, step=step))


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
