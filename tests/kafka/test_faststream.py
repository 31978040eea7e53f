"""Subscribers of FastStream on a real Kafka: the beginning, transactions, positions, and errors of handlers."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer
from tests.support.brokers import Broker
from tests.support.toys import settings_for
from tests.support.waiting import until

from moorage.runtime.kafka.admin.topics_admin import ensure_topics
from moorage.runtime.settings.process_settings import Settings
from moorage_schemas.refs import TargetRef
from moorage_schemas.taint import TargetTainted
from moorage_schemas.topics import TAINTS
from moorage_sdk import Connection
from moorage_sdk.faststream import MoorageTopics, RecordKey, moorage_broker

pytestmark = pytest.mark.kafka


@pytest.fixture
async def settings(broker: Broker, topic_prefix: str) -> Settings:
    found = settings_for(broker.bootstrap, topic_prefix, partitions=1)
    await ensure_topics(found)
    return found


@asynccontextmanager
async def running(settings: Settings, seen: list[str], fails: list[str], **options: Any) -> AsyncIterator[None]:
    """A program that notes the taints that it sees. It fails once for each key in `fails`."""
    connection = Connection(
        transport="kafka", bootstrap_servers=settings.bootstrap_servers, topic_prefix=settings.topic_prefix
    )
    broker = moorage_broker(connection, logger=None)

    @MoorageTopics(broker, connection).subscriber(TAINTS, **options)
    async def on_taints(tainted: TargetTainted | None, key: RecordKey) -> None:
        if key in fails:
            fails.remove(key)
            raise RuntimeError(key)
        seen.append(key if tainted is not None else f"{key} removed")

    async with broker:
        await broker.start()
        yield


async def write(settings: Settings, *keys: str, gone: bool = False, commits: bool = True) -> None:
    """Write taints in a transaction, or their tombstones."""
    producer = AIOKafkaProducer(bootstrap_servers=settings.bootstrap_servers, transactional_id=settings.topic_prefix)
    async with producer:
        await producer.begin_transaction()
        for key in keys:
            value = None if gone else tainted(key).model_dump_json().encode()
            await producer.send_and_wait(TAINTS.name(settings.topic_prefix), value, key=key.encode())
        await (producer.commit_transaction() if commits else producer.abort_transaction())


def tainted(key: str) -> TargetTainted:
    return TargetTainted(target=TargetRef.parse(key), generation=1)


async def test_a_table_is_read_from_the_beginning_without_what_was_not_committed(settings: Settings) -> None:
    await write(settings, "Node/a", "Node/b")
    await write(settings, "Node/never", commits=False)
    await write(settings, "Node/a", gone=True)
    for _ in range(2):
        seen: list[str] = []
        async with running(settings, seen, []):
            await until(lambda: len(seen) == 3)  # noqa: B023 - it is waited for here
        assert seen == ["Node/a", "Node/b", "Node/a removed"]


async def test_a_group_goes_on_and_an_error_loses_nothing(settings: Settings) -> None:
    await write(settings, "Node/a", "Node/b")
    seen: list[str] = []
    async with running(settings, seen, ["Node/b"], group_id=settings.topic_prefix):
        await until(lambda: len(seen) == 2)
    assert seen == ["Node/a", "Node/b"]
    await write(settings, "Node/c")
    async with running(settings, seen, [], group_id=settings.topic_prefix):
        await until(lambda: len(seen) == 3)
    assert seen == ["Node/a", "Node/b", "Node/c"]


async def test_a_program_that_ends_within_its_handler_gets_the_record_again(settings: Settings) -> None:
    await write(settings, "Node/a")
    fails, seen = ["Node/a"] * 1000, list[str]()
    async with running(settings, seen, fails, group_id=settings.topic_prefix):
        await until(lambda: len(fails) < 1000)
    async with running(settings, seen, [], group_id=settings.topic_prefix):
        await until(lambda: seen == ["Node/a"])
