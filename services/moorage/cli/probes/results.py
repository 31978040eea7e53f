"""Results of checks, and the statuses that follow from several of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from moorage_schemas.condition import ConditionStatus

GOOD = frozenset({"Ready", "Healthy", "ManagedClusterConditionAvailable", "HubAcceptedManagedCluster"})
"""Types of conditions that are True when all is well. All others name a problem, as `DiskPressure` does."""


class CheckOutcome(StrEnum):
    """The outcome of one check."""

    OK = "OK"
    PROBLEM = "Problem"
    UNKNOWN = "Unknown"


@dataclass(frozen=True, slots=True)
class CheckResult:
    """One check."""

    outcome: CheckOutcome
    message: str = ""
    reason: str = ""
    """A reason of the check itself. Empty for that of the condition."""

    seconds: float = 0.0
    """How long the answer took, of a check over the network."""


@dataclass(frozen=True, slots=True)
class Observed:
    """The report of a condition."""

    status: ConditionStatus
    reason: str
    message: str = ""


@dataclass(frozen=True, slots=True)
class Meaning:
    """The status and the words of each outcome of a condition."""

    type: str
    ok_status: ConditionStatus
    ok_reason: str = "CheckPassed"
    ok_message: str = ""
    """Replaces the message of a check that passes. Empty keeps it."""

    problem_reason: str = "CheckFailed"
    unknown_reason: str = "CheckUnknown"

    @classmethod
    def of(cls, kind: str, ok_status: str = "", *, ok_reason: str = "", problem_reason: str = "") -> Meaning:
        """Return the meaning of a condition. Without a status of success, it follows from the type."""
        status = ConditionStatus(ok_status) if ok_status else ConditionStatus.TRUE if kind in GOOD else None
        default = cls(kind, status or ConditionStatus.FALSE)
        return cls(
            kind,
            default.ok_status,
            ok_reason or default.ok_reason,
            problem_reason=problem_reason or default.problem_reason,
        )

    def observed(self, result: CheckResult) -> Observed:
        """Return what a result means."""
        if result.outcome is CheckOutcome.OK:
            return Observed(self.ok_status, result.reason or self.ok_reason, self.ok_message or result.message)
        if result.outcome is CheckOutcome.UNKNOWN:
            return Observed(ConditionStatus.UNKNOWN, result.reason or self.unknown_reason, result.message)
        other = ConditionStatus.FALSE if self.ok_status is ConditionStatus.TRUE else ConditionStatus.TRUE
        return Observed(other, result.reason or self.problem_reason, result.message)


@dataclass(slots=True)
class Threshold:
    """How many equal outcomes in a row count: `successes` of OK, `failures` of others.

    Before the first outcome counts, there is none.
    """

    failures: int = 1
    successes: int = 1
    _last: CheckOutcome | None = field(default=None, init=False)
    _count: int = field(default=0, init=False)
    _counted: CheckResult | None = field(default=None, init=False)

    def add(self, result: CheckResult) -> CheckResult | None:
        """Add a result, and return the one that counts now."""
        self._count = self._count + 1 if result.outcome is self._last else 1
        self._last = result.outcome
        if self._count >= self._needed or (self._counted is not None and self._counted.outcome is result.outcome):
            self._counted = result
        return self._counted

    @property
    def pending(self) -> str:
        """The progress of the last outcome towards counting, such as `1 of 3`. Empty if it counts."""
        if self._counted is not None and self._counted.outcome is self._last:
            return ""
        return f"{self._count} of {self._needed}"

    @property
    def _needed(self) -> int:
        return self.successes if self._last is CheckOutcome.OK else self.failures
