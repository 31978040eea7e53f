"""Requests the ends of partitions, and the members of a group, from Kafka."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.coordinator.protocol import ConsumerProtocol
from aiokafka.errors import for_code

from moorage.runtime.kafka.clients import clients
from moorage.runtime.settings.process_settings import Settings

_REBALANCING = frozenset({"PreparingRebalance", "CompletingRebalance"})
_FRESH = 0.5  # seconds for which an answer about a group is used again


@dataclass(frozen=True, slots=True)
class GroupMembers:
    """The members of a consumer group."""

    is_stable: bool
    """Whether the group has divided its partitions."""

    assigned: Mapping[str, frozenset[TopicPartition]] = field(default_factory=dict)
    """The partitions of each member, by its id. They are empty while the group is not stable."""

    @property
    def partitions(self) -> int:
        """The number of partitions of topics that have an owner."""
        return sum(map(len, self.assigned.values()))

    def owned(self, topics: Collection[str]) -> int:
        """Return the number of partitions of which one member has each of some topics."""
        return sum(
            len(set.intersection(*({tp.partition for tp in held if tp.topic == topic} for topic in topics)))
            for held in self.assigned.values()
        )


class Offsets:
    """Start and end offsets, and group membership, for one service in this process.

    The end of a partition is its high watermark, not the last stable offset: an open transaction of another service
    must not hide the service's own latest records. A reader waits until that transaction has ended.
    """

    def __init__(self, settings: Settings, *, name: str) -> None:
        self._settings = settings
        self._name = name
        self._consumer: AIOKafkaConsumer | None = None
        self._committed_only: AIOKafkaConsumer | None = None
        self._admin: AIOKafkaAdminClient | None = None
        self._lock = asyncio.Lock()
        self._members: tuple[float, str, dict[str, set[tuple[str, int]]]] | None = None

    async def start(self) -> None:
        """Connect."""
        self._consumer = clients.table_consumer(self._settings, client_id=f"{self._name}-offsets", committed_only=False)
        await self._consumer.start()

    async def stop(self) -> None:
        """Disconnect."""
        consumers = [consumer for consumer in (self._consumer, self._committed_only) if consumer is not None]
        self._consumer = self._committed_only = None
        await asyncio.gather(*(consumer.stop() for consumer in consumers))
        if self._admin is not None:
            await self._admin.close()
            self._admin = None

    async def begin(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the first offset of each partition."""
        return dict(await self._consumer_for_offsets().beginning_offsets(list(partitions)))

    async def end(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the high watermark of each partition: the offset that the next record will have."""
        return dict(await self._consumer_for_offsets().end_offsets(list(partitions)))

    async def stable(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the last stable offset of each partition. No transaction is open below it."""
        self._consumer_for_offsets()
        async with self._lock:
            if self._committed_only is None:
                consumer = clients.table_consumer(self._settings, client_id=f"{self._name}-stable")
                try:
                    await consumer.start()
                except BaseException:
                    await consumer.stop()
                    raise
                self._committed_only = consumer
        return dict(await self._committed_only.end_offsets(list(partitions)))

    async def committed(self, group: str, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the committed offsets of another group. Partitions without one are left out."""
        async with self._lock:
            admin = await self._admin_client()
        found = await admin.list_consumer_group_offsets(group, partitions=list(partitions))
        return {tp: entry.offset for tp, entry in found.items() if entry.offset >= 0}

    async def is_member(self, group: str, client_id: str, partition: TopicPartition) -> bool:
        """Return whether the group's coordinator assigns the partition to this client now."""
        async with self._lock:
            now = asyncio.get_running_loop().time()
            if self._members is None or self._members[0] < now - _FRESH or self._members[1] != group:
                self._members = (now, group, await self._describe(group))
        held = self._members[2].get(client_id, set())
        return (partition.topic, partition.partition) in held

    async def has_members(self, group: str) -> bool:
        """Return whether a group has any members, assigned or not."""
        async with self._lock:
            await self._admin_client()
        return any(members for _, members in await self._described(group))

    async def members(self, group: str) -> GroupMembers:
        """Return the members of a group. A group that does not exist has none.

        Raises:
            KafkaError: Kafka does not answer, or refuses.
        """
        async with self._lock:
            await self._admin_client()
        is_stable, found = True, dict[str, frozenset[TopicPartition]]()
        for state, members in await self._described(group):
            is_stable = is_stable and state not in _REBALANCING
            for member, _, _, _, assignment in members:
                held = ConsumerProtocol.ASSIGNMENT.decode(assignment).partitions() if assignment else ()
                found[member] = frozenset(TopicPartition(tp.topic, tp.partition) for tp in held)
        return GroupMembers(is_stable, found)

    async def _describe(self, group: str) -> dict[str, set[tuple[str, int]]]:
        """Return the partitions of each client of a stable group; empty while the group rebalances."""
        held: dict[str, set[tuple[str, int]]] = {}
        for state, members in await self._described(group):
            if state != "Stable":
                return {}
            for _, client, _, _, assignment in members:
                decoded = ConsumerProtocol.ASSIGNMENT.decode(assignment)
                held[client] = {(tp.topic, tp.partition) for tp in decoded.partitions()}
        return held

    async def _described(self, group: str) -> list[tuple[str, Any]]:
        """Return the state and the members of a group, as each broker that answers has them."""
        admin = await self._admin_client()
        found = []
        for response in await admin.describe_consumer_groups([group]):
            for code, _, state, _, _, members, *_ in response.groups:
                if code:
                    raise for_code(code)(group)
                found.append((state, members))
        return found

    async def _admin_client(self) -> AIOKafkaAdminClient:
        if self._admin is None:
            admin = clients.admin_client(self._settings, client_id=f"{self._name}-members")
            try:
                await admin.start()
            except BaseException:
                await admin.close()
                raise
            self._admin = admin
        return self._admin

    def _consumer_for_offsets(self) -> AIOKafkaConsumer:
        if self._consumer is None:
            raise RuntimeError("the offsets client was not started")
        return self._consumer
