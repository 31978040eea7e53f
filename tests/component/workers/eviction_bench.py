"""The eviction service on one pod, for tests of its states."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from tests.support.records import T0, at, decide, record, wake
from tests.support.worlds.world import node, pod

from moorage.runtime.service import Emit
from moorage.runtime.settings.process_settings import Settings
from moorage.workers import eviction
from moorage.workers.eviction.guards import GuardView
from moorage.workers.eviction.state import EvictionPartition
from moorage_schemas.base import Model
from moorage_schemas.budget import EvictionAnswered, EvictionAsked
from moorage_schemas.condition import EVICTED, ConditionStatus, WorkloadConditionChanged
from moorage_schemas.eviction import EvictionDecided
from moorage_schemas.keys import binding_key, eviction_key, leave_key, workload_condition_key
from moorage_schemas.leave_request import LeaveRequested, Requester, RequesterKind
from moorage_schemas.placement import WorkloadBound
from moorage_schemas.refs import TargetRef, WorkloadRef
from moorage_schemas.resource import ResourceDeclared, resource_key
from moorage_schemas.taint import TaintOrigin, TaintRecord, TargetTainted, Toleration
from moorage_schemas.timer import SetTimer, TimerFired
from moorage_schemas.topics import (
    BINDINGS,
    EVICTION_ANSWERS,
    EVICTION_ASKS,
    EVICTION_REQUESTS,
    FLEET,
    RESOURCES,
    TAINTS,
    TIMER_FIRED,
    WORKLOAD_CONDITIONS,
    Topic,
)

K1 = ("k1", 0.0)


class Bench:
    """The service, which gets one record at a time, and a view of guards."""

    def __init__(
        self,
        *,
        target: TargetRef | None = None,
        pause: dict[str, Any] | None = None,
        budget: bool = False,
        **options: Any,
    ) -> None:
        self.service = eviction.service(Settings(**options))
        self.state: EvictionPartition = self.service.new_state(0)
        self.view = GuardView()
        self.service.use_globals(self.state, self.view)
        self.target = target or node("n1")
        self.key = eviction_key(pod("web"), self.target, 1)
        self.generation = 0
        self.count = 0
        self.time = 0.0
        self.written: list[Emit] = []
        self.lagging: list[str] | dict[str, str] | None = []
        if pause is not None:
            self.guard("EvictionPause", "all", scope=pause)
        if budget:
            self.guard("EvictionBudget", "slow", maxConcurrent=1)

    def guard(self, kind: str, name: str, namespace: str = "", **spec: Any) -> None:
        obj = {"apiVersion": "v1", "kind": kind, "metadata": {"name": name, "namespace": namespace}, "spec": spec}
        key = resource_key(kind, namespace, name)
        assert self.view.wants(RESOURCES, key)
        self.view.apply(record(RESOURCES, key, ResourceDeclared(object=obj, version=1), time=at(self.time)))

    def unguard(self, kind: str, name: str) -> None:
        self.view.apply(record(RESOURCES, resource_key(kind, "", name), None, time=at(self.time)))

    def wake(self, time: float) -> list[str]:
        """Wake the service if it requests that by this time."""
        self.time = time
        due = self.service.next_wake(self.state)
        if due is None or due > at(time):
            return []
        emits = wake(self.service, self.state, at(time), lagging=self.lagging)
        self.written += emits
        return told(emits)

    def reconcile(self, time: float) -> list[str]:
        """Run a round of the reconciler, and the wake that follows at once."""
        self.time = time
        emits = self.service.reconcile(self.state, at(time))
        if self.state.pending:
            emits += wake(self.service, self.state, at(time))
        self.written += emits
        return told(emits)

    def taints(self, *taints: tuple[str, float], settles_at: float | None = None, zone: str = "eu/eu-1") -> list[str]:
        self.generation += 1
        records = tuple(
            TaintRecord(key=k, effect="NoExecute", time_added=at(s), origins=(TaintOrigin.EXPLICIT,)) for k, s in taints
        )
        event = TargetTainted(
            target=self.target,
            generation=self.generation,
            taints=records,
            zone=zone,
            settles_at=None if settles_at is None else at(settles_at),
        )
        return self.feed(TAINTS, self.target.key, event)

    def bind(
        self,
        *tolerations: Toleration,
        generation: int = 1,
        revision: int = 1,
        purge_mode: str = "",
        app: str = "web",
        deployer: str = "",
    ) -> list[str]:
        event = WorkloadBound(
            workload=pod("web"),
            uid="u",
            owner=WorkloadRef(kind="Deployment", namespace="default", name="web"),
            target=self.target,
            generation=generation,
            revision=revision,
            tolerations=tolerations,
            bound_time=T0,
            labels={"app": app},
            purge_mode=purge_mode,
            deployer=deployer,
        )
        return self.feed(BINDINGS, binding_key(pod("web"), self.target), event)

    def unbind(self) -> list[str]:
        return self.feed(BINDINGS, binding_key(pod("web"), self.target), None)

    def fire(self, generation: int, deadline: float) -> list[str]:
        name = f"evict|{self.key}"
        event = TimerFired(
            id=name,
            target=self.target,
            owner="eviction",
            generation=generation,
            deadline=at(deadline),
            fired_time=at(self.time),
            subject="Pod/default/web",
        )
        return self.feed(TIMER_FIRED, name, event)

    def answer(self, *held_by: str, asked: int, message: str = "", generation: int = 1) -> list[str]:
        event = EvictionAnswered(
            workload=pod("web"),
            target=self.target,
            generation=generation,
            revision=1,
            asked=asked,
            granted=not held_by,
            held_by=held_by,
            message=message,
            answered_time=at(self.time),
        )
        return self.feed(EVICTION_ANSWERS, self.key, event)

    def report(self, status: str = "True") -> list[str]:
        event = WorkloadConditionChanged(
            target=self.target,
            workload=pod("web"),
            type=EVICTED,
            status=ConditionStatus(status),
            source="bridge/home",
            last_transition_time=T0,
            last_heartbeat_time=T0,
            generation=1,
            workload_uid="u",
            binding_generation=1,
        )
        return self.feed(WORKLOAD_CONDITIONS, workload_condition_key(pod("web"), self.target, EVICTED), event)

    def leave(
        self, name: str = "drain", at_time: float | None = None, *, uid: str = "u", generation: int = 1
    ) -> list[str]:
        """A request to leave, at once or at a time."""
        requester = Requester(kind=RequesterKind.EVICTION_REQUEST, name=name)
        event = LeaveRequested(
            workload=pod("web"),
            workload_uid=uid,
            target=self.target,
            generation=generation,
            requester=requester,
            deadline=None if at_time is None else at(at_time),
            requested_time=at(self.time),
        )
        return self.feed(EVICTION_REQUESTS, leave_key(pod("web"), self.target, requester.key), event)

    def withdraw(self, name: str = "drain") -> list[str]:
        """The requester withdraws its request."""
        return self.feed(EVICTION_REQUESTS, leave_key(pod("web"), self.target, f"EvictionRequest/{name}"), None)

    def feed(self, topic: Topic, key: str, event: Model | None) -> list[str]:
        self.count += 1
        one = record(topic, key, event, id=f"e{self.count}", time=at(self.time))
        emits = decide(self.service, self.state, [one], at(self.time), lagging=self.lagging)
        assert all(emit.partition_key == (FLEET if emit.topic is EVICTION_ASKS else self.target.key) for emit in emits)
        self.written += emits
        return told(emits)

    def restart(self) -> None:
        """Restore the state from the written records."""
        state = self.service.new_state(0)
        self.service.use_globals(state, self.view)
        state.leaves = self.state.leaves
        target = self.state.targets[self.target.key]
        self.written, written = [], self.written
        state.targets[self.target.key] = replace(target, bindings=dict(target.bindings), tasks={})
        for emit in written:
            if emit.topic in self.service.changelogs:
                self.service.apply(state, emit.topic, emit.key, emit.event)
        assert state.targets == self.state.targets
        self.state, self.written = state, written

    @property
    def decided(self) -> EvictionDecided:
        return next(emit.event for emit in reversed(self.written) if isinstance(emit.event, EvictionDecided))

    @property
    def asked(self) -> EvictionAsked:
        return next(emit.event for emit in reversed(self.written) if isinstance(emit.event, EvictionAsked))


def told(emits: Iterable[Emit]) -> list[str]:
    """The emitted records in short form."""
    words = []
    for emit in emits:
        match emit.event:
            case EvictionDecided() as event:
                held = f" by {', '.join(event.held_by)}" if event.held_by else ""
                words.append(f"{event.state}#{event.revision}{held} {event.reason}")
            case EvictionAsked() as event:
                words.append(f"ask#{event.revision}" + (" requested" if event.requested else ""))
            case SetTimer() as event:
                words.append(f"timer {(event.deadline - T0).total_seconds():g}" if event.deadline else "timer off")
            case _:
                words.append(f"{emit.topic.short} tombstone")
    return words
