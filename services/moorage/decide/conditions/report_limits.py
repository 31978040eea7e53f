"""Limits on the sources of reports (docs/authentication.md, "Limits"): rates, bursts and sizes.

A rate is a token bucket. A bucket is stored as the instant at which it will be full, in microseconds: a report takes a
token by moving that instant one token's time into the future (the generic cell rate algorithm). So a bucket is one
number, and full ones need not be stored.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final, Self

from moorage_schemas.dead_letter import RefusalReason
from moorage_schemas.report_rules import Refusal
from moorage_schemas.resources.probe_grants import ProbeLimits

BURST: Final = 10
"""How many times the reports of a second may come at once by default. It suits a probe that reports every ten seconds,
as a kubelet does.
"""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_SECOND: Final = 1_000_000

BucketKey = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Rate:
    """Tokens per second, and how many a full bucket has."""

    qps: int
    burst: int

    @classmethod
    def of(cls, qps: int | None, burst: int | None) -> Self | None:
        """Return a rate. None if there is no limit."""
        return cls(qps, burst or BURST * qps) if qps else None

    @property
    def rule(self) -> str:
        """The rule that it sets."""
        return f"must report at most {self.qps} times per second, and {self.burst} times at once"


@dataclass(frozen=True, slots=True)
class SourceLimits:
    """The limits of one grant, or those of all sources to which no grant sets any."""

    grant: str = ""
    """The name of the grant. Empty for the default."""

    rate: Rate | None = None
    max_bytes: int | None = None

    @classmethod
    def of(cls, grant: str, limits: ProbeLimits | None) -> Self:
        """Return the limits of a grant."""
        if limits is None:
            return cls(grant)
        return cls(grant, Rate.of(limits.qps, limits.burst), limits.max_bytes)

    @property
    def whose(self) -> str:
        """The author of the limits, for messages."""
        return f"by the ProbeGrant {self.grant!r}" if self.grant else "by the limit of all sources"


@dataclass(frozen=True, slots=True)
class Excess(Refusal):
    """The refusal of a report that is more than its source may report."""

    limit: str
    """Which limit it is: the name of a grant, `default`, or `refused`. For metrics."""

    seconds: float
    """After how many seconds it may come again."""


def microseconds(when: datetime) -> int:
    """Return the microseconds since 1970."""
    return (when - _EPOCH) // _MICROSECOND


class TokenBuckets:
    """Token buckets by key. Those beyond a number share one for each limit, so that their number is bounded.

    Args:
        most: how many keys have a bucket of their own.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._full_at: dict[BucketKey, int] = {}
        self._before: dict[BucketKey, int | None] | None = None
        """The buckets at the start of a trial. None without a trial."""

        self._cleaned = 0
        """When full buckets were last removed."""

    def __len__(self) -> int:
        """Return the number of buckets that are stored."""
        return len(self._full_at)

    def begin(self, now: int) -> None:
        """Begin a trial: tokens taken from now on can be returned."""
        self._clean(now)
        self._before = {}

    def end(self, *, keep: bool) -> None:
        """End a trial, and keep the tokens taken, or return them."""
        if not keep:
            for key, full_at in (self._before or {}).items():
                if full_at is None:
                    self._full_at.pop(key, None)
                else:
                    self._full_at[key] = full_at
        self._before = None

    def wait(self, key: BucketKey, rate: Rate, now: int) -> float:
        """Return the seconds until there is a token. 0 if there is one."""
        return max(0.0, self._missing(self._own(key, now), rate, now) / _SECOND)

    def take(self, key: BucketKey, rate: Rate, now: int) -> bool:
        """Take a token. Return whether there was one.

        Args:
            key: names the bucket.
            rate: its rate. It may have been another one before.
            now: the present time in microseconds since 1970.
        """
        key = self._own(key, now)
        if self._missing(key, rate, now) > 0:
            return False
        if self._before is not None:
            self._before.setdefault(key, self._full_at.get(key))
        self._full_at[key] = self._full(key, rate, now) + _SECOND // rate.qps
        return True

    def _missing(self, key: BucketKey, rate: Rate, now: int) -> int:
        token = _SECOND // rate.qps
        return self._full(key, rate, now) - now - (rate.burst - 1) * token

    def _full(self, key: BucketKey, rate: Rate, now: int) -> int:
        # A bucket is never emptier than empty: not after a clock was set back, and not when its burst became smaller.
        empty = now + rate.burst * (_SECOND // rate.qps)
        return min(max(self._full_at.get(key, now), now), empty)

    def _own(self, key: BucketKey, now: int) -> BucketKey:
        if key in self._full_at or len(self._full_at) < self._most:
            return key
        self._clean(now)
        return key if len(self._full_at) < self._most else key[:1]

    def _clean(self, now: int) -> None:
        """Remove full buckets if there is no room for others, but not again and again while none is full."""
        if self._before is None and len(self._full_at) >= self._most and abs(now - self._cleaned) >= _SECOND:
            self._cleaned = now
            self._full_at = {key: full_at for key, full_at in self._full_at.items() if full_at > now}


def check_report_size(size: int, limits: Iterable[SourceLimits]) -> Refusal | None:
    """Check that one of the limits lets a report of a size through. Without limits, every report passes."""
    sizes = [(one.max_bytes, one.whose) for one in limits]
    if not sizes or any(most is None or size <= most for most, _ in sizes):
        return None
    most, whose = max((most or 0, whose) for most, whose in sizes)
    rule = f"must have at most {most} bytes, {whose}"
    return Refusal(RefusalReason.TOO_LARGE, field="value", value=f"{size} bytes", rule=rule)


def excess(source: str, limits: SourceLimits, rate: Rate, seconds: float) -> Excess:
    """Return the refusal of a report that comes too early."""
    rule = f"{rate.rule}, {limits.whose}"
    limit = limits.grant or "default"
    return Excess(RefusalReason.TOO_MANY_REQUESTS, "source", source, rule, limit=limit, seconds=seconds)
