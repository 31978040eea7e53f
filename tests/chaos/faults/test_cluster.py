"""The faults of brokers take hold, and the cluster is whole again after them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError
from tests.chaos.faults.cluster import NODES, Cluster, administrator

from moorage.runtime.kafka.admin.topics_admin import ensure_topics
from moorage.runtime.settings.process_settings import Settings
from moorage_schemas.topics import TAINTS

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(900)]


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def cluster(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Cluster]:
    async with Cluster(tmp_path_factory.mktemp("cluster") / "brokers") as started:
        await ensure_topics(Settings(bootstrap_servers=started.bootstrap, topic_prefix="c", partitions=3), (TAINTS,))
        yield started


async def write(bootstrap: str) -> None:
    """Have a record in each partition taken by all that must have it; with a broker less it may take a while."""
    async with asyncio.timeout(120):
        for partition in range(3):
            while not await _taken(bootstrap, partition):
                pass


async def _taken(bootstrap: str, partition: int) -> bool:
    producer = AIOKafkaProducer(bootstrap_servers=bootstrap.split(","), acks="all", request_timeout_ms=2000)
    try:
        await producer.start()
        await producer.send_and_wait(TAINTS.name("c"), b"{}", key=b"k", partition=partition)
    except KafkaError:
        return False
    finally:
        await producer.stop()
    return True


async def test_there_are_three_copies_of_everything(cluster: Cluster) -> None:
    await write(cluster.bootstrap)
    async with administrator(cluster.bootstrap) as admin:
        (described,) = await admin.describe_topics([TAINTS.name("c")])
    assert [len(part["replicas"]) for part in described["partitions"]] == [NODES] * 3
    assert {part["leader"] for part in described["partitions"]} == {1, 2, 3}


async def test_services_come_in_through_the_proxies(cluster: Cluster) -> None:
    for side in ("A", "B"):
        before = [node.proxies[side].connections for node in cluster.nodes]
        await write(cluster.bootstrap_of(side))
        after = [node.proxies[side].connections for node in cluster.nodes]
        assert all(then < now for then, now in zip(before, after, strict=True)), "every leader is behind its proxy"


async def test_leaders_move(cluster: Cluster) -> None:
    assert await cluster.move_leaders([TAINTS.name("c")], 1) == 3
    await write(cluster.bootstrap)


async def test_a_disk_can_be_full_where_nothing_can_be_mounted(cluster: Cluster) -> None:
    node = next(one for one in cluster.nodes if one.disk)
    was, node._mounted = node._mounted, False
    try:
        assert "refused" in node.fill_disk()
        await ensure_topics(Settings(bootstrap_servers=cluster.bootstrap, topic_prefix="full", partitions=3), (TAINTS,))
        assert await node.until_ended(20), "it cannot write the new topic's files"
        await write(cluster.bootstrap)
    finally:
        node.free_disk()
        node._mounted = was
    await cluster.mend()
    assert node.running
