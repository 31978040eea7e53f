"""The state of the eviction service for one partition. It is small, because a process may hold a million bindings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from sys import intern
from typing import Any, Final

from msgspec import Struct, structs

from moorage.decide.disruption.guard_index import Guards
from moorage.decide.taints.dialects.karmada import KARMADA
from moorage.decide.taints.dialects.kubernetes import KUBERNETES, EffectRules, is_out_of_service
from moorage.decide.timers.deadline_index import DeadlineIndex
from moorage.runtime.engine.portions import PendingChecks
from moorage.runtime.process.memory import Pool
from moorage.runtime.service import Freshness
from moorage.runtime.settings.moorage_configuration import Derived
from moorage.workers.eviction.eviction_task import (
    PLAIN,
    Binding,
    BoundTarget,
    DeployerReport,
    EvictionReport,
    EvictionRules,
    OpenRequest,
    Pending,
    PendingCheck,
    Task,
    Tolerations,
    Traits,
)
from moorage_schemas.condition import EVICTED, FAILED, HEALTHY, ConditionStatus, WorkloadConditionChanged
from moorage_schemas.eviction import EvictionDecided, EvictionState
from moorage_schemas.keys import BindingKey, EvictionKey, WorkloadConditionKey, eviction_key
from moorage_schemas.placement import WorkloadBound
from moorage_schemas.refs import TargetKind
from moorage_schemas.taint import TargetTainted
from moorage_schemas.timer import SetTimer
from moorage_schemas.topics import (
    BINDINGS,
    EVICTIONS,
    GENERATION_FLOORS,
    TAINTS,
    TIMERS,
    WORKLOAD_CONDITIONS,
    Topic,
)

ISSUER = "eviction"
"""The issuer of this service's timers."""

BINDING_ENDED = "BindingEnded"
"""The reason in the last record of a task. After it, the task is dropped from the state."""

_REPORTED: Final = frozenset({HEALTHY, EVICTED})
"""The conditions of workloads that concern evictions."""

NODES_ONLY: Final[Mapping[str, EffectRules]] = {TargetKind.NODE.value: KUBERNETES}
"""The dialects whose taints evict, by the target's kind, when evictions from clusters are switched off."""

WITH_CLUSTERS: Final[Mapping[str, EffectRules]] = {**NODES_ONLY, TargetKind.CLUSTER.value: KARMADA}
"""The same when they are switched on."""


@dataclass(slots=True)
class EvictionPartition:
    """The state of one partition."""

    rules: Derived[EvictionRules]
    """The rules of the present configuration."""

    partition: int = 0
    floor: int = 0
    """The highest generation of the tasks that were removed."""

    ended: DeadlineIndex[str] = field(default_factory=DeadlineIndex)
    """The time at which each ended eviction was decided, by key. It is removed some time later."""

    targets: dict[str, BoundTarget] = field(default_factory=dict)
    """The targets, by target key."""

    timers: dict[str, tuple[int, datetime | None]] = field(default_factory=dict)
    """The generation and deadline of this service's own timers, by their id."""

    pool: Pool[Tolerations] = field(default_factory=Pool)
    """One object for each distinct tuple of tolerations, by their fields (which hash much faster than models)."""

    traits: Pool[Traits] = field(default_factory=Pool)
    """One object for each distinct set of labels and purge mode, by their content."""

    guards: Guards = field(default_factory=Guards)
    """The guards that may hold an eviction: the view that the whole process shares."""

    pending: dict[tuple[str, str], Pending] = field(default_factory=dict)
    """Evictions that have come due and are to be decided on with the present state, by target and workload key."""

    requests: dict[tuple[str, str], OpenRequest] = field(default_factory=dict)
    """The latest eviction request since the restore, by target and workload key."""

    rules_in_use: EvictionRules | None = None
    """The rules by which everything was last checked; None before the first check."""

    begun: bool = False
    """Whether the check of everything has begun since the restore."""

    unseen: PendingChecks = field(default_factory=PendingChecks)
    """The targets that this check has still to reach."""

    round: PendingChecks = field(default_factory=PendingChecks)
    """The targets that the reconciler's present round has still to reach."""

    checks: dict[str, PendingCheck] = field(default_factory=dict)
    """By target key, the checks of targets that have too many workloads for one call."""

    found: Freshness | None = None
    """The result of reading the present state, for the `wake` that follows."""

    waiting: dict[tuple[str, str], Pending] = field(default_factory=dict)
    """Pending evictions that wait for the taint-manager. None of them is in `pending`."""

    check_at: datetime | None = None
    """When to check the waiting evictions."""

    @property
    def dialects(self) -> Mapping[str, EffectRules]:
        """The dialects whose taints evict, by the target's kind. Nothing is evicted from targets of any other kind."""
        return WITH_CLUSTERS if self.rules.value.clusters else NODES_ONLY

    def is_request_outdated(self, place: tuple[str, str]) -> bool:
        """Return whether the labels or the zone have changed since the grant was requested."""
        request, target = self.requests.get(place), self.targets.get(place[0])
        binding = target.bindings.get(place[1]) if target is not None else None
        if request is None or target is None or binding is None:
            return False
        return request.zone != target.zone or request.labels != binding.traits.labels

    def is_pending(self, place: tuple[str, str]) -> bool:
        """Return whether an eviction has come due and is not decided on yet."""
        return place in self.pending or place in self.waiting

    def put(self, place: tuple[str, str], pending: Pending) -> None:
        """Add an eviction that has come due. If it is already pending, it keeps its cause unless this is an answer."""
        known = self.pending.get(place) or self.waiting.get(place)
        if known is None:
            self.pending[place] = pending
        elif pending.answer is not None:
            self.drop_pending(place)
            self.pending[place] = replace(pending, waited=known.waited)

    def drop_pending(self, place: tuple[str, str]) -> None:
        """Remove an eviction that is no longer pending."""
        if self.pending.pop(place, None) is None:
            self.waiting.pop(place, None)

    def wait(self, place: tuple[str, str], pending: Pending, until: datetime) -> None:
        """Check a pending eviction again later."""
        self.waiting[place] = pending
        if self.check_at is None:
            self.check_at = until

    def check_again(self, now: datetime) -> None:
        """Make evictions that have waited for long enough pending again."""
        if self.check_at is not None and self.check_at <= now:
            self.pending.update(self.waiting)
            self.waiting.clear()
            self.check_at = None

    def fold(self, topic: Topic, key: str, event: Any) -> None:
        """Fold in taints, a binding, a task or a timer. Records of other topics are ignored.

        Args:
            topic: the topic of the record.
            key: its key.
            event: the event of the topic or its row, which has the same fields; None for a tombstone.
        """
        if topic is BINDINGS:
            self.apply_binding(key, event)
        elif topic is EVICTIONS:
            self.apply_eviction(key, event)
        elif topic is TIMERS:
            self.apply_timer(key, event)
        elif topic is WORKLOAD_CONDITIONS:
            self.apply_report(key, event)
        elif topic is TAINTS:
            self.apply_taints(key, event)
        elif topic is GENERATION_FLOORS and event is not None:
            self.floor = max(self.floor, event.generation)

    def apply_taints(self, key: str, event: TargetTainted | None) -> None:
        """Fold in the taints of a target."""
        if event is None:
            if (target := self.targets.get(key)) is not None:
                target.uid, target.generation, target.taints, target.zone = "", 0, (), ""
                target.settles_at, target.is_out_of_service = None, False
                self._tidy(key, target)
            return
        target = self.targets.setdefault(key, BoundTarget())
        if not newer_taints(event, target):
            return
        target.uid = event.target_uid
        target.generation = event.generation
        target.zone = intern(event.zone)
        target.settles_at = event.settles_at
        dialect = WITH_CLUSTERS.get(event.target.kind.value)  # the switch may be turned on later
        evicting = dialect.evicting if dialect is not None else frozenset()
        target.taints = tuple(record.as_taint() for record in event.taints if record.effect in evicting)
        target.is_out_of_service = event.target.kind is TargetKind.NODE and is_out_of_service(
            record.key for record in event.taints
        )

    def apply_binding(self, key: str, event: Any) -> None:
        """Fold in a binding."""
        if event is not None:
            found = event.tolerations  # rows with equal tolerations share them already
            self.bind(key, event, found if isinstance(event, Struct) else self._pooled(found))
            return
        workload, target_key = BindingKey.parse(key)
        if (target := self.targets.get(target_key)) is not None:
            known = target.bindings.pop(workload, None)
            if known is not None and known.deployer and not known.traits.deployer:
                # The same binding may be written again to repair it. The binding of a mirrored workload names its
                # deployer itself.
                target.early[workload] = DeployerReport(known.uid, known.generation, known.deployer)
            self._tidy(target_key, target)

    def bind(self, key: str, event: WorkloadBound, tolerations: Tolerations) -> None:
        """Fold in a binding that has not ended. This runs for every binding of a restore.

        Args:
            key: the key of its record.
            event: the event or its row, which has the same fields.
            tolerations: the tolerations of the event; one object for all bindings with equal ones.
        """
        workload, _, target_key = key.partition("|")
        target = self.targets.get(target_key)
        if target is None:
            target = self.targets[target_key] = BoundTarget()
        known = target.bindings.get(workload)
        if known is None or newer_binding(event, known):
            owner = event.owner.key
            deployer = known.deployer if known is not None and _is_same(event, known) else ""
            if target.early and (early := target.early.get(workload)) is not None:
                deployer = early.source if _is_same(event, early) else ""
                if event.uid == early.uid and event.generation >= early.generation:
                    del target.early[workload]  # it is about this or an earlier binding
            traits = self._traits(event) if event.labels or event.purge_mode or event.deployer else PLAIN
            target.bindings[workload] = Binding(
                event.uid,
                "" if owner == workload else intern(owner),
                event.generation,
                event.revision,
                tolerations,
                traits,
                traits.deployer or deployer,
            )

    def apply_report(self, key: str, event: WorkloadConditionChanged | None) -> None:
        """Fold in a condition of a workload: its deployer, and the deployer's report about its eviction.

        Args:
            key: the key of its record.
            event: the event or its row, which has the same fields; None for a tombstone.
        """
        workload, target_key, condition = WorkloadConditionKey.parse(key)
        if condition not in _REPORTED:
            return
        target = self.targets.get(target_key)
        names_none = event is None or not event.binding_generation
        if target is None:
            if names_none:
                return
            target = self.targets[target_key] = BoundTarget()
        if condition == EVICTED:
            report = _report_of(event) if event is not None and not names_none else None
            if report is not None:
                target.reports[workload] = report
            else:
                target.reports.pop(workload, None)
        else:
            self._report(target, workload, None if names_none else event)
        self._tidy(target_key, target)

    @staticmethod
    def _report(target: BoundTarget, workload: str, event: WorkloadConditionChanged | None) -> None:
        """Note which deployer runs a workload, if its last report names a binding."""
        binding = target.bindings.get(workload)
        target.early.pop(workload, None)
        if binding is not None and binding.traits.deployer:
            return  # its bridge acknowledges, whatever the reporter
        uid, generation = (event.workload_uid, event.binding_generation) if event is not None else ("", 0)
        source = intern(event.source) if event is not None else ""
        is_present = binding is not None and (binding.uid, binding.generation) == (uid, generation)
        if binding is not None and binding.deployer != (mine := source if is_present else ""):
            target.bindings[workload] = structs.replace(binding, deployer=mine)
        is_past = binding is not None and binding.uid == uid and binding.generation > generation
        if event is not None and not is_present and not is_past:
            target.early[workload] = DeployerReport(uid, generation, source)

    def apply_eviction(self, key: str, event: EvictionDecided | None) -> None:
        """Fold in the state of a task. For an ended task, only the time is kept."""
        workload, target_key, generation = EvictionKey.parse(key)
        if event is None:
            self.ended.remove(key)
            target = self.targets.get(target_key)
            task = target.tasks.get(workload) if target is not None else None
            if target is not None and task is not None and task.generation == int(generation):
                del target.tasks[workload]
                self._tidy(target_key, target)
            return
        target = self.targets.setdefault(target_key, BoundTarget())
        known = target.tasks.get(workload)
        if known is not None and (known.generation, known.revision) >= (event.generation, event.revision):
            return
        if known is not None and known.generation < event.generation and known.state is EvictionState.CANCELLED:
            # A restore does not see that its binding has ended, so it cannot be scheduled again.
            self.ended.set(eviction_key(workload, target_key, known.generation), known.decided)
        if event.state is EvictionState.COMPLETED or event.reason == BINDING_ENDED:
            target.tasks.pop(workload, None)
            self.ended.set(key, event.decided_time)
            self._tidy(target_key, target)
            return
        owner = event.owner.key
        target.tasks[workload] = Task(
            uid=event.workload_uid,
            owner="" if owner == workload else intern(owner),
            generation=event.generation,
            revision=event.revision,
            state=event.state,
            deadline=event.deadline,
            taints=event.taints,
            held_by=event.held_by,
            asked=event.asked,
            decided=event.decided_time,
        )
        if event.state is EvictionState.REQUESTED:
            task = target.tasks[workload]
            # A mass eviction has few different texts.
            task.reason, task.message = intern(event.reason), intern(event.message)
            task.deployer = intern(event.deployer)
            task.escalated, task.acknowledged = event.escalated, event.acknowledged
            task.requested = event.requested_time or event.decided_time  # earlier versions have written only this

    def close(self, target_key: str, workload: str, task: Task) -> None:
        """Note that a cancelled task has ended, because its binding has ended."""
        target = self.targets[target_key]
        del target.tasks[workload]
        self.ended.set(eviction_key(workload, target_key, task.generation), task.decided)
        self._tidy(target_key, target)

    def apply_timer(self, key: str, event: SetTimer | None) -> None:
        """Fold in one of this service's own timers."""
        if event is None:
            self.timers.pop(key, None)
        elif event.owner == ISSUER and self.timers.get(key, (0, None))[0] < event.generation:
            self.timers[key] = (event.generation, event.deadline)

    def _pooled(self, tolerations: Tolerations) -> Tolerations:
        key = tuple([(t.key, t.operator, t.value, t.effect, t.toleration_seconds) for t in tolerations])
        return self.pool.shared(key, tolerations)

    def _traits(self, event: WorkloadBound) -> Traits:
        traits = Traits(event.labels, event.purge_mode, event.deployer)
        return self.traits.shared((event.purge_mode, event.deployer, *event.labels.items()), traits)

    def _tidy(self, key: str, target: BoundTarget) -> None:
        if target.empty:
            self.targets.pop(key, None)


def newer_taints(event: TargetTainted, known: BoundTarget) -> bool:
    """Return whether a set of taints supersedes the kept one."""
    return known.generation == 0 or known.uid != event.target_uid or event.generation > known.generation


def newer_binding(event: WorkloadBound, known: Binding | None) -> bool:
    """Return whether a binding supersedes the kept one.

    A workload that was created again under its name begins with new generations. The tombstone in between may have been
    compacted away.
    """
    if known is None or known.uid != event.uid:
        return True
    return (event.generation, event.revision) > (known.generation, known.revision)


def _is_same(event: WorkloadBound, known: Binding | DeployerReport) -> bool:
    """Return whether both concern the same binding."""
    return (event.uid, event.generation) == (known.uid, known.generation)


def _report_of(event: WorkloadConditionChanged) -> EvictionReport | None:
    """Return a condition's report of an eviction; None if the result for the work is unknown."""
    if event.status is ConditionStatus.UNKNOWN:
        return None
    is_removed = event.status is ConditionStatus.TRUE
    return EvictionReport(
        event.workload_uid,
        event.binding_generation,
        is_removed,
        "" if is_removed else event.reason or FAILED,
        event.message,
        event.last_heartbeat_time,
        intern(event.source),
    )


def timer_id(workload: str, target: str, generation: int) -> str:
    """Return the id of a task's timer.

    It contains the binding's generation, so that no id is used again after its tombstone, which removes the timer's
    generations.
    """
    return f"evict|{eviction_key(workload, target, generation)}"
