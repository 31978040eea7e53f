"""The governor's budgets, with records from the test: requests, bindings, guards and health, on a clock of the test."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from tests.support.records import at

from moorage.runtime.service import Input
from moorage.runtime.settings.process_settings import Settings
from moorage.workers.governor.budgets import BudgetBook
from moorage.workers.governor.view import GovernorView
from moorage_schemas.base import Model
from moorage_schemas.budget import BudgetCounted, EvictionAnswered, EvictionAsked, EvictionSlot
from moorage_schemas.condition import ConditionStatus, WorkloadConditionChanged
from moorage_schemas.envelope import Meta
from moorage_schemas.keys import binding_key, eviction_key, workload_condition_key
from moorage_schemas.placement import WorkloadBound
from moorage_schemas.refs import TargetRef, WorkloadRef
from moorage_schemas.resource import ResourceDeclared
from moorage_schemas.topics import (
    BINDINGS,
    BUDGETS,
    EVICTION_ANSWERS,
    EVICTION_ASKS,
    EVICTION_SLOTS,
    FLEET,
    RESOURCES,
    WORKLOAD_CONDITIONS,
    Topic,
)

_MAX_SETTLINGS = 100


class Bench:
    """The budgets and their view, and everything that both have read, so that they can be built again."""

    def __init__(self, **settings: Any) -> None:
        self.settings = Settings(**settings)
        self.time = 0.0
        self.tables: dict[Topic, dict[str, Model]] = {}
        self.answers: list[EvictionAnswered] = []
        self.written: list[tuple[Topic, str, Model | None, Meta]] = []
        self.settlings = 0
        self._count = 0
        self._versions: dict[str, int] = {}
        self._health = 0
        self.restart()

    @property
    def now(self) -> datetime:
        return at(self.time)

    def restart(self) -> None:
        """Build budgets and view again from the tables, as after a crash."""
        self.book, self.view = BudgetBook(self.settings), GovernorView()
        for topic in (RESOURCES, BINDINGS, WORKLOAD_CONDITIONS):
            for key, event in self.tables.get(topic, {}).items():
                self.view.apply(self._input(topic, key, event))
        for topic in (EVICTION_ASKS, EVICTION_SLOTS, BUDGETS):
            for key, event in self.tables.get(topic, {}).items():
                self.book.apply(topic, key, event)

    # Records of other services.

    def declare(
        self, kind: str, name: str, namespace: str = "", labels: dict[str, str] | None = None, **spec: Any
    ) -> None:
        key = f"{kind}/{namespace}/{name}"
        version = self._versions[key] = self._versions.get(key, 0) + 1
        obj = {
            "apiVersion": "v1",
            "kind": kind,
            "metadata": {"name": name, "namespace": namespace, "uid": f"uid-{name}", "labels": labels or {}},
            "spec": spec,
        }
        self._see(RESOURCES, key, ResourceDeclared(object=obj, version=version))

    def delete(self, kind: str, name: str, namespace: str = "") -> None:
        self._see(RESOURCES, f"{kind}/{namespace}/{name}", None)

    def bind(
        self,
        name: str,
        node: str,
        *,
        owner: str = "",
        generation: int = 1,
        labels: dict[str, str] | None = None,
        kind: str = "Pod",
    ) -> None:
        workload, target = WorkloadRef(kind=kind, namespace="shop", name=name), TargetRef.parse(node)
        event = WorkloadBound(
            workload=workload,
            uid=f"uid-{name}",
            owner=WorkloadRef.parse(owner) if owner else workload,
            target=target,
            generation=generation,
            labels=labels or {},
            bound_time=self.now,
        )
        self._see(BINDINGS, binding_key(workload, target), event)

    def unbind(self, name: str, node: str, *, kind: str = "Pod") -> None:
        self._see(BINDINGS, f"{kind}/shop/{name}|{node}", None)

    def report(self, name: str, node: str, *, healthy: bool) -> None:
        workload, target = WorkloadRef(kind="Pod", namespace="shop", name=name), TargetRef.parse(node)
        self._health += 1
        event = WorkloadConditionChanged(
            workload=workload,
            target=target,
            type="Healthy",
            status=ConditionStatus.TRUE if healthy else ConditionStatus.FALSE,
            last_transition_time=self.now,
            last_heartbeat_time=self.now,
            generation=self._health,
            accepted_time=self.now,
        )
        self._see(WORKLOAD_CONDITIONS, workload_condition_key(workload, target, "Healthy"), event)

    def ask(
        self,
        name: str,
        node: str,
        *,
        due: float | None = None,
        revision: int = 1,
        requested: bool = False,
        zone: str = "/",
        reason: str = "Taint",
    ) -> None:
        """Request the eviction of the present binding, like the eviction service."""
        table = self.tables[BINDINGS]
        bound = table.get(f"Pod/shop/{name}|{node}") or table.get(f"ResourceBinding/shop/{name}|{node}")
        assert isinstance(bound, WorkloadBound)
        event = EvictionAsked(
            workload=bound.workload,
            workload_uid=bound.uid,
            owner=bound.owner,
            target=TargetRef.parse(node),
            generation=bound.generation,
            revision=revision,
            labels=dict(bound.labels),
            zone=zone,
            due_time=at(self.time if due is None else due),
            requested=requested,
            reason=reason,
        )
        self.hear(eviction_key(bound.workload, node, bound.generation), event)

    def requested(self, key: str) -> None:
        """Note that the eviction service has requested a granted eviction."""
        event = self.tables[EVICTION_ASKS][key]
        assert isinstance(event, EvictionAsked)
        self.hear(key, event.model_copy(update={"requested": True, "revision": event.revision + 1}))

    def hear(self, key: str, event: EvictionAsked | None) -> None:
        """Read a request, or its end."""
        record = self._input(EVICTION_ASKS, key, event)
        self._keep(EVICTION_ASKS, key, event)
        self.book.note(record)
        self.book.apply(EVICTION_ASKS, key, event)

    # Actions of the budgets.

    def decide(self) -> list[str]:
        """Decide until there is nothing to do now. Returns the answers in short form."""
        before = len(self.answers)
        for _ in range(_MAX_SETTLINGS):
            self.book.decide(self.view, self.now, self._write)
            self.settlings += 1
            wake = self.book.next_wake()
            if wake is None or wake > self.now:
                return [told(answer) for answer in self.answers[before:]]
        raise AssertionError("the budgets do not come to rest")

    def advance(self, seconds: float) -> list[str]:
        """Advance the clock, stopping at each wake."""
        before, end = len(self.answers), self.time + seconds
        self.decide()
        while (wake := self.book.next_wake()) is not None and wake <= at(end):
            self.time = max(self.time, (wake - at(0)).total_seconds())
            self.decide()
        self.time = end
        self.decide()
        return [told(answer) for answer in self.answers[before:]]

    def slot(self, key: str) -> EvictionSlot | None:
        """The slot of an eviction."""
        event = self.tables.get(EVICTION_SLOTS, {}).get(key)
        assert event is None or isinstance(event, EvictionSlot)
        return event

    def count(self, key: str) -> BudgetCounted:
        """The last counts of a budget."""
        event = self.tables[BUDGETS][key]
        assert isinstance(event, BudgetCounted)
        return event

    def _see(self, topic: Topic, key: str, event: Model | None) -> None:
        assert self.view.wants(topic, key), key
        self._keep(topic, key, event)
        self.view.apply(self._input(topic, key, event))

    def _write(self, topic: Topic, key: str, partition_key: str, event: Model | None, cause: Meta) -> None:
        self.written.append((topic, key, event, cause))
        if topic is EVICTION_ANSWERS:
            assert isinstance(event, EvictionAnswered)
            assert partition_key == event.target.key
            self.answers.append(event)
            return
        assert partition_key == FLEET
        self._keep(topic, key, event)
        self.book.apply(topic, key, event)

    def _keep(self, topic: Topic, key: str, event: Model | None) -> None:
        table = self.tables.setdefault(topic, {})
        table.pop(key, None)
        if event is not None:
            table[key] = event

    def _input(self, topic: Topic, key: str, event: Model | None) -> Input:
        self._count += 1
        meta = Meta(id=f"e{self._count}", source="test", type=topic.event_type, time=self.now, subject=key)
        return Input(topic, 0, self._count, key, event, meta)


def told(answer: EvictionAnswered) -> str:
    """An answer in short form."""
    return f"{answer.workload.name} " + ("goes" if answer.granted else "held by " + ", ".join(answer.held_by))
