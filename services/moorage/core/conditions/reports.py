"""Which reports of conditions count: their order, duplicates, and when a condition has changed.

Reports of one condition of one target are ordered by the time at which the probe observed them. An older report is
ignored. Of two reports with the same time the later record wins, unless it is the same report again. If the source has
fallen silent since, only a report that was observed later counts: a report that has counted before must not revive it.

The same rules apply to reports about a workload on a target, separately for each workload.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Self

from moorage_schemas.condition import (
    ConditionChanged,
    ConditionReported,
    ConditionStatus,
    WorkloadConditionChanged,
)
from moorage_schemas.dead_letter import RefusalReason
from moorage_schemas.times import format_time

CLOCKS_DIFFER = timedelta(seconds=1)
"""How far the clock that timestamps report records may be behind the gateway's clock, which timestamps declarations.

A report that is written at most this long before its target is declared still counts. Otherwise a report that was
actually written afterwards could be lost.
"""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a report is refused. It names the field, its value and the rule."""

    reason: RefusalReason
    field: str
    value: str
    rule: str

    @property
    def message(self) -> str:
        """The refusal on one line."""
        return f"{self.field}: invalid value {self.value!r}: {self.rule}"


@dataclass(slots=True)  # not frozen, because creating a frozen one takes twice as long; nothing modifies it
class Held:
    """The stored part of a condition. Its reason and message take the most space and are not stored."""

    target_uid: str
    status: ConditionStatus
    source: str
    last_transition_time: datetime
    last_heartbeat_time: datetime
    generation: int
    report_id: str
    """Empty if the source has fallen silent."""

    accepted_time: datetime
    status_since: datetime

    @classmethod
    def of(cls, event: ConditionChanged, shared: Callable[[str], str] = str) -> Self:
        """The stored part of a condition. Times that earlier versions did not write are taken from the report.

        Args:
            event: the condition.
            shared: returns one object for equal texts, to save memory when there are many conditions.
        """
        return cls(
            target_uid=shared(event.target_uid),
            status=event.status,
            source=shared(event.source),
            last_transition_time=event.last_transition_time,
            last_heartbeat_time=event.last_heartbeat_time,
            generation=event.generation,
            report_id=event.report_id,
            accepted_time=event.accepted_time or event.last_heartbeat_time,
            status_since=event.status_since or event.last_heartbeat_time,
        )


@dataclass(frozen=True, slots=True)
class Accepted:
    """The report counts. Contains the new state of the condition."""

    condition: ConditionChanged


@dataclass(frozen=True, slots=True)
class Stale:
    """The report is older than the known condition."""


@dataclass(frozen=True, slots=True)
class Duplicate:
    """The report has already counted."""


Verdict = Accepted | Stale | Duplicate


def check_key(key: str, target: str) -> Refusal | None:
    """Check that a record's key is empty or the key of the target that the report is about."""
    if not key or key == target:
        return None
    return Refusal(RefusalReason.WRONG_KEY, field="key", value=key, rule=f"must be empty or the target's key, {target}")


def check_time(report: ConditionReported, now: datetime, skew: timedelta) -> Refusal | None:
    """Check that a report is not from the future by more than the allowed clock skew."""
    if report.observed_time <= now + skew:
        return None
    return Refusal(
        RefusalReason.FUTURE_TIME,
        field="observedTime",
        value=format_time(report.observed_time),
        rule=f"must not be more than {skew.total_seconds():g} s after the present, {format_time(now)}",
    )


def check_size(size: int, limit: int) -> Refusal | None:
    """Check that a report is not larger than `limit` bytes."""
    if size <= limit:
        return None
    return Refusal(
        RefusalReason.TOO_LARGE, field="value", value=f"{size} bytes", rule=f"must have at most {limit} bytes"
    )


def unknown_target(report: ConditionReported) -> Refusal:
    """The refusal of a report about a target that is not declared."""
    return Refusal(
        RefusalReason.UNKNOWN_TARGET,
        field="target",
        value=report.target.key,
        rule="must be a declared target; declare it first",
    )


def source_of(report: ConditionReported, sender: str) -> str:
    """The source of a report: the one that it names, or else its sender."""
    return report.source or sender


def earlier_target(report: ConditionReported, written: datetime | None, began: datetime | None) -> Refusal | None:
    """Check that a report is not about an earlier target of the same name.

    Args:
        report: the report.
        written: Kafka's timestamp of its record. The observation time is not used, because it may be arbitrarily early.
        began: when the present target was first declared, truncated to the second.
    """
    if written is None or began is None or written >= began - CLOCKS_DIFFER:
        return None
    return Refusal(
        RefusalReason.UNKNOWN_TARGET,
        field="target",
        value=report.target.key,
        rule=f"must be declared before the report is written, at {format_time(written)}; "
        f"the target that has the name now was declared at {format_time(began)}",
    )


def check_workload(report: ConditionReported) -> Refusal | None:
    """Check that the parts of a workload's name do not contain the separators of keys."""
    if report.workload is None:
        return None
    for field in ("kind", "namespace", "name"):
        value: str = getattr(report.workload, field)
        if "/" in value or "|" in value:
            rule = "must not hold / or |"
            return Refusal(RefusalReason.INVALID_EVENT, field=f"workload.{field}", value=value, rule=rule)
    return None


def judge(
    report: ConditionReported,
    *,
    report_id: str,
    source: str,
    target_uid: str,
    known: Held | None,
    now: datetime,
) -> Verdict:
    """Decide whether a report counts, and the resulting condition of the target or of the workload that it names.

    Args:
        report: a report that passed every check.
        report_id: the id under which the probe sent it.
        source: the CloudEvents source. It is used if the report names no source.
        target_uid: the uid of the target as declared now.
        known: the present condition. If it belongs to an earlier target of the same name, only its generation is used
            and increased.
        now: when the report is accepted.
    """
    same = known is not None and known.target_uid == target_uid
    if known is not None and same:
        if report.observed_time < known.last_heartbeat_time:
            return Stale()
        if report.observed_time == known.last_heartbeat_time and known.report_id in {report_id, ""}:
            return Duplicate()
    unchanged = known if known is not None and same and known.status is report.status else None
    condition = ConditionChanged(
        target=report.target,
        target_uid=target_uid,
        type=report.type,
        status=report.status,
        reason=report.reason,
        message=report.message,
        source=source_of(report, source),
        last_transition_time=report.observed_time if unchanged is None else unchanged.last_transition_time,
        last_heartbeat_time=report.observed_time,
        generation=(known.generation if known is not None else 0) + 1,
        report_id=report_id,
        accepted_time=now,
        status_since=now if unchanged is None else unchanged.status_since,
    )
    if report.workload is not None:
        condition = WorkloadConditionChanged(**dict(condition), workload=report.workload)
    return Accepted(condition)


def newer_condition(event: ConditionChanged, known: ConditionChanged | Held | None) -> bool:
    """Whether a condition supersedes the known one."""
    return known is None or known.target_uid != event.target_uid or event.generation > known.generation
