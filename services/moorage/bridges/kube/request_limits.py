"""Limits of the requests to one API server: how many are in flight, and optionally how many are sent in a second.

The limit in flight follows the server, as TCP's congestion window follows a network. While it is used up and the
answers are as fast as usual, it grows: doubling first, and by one per flight after it has shrunk once. A refusal for
overload halves it. Answers that are much slower than usual shrink it by a quarter, because further requests would only
wait in the server.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Hashable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

MOST: Final = 128
"""The default of the upper bound. A kube-apiserver serves 200 changing requests at a time by default."""

_FIRST: Final = 16.0
_REFUSED, _SLOWED = 0.5, 0.75
"""The factors by which the limit shrinks."""

_SLOW: Final = 3.0
"""Answers that take so many times as long as the fastest of their kind are slow."""

_UNNOTICED: Final = 0.1  # seconds; answers that come within them are not slow
_SLOWED_AT_LEAST: Final = 4.0
"""Slow answers alone do not shrink the limit below this, because a server may have become slower for good."""

_WINDOW: Final = 8  # the fewest answers that are judged together
_REMEMBERED: Final = 60.0  # seconds for at least which the fastest answer counts; twice that at most


class RequestLimiter:
    """A token bucket. Requests are served in order.

    Args:
        qps: the tokens that are added in a second. 0 sets no limit.
        burst: the number of tokens that it holds.
    """

    def __init__(self, qps: float, burst: int) -> None:
        self._qps = qps
        self._burst = float(max(1, burst))
        self._tokens = self._burst
        self._at: float | None = None

    async def take(self) -> None:
        """Take a token, or wait for it."""
        if not self._qps:
            return
        now = asyncio.get_running_loop().time()
        if self._at is not None:
            self._tokens = min(self._burst, self._tokens + (now - self._at) * self._qps)
        self._at = now
        self._tokens -= 1  # below zero it is a place in the queue
        if self._tokens < 0:
            await asyncio.sleep(-self._tokens / self._qps)


@dataclass(slots=True)
class _Fastest:
    """The fastest answer of one kind of request in the last minutes."""

    seconds: float
    since: float
    before: float
    """The fastest of the minute before."""

    def add(self, seconds: float, now: float) -> float:
        """Note an answer. Return the seconds of the fastest one."""
        if now - self.since >= _REMEMBERED:
            self.before, self.seconds, self.since = self.seconds, seconds, now
        self.seconds = min(self.seconds, seconds)
        return min(self.seconds, self.before)


class Flight:
    """A request in flight."""

    __slots__ = ("began", "is_full")

    def __init__(self, began: float, *, is_full: bool) -> None:
        self.began = began
        self.is_full = is_full
        """Whether it took the last place."""


class FlightLimiter:
    """A limit of the requests in flight that follows the server. Requests are served in order.

    Args:
        most: the upper bound.
    """

    def __init__(self, most: int = MOST) -> None:
        self._most = float(max(1, most))
        self._limit = min(_FIRST, self._most)
        self._has_shrunk = False
        self._shrunk_at = float("-inf")
        self._in_flight = 0
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._fastest: dict[Hashable, _Fastest] = {}
        self._answers = 0
        self._slow = 0

    @property
    def limit(self) -> int:
        """How many requests may be in flight now."""
        return int(self._limit)

    @property
    def in_flight(self) -> int:
        """How many requests are in flight."""
        return self._in_flight

    @asynccontextmanager
    async def place(self, *, is_next: bool = False) -> AsyncIterator[Flight]:
        """Wait for a place in flight, and keep it for one request.

        Args:
            is_next: whether the request goes before those that wait, because it completes an act.
        """
        await self._enter(is_next=is_next)
        try:
            yield Flight(asyncio.get_running_loop().time(), is_full=self._in_flight >= self.limit)
        finally:
            self._in_flight -= 1
            if self._waiting:  # An act that goes on at once with its next request comes before them.
                asyncio.get_running_loop().call_soon(self._let_in)

    def answered(self, flight: Flight, kind: Hashable) -> None:
        """Note that the server has answered, whatever it said. Requests of one kind usually take equally long."""
        now = asyncio.get_running_loop().time()
        seconds = now - flight.began
        known = self._fastest.setdefault(kind, _Fastest(seconds, now, seconds))
        self._slow += seconds > max(_UNNOTICED, _SLOW * known.add(seconds, now))
        self._answers += 1
        if self._answers < max(_WINDOW, self.limit):
            is_slowed = False
        else:
            is_slowed = self._slow * 2 > self._answers
            self._answers = self._slow = 0
        if is_slowed:
            self._shrink(flight, max(self._limit * _SLOWED, min(_SLOWED_AT_LEAST, self._limit)))
        elif flight.is_full and not self._slow:
            grown = self._limit + (1.0 / self._limit if self._has_shrunk else 1.0)
            self._limit = min(grown, self._most)

    def refused(self, flight: Flight) -> None:
        """Note that the server had too much to do for a request. Those that were sent together count once."""
        self._shrink(flight, max(self._limit * _REFUSED, 1.0))

    def _shrink(self, flight: Flight, limit: float) -> None:
        if flight.began < self._shrunk_at:
            return
        self._limit, self._has_shrunk = limit, True
        self._shrunk_at = asyncio.get_running_loop().time()
        self._answers = self._slow = 0

    async def _enter(self, *, is_next: bool) -> None:
        turn = asyncio.get_running_loop().create_future()
        if is_next:
            self._waiting.appendleft(turn)
        else:
            self._waiting.append(turn)
        self._let_in()
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():  # the place was given in the same instant
                self._in_flight -= 1
                self._let_in()
            raise

    def _let_in(self) -> None:
        while self._waiting and self._in_flight < self.limit:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                self._in_flight += 1
