"""What the eviction service remembers of one partition, packed tightly: a process may hold a million bindings."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from datetime import datetime

from moorage.core.dialects.kubernetes import KUBERNETES
from moorage_schemas.eviction import EvictionDecided, EvictionState
from moorage_schemas.placement import WorkloadBound
from moorage_schemas.taint import Taint, TargetTainted, Toleration
from moorage_schemas.timer import SetTimer
from moorage_schemas.topics import eviction_key

OWNER = "eviction"
"""The owner of this service's timers."""

BINDING_ENDED = "BindingEnded"
"""The reason of the last record of a task: after it nothing is remembered."""

Tolerations = tuple[Toleration, ...]


@dataclass(slots=True, frozen=True)
class Binding:
    """A workload on a target, without what its place in the tables says already."""

    uid: str
    owner: str
    """The key of the owner; empty when the workload is its own."""

    generation: int
    revision: int
    tolerations: Tolerations
    """One object for all bindings with equal ones."""


@dataclass(slots=True, frozen=True)
class Task:
    """An eviction that is not over."""

    uid: str
    owner: str
    generation: int
    revision: int
    state: EvictionState
    deadline: datetime | None
    taints: tuple[Taint, ...]


@dataclass(slots=True)
class Target:
    """A target, its taints that evict, and what is bound to it."""

    uid: str = ""
    generation: int = 0
    """Of its taints; 0 when it has none."""

    taints: tuple[Taint, ...] = ()
    bindings: dict[str, Binding] = field(default_factory=dict)
    """By workload key."""

    tasks: dict[str, Task] = field(default_factory=dict)
    """By workload key."""

    @property
    def empty(self) -> bool:
        """Nothing is known of it."""
        return not (self.generation or self.bindings or self.tasks)


@dataclass(slots=True)
class State:
    """One partition."""

    targets: dict[str, Target] = field(default_factory=dict)
    """By target key."""

    timers: dict[str, tuple[int, datetime | None]] = field(default_factory=dict)
    """Generation and deadline of the own timers, by their id."""

    pool: dict[tuple[object, ...], Tolerations] = field(default_factory=dict)
    """One object for each distinct tuple of tolerations, by their fields (which hash much faster than models)."""

    def apply_taints(self, key: str, event: TargetTainted | None) -> None:
        """Fold in the taints of a target."""
        if event is None:
            if (target := self.targets.get(key)) is not None:
                target.uid, target.generation, target.taints = "", 0, ()
                self._tidy(key, target)
            return
        target = self.targets.setdefault(key, Target())
        if not newer_taints(event, target):
            return
        target.uid = event.target_uid
        target.generation = event.generation
        target.taints = tuple(record.as_taint() for record in event.taints if record.effect in KUBERNETES.evicting)

    def apply_binding(self, key: str, event: WorkloadBound | None) -> None:
        """Fold in a binding."""
        workload, _, target_key = key.partition("|")
        if event is None:
            if (target := self.targets.get(target_key)) is not None:
                target.bindings.pop(workload, None)
                self._tidy(target_key, target)
            return
        target = self.targets.get(target_key)
        if target is None:
            target = self.targets[target_key] = Target()
        if newer_binding(event, target.bindings.get(workload)):
            owner = event.owner.key
            target.bindings[workload] = Binding(
                uid=event.uid,
                owner="" if owner == workload else sys.intern(owner),
                generation=event.generation,
                revision=event.revision,
                tolerations=self._pooled(event.tolerations),
            )

    def apply_eviction(self, key: str, event: EvictionDecided | None) -> None:
        """Fold in the state of a task; one that is over is forgotten."""
        if event is None:
            workload, target_key, generation = key.split("|")
            target = self.targets.get(target_key)
            task = target.tasks.get(workload) if target is not None else None
            if target is not None and task is not None and task.generation == int(generation):
                del target.tasks[workload]
                self._tidy(target_key, target)
            return
        workload, target_key = event.workload.key, event.target.key
        target = self.targets.setdefault(target_key, Target())
        known = target.tasks.get(workload)
        if known is not None and (known.generation, known.revision) >= (event.generation, event.revision):
            return
        if event.state is EvictionState.COMPLETED or event.reason == BINDING_ENDED:
            target.tasks.pop(workload, None)
            self._tidy(target_key, target)
            return
        owner = event.owner.key
        target.tasks[workload] = Task(
            uid=event.workload_uid,
            owner="" if owner == workload else sys.intern(owner),
            generation=event.generation,
            revision=event.revision,
            state=event.state,
            deadline=event.deadline,
            taints=event.taints,
        )

    def apply_timer(self, key: str, event: SetTimer | None) -> None:
        """Fold in one of the own timers."""
        if event is None:
            self.timers.pop(key, None)
        elif event.owner == OWNER and self.timers.get(key, (0, None))[0] < event.generation:
            self.timers[key] = (event.generation, event.deadline)

    def _pooled(self, tolerations: Tolerations) -> Tolerations:
        key = tuple([(t.key, t.operator, t.value, t.effect, t.toleration_seconds) for t in tolerations])
        return self.pool.setdefault(key, tolerations)

    def _tidy(self, key: str, target: Target) -> None:
        if target.empty:
            self.targets.pop(key, None)


def newer_taints(event: TargetTainted, known: Target) -> bool:
    """Whether a set of taints supersedes the one that is known."""
    return known.generation == 0 or known.uid != event.target_uid or event.generation > known.generation


def newer_binding(event: WorkloadBound, known: Binding | None) -> bool:
    """Whether a binding supersedes the one that is known.

    A workload that was made again under its name begins with new generations; the tombstone between may be compacted.
    """
    if known is None or known.uid != event.uid:
        return True
    return (event.generation, event.revision) > (known.generation, known.revision)


def timer_id(workload: str, target: str, generation: int) -> str:
    """The id of a task's timer.

    It holds the binding's generation, so that no id is used again after its tombstone, with which the memory
    of its generations goes.
    """
    return f"evict|{eviction_key(workload, target, generation)}"
