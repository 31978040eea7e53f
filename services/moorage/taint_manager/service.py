"""The service taint-manager, the only writer of `taints`.

Consumes:
    `conditions`, and of `resources` the targets with people's wishes about their taints.
Keeps:
    The latest of both for each target (source tables), and the taints of each target (changelog `taints`).
Emits:
    `taints`: the full set of a target, each time it changes; a tombstone when the target is gone.

`timeAdded` of a taint that a condition brings is the time at which the condition was accepted: the CloudEvents time of
its record in `conditions`, which is durable, so that the same topics give the same bytes. It is not the probe's
time: a late report must not make a deadline early. That of a person's taint is the time of the wish.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import ClassVar

from moorage.core.reports import newer_condition
from moorage.core.tainting import newer_taints, next_taints
from moorage.runtime.service import Emit, Input, Service
from moorage.runtime.settings import Settings
from moorage_schemas.base import Model
from moorage_schemas.condition import ConditionChanged
from moorage_schemas.envelope import Meta, event_id
from moorage_schemas.resource import ResourceDeclared, target_of_resource
from moorage_schemas.taint import TargetTainted
from moorage_schemas.topics import CONDITIONS, RESOURCES, TAINTS, Topic


@dataclass(slots=True)
class State:
    """One partition."""

    resources: dict[str, ResourceDeclared] = field(default_factory=dict)
    """By target key."""

    conditions: dict[str, dict[str, ConditionChanged]] = field(default_factory=dict)
    """By target key and type."""

    taints: dict[str, TargetTainted] = field(default_factory=dict)
    """By target key."""


class TaintManager(Service[State]):
    """Conditions and targets in, taints out."""

    name: ClassVar[str] = "taint-manager"
    sources: ClassVar[tuple[Topic, ...]] = (CONDITIONS, RESOURCES)
    source_tables: ClassVar[frozenset[Topic]] = frozenset({CONDITIONS, RESOURCES})
    changelogs: ClassVar[tuple[Topic, ...]] = (TAINTS,)

    def new_state(self, partition: int) -> State:  # noqa: ARG002 - every partition begins alike
        """An empty state for a partition."""
        return State()

    def apply(self, state: State, topic: Topic, key: str, event: Model | None) -> None:
        """Fold in a condition, a target, or a set of taints."""
        if topic is CONDITIONS:
            _apply_condition(state, key, event)
        elif topic is RESOURCES:
            target = target_of_resource(key)
            if target is None:
                return
            if isinstance(event, ResourceDeclared):
                known = state.resources.get(target.key)
                if known is None or known.uid != event.uid or known.version < event.version:
                    state.resources[target.key] = event
            else:
                state.resources.pop(target.key, None)
        elif isinstance(event, TargetTainted):
            if newer_taints(event, state.taints.get(key)):
                state.taints[key] = event
        else:
            state.taints.pop(key, None)

    def process(
        self,
        state: State,
        batch: Sequence[Input],
        now: datetime,
        *,
        fresh: bool = False,  # noqa: ARG002 - it follows nothing
    ) -> list[Emit]:
        """Fold each record in, and write the taints that it changes."""
        emits: list[Emit] = []
        for record in batch:
            event = record.event
            target = _target_key(record)
            beat = isinstance(event, ConditionChanged) and _only_a_heartbeat(state, target, event)
            self.apply(state, record.topic, record.key, event)
            if target is not None and not beat:
                reported = event.last_heartbeat_time if isinstance(event, ConditionChanged) else None
                emits += self._decide(state, target, record.meta, record.meta.time or now, reported)
        return emits

    def reconcile(self, state: State, now: datetime) -> list[Emit]:
        """Work every target out anew; what differs is repaired."""
        emits: list[Emit] = []
        for target in sorted(state.resources.keys() | state.taints.keys()):
            known = state.taints.get(target)
            cause = Meta(
                id=event_id("reconcile", TAINTS.short, target, known.generation if known is not None else 0),
                source=f"moorage/{self.name}",
                type=TAINTS.event_type,
                time=now,
                subject=target,
            )
            emits += self._decide(state, target, cause, now, None)
        return emits

    def _decide(self, state: State, target: str, cause: Meta, time: datetime, reported: datetime | None) -> list[Emit]:
        resource = state.resources.get(target)
        known = state.taints.get(target)
        if resource is None:
            # Taints of what is not declared are of no use; conditions may come before their target's record does.
            if known is None:
                return []
            event = None
        else:
            event = next_taints(known, resource, state.conditions.get(target, {}), time, reported)
            if event is None:
                return []
        self.apply(state, TAINTS, target, event)
        return [Emit(TAINTS, target, target, event, cause)]


def _apply_condition(state: State, key: str, event: Model | None) -> None:
    target, _, condition_type = key.partition("|")
    if isinstance(event, ConditionChanged):
        known = state.conditions.setdefault(target, {})
        if newer_condition(event, known.get(condition_type)):
            known[condition_type] = event
    elif (known := state.conditions.get(target, {})).pop(condition_type, None) is not None and not known:
        del state.conditions[target]


def _only_a_heartbeat(state: State, target: str | None, event: ConditionChanged) -> bool:
    """Whether a condition says nothing that has not been decided on."""
    known = state.conditions.get(target or "", {}).get(event.type)
    return known is not None and known.status is event.status and known.target_uid == event.target_uid


def _target_key(record: Input) -> str | None:
    """The key of the target that a record is about; None when it is about none."""
    if record.topic is CONDITIONS:
        return record.key.partition("|")[0]
    target = target_of_resource(record.key)
    return None if target is None else target.key


def service(settings: Settings) -> TaintManager:  # noqa: ARG001 - every service is made alike
    """The service, for the command line to run."""
    return TaintManager()
