"""Rules of reports that need nothing but the report. The gateway, condition-ingest and the SDK apply the same ones."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from moorage_schemas.condition import EVICTED, ConditionReported
from moorage_schemas.dead_letter import RefusalReason
from moorage_schemas.times import format_time

CLOCK_SKEW: Final = timedelta(seconds=30)
"""By how much the time of a report may be in the future, unless the fleet sets another value."""

_SOURCE: Final = re.compile(r"[!-~]{1,253}")


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


def check_source(source: str) -> str | None:
    """Check the name of a source. Returns the rule that it breaks.

    CloudEvents requires a URI reference, which has no spaces. The gateway also accepts the names of users, which may
    have some, so this rule is for the programs that choose a name.
    """
    return None if _SOURCE.fullmatch(source) else "must be 1 to 253 printable ASCII characters without spaces"


def check_workload(report: ConditionReported) -> Refusal | None:
    """Check that the names in a report do not contain the separators of keys, and that it names a binding.

    An acknowledgement counts for exactly one binding, so one that names none is refused.
    """
    names_one = bool(report.workload_uid and report.binding_generation)
    if report.workload is None:
        return _unnamed(report, "must be empty in a report that is about no workload") if _names_any(report) else None
    if _names_any(report) and not names_one:
        return _unnamed(report, "must be given together with the other of workloadUid and bindingGeneration")
    if report.type == EVICTED and not names_one:
        rule = "must name the binding that was evicted, with its uid in workloadUid and its generation"
        return Refusal(
            RefusalReason.INVALID_EVENT, field="bindingGeneration", value=str(report.binding_generation), rule=rule
        )
    for field in ("kind", "namespace", "name"):
        value: str = getattr(report.workload, field)
        if "/" in value or "|" in value:
            rule = "must not hold / or |"
            return Refusal(RefusalReason.INVALID_EVENT, field=f"workload.{field}", value=value, rule=rule)
    return None


def _names_any(report: ConditionReported) -> bool:
    return bool(report.workload_uid or report.binding_generation)


def _unnamed(report: ConditionReported, rule: str) -> Refusal:
    """Return the refusal of a report that names half a binding, or a binding without a workload."""
    field = "workloadUid" if report.workload_uid else "bindingGeneration"
    value = report.workload_uid or str(report.binding_generation)
    return Refusal(RefusalReason.INVALID_EVENT, field=field, value=value, rule=rule)
