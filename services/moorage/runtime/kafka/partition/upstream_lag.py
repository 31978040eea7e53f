"""The lag of the services between what people and probes write and what a partition decides."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from aiokafka import TopicPartition

from moorage.runtime.kafka.partition.context import WorkerContext
from moorage.runtime.kafka.partition.upstream_follower import Place
from moorage.runtime.service import Upstream
from moorage_schemas.topics import Topic

_REST_AFTER: Final = 20.0
"""Seconds without a request after which upstream topics are no longer followed."""


@dataclass(frozen=True, slots=True)
class UpstreamEnds:
    """Where partitions ended, all requested at the same time."""

    own: Mapping[Topic, int]
    """The last stable offsets of topics in the partition of the task."""

    read: Mapping[Place, int]
    """The last stable offsets of what upstream services read."""

    claims: Mapping[Place, int]
    """How far upstream services had read by their own account, before the ends were requested. Without those of
    services that had a transaction open."""


class UpstreamWatch:
    """Reports the keys with committed records that an upstream service has not processed.

    Records state how far upstream services had read, where the task reads any (`Upstream.via`). Without output, their
    committed offsets do, which follow within a second. What these services read is followed after the first request, so
    that the next request is answered from memory. This ends after a while without requests.

    All ends are requested together, and all claims before them. So what the first service has processed is in records
    that the second one reads, below their ends, and so on. A key for which no service lags is therefore decided on
    everything that was committed when the ends were requested.

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
        self._floors: dict[Place, int] = {}
        self._claims: dict[Place, int] = {}
        self._claimed: set[Place] = set()
        self._resting: asyncio.TimerHandle | None = None

    async def ask(self, upstream: Sequence[Upstream], keys: Collection[str] | None = None) -> None:
        """Request the positions that upstream services report themselves, if necessary. Call this before `ends`.

        Raises:
            KafkaError: Kafka does not answer.
        """
        places = {place for one in upstream for place in self._places(one, keys)}
        if not places <= self._claimed or any(map(self._context.upstream.is_long, places)):
            await self.claim(upstream, keys)

    async def ends(
        self, upstream: Sequence[Upstream], tables: Iterable[Topic], keys: Collection[str] | None = None
    ) -> UpstreamEnds:
        """Return where upstream's topics, and some topics of the task's partition, end now.

        Args:
            upstream: the services in between.
            tables: topics of the task's partition. Those that state how far services had read must be read to these
                ends before `lagging` is called.
            keys: the keys for which the lag is to be determined; None for all.

        Raises:
            KafkaError: Kafka does not answer.
        """
        places = {place: one for one in upstream for place in self._places(one, keys)}
        own = {topic: self._context.tp(topic, self._partition) for topic in tables}
        read = {place: self._context.tp(place.topic, place.partition) for place in places}
        claims = {place: offset for place, offset in self._claims.items() if place in places}
        written = {
            one.service: [
                self._context.tp(*at)
                for at in one.written_places(keys, own=self._partition, partitions=self._context.partitions)
            ]
            for one in {places[place].service: places[place] for place in claims}.values()
        }
        writes = {tp for tps in written.values() for tp in tps}
        requested = {*own.values(), *read.values(), *writes}
        if writes:
            stable, end = await asyncio.gather(
                self._context.offsets.stable(requested), self._context.offsets.end(writes)
            )
        else:
            stable, end = await self._context.offsets.stable(requested), {}
        open_ = {service for service, tps in written.items() if any(stable[tp] < end[tp] for tp in tps)}
        self._drop([place for place in claims if place.service in open_])
        return UpstreamEnds(
            own={topic: stable[tp] for topic, tp in own.items()},
            read={place: stable[tp] for place, tp in read.items()},
            claims={place: offset for place, offset in claims.items() if place.service not in open_},
        )

    async def lagging(
        self, upstream: Sequence[Upstream], ends: UpstreamEnds, keys: Collection[str] | None = None
    ) -> dict[str, str]:
        """Return the keys with committed records that upstream services have not processed, each with the service.

        Args:
            upstream: the services in between.
            ends: the result of `ends`; the tables have been read to these ends.
            keys: the keys for which `ends` was called.

        Returns:
            The keys; `EVERYTHING` when there is too much to search.

        Raises:
            KafkaError: Kafka does not answer.
            StartAfresh: a topic is no longer read.
        """
        self._stay()
        try:
            lagging: dict[str, str] = {}
            for one in upstream:
                told = {} if one.via is None else self._progress(one, ends.own[one.via])
                behind: dict[Place, tuple[TopicPartition, int, int]] = {}
                for place in self._places(one, keys):
                    floor = self._advance(place, told.get(place.topic.short, 0), ends)
                    if floor < (end := ends.read[place]):
                        behind[place] = (self._context.tp(place.topic, place.partition), floor, end)
                found = await self._context.upstream.keys(one, behind, task=self._partition)
                lagging = found | lagging
            return lagging
        finally:
            self._resting = asyncio.get_running_loop().call_later(_REST_AFTER, self._rest)

    async def claim(self, upstream: Sequence[Upstream], keys: Collection[str] | None = None) -> bool:
        """Request the positions that upstream services report themselves.

        The answer counts from the next `ends` on, provided that none of these services has a transaction open: its
        writes up to that point are then below those ends. If the answer were requested after the ends, it could be
        about unread records.

        Returns:
            Whether any service has read further than before.

        Raises:
            KafkaError: Kafka does not answer.
        """
        further = False
        found = await asyncio.gather(*(self._committed(one, keys) for one in upstream))
        for committed in found:
            for place, offset in committed.items():
                further = further or offset > max(self._floors.get(place, 0), self._claims.get(place, 0))
                self._claims[place] = offset
                self._claimed.add(place)
        return further

    async def _committed(self, one: Upstream, keys: Collection[str] | None) -> dict[Place, int]:
        tps = {place: self._context.tp(place.topic, place.partition) for place in self._places(one, keys)}
        if not tps:
            return {}
        group = f"{self._context.settings.topic_prefix}.{one.service}"
        committed = await self._context.offsets.committed(group, tps.values())
        return {place: committed.get(tp, 0) for place, tp in tps.items()}

    def close(self) -> None:
        """Stop following, and discard the positions of upstream."""
        self._rest()
        self._floors.clear()

    def _places(self, one: Upstream, keys: Collection[str] | None) -> list[Place]:
        found = one.read_places(keys, own=self._partition, partitions=self._context.partitions)
        return [Place(one.service, topic, partition) for topic, partition in found]

    def _advance(self, place: Place, told: int, ends: UpstreamEnds) -> int:
        """Return how far an upstream service has certainly read."""
        floor = self._floors[place] = max(self._floors.get(place, 0), told, ends.claims.get(place, 0))
        if self._claims.get(place, 0) <= floor:
            self._claims.pop(place, None)
        return floor

    def _drop(self, places: Iterable[Place]) -> None:
        """Drop claims that upstream made while it had a transaction open. They are requested again.

        The markers of the transaction may be lost. Its task then sets the offsets back, and its writes are aborted.
        After that, the claim would be about records that no service has processed.
        """
        for place in places:
            self._claims.pop(place, None)
            self._claimed.discard(place)

    def _stay(self) -> None:
        if self._resting is not None:
            self._resting.cancel()
            self._resting = None

    def _rest(self) -> None:
        """Stop following until the next request."""
        self._stay()
        self._context.upstream.forget(self._partition)
        self._claims.clear()
        self._claimed.clear()
