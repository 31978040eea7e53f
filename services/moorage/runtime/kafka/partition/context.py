"""The shared objects of a worker's tasks."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from aiokafka import AIOKafkaConsumer, TopicPartition

from moorage.runtime.engine.journal import Journals
from moorage.runtime.kafka.admin.broker_times import BrokerTimes
from moorage.runtime.kafka.clients.fenced_producer import PartitionProducer
from moorage.runtime.kafka.partition.upstream_follower import UpstreamFollower
from moorage.runtime.kafka.tables.offsets import Offsets
from moorage.runtime.kafka.tables.table_age import TableAge
from moorage.runtime.kafka.tables.table_reader import TableReader
from moorage.runtime.process.clock import Clock
from moorage.runtime.service import GlobalView, Service
from moorage.runtime.settings.process_settings import Settings
from moorage_schemas.topics import Topic

S = TypeVar("S")

_STANDBYS_AT_ONCE = 2


@dataclass(frozen=True, eq=False)
class WorkerContext(Generic[S]):
    """The clients and settings of a worker's session, for one of its services. Each consumer gets new ones."""

    service: Service[S]
    settings: Settings
    clock: Clock
    partitions: int
    """The number of partitions of each topic."""

    group: str
    """The consumer group of the service, in which its positions are committed: `<prefix>.<service>`."""

    owners: str
    """The consumer group that assigns the partitions: that of the service, or that of its chain."""

    rivals: tuple[str, ...]
    """The groups whose members would own the same partitions, in the other form: alone, or in a chain."""

    client_id: str
    consumer: AIOKafkaConsumer
    offsets: Offsets
    reader: TableReader
    view: GlobalView | None
    caught_up: asyncio.Event
    """Set when the global view has been read to its end once."""

    freshen: Callable[[Collection[Topic]], Awaitable[bool]]
    """Reads global topics to their committed end; returns False when that took too long."""

    journals: Journals
    """The journals in which tasks note their steps."""

    age: TableAge
    """The time since which all reads are certainly complete."""

    times: BrokerTimes
    """The times of the brokers."""

    starting: asyncio.Semaphore
    """Limits how many producers start at once."""

    upstream: UpstreamFollower
    """The records that upstream services have not processed yet."""

    standing_by: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_STANDBYS_AT_ONCE))
    """Limits how many standbys read their tables at once."""

    fresh: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held by a task from reading the present until it begins to write its decision. Otherwise its reads would age
    while many other tasks decide.
    """

    turns: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held by a task for each slice of records that it decides on."""

    def tp(self, topic: Topic, partition: int) -> TopicPartition:
        """Return a topic's partition, by its name in Kafka."""
        return TopicPartition(topic.name(self.settings.topic_prefix), partition)

    def producer(self, partition: int) -> PartitionProducer:
        """Return the partition's producer, not started yet."""
        return PartitionProducer(self.settings, transactional_id=self.transactional_id(partition))

    def transactional_id(self, partition: int) -> str:
        """Return the transactional id of the partition's tasks."""
        return f"{self.owners}.{partition}"

    def rival_producers(self, partition: int) -> list[PartitionProducer]:
        """Return the producers of the partition's tasks in the other form. Their start fences these tasks."""
        return [PartitionProducer(self.settings, transactional_id=f"{rival}.{partition}") for rival in self.rivals]

    async def committed(self, tps: Mapping[Topic, TopicPartition]) -> dict[Topic, int | None]:
        """Return the group's committed offset of each source; None where there is none."""
        found = await self.offsets.committed(self.group, tps.values())
        return {topic: found.get(tp) for topic, tp in tps.items()}

    async def holds(self, partition: int) -> bool:
        """Return whether the group's coordinator assigns the partition to this worker."""
        first = self.service.sources[0]
        return await self.offsets.is_member(self.owners, self.client_id, self.tp(first, partition))

    async def globals_ready(self) -> None:
        """Return when the global view has been read to its end once."""
        if self.view is not None:
            await self.caught_up.wait()
