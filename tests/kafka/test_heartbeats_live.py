"""Heartbeats, through real workers and a real Kafka."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator, Callable, Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from tests.support.brokers import Broker
from tests.support.toys import read_all, settings_for, worker_for
from tests.support.waiting import until

from moorage.runtime.kafka.admin.topics_admin import ensure_topics
from moorage.runtime.kafka.clients import fetch_connections
from moorage.runtime.settings.process_settings import Settings
from moorage.workers import condition_ingest, timer
from moorage_schemas.base import Model
from moorage_schemas.condition import (
    ConditionChanged,
    ConditionReported,
    ConditionStatus,
)
from moorage_schemas.envelope import Meta, to_headers
from moorage_schemas.refs import TargetKind, TargetRef
from moorage_schemas.resource import ResourceDeclared
from moorage_schemas.topics import (
    CONDITION_REPORTS,
    CONDITIONS,
    DEAD_LETTERS,
    RESOURCES,
    TIMERS,
    Topic,
    partition_of,
)

pytestmark = pytest.mark.kafka

NODE = TargetRef(kind=TargetKind.NODE, name="n1")
_IDS = itertools.count()


async def write(settings: Settings, topic: Topic, key: str, event: Model) -> None:
    async with AIOKafkaProducer(bootstrap_servers=settings.bootstrap_servers) as producer:
        await send(producer, settings, topic, key, event)


async def send(producer: AIOKafkaProducer, settings: Settings, topic: Topic, key: str, event: Model) -> None:
    meta = Meta(id=f"e{next(_IDS)}", source="probe/test", type=topic.event_type)
    await producer.send_and_wait(
        topic.name(settings.topic_prefix),
        event.model_dump_json().encode(),
        key=key.encode(),
        partition=partition_of(NODE.key, settings.partitions),
        headers=to_headers(meta),
    )


async def prepare(broker: Broker, prefix: str, **options: Any) -> Settings:
    settings = settings_for(broker.bootstrap, prefix, partitions=2, **options)
    await ensure_topics(settings)
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1", "uid": "u1"}}
    declared = ResourceDeclared(object=node, version=1)
    await write(settings, RESOURCES, declared.key, declared)
    return settings


def report(status: ConditionStatus = ConditionStatus.TRUE) -> ConditionReported:
    return ConditionReported(
        target=NODE, type="Ready", status=status, observed_time=datetime.now(UTC), source="probe/test"
    )


async def conditions(settings: Settings) -> list[ConditionChanged]:
    return [ConditionChanged.model_validate_json(record.value) for record in await read_all(settings, CONDITIONS)]


async def changed(settings: Settings, status: ConditionStatus) -> bool:
    return any(condition.status is status for condition in await conditions(settings))


@contextlib.asynccontextmanager
async def heartbeats(settings: Settings, status: Callable[[], ConditionStatus]) -> AsyncIterator[None]:
    """A probe reports the node again and again meanwhile, as fast as Kafka takes it."""

    async def beat() -> None:
        async with AIOKafkaProducer(bootstrap_servers=settings.bootstrap_servers) as producer:
            while True:
                await send(producer, settings, CONDITION_REPORTS, NODE.key, report(status()))

    task = asyncio.create_task(beat())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def statuses(settings: Settings, *wanted: str) -> Callable[[], Any]:
    async def there() -> bool:
        return [condition.status.value for condition in await conditions(settings)] == list(wanted)

    return there


async def test_a_source_falls_silent_while_nobody_is_there_and_is_found_out_after_the_restart(
    broker: Broker, topic_prefix: str
) -> None:
    settings = await prepare(broker, topic_prefix, node_monitor_grace_period=1.0)
    await write(settings, CONDITION_REPORTS, NODE.key, report())
    async with worker_for(condition_ingest.service(settings), settings):
        await until(statuses(settings, "True"))
    async with (
        worker_for(timer.service(settings), settings),
        worker_for(condition_ingest.service(settings), settings),
    ):
        await until(statuses(settings, "True", "Unknown"))
        spoken, silent = await conditions(settings)
        assert spoken.accepted_time is not None
        assert silent.last_transition_time == spoken.accepted_time + timedelta(seconds=1)
        assert (silent.accepted_time, silent.generation) == (spoken.accepted_time, 2)
        await write(settings, CONDITION_REPORTS, NODE.key, report())
        await until(statuses(settings, "True", "Unknown", "True", "Unknown"))
    timers = {record.key: record.value for record in await read_all(settings, TIMERS)}
    assert len(timers) == 2, "each watch has an id of its own"
    assert set(timers.values()) == {None}
    assert await read_all(settings, DEAD_LETTERS) == []


async def test_heartbeats_in_quick_succession_are_fetched_together_and_a_change_among_them_counts(
    broker: Broker, topic_prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rested: list[list[TopicPartition]] = []
    rest = fetch_connections.rest

    def resting(consumer: AIOKafkaConsumer, tps: Iterable[TopicPartition], seconds: float) -> None:
        rested.append(list(tps))
        rest(consumer, rested[-1], seconds)

    monkeypatch.setattr(fetch_connections, "rest", resting)
    settings = await prepare(broker, topic_prefix)
    place = TopicPartition(CONDITION_REPORTS.name(settings.topic_prefix), partition_of(NODE.key, 2))
    async with worker_for(condition_ingest.service(settings), settings):
        await write(settings, CONDITION_REPORTS, NODE.key, report())
        await until(statuses(settings, "True"))
        assert not rested, "this one was a change"
        said = ConditionStatus.TRUE
        async with heartbeats(settings, lambda: said):
            await until(lambda: any(place in tps for tps in rested))
            said = ConditionStatus.FALSE
            await until(lambda: changed(settings, ConditionStatus.FALSE))
    assert await read_all(settings, DEAD_LETTERS) == []
