"""A client knows the metadata of the topics that it uses, and of no others. On a real Kafka."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from aiokafka import AIOKafkaProducer, TopicPartition
from tests.support.brokers import Broker
from tests.support.toys import COUNTED, NUMBERS, make_toys, settings_for

from moorage.runtime.kafka.clients import clients
from moorage.runtime.kafka.tables.offsets import Offsets
from moorage.runtime.settings.process_settings import Settings

pytestmark = pytest.mark.kafka


@pytest_asyncio.fixture(loop_scope="session")
async def settings(broker: Broker, topic_prefix: str) -> AsyncIterator[Settings]:
    made = settings_for(broker.bootstrap, topic_prefix, partitions=2)
    await make_toys(made)
    yield made


async def known(client: object) -> set[str]:
    """The topics that a client knows after it has requested metadata again, as it does from time to time."""
    assert await client.force_metadata_update()  # type: ignore[attr-defined]  # aiokafka publishes no types
    found: set[str] = client.cluster.topics()  # type: ignore[attr-defined]  # as above
    return found


async def test_a_producer_knows_the_topics_that_it_has_written_to(settings: Settings) -> None:
    first, second = (topic.name(settings.topic_prefix) for topic in (NUMBERS, COUNTED))
    producer = clients.transactional_producer(settings, transactional_id=f"{settings.topic_prefix}.idle")
    await producer.start()
    try:
        assert await known(producer.client) == set()
        for name, wanted in ((first, {first}), (second, {first, second})):
            async with producer.transaction():
                await producer.send_and_wait(name, b"1", key=b"a", partition=1)
            assert await known(producer.client) == wanted
    finally:
        await producer.stop()


async def test_a_producer_that_others_make_in_this_process_does_so_too(settings: Settings) -> None:
    name = NUMBERS.name(settings.topic_prefix)
    async with AIOKafkaProducer(bootstrap_servers=settings.bootstrap_servers) as producer:
        assert await known(producer.client) == set()
        await producer.send_and_wait(name, b"1", key=b"a")
        assert await known(producer.client) == {name}


async def test_offsets_of_topics_that_were_not_asked_about_before(settings: Settings) -> None:
    asking, other = (TopicPartition(topic.name(settings.topic_prefix), 0) for topic in (NUMBERS, COUNTED))
    offsets = Offsets(settings, name="test")
    await offsets.start()
    try:
        consumer = offsets._consumer_for_offsets()
        assert await known(consumer._client) == set()
        assert await offsets.end([asking, other]) == {asking: 0, other: 0}
        assert await known(consumer._client) == {asking.topic, other.topic}
        assert await offsets.stable([asking]) == {asking: 0}
    finally:
        await offsets.stop()


async def test_who_asks_for_all_topics_gets_them(settings: Settings) -> None:
    consumer = clients.table_consumer(settings, client_id="test")
    await consumer.start()
    try:
        assert await consumer.topics() >= {topic.name(settings.topic_prefix) for topic in (NUMBERS, COUNTED)}
    finally:
        await consumer.stop()
