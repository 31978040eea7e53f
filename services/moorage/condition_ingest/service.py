"""The service condition-ingest.

Consumes:
    `condition-reports`, which anybody may write; everything in it is checked before it counts.
    Follows `resources` for which targets exist.
Keeps:
    The conditions of each target (changelog `conditions`), and the uid of each declared target.
Emits:
    `conditions`: one record for each report that counts, tombstones for those of targets that are gone.
    `dead-letters`: what is refused, with the reason and the original.
    `condition-reports`: a report that came to another partition than its target's, once, to the right one.

What is written to `conditions` rests on the reports alone, so the same reports give the same bytes. Only whether a
report is from the future, and the time in a dead letter, are a matter of the clock.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import ClassVar

from moorage.core.reports import (
    Accepted,
    Refusal,
    check_key,
    check_size,
    check_time,
    judge,
    newer_condition,
    unknown_target,
)
from moorage.runtime.dead_letters import dead_letter
from moorage.runtime.service import Emit, Input, Malformed, NeedFresh, RawRecord, Service
from moorage.runtime.settings import Settings
from moorage_schemas.base import Model
from moorage_schemas.condition import ConditionChanged, ConditionReported
from moorage_schemas.dead_letter import RefusalReason
from moorage_schemas.envelope import Meta, event_id
from moorage_schemas.resource import ResourceDeclared, target_of_resource
from moorage_schemas.topics import (
    CONDITION_REPORTS,
    CONDITIONS,
    RESOURCES,
    Topic,
    condition_key,
    partition_of,
)

_SOURCE_CHARACTERS = 253
_AT_ONCE = datetime.min.replace(tzinfo=UTC)


@dataclass(slots=True)
class State:
    """One partition."""

    partition: int
    conditions: dict[str, dict[str, ConditionChanged]] = field(default_factory=dict)
    """By target key and type."""

    targets: dict[str, str] = field(default_factory=dict)
    """The uid of each declared target, by its key."""

    orphans: set[str] = field(default_factory=set)
    """Keys of targets that have conditions of a target that is not declared (any more)."""

    def look(self, target: str) -> None:
        """Find out whether a target's conditions have lost their target."""
        uid = self.targets.get(target)
        known = self.conditions.get(target, {})
        if any(uid is None or condition.target_uid != uid for condition in known.values()):
            self.orphans.add(target)
        else:
            self.orphans.discard(target)


class ConditionIngest(Service[State]):
    """Reports in, conditions out."""

    name: ClassVar[str] = "condition-ingest"
    sources: ClassVar[tuple[Topic, ...]] = (CONDITION_REPORTS,)
    changelogs: ClassVar[tuple[Topic, ...]] = (CONDITIONS,)
    follows: ClassVar[tuple[Topic, ...]] = (RESOURCES,)
    refuses: ClassVar[frozenset[Topic]] = frozenset({CONDITION_REPORTS})

    def __init__(self, settings: Settings) -> None:
        self._partitions = settings.partitions
        self._skew = timedelta(seconds=settings.clock_skew)
        self._max_bytes = settings.report_max_bytes
        self._source = f"moorage/{self.name}"

    def new_state(self, partition: int) -> State:
        """An empty state for a partition."""
        return State(partition)

    def apply(self, state: State, topic: Topic, key: str, event: Model | None) -> None:
        """Fold in a condition, or a declared target."""
        if topic is RESOURCES:
            target = target_of_resource(key)
            if target is None:
                return
            if isinstance(event, ResourceDeclared):
                state.targets[target.key] = event.uid
            else:
                state.targets.pop(target.key, None)
            state.look(target.key)
        else:
            self._apply_condition(state, key, event)

    def _apply_condition(self, state: State, key: str, event: Model | None) -> None:
        target, _, condition_type = key.partition("|")
        if isinstance(event, ConditionChanged):
            known = state.conditions.setdefault(target, {})
            if newer_condition(event, known.get(condition_type)):
                known[condition_type] = event
        elif (known := state.conditions.get(target, {})) is not None:
            known.pop(condition_type, None)
            if not known:
                state.conditions.pop(target, None)
        if state.targets.get(target) is None or target in state.orphans:
            state.look(target)

    def process(self, state: State, batch: Sequence[Input], now: datetime, *, fresh: bool = False) -> list[Emit]:
        """Check each report, and write what counts."""
        targets = [record.event.target.key if isinstance(record.event, ConditionReported) else "" for record in batch]
        if not fresh and any(
            target and target not in state.targets and not self._strayed(state, record, target)
            for record, target in zip(batch, targets, strict=True)
        ):
            raise NeedFresh
        emits: list[Emit] = []
        for record, target in zip(batch, targets, strict=True):
            if (emit := self._report(state, record, target, now)) is not None:
                emits.append(emit)
        return emits

    def _strayed(self, state: State, record: Input, target: str) -> bool:
        """Whether a report came to another partition than its target's.

        It is sent on under its own id, as its own cause, by which it is known not to be sent on again.
        """
        return partition_of(target, self._partitions) != state.partition and record.meta.causation_id != record.meta.id

    def _report(self, state: State, record: Input, target: str, now: datetime) -> Emit | None:
        report = record.event
        if not isinstance(report, ConditionReported):
            refusal = Refusal(
                RefusalReason.INVALID_EVENT,
                field="value",
                value="",
                rule="must be a report; a report cannot be taken back by a tombstone",
            )
            return self._dead_letter(record, refusal, now)
        refused = (
            check_size(len(record.raw.value or b"") if record.raw is not None else 0, self._max_bytes)
            or check_key(record.key, target)
            or check_time(report, now, self._skew)
        )
        if refused is not None:
            return self._dead_letter(record, refused, now)
        if self._strayed(state, record, target):
            sent_on = replace(record.meta, causation_id=record.meta.id)
            return Emit(CONDITION_REPORTS, target, target, report, record.meta, meta=sent_on)
        uid = state.targets.get(target)
        if uid is None:
            return self._dead_letter(record, unknown_target(report), now)
        verdict = judge(
            report,
            report_id=record.meta.id,
            source=record.meta.source[:_SOURCE_CHARACTERS],
            target_uid=uid,
            known=state.conditions.get(target, {}).get(report.type),
        )
        if not isinstance(verdict, Accepted):
            return None
        key = condition_key(target, report.type)
        self.apply(state, CONDITIONS, key, verdict.condition)
        return Emit(CONDITIONS, key, target, verdict.condition, record.meta)

    def _dead_letter(self, record: Input, refusal: Refusal, now: datetime) -> Emit:
        bad = Malformed(
            topic=record.topic,
            partition=record.partition,
            offset=record.offset,
            raw=record.raw or RawRecord(key=record.key.encode(), value=None, headers=()),
            reason=refusal.reason.value,
            message=refusal.message,
            field=refusal.field,
            value=refusal.value,
            rule=refusal.rule,
        )
        return dead_letter(self.name, bad, now, record.meta)

    def wake(self, state: State, now: datetime) -> list[Emit]:  # noqa: ARG002 - what is gone is gone at any time
        """Take away the conditions of targets that are gone."""
        emits: list[Emit] = []
        for target in sorted(state.orphans):
            uid = state.targets.get(target)
            for condition_type, condition in sorted(state.conditions.get(target, {}).items()):
                if condition.target_uid == uid:
                    continue
                key = condition_key(target, condition_type)
                self.apply(state, CONDITIONS, key, None)
                emits.append(Emit(CONDITIONS, key, target, None, self._gone(target, condition)))
        state.orphans.clear()
        return emits

    def _gone(self, target: str, condition: ConditionChanged) -> Meta:
        return Meta(
            id=event_id("target-gone", target, condition.target_uid, condition.type, condition.generation),
            source=self._source,
            type=RESOURCES.event_type,
            subject=target,
        )

    def next_wake(self, state: State) -> datetime | None:
        """At once when some target is gone, else never."""
        return _AT_ONCE if state.orphans else None

    def reconcile(self, state: State, now: datetime) -> list[Emit]:
        """Take away the conditions of targets that are gone."""
        for target in state.conditions:
            state.look(target)
        return self.wake(state, now)

    def refuse(self, state: State, bad: Malformed, now: datetime) -> list[Emit]:  # noqa: ARG002 - every partition alike
        """The dead letter of a record that could not be decoded."""
        return [dead_letter(self.name, bad, now)]


def service(settings: Settings) -> ConditionIngest:
    """The service, for the command line to run."""
    return ConditionIngest(settings)
