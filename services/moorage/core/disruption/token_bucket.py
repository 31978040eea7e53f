"""Rates: a bucket that holds at most one token and refills at a rate, as Kubernetes limits its evictions.

With a burst of one, a bucket is all there or drained at a known instant, so it is kept as that instant: there is no
running sum that could drift, and a bucket that is read back from a topic goes on exactly where it was.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import datetime, timedelta
from fractions import Fraction

NO_LIMIT = math.inf
"""The rate that limits nothing."""

_MICROSECONDS = 1_000_000


@dataclass(frozen=True, slots=True)
class Bucket:
    """One token at most, `tokens` of it at `time`, growing by `rate` per second from then on."""

    rate: float
    """Tokens per second: 0 never gives one, `inf` always does."""

    tokens: float
    """0 to 1."""

    time: datetime

    @classmethod
    def full(cls, rate: float, now: datetime) -> Bucket:
        """A bucket from which a token may be taken at once, unless its rate is 0."""
        return cls(rate, 1.0, now)

    def next_token(self) -> datetime | None:
        """The first instant, to the microsecond, at which a whole token is there; None for never."""
        if self.rate <= 0:
            return None
        if math.isinf(self.rate):
            return self.time
        # The decimal that was written, not the binary number next to it: 0.1 per second is every 10 s, exactly.
        missing = max(Fraction(0), 1 - Fraction(repr(self.tokens)))
        wait = math.ceil(missing / Fraction(repr(self.rate)) * _MICROSECONDS)
        try:
            return self.time + timedelta(microseconds=wait)
        except OverflowError:  # after the end of the calendar
            return None

    def has_token(self, now: datetime) -> bool:
        """Whether a token may be taken."""
        if math.isinf(self.rate):
            return True
        due = self.next_token()
        return due is not None and due <= now

    def take(self, now: datetime) -> Bucket:
        """The bucket without its token, which must be there: what filled it beyond one is lost."""
        return Bucket(self.rate, 1.0 if math.isinf(self.rate) else 0.0, now)

    def swap(self, rate: float, now: datetime, *, waited: bool = True) -> Bucket:
        """The bucket at another rate: as Kubernetes' `SwapLimiter` has it, empty unless a whole token was there.

        Args:
            rate: the new one.
            now: from when on.
            waited: whether somebody is kept waiting by this bucket. Its rate being 0, its token cannot be taken, so
                Kubernetes drains the new one always; but then a rate that is 0 for an instant, while an outage is
                being told of node by node, would cost a token that nobody asked for.
        """
        if rate == self.rate:
            return self
        whole = self.has_token(now) or (not waited and self.rate <= 0 and self.tokens >= 1)
        return Bucket(rate, 1.0 if whole else 0.0, now)

    def not_after(self, now: datetime) -> Bucket:
        """The bucket on a clock that was set back: what it waits for must not lie further ahead than one token."""
        return self if self.time <= now else Bucket(self.rate, self.tokens, now)
