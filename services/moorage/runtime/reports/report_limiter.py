"""Limits of reports in Kafka, and the counts of dropped ones, for one partition.

Each partition counts for itself, as each broker does with Kafka's quotas. A bucket that partitions share would depend
on the order in which they are read. The time is that of the records, which the broker sets. So reports that have
waited, for example while this service was down, are judged by their time of writing, and a replay decides the same.

Nothing of this is stored. After a restart the buckets are full, and more reports may count than a limit allows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

import structlog
from prometheus_client import Counter

from moorage.decide.conditions.report_limits import Excess, Rate, SourceLimits, TokenBuckets, excess, microseconds
from moorage.runtime.process import metrics
from moorage.runtime.service import Input
from moorage_schemas.dead_letter import RefusalReason
from moorage_schemas.report_rules import Refusal

log = structlog.get_logger(__name__)

MOST: Final = 1000
"""How many sources of a partition have a bucket and a count of their own. Further ones of a grant share one."""

REFUSED: Final = Rate(1, 100)
"""The limit of a source's reports that are refused because of their writer. Each costs a check of its signature, a
request for the present grants, and a dead letter. Beyond this they are dropped unseen.
"""

REFUSED_LIMIT: Final = "refused"
"""The name of that limit."""

RefusedKey = tuple[str, ...]
"""Whose refusals are counted together: why, the source, and the id of the key."""

WINDOW: Final = timedelta(minutes=1)
"""How long dropped reports are counted before their next dead letter."""


@dataclass(frozen=True, slots=True)
class Dropped:
    """Dropped reports of a source, for a dead letter."""

    record: Input
    """The last one of them."""

    why: Excess
    count: int


@dataclass(slots=True)
class _Window:
    ends: datetime
    counter: Counter
    count: int = 0
    """The number of dropped reports without a dead letter."""

    record: Input | None = None
    """The last one of them."""

    why: Excess | None = None


class ReportLimiter:
    """The counts of the reports of a partition's sources."""

    def __init__(self) -> None:
        self._buckets = TokenBuckets(MOST)
        self._refused = TokenBuckets(MOST)
        self._windows: dict[tuple[str, str], _Window] = {}
        """By limit and source, in the order in which they end."""

        self._changes = 0
        self._closed: dict[tuple[str, bytes], tuple[int, int, Excess]] = {}
        """The exhausted sources, by source and key: from when until when, and why. So a flood costs a look-up."""

    def begin(self, now: datetime, changes: int) -> None:
        """Begin to judge reports.

        Args:
            now: the present time.
            changes: those of the grants. Sources that were refused before a change are judged again.
        """
        if changes != self._changes:
            self._changes, self._refused = changes, TokenBuckets(MOST)
            self._closed.clear()
        at = microseconds(now)
        self._buckets.begin(at)
        self._refused.begin(at)

    def end(self, *, keep: bool) -> None:
        """Keep the judgements, or undo them because they will be repeated."""
        self._buckets.end(keep=keep)
        self._refused.end(keep=keep)
        if not keep or len(self._closed) > MOST:
            self._closed.clear()

    def close(self, who: tuple[str, bytes], at: int, why: Excess) -> None:
        """Note that a source is exhausted, for as long as that lasts."""
        self._closed[who] = (at, at + int(why.seconds * 1_000_000), why)

    def closed(self, who: tuple[str, bytes], at: int) -> Excess | None:
        """Return why a source is exhausted; None if it is not noted."""
        found = self._closed.get(who)
        return found[2] if found is not None and found[0] <= at < found[1] else None

    def wait(self, source: str, limits: Sequence[SourceLimits], default: Rate | None, at: int) -> Excess | None:
        """Return why a report of a source is too much. None if one of the limits would let it through.

        Args:
            source: the source.
            limits: the limits, of which at least one has to let it through.
            default: the rate where they have none. None for no limit.
            at: when the report was written, in microseconds since 1970.
        """
        waits: list[tuple[float, SourceLimits, Rate]] = []
        for one in limits:
            rate = one.rate or default
            if rate is None or not (seconds := self._buckets.wait((one.grant, source), rate, at)):
                return None
            waits.append((seconds, one, rate))
        if not waits:
            return None
        seconds, one, rate = min(waits, key=lambda wait: wait[0])
        return excess(source, one, rate, seconds)

    def take(self, source: str, limits: Sequence[SourceLimits], default: Rate | None, at: int) -> Excess | None:
        """Count a report of a source. Return why it is too much, as `wait` does."""
        for one in limits:
            rate = one.rate or default
            if rate is None or self._buckets.take((one.grant, source), rate, at):
                return None
        return self.wait(source, limits, default, at)

    def refused_often(self, who: RefusedKey, source: str, at: int) -> Excess | None:
        """Return why a report is not judged: too many of its kind were refused. None if it is."""
        if not (seconds := self._refused.wait(who, REFUSED, at)):
            return None
        rule = f"must be refused at most {REFUSED.qps} times per second, and {REFUSED.burst} times at once"
        return Excess(RefusalReason.TOO_MANY_REQUESTS, "source", source, rule, limit=REFUSED_LIMIT, seconds=seconds)

    def refuse(self, who: RefusedKey, source: str, at: int, refusal: Refusal) -> Refusal:
        """Count a refusal. Return it, or that there were too many.

        Args:
            who: the key under which refusals are counted together.
            source: the source of the report.
            at: when the report was written, in microseconds since 1970.
            refusal: why it is refused.
        """
        return refusal if self._refused.take(who, REFUSED, at) else self.refused_often(who, source, at) or refusal

    # Counts.

    def drop(self, record: Input, why: Excess, now: datetime) -> Dropped | None:
        """Count a dropped report. Return it if it is the first one, which is written at once."""
        place = (why.limit, why.value)
        if place not in self._windows and len(self._windows) >= MOST:
            place = (why.limit, "")
        window = self._windows.get(place)
        if window is None:
            log.warning("reports.limited", source=why.value, limit=why.limit, rule=why.rule)
            window = self._windows[place] = _Window(now + WINDOW, metrics.REPORTS_LIMITED.labels(why.limit))
            window.counter.inc()
            return Dropped(record, why, 1)
        window.counter.inc()
        window.record, window.why = record, why
        window.count += 1
        return None

    @property
    def next(self) -> datetime | None:
        """When counts are to be written or dropped; None without any."""
        return next((window.ends for window in self._windows.values()), None)

    def due(self, now: datetime) -> Iterator[Dropped]:
        """Take out the counts that are due."""
        while (ends := self.next) is not None and ends <= now:
            place = next(iter(self._windows))
            window = self._windows.pop(place)
            if window.record is not None and window.why is not None:
                self._windows[place] = _Window(now + WINDOW, window.counter)
                yield Dropped(window.record, window.why, window.count)
