"""A real broker keeps the contracts that the simulated one is held to in tests/chaos/seeded/test_contract.py."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest
import pytest_asyncio
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from tests.chaos.seeded.kafka.contracts import CONTRACTS
from tests.support.brokers import Broker

pytestmark = pytest.mark.kafka


class Real:
    """A rig on a broker."""

    def __init__(self, broker: Broker, prefix: str) -> None:
        self._broker = broker
        self._prefix = prefix
        self._numbers = itertools.count()
        self._clients: list[Any] = []

    def name(self, what: str) -> str:
        return f"{self._prefix}{what}-{next(self._numbers)}"

    async def topic(self, partitions: int = 1, config: Mapping[str, str] | None = None) -> str:
        name, admin = self.name("topic"), await self.admin()
        response = await admin.create_topics([NewTopic(name, partitions, 1, topic_configs=dict(config or {}))])
        assert [code for _, code, *_ in response.topic_errors] == [0]
        while True:
            (found,) = await admin.describe_topics([name])
            leaders = [part["leader"] for part in found["partitions"]]
            if len(leaders) == partitions and min(leaders) >= 0:
                return name

    async def producer(self, **options: Any) -> AIOKafkaProducer:
        return await self._started(AIOKafkaProducer(bootstrap_servers=self._broker.bootstrap, **options))

    async def consumer(self, **options: Any) -> AIOKafkaConsumer:
        client = AIOKafkaConsumer(
            bootstrap_servers=self._broker.bootstrap,
            client_id=self.name("client"),
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            fetch_max_wait_ms=100,
            partition_assignment_strategy=(RangePartitionAssignor,),
            **options,
        )
        return await self._started(client)

    async def admin(self) -> AIOKafkaAdminClient:
        return await self._started(AIOKafkaAdminClient(bootstrap_servers=self._broker.bootstrap))

    async def _started(self, client: Any) -> Any:
        self._clients.append(client)
        await client.start()
        return client

    async def die(self, consumer: AIOKafkaConsumer) -> None:
        """Nothing is sent any more, and nobody says goodbye."""
        coordinator = consumer._coordinator
        for task in (coordinator._heartbeat_task, coordinator._coordination_task):
            task.cancel()
        await consumer._client.close()

    async def compacted(self, topic: str) -> None:
        """The cleaner comes by itself, every 15 s."""

    async def close(self) -> None:
        for client in reversed(self._clients):
            with contextlib.suppress(Exception, TimeoutError):  # some were killed, and some are fenced
                await (client.close() if isinstance(client, AIOKafkaAdminClient) else client.stop())


@pytest_asyncio.fixture(loop_scope="session")
async def rig(broker: Broker, topic_prefix: str) -> AsyncIterator[Real]:
    made = Real(broker, topic_prefix)
    yield made
    await made.close()


@pytest.mark.parametrize("name", CONTRACTS)
async def test_a_broker_keeps_the_contract(name: str, rig: Real) -> None:
    await CONTRACTS[name](rig)
