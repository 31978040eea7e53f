"""Which reports of conditions count: their order, duplicates, and when a condition has changed.

Reports of one condition of one target are ordered by the time at which the probe observed them. An older one is
ignored; of two with the same time the later record wins, unless it is the same report come twice. When the source has
fallen silent since, only a report that was observed later counts: no report that has counted may revive it.

A report about a workload on a target goes by the same rules, for each workload by itself.
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
"""By how much the clock that times a report's record may be behind the gateway's, which times declarations.

A report that is written this little before its target is declared counts, lest one be lost that was written after.
"""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a report is refused; names the field, its value and the rule."""

    reason: RefusalReason
    field: str
    value: str
    rule: str

    @property
    def message(self) -> str:
        """The refusal in one line."""
        return f"{self.field}: invalid value {self.value!r}: {self.rule}"


@dataclass(frozen=True, slots=True)
class Held:
    """What has to be remembered of a condition; its words, which take the most room, are not."""

    target_uid: str
    status: ConditionStatus
    source: str
    last_transition_time: datetime
    last_heartbeat_time: datetime
    generation: int
    report_id: str
    """Empty when its source has fallen silent."""

    accepted_time: datetime
    status_since: datetime

    @classmethod
    def of(cls, event: ConditionChanged, shared: Callable[[str], str] = str) -> Self:
        """What to remember of a condition; for the times that earlier versions did not write, the report's stands.

        Args:
            event: the condition.
            shared: gives one object for equal texts, where many conditions are held.
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
    """The report counts; the condition as it is from now on."""

    condition: ConditionChanged


@dataclass(frozen=True, slots=True)
class Stale:
    """The report is older than what is known."""


@dataclass(frozen=True, slots=True)
class Duplicate:
    """The report has counted already."""


Verdict = Accepted | Stale | Duplicate


def check_key(key: str, target: str) -> Refusal | None:
    """A record's key is the key of the target that the report is about, or empty."""
    if not key or key == target:
        return None
    return Refusal(RefusalReason.WRONG_KEY, field="key", value=key, rule=f"must be empty or the target's key, {target}")


def check_time(report: ConditionReported, now: datetime, skew: timedelta) -> Refusal | None:
    """A report is not from the future, by more than clocks may differ."""
    if report.observed_time <= now + skew:
        return None
    return Refusal(
        RefusalReason.FUTURE_TIME,
        field="observedTime",
        value=format_time(report.observed_time),
        rule=f"must not be more than {skew.total_seconds():g} s after the present, {format_time(now)}",
    )


def check_size(size: int, limit: int) -> Refusal | None:
    """A report is no larger than `limit` bytes."""
    if size <= limit:
        return None
    return Refusal(
        RefusalReason.TOO_LARGE, field="value", value=f"{size} bytes", rule=f"must have at most {limit} bytes"
    )


def unknown_target(report: ConditionReported) -> Refusal:
    """A report is about a target that is declared."""
    return Refusal(
        RefusalReason.UNKNOWN_TARGET,
        field="target",
        value=report.target.key,
        rule="must be a declared target; declare it first",
    )


def source_of(report: ConditionReported, sender: str) -> str:
    """Who reports: the source that the report names, else whoever sent it."""
    return report.source or sender


def earlier_target(report: ConditionReported, written: datetime | None, began: datetime | None) -> Refusal | None:
    """A report is about the target that was declared when it was written, and not about a later one of its name.

    Args:
        report: what was reported.
        written: Kafka's time of its record. The time of observation does not count, for it may be any earlier time.
        began: when the target that is declared now was declared first, cut to the second.
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
    """The parts of a workload's name are free of the signs that divide keys."""
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
    """Whether a report counts, and what the condition is then: of the target, or of the workload that it names.

    Args:
        report: a report that passed every check.
        report_id: the id under which the probe sent it.
        source: the CloudEvents source; stands in when the report names no source.
        target_uid: the uid of the target as it is declared now.
        known: the condition as it was. What is known of an earlier target of that name does not count,
            but the generation goes on from it.
        now: when the report is taken up.
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
    """Whether a condition supersedes the one that is known."""
    return known is None or known.target_uid != event.target_uid or event.generation > known.generation
