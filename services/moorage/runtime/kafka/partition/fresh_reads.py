"""Reads to the present end, for decisions that need it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Collection
from datetime import datetime
from typing import Any, Final

from moorage.runtime.engine.batch import BatchDecision
from moorage.runtime.engine.engine import PartitionEngine
from moorage.runtime.kafka.partition.context import WorkerContext
from moorage.runtime.kafka.partition.source_feed import SourceFeed
from moorage.runtime.kafka.partition.table_restore import Restorer
from moorage.runtime.kafka.partition.upstream_lag import UpstreamEnds, UpstreamWatch
from moorage.runtime.process.failures import StartAfresh
from moorage.runtime.service import Freshness, Needs
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

_CHECK_AGAIN: Final = 0.005
"""Seconds between two checks of how far the consumer has come."""


class FreshReads:
    """Reads the needs of one partition's decisions to their present end, one task after another.

    Args:
        arrived: set when records arrive.
        is_parking: returns whether the partition is being taken away.
    """

    def __init__(
        self,
        context: WorkerContext[Any],
        partition: int,
        engine: PartitionEngine[Any],
        *,
        feed: SourceFeed,
        arrived: asyncio.Event,
        is_parking: Callable[[], bool],
    ) -> None:
        self.held = False
        """Whether other tasks wait with their decisions on the present."""

        self._context = context
        self._engine = engine
        self._feed = feed
        self._arrived = arrived
        self._is_parking = is_parking
        self._upstream = UpstreamWatch(context, partition, engine.progress_of)
        self._limit = 2 * context.settings.transaction_timeout_ms / 1000
        self._refreshed_at = 0.0

    async def catch_up(self, restorer: Restorer, topics: Collection[Topic]) -> None:
        """Read the tables that are followed, and global topics, to their present ends.

        Raises:
            TimeoutError: Kafka does not send the records.
            KafkaError: Kafka does not answer.
            StartAfresh: a table is no longer read.
        """
        async with asyncio.timeout(self._limit):
            await restorer.catch_up()
            # Kafka may hang for a moment. A decision on older data would be written once it continues.
            while not await self._context.freshen(topics):  # noqa: ASYNC110 - each round requests from Kafka
                await asyncio.sleep(_READ_AGAIN)

    async def refresh(self, needs: Needs) -> Freshness | None:
        """Read the needs of a decision to their present end. Other tasks wait until `release`.

        Returns None when this is not possible now: the partition is being taken away, or the global view makes no
        progress.

        Raises:
            TimeoutError: Kafka does not send the records.
            KafkaError: Kafka does not answer.
        """
        context, loop = self._context, asyncio.get_running_loop()
        limit = _FRESH
        async with asyncio.timeout(self._limit):
            while True:
                began, now = loop.time(), context.clock.now()
                found = await self._read_to_ends(needs, now)
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

    def seconds_for(self, decision: BatchDecision) -> float | None:
        """Return the seconds that the transaction of a decision may take; None if it is not irrevocable.

        Raises:
            StartAfresh: the decision rests on data that was read too long ago.
        """
        if not (decision.fresh and decision.emits):
            return None
        if asyncio.get_running_loop().time() - self._refreshed_at > _STALE:
            raise StartAfresh("the decision rests on data that was read too long ago: the process was stopped")
        return _STALE_COMMIT

    def close(self) -> None:
        """Discard the positions of upstream services."""
        self._upstream.close()

    async def _read_to_ends(self, needs: Needs, now: datetime) -> Freshness | None:
        ends, lagging = await self._read_once(needs) or (None, None)
        if ends is None:
            return None
        concerned = lagging is None or (lagging if needs.keys is None else not lagging.isdisjoint(needs.keys))
        if concerned and await self._upstream.claim(needs.upstream):
            # Upstream has read further than its records state. This counts for later reads.
            now = self._context.clock.now()
            ends, lagging = await self._read_once(needs) or (None, None)
            if ends is None:
                return None
        return Freshness(now, {topic: ends.stable[topic] for topic in needs.tables}, lagging)

    async def _read_once(self, needs: Needs) -> tuple[UpstreamEnds, frozenset[str] | None] | None:
        """Read the needs. Return their ends, and the keys for which upstream services lag."""
        ends, fresh = await asyncio.gather(
            self._upstream.ends(needs.upstream, needs.tables), self._context.freshen(needs.globals)
        )
        if not fresh:
            return None
        with self._feed.fetching(needs.tables):
            while True:
                if self._is_parking():
                    return None
                await self._feed.note_passed(needs.tables)
                if all(self._engine.reached(topic, ends.stable[topic]) for topic in needs.tables):
                    break
                self._arrived.clear()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(_CHECK_AGAIN):
                        await self._arrived.wait()
        return ends, await self._upstream.lagging(needs.upstream, ends)
