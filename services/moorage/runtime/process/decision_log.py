"""The lines about decisions: each kind has a rate, and what goes beyond it is counted.

A mass eviction has thousands of decisions, so a line must cost little. JSON lines are written without structlog's
processors, unless a line has a word of which a secret could be a part. The decisions of a fraction of a second are
described together: one by one, between the work of the services, each would take three times as long.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from typing import Final

import structlog

from moorage.runtime.process.logs import Line, lowest_level, time_text, write_lines
from moorage.runtime.settings.process_settings import Settings

log = structlog.get_logger(__name__)

LEFT_OUT: Final = "decisions.left_out"
"""The line with the numbers of the lines that were left out."""

REPORT_SECONDS: Final = 10.0
"""Seconds between two lines about the lines that were left out."""

TOGETHER_SECONDS: Final = 0.25
"""Seconds for which decisions are collected before they are described."""

_MOST_TOGETHER: Final = 50
"""The number of jobs that are not collected any longer."""

_BURST: Final = 5
"""The seconds whose lines may be written at once."""


class _Bucket:
    """The lines of one kind that may still be written."""

    __slots__ = ("at", "tokens")

    def __init__(self, tokens: float, at: float) -> None:
        self.tokens = tokens
        self.at = at


class DecisionLog:
    """The lines of the decisions of a process.

    Args:
        per_second: how many lines of each kind may be written per second; 0 for no limit.
        clock: returns seconds that do not go back.
    """

    def __init__(self, per_second: int, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate = float(per_second)
        self._most = self._rate * _BURST
        self._clock = clock
        self._buckets: dict[str, _Bucket] = {}
        self._left_out: dict[str, int] = {}
        self._since = 0.0
        self._level = logging.NOTSET
        self._lines: list[Line] = []
        self._time = ""
        self._jobs: list[tuple[float, Callable[[], None]]] = []
        self._waiting: asyncio.TimerHandle | None = None
        self._now = 0.0
        self._reporting: asyncio.TimerHandle | None = None

    @property
    def level(self) -> int:
        """The lowest level that is logged."""
        return lowest_level()

    def later(self, job: Callable[[], None]) -> None:
        """Describe some decisions soon. Their lines have the present time.

        Args:
            job: calls `wants` and `write`.
        """
        self._jobs.append((time.time(), job))
        if len(self._jobs) >= _MOST_TOGETHER:
            self.flush()
        elif self._waiting is None:
            try:
                loop = asyncio.get_running_loop()
            except RuntimeError:
                self.flush()
            else:
                self._waiting = loop.call_later(TOGETHER_SECONDS, self.flush)

    def flush(self) -> None:
        """Describe and write what waits."""
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None
        jobs, self._jobs = self._jobs, []
        self._level, self._now = lowest_level(), self._clock()
        for at, job in jobs:
            self._time = time_text(at)
            try:
                job()
            except Exception:
                # The decision is committed, and right without its line.
                log.exception("decision.not_logged")
        lines, self._lines = self._lines, []
        if lines:
            write_lines(lines)

    def wants(self, kind: str, level: int = logging.INFO) -> bool:
        """Return whether a line of this kind is to be written now. If it is not, for its rate, it is counted."""
        if level < self._level:
            return False
        if not self._rate:
            return True
        now = self._now
        bucket = self._buckets.get(kind)
        if bucket is None:
            bucket = self._buckets[kind] = _Bucket(self._most, now)
        bucket.tokens = min(self._most, bucket.tokens + (now - bucket.at) * self._rate)
        bucket.at = now
        if bucket.tokens >= 1:
            bucket.tokens -= 1
            return True
        if not self._left_out:
            self._begin_report(now)
        self._left_out[kind] = self._left_out.get(kind, 0) + 1
        return False

    def write(self, kind: str, fields: Mapping[str, object], level: int = logging.INFO) -> None:
        """Write a line. Empty fields are left out."""
        self._lines.append(Line(self._time, kind, fields, level))

    def report(self) -> None:
        """Write how many lines were left out since the last report, if any were."""
        self.flush()
        if self._reporting is not None:
            self._reporting.cancel()
            self._reporting = None
        left_out, self._left_out = self._left_out, {}
        if left_out:
            seconds = round(self._clock() - self._since, 1)
            total = sum(left_out.values())
            fields = {"count": total, "kinds": left_out, "seconds": seconds}
            write_lines([Line(time_text(time.time()), LEFT_OUT, fields, logging.WARNING)])

    def _begin_report(self, now: float) -> None:
        self._since = now
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:  # no loop: the end of the process reports it
            return
        self._reporting = loop.call_later(REPORT_SECONDS, self.report)


class _Shared:
    """The log of this process. All of its services share one limit."""

    log: DecisionLog | None = None


def decision_log(settings: Settings) -> DecisionLog:
    """Return the log of this process. The first call determines its limit."""
    found = _Shared.log
    if found is None:
        found = _Shared.log = DecisionLog(settings.decision_log_qps)
    return found


def report_left_out() -> None:
    """Write what was left out, before the process ends."""
    if _Shared.log is not None:
        _Shared.log.report()
