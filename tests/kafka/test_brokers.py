"""The broker of the run is one that Moorage's services can work with, whichever it is."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from tests.support import brokers
from tests.support.brokers import Broker, BrokerMissingError, DockerBroker, EmbeddedBroker, ExternalBroker, choose

from moorage.runtime.embedded import answers

pytestmark = pytest.mark.kafka


async def test_it_serves_transactions(broker: Broker, topic_prefix: str) -> None:
    topic = f"{topic_prefix}topic"
    admin = AIOKafkaAdminClient(bootstrap_servers=broker.bootstrap)
    await admin.start()
    await admin.create_topics([NewTopic(topic, num_partitions=1, replication_factor=1)])
    await admin.close()
    producer = AIOKafkaProducer(bootstrap_servers=broker.bootstrap, transactional_id=f"{topic_prefix}p")
    consumer = AIOKafkaConsumer(
        bootstrap_servers=broker.bootstrap, isolation_level="read_committed", auto_offset_reset="earliest"
    )
    consumer.assign([TopicPartition(topic, 0)])
    async with producer, consumer, asyncio.timeout(120):
        async with producer.transaction():
            await producer.send_and_wait(topic, b"once")
        assert (await consumer.getone()).value == b"once"


_SEEN: set[str] = set()


@pytest.mark.parametrize("round_", [1, 2, 3])
def test_a_prefix_is_never_given_twice(topic_prefix: str, round_: int) -> None:
    _SEEN.add(topic_prefix)
    assert len(_SEEN) == round_


async def test_it_can_be_restarted_killed_and_paused_at_one_address(tmp_path: Path) -> None:
    own: Broker = EmbeddedBroker(tmp_path) if brokers.docker_obstacle() else DockerBroker()
    try:
        await own.start()
        address = own.bootstrap
        await own.restart()
        await own.kill()
        assert not await answers(address, patience=1.0)
        await own.start()
        assert own.bootstrap == address
        await own.pause()
        assert not await answers(address, patience=0.5)
        await own.resume()
        assert await answers(address, patience=20.0)
    finally:
        await own.close()


@pytest.fixture
def no_docker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(brokers, "docker_obstacle", lambda: "no Docker daemon answers")
    monkeypatch.delenv(brokers.CHOICE_VARIABLE, raising=False)
    monkeypatch.delenv(brokers.SERVERS_VARIABLE, raising=False)


@pytest.mark.usefixtures("no_docker")
@pytest.mark.parametrize(
    ("wanted", "servers", "obstacle", "kind", "named"),
    [
        ("", "", "", "docker", False),
        ("", "", "no image", "embedded", False),
        ("", "b:9092", "", "external", True),
        ("embedded", "b:9092", "", "embedded", True),
        ("docker", "b:9092", "", "docker", True),
        ("docker", "", "no image", None, True),
        ("external", "", "", None, True),
        ("external", "b:9092", "", "external", True),
    ],
)
def test_the_order_of_brokers(
    monkeypatch: pytest.MonkeyPatch, wanted: str, servers: str, obstacle: str, kind: str | None, *, named: bool
) -> None:
    monkeypatch.setattr(brokers, "docker_obstacle", lambda: obstacle)
    monkeypatch.setenv(brokers.CHOICE_VARIABLE, wanted)
    monkeypatch.setenv(brokers.SERVERS_VARIABLE, servers)
    choice = choose()
    assert (choice.kind, choice.named) == (kind, named)
    assert choice.why


def test_an_unknown_kind_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(brokers.CHOICE_VARIABLE, "redpanda")
    with pytest.raises(BrokerMissingError, match=r"'redpanda': must be external, docker or embedded"):
        choose()


async def test_an_external_broker_that_does_not_answer_is_named() -> None:
    with pytest.raises(BrokerMissingError, match=r"127\.0\.0\.1:9.*no broker answers"):
        await ExternalBroker("127.0.0.1:9", "t").start()
