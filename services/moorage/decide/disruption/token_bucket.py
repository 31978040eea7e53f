"""Rate limits. A bucket holds at most one token and refills at a rate, as for Kubernetes' evictions.

A bucket stores its tokens at one instant, and everything else is computed from that. So no running sum can drift, and a
bucket that is restored from a topic continues exactly from its stored state.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import datetime, timedelta
from fractions import Fraction

NO_LIMIT = math.inf
"""The rate that sets no limit."""

_MICROSECONDS = 1_000_000


@dataclass(frozen=True, slots=True)
class Bucket:
    """A bucket of at most one token. It has `tokens` at `time` and gains `rate` tokens per second after that.

    Before `time` no token may be taken.
    """

    rate: float
    """Tokens per second. 0 never gives a token, `inf` always does."""

    tokens: float
    """Between 0 and 1."""

    time: datetime

    @classmethod
    def full(cls, rate: float, now: datetime) -> Bucket:
        """Return a full bucket. A token may be taken at once, unless the rate is 0."""
        return cls(rate, 1.0, now)

    def next_token(self) -> datetime | None:
        """Return the first instant, to the microsecond, with a whole token. None if there will never be one."""
        if self.rate <= 0:
            return None
        if math.isinf(self.rate):
            return self.time
        # Use the decimal number as written, not the nearest binary one: 0.1 per second is exactly every 10 s.
        missing = max(Fraction(0), 1 - Fraction(repr(self.tokens)))
        wait = math.ceil(missing / Fraction(repr(self.rate)) * _MICROSECONDS)
        try:
            return self.time + timedelta(microseconds=wait)
        except OverflowError:  # after the end of the calendar
            return None

    def tokens_at(self, now: datetime) -> float:
        """Return the tokens at a time, as a number to show. `has_token` decides exactly."""
        if math.isinf(self.rate):
            return 1.0
        return min(1.0, self.tokens + self.rate * max(0.0, (now - self.time).total_seconds()))

    def has_token(self, now: datetime) -> bool:
        """Return whether a token may be taken."""
        due = self.next_token()
        return due is not None and due <= now

    def take(self, now: datetime) -> Bucket:
        """Take the token, which must be available. Anything beyond one token is lost."""
        return Bucket(self.rate, 1.0 if math.isinf(self.rate) else 0.0, now)

    def swap(self, rate: float, now: datetime, *, begins: datetime | None = None, waited: bool = True) -> Bucket:
        """Change the rate. As in Kubernetes' `SwapLimiter`, the new bucket is empty unless there was a whole token.

        Args:
            rate: the new rate.
            now: the time of the change.
            begins: when a higher rate begins to count; at once by default.
            waited: whether a node is waiting for this bucket. While the rate is 0 the token cannot be taken, so
                Kubernetes always empties the new bucket. But a rate may be 0 for an instant while the nodes of an
                outage are reported one by one. If no node waits, emptying the bucket would waste a token.
        """
        if rate == self.rate:
            return self
        whole = self.has_token(max(now, self.time)) or (not waited and self.rate <= 0 and self.tokens >= 1)
        return Bucket(rate, 1.0 if whole else 0.0, begins if begins is not None and rate > self.rate else now)

    def not_after(self, time: datetime) -> Bucket:
        """Correct the bucket for a clock that was set back: its next token is at most one refill after this time."""
        return self if self.time <= time else Bucket(self.rate, self.tokens, time)
