"""The order of the requests of a partition's transaction."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest
from aiokafka import TopicPartition
from aiokafka.errors import MessageSizeTooLargeError

from moorage.runtime.kafka.clients.fenced_producer import PartitionProducer
from moorage.runtime.settings.process_settings import Settings
from moorage.runtime.wire.codec import Outgoing

RECORDS = [Outgoing.of(topic, 0, b"key", b"value", []) for topic in "ab"]
OFFSETS = {"group": {TopicPartition("source", 0): 7}}


class Kafka:
    """Notes the requests of a producer; its batches are delivered by the test."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.sent: asyncio.Queue[tuple[str, asyncio.Future[object]]] = asyncio.Queue()

    async def begin_transaction(self) -> None:
        self.calls.append("begin")

    async def send_batch(self, _batch: Any, topic: str, **_: int) -> asyncio.Future[object]:
        self.calls.append(topic)
        delivered: asyncio.Future[object] = asyncio.get_running_loop().create_future()
        self.sent.put_nowait((topic, delivered))
        return delivered

    async def send_offsets_to_transaction(self, _offsets: Any, _group: str) -> None:
        self.calls.append("offsets")

    async def commit_transaction(self) -> None:
        self.calls.append("commit")


def producer_of(kafka: Kafka) -> PartitionProducer:
    producer = PartitionProducer(Settings(), transactional_id="id")
    producer._producer = cast("Any", kafka)
    return producer


async def test_offsets_are_sent_once_all_batches_are_delivered() -> None:
    kafka = Kafka()
    writing = asyncio.create_task(producer_of(kafka).write(RECORDS, OFFSETS))
    batches = [await kafka.sent.get() for _ in RECORDS]
    for topic, delivered in batches:
        assert "offsets" not in kafka.calls, "the broker refuses one of two requests that it verifies at the same time"
        kafka.calls.append(f"{topic} delivered")
        delivered.set_result(SimpleNamespace(offset=0))
    await writing
    assert kafka.calls == ["begin", "a", "b", "a delivered", "b delivered", "offsets", "commit"]


async def test_nothing_follows_a_batch_that_failed() -> None:
    kafka = Kafka()
    writing = asyncio.create_task(producer_of(kafka).write(RECORDS[:1], OFFSETS))
    _, delivered = await kafka.sent.get()
    delivered.set_exception(MessageSizeTooLargeError())
    with pytest.raises(MessageSizeTooLargeError):
        await writing
    assert kafka.calls == ["begin", "a"]
