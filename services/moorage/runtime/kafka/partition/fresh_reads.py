"""Reads to the present end, for decisions that need it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from datetime import datetime
from typing import Any, Final

from moorage.runtime.engine.chain import PartitionChain
from moorage.runtime.engine.requests import Refresh
from moorage.runtime.kafka.partition.context import WorkerContext
from moorage.runtime.kafka.partition.source_feed import SourceFeed
from moorage.runtime.kafka.partition.table_restore import Restorer
from moorage.runtime.kafka.partition.upstream_lag import UpstreamEnds, UpstreamWatch
from moorage.runtime.process.failures import StartAfresh
from moorage.runtime.service import EVERYTHING, Freshness, Needs
from moorage_schemas.topics import Topic

_FRESH: Final = 0.05
"""Seconds that a read to the present end may take, so that the end is still present; first attempt."""

_AGED: Final = 0.5
"""Seconds after which such a read is repeated before a decision, because other tasks came first."""

_STALE: Final = 2.0
"""Seconds after a read during which an irrevocable write that rests on it may begin."""

_STALE_COMMIT: Final = 5.0
"""Seconds that a transaction with an irrevocable decision may take."""

_READ_AGAIN: Final = 0.1
"""Seconds between two checks of whether everything has been read."""


class FreshReads:
    """Reads the needs of one partition's decisions to their present end, one task after another.

    Args:
        is_parking: returns whether the partition is being taken away.
    """

    def __init__(
        self,
        context: WorkerContext[Any],
        chain: PartitionChain,
        *,
        feed: SourceFeed,
        is_parking: Callable[[], bool],
    ) -> None:
        self.held = False
        """Whether other tasks wait with their decisions on the present."""

        self._context = context
        self._chain = chain
        self._feed = feed
        self._polled = asyncio.Event()
        self._is_parking = is_parking
        self._limit = 2 * context.settings.transaction_timeout_ms / 1000
        self._refreshed_at = 0.0

    async def catch_up(self, context: WorkerContext[Any], restorer: Restorer, topics: Collection[Topic]) -> None:
        """Read the tables that a service follows, and global topics, to their present ends.

        Raises:
            TimeoutError: Kafka does not send the records.
            KafkaError: Kafka does not answer.
            StartAfresh: a table is no longer read.
        """
        async with asyncio.timeout(self._limit):
            await asyncio.gather(restorer.catch_up(), self._freshen(context, topics))

    @staticmethod
    async def _freshen(context: WorkerContext[Any], topics: Collection[Topic]) -> None:
        # Kafka may hang for a moment. A decision on older data would be written once it continues.
        while not await context.freshen(topics):  # noqa: ASYNC110 - each round requests from Kafka
            await asyncio.sleep(_READ_AGAIN)

    async def refresh(self, context: WorkerContext[Any], upstream: UpstreamWatch, request: Refresh) -> Freshness | None:
        """Read the needs of a service's decision to their present end. Other tasks wait until `release`.

        Returns None when this is not possible now: the partition is being taken away, the global view makes no
        progress, or there is more to read than the request allows.

        Raises:
            TimeoutError: Kafka does not send the records.
            KafkaError: Kafka does not answer.
        """
        loop = asyncio.get_running_loop()
        limit = _FRESH
        async with asyncio.timeout(self._limit):
            while True:
                began, now = loop.time(), context.clock.now()
                found = await self._read_to_ends(context, upstream, request, now)
                if found is None:
                    return None
                if loop.time() - began <= limit:
                    if not self.held:
                        await context.fresh.acquire()
                        self.held = True
                    if loop.time() - began <= max(limit, _AGED):
                        self._refreshed_at = began
                        return found
                # The end that was read is no longer the present one. Each attempt gets more time, in case everything is
                # slow.
                limit = min(2 * limit, _STALE / 2)

    def release(self) -> None:
        """Let other tasks decide on the present: this decision is being written, or is empty."""
        if self.held:
            self.held = False
            self._context.fresh.release()

    def seconds_for(self, *, is_fresh: bool) -> float | None:
        """Return the seconds that the transaction of a decision may take; None if it rests on no read to the present.

        Raises:
            StartAfresh: the decision rests on data that was read too long ago.
        """
        if not is_fresh:
            return None
        if asyncio.get_running_loop().time() - self._refreshed_at > _STALE:
            raise StartAfresh("the decision rests on data that was read too long ago: the process was stopped")
        return _STALE_COMMIT

    def check(self) -> None:
        """Check again how far the consumer has come, and whether the partition is being taken away."""
        self._polled.set()

    async def _read_to_ends(
        self, context: WorkerContext[Any], upstream: UpstreamWatch, request: Refresh, now: datetime
    ) -> Freshness | None:
        needs = request.needs
        found = await self._read_once(context, upstream, request)
        if found is None:
            return None
        ends, lagging = found
        keys = lagging.keys()
        concerned = bool(keys) if needs.keys is None else EVERYTHING in keys or not needs.keys.isdisjoint(keys)
        if concerned and await upstream.claim(needs.upstream, needs.keys):
            # Upstream has read further than its records state. This counts for later reads.
            now = self._context.clock.now()
            found = await self._read_once(context, upstream, request)
            if found is None:
                return None
            ends, lagging = found
        return Freshness(now, {topic: ends.own[topic] for topic in needs.tables}, lagging, needs.keys)

    async def _read_once(
        self, context: WorkerContext[Any], upstream: UpstreamWatch, request: Refresh
    ) -> tuple[UpstreamEnds, dict[str, str]] | None:
        """Read the needs. Return their ends, and the keys for which upstream services lag."""
        needs = request.needs
        await upstream.ask(needs.upstream, needs.keys)
        ends = upstream.ends(needs.upstream, needs.tables, needs.keys)
        if any(one.lands is not None for one in needs.upstream):
            # Their output is read as global topics, beyond the point at which no transaction was open there.
            found, fresh = await ends, await context.freshen(needs.globals)
        else:
            found, fresh = await asyncio.gather(ends, context.freshen(needs.globals))
        if not fresh or (request.most is not None and await self._unread(needs, found) > request.most):
            return None
        with self._feed.fetching(needs.tables):
            while True:
                if self._is_parking():
                    return None
                self._polled.clear()
                await self._feed.note_passed(needs.tables)
                if all(self._chain.reached(topic, found.own[topic]) for topic in needs.tables):
                    break
                await self._polled.wait()
        return found, await upstream.lagging(needs.upstream, found, needs.keys)

    async def _unread(self, needs: Needs, ends: UpstreamEnds) -> int:
        """Return how many records are left to decide on below these ends, or a few more."""
        await self._feed.note_passed(needs.tables)
        positions = self._chain.positions
        return sum(max(0, ends.own[topic] - positions[topic]) for topic in needs.tables)
