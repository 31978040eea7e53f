"""Which reports of conditions count: their order, duplicates, and when a condition has changed.

Reports of one condition of one target are ordered by the time at which the probe observed them. An older one is
ignored; of two with the same time the later record wins, unless it is the same report come twice.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from moorage_schemas.condition import ConditionChanged, ConditionReported
from moorage_schemas.dead_letter import RefusalReason
from moorage_schemas.times import format_time


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


def judge(
    report: ConditionReported,
    *,
    report_id: str,
    source: str,
    target_uid: str,
    known: ConditionChanged | None,
) -> Verdict:
    """Whether a report counts, and what the condition is then.

    Args:
        report: a report that passed every check.
        report_id: the id under which the probe sent it.
        source: the CloudEvents source; stands in when the report names no source.
        target_uid: the uid of the target as it is declared now.
        known: the condition as it was. What is known of an earlier target of that name does not count,
            but the generation goes on from it.
    """
    same = known is not None and known.target_uid == target_uid
    if known is not None and same:
        if report.observed_time < known.last_heartbeat_time:
            return Stale()
        if report.observed_time == known.last_heartbeat_time and report_id == known.report_id:
            return Duplicate()
    unchanged = known is not None and same and known.status is report.status
    return Accepted(
        ConditionChanged(
            target=report.target,
            target_uid=target_uid,
            type=report.type,
            status=report.status,
            reason=report.reason,
            message=report.message,
            source=report.source or source,
            last_transition_time=(
                known.last_transition_time if known is not None and unchanged else report.observed_time
            ),
            last_heartbeat_time=report.observed_time,
            generation=(known.generation if known is not None else 0) + 1,
            report_id=report_id,
        )
    )


def newer_condition(event: ConditionChanged, known: ConditionChanged | None) -> bool:
    """Whether a condition supersedes the one that is known."""
    return known is None or known.target_uid != event.target_uid or event.generation > known.generation
