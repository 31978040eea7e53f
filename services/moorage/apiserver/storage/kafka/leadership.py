"""Which of the gateways leads: one member of a Kafka consumer group.

The group divides a single partition, and who is assigned it leads. A gateway that leads keeps it when others come and
go. When it stops, the group assigns the partition to another one after its session has ended, or at once if it has
left the group. The group only chooses: that no two gateways write at a time is ensured by the transactional id.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable, Mapping
from typing import Final

import structlog
from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.abc import ConsumerRebalanceListener
from aiokafka.coordinator.assignors.abstract import AbstractPartitionAssignor
from aiokafka.coordinator.protocol import ConsumerProtocolMemberAssignment, ConsumerProtocolMemberMetadata

from moorage.runtime.kafka.admin.broker_times import BrokerTimes, session_timeout
from moorage.runtime.kafka.clients import clients
from moorage.runtime.kafka.tables.table_reader import has_ended
from moorage.runtime.process.failures import StartAfresh
from moorage.runtime.settings.process_settings import Settings

_log = structlog.get_logger(__name__)

_POLL_MS: Final = 500
_VERSION: Final = 0


class LeaderAssignor(AbstractPartitionAssignor):  # type: ignore[misc]  # aiokafka publishes no types
    """The assignor that keeps the leader, or else takes any gateway. aiokafka accepts an object as a class."""

    name = "leader"

    def __init__(self, tp: TopicPartition, leads_since: Callable[[], int]) -> None:
        self._tp = tp
        self._leads_since = leads_since

    def metadata(self, topics: Iterable[str]) -> ConsumerProtocolMemberMetadata:
        """Return what the gateway reports when it joins."""
        report = json.dumps({"leadsSince": self._leads_since()})
        return ConsumerProtocolMemberMetadata(_VERSION, sorted(topics), report.encode())

    def assign(
        self,
        cluster: object,  # noqa: ARG002 - the partition is known
        members: Mapping[str, ConsumerProtocolMemberMetadata],
    ) -> dict[str, ConsumerProtocolMemberAssignment]:
        """Choose the leader. One that was replaced without knowing it has an earlier takeover."""
        chosen = min(members, key=lambda member: (-_since(members[member].user_data), member))
        return {
            member: ConsumerProtocolMemberAssignment(
                _VERSION, [(self._tp.topic, [self._tp.partition])] if member == chosen else [], b""
            )
            for member in members
        }

    def on_assignment(self, assignment: ConsumerProtocolMemberAssignment) -> None:
        """Do nothing: the listener is called."""


def _since(data: bytes) -> int:
    try:
        return int(json.loads(data or b"{}").get("leadsSince", 0))
    except (ValueError, TypeError, AttributeError):
        return 0


class Leadership:
    """This gateway's membership of the group."""

    def __init__(
        self, settings: Settings, times: BrokerTimes, tp: TopicPartition, leads_since: Callable[[], int]
    ) -> None:
        self._tp = tp
        self._consumer = clients.group_consumer(
            settings,
            group=f"{settings.topic_prefix}.gateway",
            client_id=f"{settings.topic_prefix}.gateway-leadership",
            assignor=LeaderAssignor(tp, leads_since),
            session_timeout_ms=session_timeout(settings, times),
        )
        self._chosen = False
        self._changed = asyncio.Event()

    async def run(self) -> None:
        """Be a member of the group until cancelled.

        Raises:
            KafkaError: Kafka does not answer, or refuses.
            StartAfresh: the consumer has stopped.
        """
        consumer = self._consumer
        try:
            await consumer.start()
            consumer.subscribe(topics=[self._tp.topic], listener=_Listener(self, consumer))
            while True:
                if has_ended(consumer):
                    raise StartAfresh("the membership of the gateways' group has ended")
                await consumer.getmany(timeout_ms=_POLL_MS)
        finally:
            await asyncio.gather(consumer.stop(), return_exceptions=True)

    @property
    def chosen(self) -> bool:
        """Whether this gateway is chosen to lead."""
        return self._chosen

    async def until(self, *, chosen: bool) -> None:
        """Return when this gateway is chosen to lead, or is not."""
        while self._chosen is not chosen:
            await self._changed.wait()

    def assigned(self, partitions: Iterable[TopicPartition]) -> None:
        """Note the group's choice."""
        self._set(self._tp in set(partitions))

    def lost(self) -> None:
        """Note that another gateway has taken over, and let the group choose again."""
        self._set(chosen=False)
        clients.rejoin(self._consumer)

    def _set(self, chosen: bool) -> None:  # noqa: FBT001 - private, and named after its argument
        if chosen is not self._chosen:
            _log.info("gateway.chosen" if chosen else "gateway.not_chosen")
        self._chosen = chosen
        self._changed.set()
        self._changed = asyncio.Event()


class _Listener(ConsumerRebalanceListener):  # type: ignore[misc]  # aiokafka publishes no types
    """A listener for the group's choice. Nothing is read: the partition is paused."""

    def __init__(self, leadership: Leadership, consumer: AIOKafkaConsumer) -> None:
        self._leadership = leadership
        self._consumer = consumer

    async def on_partitions_revoked(self, revoked: set[TopicPartition]) -> None:
        """Do nothing: a leader goes on until the group has chosen another one."""

    async def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
        self._consumer.pause(*assigned)
        self._leadership.assigned(assigned)
