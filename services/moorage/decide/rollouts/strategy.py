"""The terms of a rollout strategy: how it proceeds, its limits and its deadlines."""

from __future__ import annotations

import math
import re
from collections.abc import Collection
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Final

from moorage.decide.kubernetes.field_errors import ErrorKind, FieldError

NO_DEADLINE: Final = "None"

_DEADLINE: Final = re.compile(r"[0-9]+[hms|]|.*None\Z", re.ASCII)
"""OCM's pattern, which requires only that a duration begins like one. The rest is up to the parser of durations."""

_PART: Final = re.compile(r"([0-9]+\.?[0-9]*|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h)", re.ASCII)
_UNITS: Final = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_LONGEST: Final = 2**63 / 1e9
"""The end of Go's durations, in seconds."""

_DIGITS: Final = r"[0-9](_?[0-9])*"
_NUMBER: Final = re.compile(
    rf"[+-]?({_DIGITS}(\.({_DIGITS})?)?|\.{_DIGITS})(e[+-]?{_DIGITS})?|[+-]?(inf|infinity)|nan",
    re.IGNORECASE | re.ASCII,
)
"""Numbers as Go's `ParseFloat` accepts them, except hexadecimal ones."""

_MOST: Final = 2**63
_NOT_A_DURATION: Final = "must be a duration such as 90s, 5m or 1h30m"


class StrategyError(ValueError):
    """A field of a strategy is invalid."""

    def __init__(self, field: str, value: object, rule: str) -> None:
        self.error = FieldError(field, ErrorKind.INVALID, value, rule)
        super().__init__(str(self.error))


class RolloutType(StrEnum):
    """How a rollout proceeds."""

    ALL = "All"
    """To all clusters at once."""

    PROGRESSIVE = "Progressive"
    """A limited number of clusters at a time, in the order of their names."""

    PROGRESSIVE_PER_GROUP = "ProgressivePerGroup"
    """One decision group at a time."""


@dataclass(frozen=True, slots=True, order=True)
class GroupKey:
    """A decision group of a placement, or a reference to one or several.

    In a reference, a name stands for all groups with it. Without a name, the index counts.
    """

    index: int = 0
    name: str = ""


@dataclass(frozen=True, slots=True)
class Amount:
    """A number of clusters, or a percentage of them."""

    number: int = 0
    percent: float | None = None

    @classmethod
    def of(cls, value: int | str, field: str) -> Amount:
        """Parse an amount. Raises StrategyError if a text is not a percentage."""
        if isinstance(value, int):
            return cls(number=value)
        text = value.removesuffix("%")
        if text == value or not _NUMBER.fullmatch(text):
            raise StrategyError(field, value, "must be a number of clusters or a percentage such as 25%")
        return cls(percent=float(text))

    def of_total(self, total: int, default: int) -> int:
        """Return the number of clusters, rounded up. The default replaces 0 and what exceeds the total."""
        wanted = float(self.number) if self.percent is None else self.percent / 100 * total
        if not math.isfinite(wanted) or abs(wanted) >= _MOST:
            return default
        count = self.number if self.percent is None else math.ceil(wanted)
        return count if 0 < count <= total else default


@dataclass(frozen=True, slots=True)
class RolloutTerms:
    """A parsed strategy.

    Attributes:
        type: how it proceeds.
        min_success: how long a cluster must have succeeded before the next ones follow (the soak time).
        deadline: how long a cluster may progress or stay failed until it has timed out. None means forever.
        max_failures: how many failed clusters do not stop the rollout.
        max_concurrency: how many clusters may be in progress at a time. 0 means all.
        mandatory: the groups that come first, and in which no cluster may fail.
    """

    type: RolloutType = RolloutType.ALL
    min_success: timedelta = timedelta(0)
    deadline: timedelta | None = None
    max_failures: Amount = Amount()
    max_concurrency: Amount = Amount()
    mandatory: tuple[GroupKey, ...] = ()

    @classmethod
    def of(
        cls,
        type: str,  # noqa: A002 - the name of the API's field
        *,
        min_success: str = "",
        deadline: str = "",
        max_failures: int | str = 0,
        max_concurrency: int | str = 0,
        mandatory: Collection[tuple[str, int]] = (),
    ) -> RolloutTerms:
        """Parse the fields of a strategy, in the form of the API.

        Args:
            type: one of `RolloutType`.
            min_success: the soak time.
            deadline: the progress deadline. Empty or `None` means none.
            max_failures: a number or a percentage.
            max_concurrency: a number or a percentage.
            mandatory: the names and indexes of the mandatory groups. An index counts only without a name.

        Raises:
            StrategyError: a field is invalid.
        """
        try:
            kind = RolloutType(type)
        except ValueError:
            raise StrategyError("type", type, f"must be one of {', '.join(RolloutType)}") from None
        part = kind[0].lower() + kind[1:]
        limit = deadline_of(deadline, f"{part}.progressDeadline")
        if kind is RolloutType.ALL:
            # Nothing follows that would have to wait, so only the deadline counts.
            return cls(kind, deadline=limit)
        failures = Amount.of(max_failures, f"{part}.maxFailures")
        is_limited = kind is RolloutType.PROGRESSIVE
        return cls(
            kind,
            min_success=duration_of(min_success or "0", f"{part}.minSuccessTime"),
            deadline=limit,
            max_failures=failures,
            max_concurrency=Amount.of(max_concurrency, f"{part}.maxConcurrency") if is_limited else Amount(),
            mandatory=tuple(GroupKey(0, name) if name else GroupKey(index) for name, index in mandatory),
        )


def deadline_of(text: str, field: str) -> timedelta | None:
    """Parse a deadline. None for `None` or an empty text: there is none. Raises StrategyError."""
    if text in {"", NO_DEADLINE}:
        return None
    if not _DEADLINE.match(text):
        raise StrategyError(field, text, f"{_NOT_A_DURATION}, or {NO_DEADLINE}")
    return duration_of(text, field)


def duration_of(text: str, field: str) -> timedelta:
    """Parse a duration as Go does. Raises StrategyError."""
    unsigned = text[1:] if text[:1] in {"+", "-"} else text
    parts = _PART.findall(unsigned)
    if unsigned != "0" and (not parts or "".join(number + unit for number, unit in parts) != unsigned):
        raise StrategyError(field, text, _NOT_A_DURATION)
    seconds = sum(float(number) * _UNITS[unit] for number, unit in parts)
    if seconds >= _LONGEST:
        raise StrategyError(field, text, _NOT_A_DURATION)
    return timedelta(seconds=-seconds if text.startswith("-") else seconds)
