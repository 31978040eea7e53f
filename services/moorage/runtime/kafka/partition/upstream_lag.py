"""The lag of the services that produce this service's sources."""

from __future__ import annotations

import asyncio
import sys
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from moorage.runtime.kafka.partition.context import WorkerContext
from moorage.runtime.kafka.tables.table_reader import Tail
from moorage.runtime.service import Upstream
from moorage_schemas.topics import Topic

_TOO_FAR: Final = 20_000
"""The number of records above which a backlog is not searched. Every key then counts as concerned."""

_MANY: Final = 1_000
"""The number of stored keys from which those that are no longer needed are dropped between two requests."""

_REST_AFTER: Final = 20.0
"""Seconds without a request after which upstream topics are no longer followed."""


@dataclass(frozen=True, slots=True)
class UpstreamEnds:
    """Where the topics of a partition ended, all requested at the same time."""

    stable: Mapping[Topic, int]
    """The last stable offsets of the topics that upstream services read, and of those that they write."""

    written: Mapping[Topic, int]
    """The high watermarks of the topics that upstream services write; without those of services without a claim."""

    claims: Mapping[Topic, int]
    """How far upstream services had read by their own account, before the ends were requested."""


@dataclass(eq=False)
class _Followed:
    """An upstream topic that is followed."""

    begin: int
    """The offset from which `keys` is complete."""

    keys: deque[tuple[int, str]] = field(default_factory=deque)
    """The offsets of records that upstream may not have processed, each with the key of this service that it
    concerns."""


class UpstreamWatch:
    """Reports the keys with committed records that an upstream service has not processed.

    The latest records of an upstream service state its progress. Without output, its committed offsets do; they follow
    within a second. The topics that it reads are followed after the first request, so that the next request is answered
    from memory. This ends after a while without requests.

    Args:
        progress: returns how far a service had read when it last wrote, by short name. Of its undecided records, only
    those below the given offset count.
    """

    def __init__(
        self, context: WorkerContext[Any], partition: int, progress: Callable[[Upstream, int], Mapping[str, int]]
    ) -> None:
        self._context = context
        self._partition = partition
        self._progress = progress
        self._followed: dict[Topic, _Followed] = {}
        self._tails: dict[Topic, Tail] = {}
        self._floors: dict[Topic, int] = {}
        self._claims: dict[Topic, int] = {}
        self._requested = False
        self._resting: asyncio.TimerHandle | None = None

    async def ends(self, upstream: Sequence[Upstream], tables: Iterable[Topic]) -> UpstreamEnds:
        """Return where upstream's topics, and some other topics of the partition, end now.

        Args:
            upstream: the services that produce sources.
            tables: the other topics; those that upstream services write must be read to these ends before `lagging` is
                called.

        Raises:
            KafkaError: Kafka does not answer.
        """
        if upstream and not self._requested:
            await self.claim(upstream)
        topics = dict.fromkeys((*tables, *(topic for one in upstream for topic in (*one.topics, one.via))))
        tps = {topic: self._context.tp(topic, self._partition) for topic in topics}
        claims = dict(self._claims)
        if not claims:
            stable = await self._context.offsets.stable(tps.values())
            return UpstreamEnds({topic: stable[tp] for topic, tp in tps.items()}, {}, claims)
        vias = {one.via: tps[one.via] for one in upstream}
        stable, written = await asyncio.gather(
            self._context.offsets.stable(tps.values()), self._context.offsets.end(vias.values())
        )
        return UpstreamEnds(
            {topic: stable[tp] for topic, tp in tps.items()}, {topic: written[tp] for topic, tp in vias.items()}, claims
        )

    async def lagging(self, upstream: Sequence[Upstream], ends: UpstreamEnds) -> frozenset[str] | None:
        """Return the keys with committed records that upstream services have not processed.

        Args:
            upstream: the services that produce sources.
            ends: the result of `ends`; the topics that upstream services write have been read to these ends.

        Returns:
            The keys; None when there is too much to search.

        Raises:
            KafkaError: Kafka does not answer.
            StartAfresh: a topic is no longer read.
        """
        self._stay()
        try:
            lagging: set[str] = set()
            for one in upstream:
                self._advance(one, ends)
                behind = {topic: end for topic in one.topics if self._floors[topic] < (end := ends.stable[topic])}
                for topic, end in behind.items():
                    if not await self._follow(one, topic, end):
                        return None
                await self._context.reader.reached_all({self._tails[topic]: end for topic, end in behind.items()})
                for topic, end in behind.items():
                    lagging.update(key for offset, key in self._followed[topic].keys if offset < end)
            return frozenset(lagging)
        finally:
            self._resting = asyncio.get_running_loop().call_later(_REST_AFTER, self._rest)

    async def claim(self, upstream: Sequence[Upstream]) -> bool:
        """Request the positions that upstream services report themselves.

        The answer counts from the next `ends` on, provided that none of these services has a transaction open: its
        writes up to that point are then below those ends. If the answer were requested after the ends, it could be
        about unread records.

        Returns:
            Whether any service has read further than before.

        Raises:
            KafkaError: Kafka does not answer.
        """
        self._requested = True
        known = {topic: self._known(topic) for one in upstream for topic in one.topics}
        for one in upstream:
            tps = {topic: self._context.tp(topic, self._partition) for topic in one.topics}
            group = f"{self._context.settings.topic_prefix}.{one.service}"
            committed = await self._context.offsets.committed(group, tps.values())
            for topic, tp in tps.items():
                self._claims[topic] = committed.get(tp, 0)
        return any(self._claims[topic] > known[topic] for topic in known)

    def close(self) -> None:
        """Stop following, and discard the positions of upstream."""
        self._rest()
        self._floors.clear()

    def _known(self, topic: Topic) -> int:
        return max(self._floors.get(topic, 0), self._claims.get(topic, 0))

    def _advance(self, one: Upstream, ends: UpstreamEnds | None = None) -> None:
        """Note how far an upstream service has read, and drop the keys of records below that."""
        done = self._progress(one, 0 if ends is None else ends.stable[one.via])
        stable = ends is not None and one.via in ends.written and ends.stable[one.via] >= ends.written[one.via]
        claims = ends.claims if ends is not None and stable else {}
        if ends is not None and not stable:
            self._drop(one, ends.claims)
        for topic in one.topics:
            floor = max(self._floors.get(topic, 0), done.get(topic.short, 0), claims.get(topic, 0))
            self._floors[topic] = floor
            if self._claims.get(topic, 0) <= floor:
                self._claims.pop(topic, None)
            if (followed := self._followed.get(topic)) is not None:
                while followed.keys and followed.keys[0][0] < floor:
                    followed.keys.popleft()

    def _drop(self, one: Upstream, claims: Mapping[Topic, int]) -> None:
        """Drop claims that upstream made while it had a transaction open. They are requested again.

        The markers of the transaction may be lost. Its task then sets the offsets back, and its writes are aborted.
        After that, the claim would be about records that no service has processed.
        """
        for topic in one.topics:
            if topic in claims and self._claims.get(topic) == claims[topic]:
                del self._claims[topic]
                self._requested = False

    async def _follow(self, one: Upstream, topic: Topic, end: int) -> bool:
        """Follow a topic from the position of the upstream service. Return False when that is too far back."""
        followed = self._followed.get(topic)
        if followed is not None and followed.begin <= self._floors[topic]:
            return True
        tp = self._context.tp(topic, self._partition)
        begin = self._floors[topic] or (await self._context.offsets.begin([tp]))[tp]
        if end - begin > _TOO_FAR:
            return False
        made = self._followed[topic] = _Followed(begin)

        def take(records: Sequence[Any]) -> None:
            for record in records:
                key = one.concerns(topic, (record.key or b"").decode(errors="replace"))
                if key is not None:
                    made.keys.append((record.offset, sys.intern(key)))
            if len(made.keys) > _MANY:
                self._advance(one)
            while len(made.keys) > _TOO_FAR:
                made.begin = made.keys.popleft()[0] + 1

        self._tails[topic] = self._context.reader.add(tp, begin, take)
        return True

    def _stay(self) -> None:
        if self._resting is not None:
            self._resting.cancel()
            self._resting = None

    def _rest(self) -> None:
        """Stop following until the next request."""
        self._stay()
        self._context.reader.remove(self._tails.values())
        self._followed.clear()
        self._tails.clear()
        self._claims.clear()
        self._requested = False
