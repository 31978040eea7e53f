"""Who has written nothing for a long time can write at once. On a Kafka that forgets transactional ids quickly."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from aiokafka import AIOKafkaProducer
from structlog.testing import capture_logs
from tests.support.brokers import EmbeddedBroker
from tests.support.gateways import running_gateway
from tests.support.toys import NUMBERS, Counter, Number, counted, make_toys, settings_for, worker_for, write_numbers
from tests.support.waiting import until

from moorage.runtime.kafka.admin.broker_times import broker_times
from moorage.runtime.kafka.clients import clients, fenced_producer
from moorage.runtime.kafka.clients.transactions_v2 import ProducerIdReplacedError
from moorage.runtime.settings.process_settings import Settings

pytestmark = pytest.mark.kafka

_KEPT_MS = 6000
_LATER = 60  # producers that are idle from the beginning, of which one is tried after the other
_BETWEEN = 0.5  # seconds between two of them; until 30 s have passed


@pytest_asyncio.fixture(loop_scope="session", scope="module")
async def forgetful(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[EmbeddedBroker]:
    """A broker that forgets the ids of producers that write nothing for six seconds."""
    settings = {
        "transactional.id.expiration.ms": str(_KEPT_MS),
        "transaction.remove.expired.transaction.cleanup.interval.ms": "200",
    }
    folder: Path = tmp_path_factory.mktemp("forgetful")
    own = EmbeddedBroker(folder / "kafka", settings)
    await own.start()
    try:
        yield own
    finally:
        await own.close()


async def ids_are_forgotten(settings: Settings) -> None:
    """Return when Kafka has forgotten a producer that was started at the call and wrote nothing."""
    topic = NUMBERS.name(settings.topic_prefix)
    idle = [
        clients.transactional_producer(settings, transactional_id=f"{settings.topic_prefix}.idle-{number}")
        for number in range(_LATER)
    ]
    for producer in idle:
        await producer.start()

    loop = asyncio.get_running_loop()
    tried = loop.time()

    async def forgotten() -> bool:
        nonlocal tried
        if loop.time() - tried < _BETWEEN:
            return False
        tried = loop.time()
        return await is_refused(idle.pop(), topic)

    try:
        await until(forgotten, message="Kafka forgot nobody")
    finally:
        for producer in idle:
            await producer.stop()


async def is_refused(producer: AIOKafkaProducer, topic: str) -> bool:
    """Whether Kafka has forgotten a producer. The attempt ends its idle time, so each is tried once."""
    try:
        await producer.begin_transaction()
        await producer.send_and_wait(topic, b"1", key=b"a", partition=0)
        await producer.abort_transaction()
    except ProducerIdReplacedError:
        return True
    finally:
        await producer.stop()
    return False


def told(logged: list[Any], event: str) -> list[Any]:
    return [one for one in logged if one["event"] == event]


async def test_the_broker_says_how_long_it_keeps_ids(forgetful: EmbeddedBroker, topic_prefix: str) -> None:
    settings = settings_for(forgetful.bootstrap, topic_prefix)
    assert (await broker_times(settings)).ids_kept_ms == _KEPT_MS


@contextlib.asynccontextmanager
async def idle_owner(broker: EmbeddedBroker, topic_prefix: str) -> AsyncIterator[tuple[Settings, list[Any]]]:
    """A worker that has been idle for so long that Kafka forgets ids. Yields its settings, and what it logs."""
    settings = settings_for(broker.bootstrap, topic_prefix)
    await make_toys(settings)
    with capture_logs() as logged:
        async with worker_for(Counter(), settings) as worker:
            await worker.wait_ready()
            await ids_are_forgotten(settings)
            yield settings, logged


async def test_an_owner_that_was_idle_writes_at_once(forgetful: EmbeddedBroker, topic_prefix: str) -> None:
    async with idle_owner(forgetful, topic_prefix) as (settings, logged):
        await write_numbers(settings, [Number(key=f"k{n}", n=n) for n in range(20)])

        async def there() -> bool:
            return sum(map(len, (await counted(settings)).values())) == 20

        await until(there, message="the numbers were not counted")
    assert told(logged, "partition.starts_afresh") == []


async def test_an_owner_that_keeps_its_id_alive_by_nothing_begins_anew(
    forgetful: EmbeddedBroker, topic_prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The test above can fail."""
    monkeypatch.setattr(fenced_producer, "_SHARE", 0.001)
    async with idle_owner(forgetful, topic_prefix) as (settings, logged):
        await write_numbers(settings, [Number(key="k", n=1)])
        await until(lambda: bool(told(logged, "partition.starts_afresh")), message="no partition began anew")


async def test_a_gateway_that_was_idle_accepts_the_first_write(forgetful: EmbeddedBroker, topic_prefix: str) -> None:
    settings = settings_for(forgetful.bootstrap, topic_prefix, gateway_port=0)
    await make_toys(settings)
    with capture_logs() as logged:
        async with running_gateway(settings) as client:
            await ids_are_forgotten(settings)
            node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}, "spec": {}}
            answer = await client.post("/api/v1/nodes", json=node)
            assert answer.status_code == 201, answer.text
    assert len(told(logged, "gateway.leads")) == 1
