"""What a third party, or bad luck in a restore, must not be able to do to a partition."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer, TopicPartition
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from tests.support.brokers import Broker
from tests.support.toys import (
    KNOWN,
    Counter,
    Number,
    counted,
    make_toys,
    read_all,
    settings_for,
    worker_for,
    write_numbers,
    write_raw,
)
from tests.support.waiting import until

from moorage.runtime.kafka.admin.topics_admin import ensure_topics
from moorage.runtime.kafka.clients import clients
from moorage.runtime.kafka.tables.offsets import Offsets
from moorage.runtime.kafka.tables.table_age import tombstones_kept
from moorage.runtime.kafka.tables.table_reader import TableReader
from moorage.workers import condition_ingest
from moorage_schemas.condition import ConditionReported, ConditionStatus
from moorage_schemas.envelope import Meta, to_headers
from moorage_schemas.refs import TargetKind, TargetRef
from moorage_schemas.resource import ResourceDeclared
from moorage_schemas.topics import BINDINGS, CONDITION_REPORTS, CONDITIONS, DEAD_LETTERS, RESOURCES

pytestmark = pytest.mark.kafka

LARGE = b"\x01" * 800_000


async def write_large(
    bootstrap: str, topic: str, key: bytes, value: bytes, headers: Sequence[tuple[str, bytes]]
) -> None:
    async with AIOKafkaProducer(bootstrap_servers=bootstrap, max_request_size=2_000_000) as producer:
        await producer.send_and_wait(topic, value, key=key, partition=0, headers=headers)


async def test_the_broker_says_for_how_long_tombstones_are_kept(broker: Broker, topic_prefix: str) -> None:
    settings = settings_for(broker.bootstrap, topic_prefix, partitions=1)
    await ensure_topics(settings)
    assert await tombstones_kept(settings) == 7 * 24 * 3600
    name = BINDINGS.name(settings.topic_prefix)
    admin = clients.admin_client(settings)
    await admin.start()
    try:
        await admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, name, {"delete.retention.ms": "60000"})])
    finally:
        await admin.close()
    async with asyncio.timeout(120):  # the broker learns of it from the controller a moment later
        while await tombstones_kept(settings) != 60:  # noqa: ASYNC110 - only the broker can tell, and it must be asked
            await asyncio.sleep(0.05)


async def test_a_large_id_of_a_third_party_is_refused_and_the_rest_goes_on(broker: Broker, topic_prefix: str) -> None:
    settings = settings_for(broker.bootstrap, topic_prefix, partitions=1)
    await ensure_topics(settings)
    node = ResourceDeclared(
        object={"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1", "uid": "u"}}, version=1
    )
    headers = to_headers(Meta(id="1", source="s", type=RESOURCES.event_type))
    name = RESOURCES.name(settings.topic_prefix)
    await write_large(broker.bootstrap, name, node.key.encode(), node.model_dump_json().encode(), headers)
    report = ConditionReported(
        target=TargetRef(kind=TargetKind.NODE, name="n1"),
        type="Ready",
        status=ConditionStatus.FALSE,
        observed_time=datetime.now(UTC),
    )
    value, name = report.model_dump_json().encode(), CONDITION_REPORTS.name(settings.topic_prefix)
    for size in (600_000, 1):
        headers = to_headers(Meta(id="x" * size, source="probe", type=CONDITION_REPORTS.event_type))
        await write_large(broker.bootstrap, name, b"Node/n1", value, headers)

    async def both() -> bool:
        return len(await read_all(settings, CONDITIONS)) == len(await read_all(settings, DEAD_LETTERS)) == 1

    async with worker_for(condition_ingest.service(settings), settings):
        await until(both, message="the partition is stuck behind it")


@pytest.mark.parametrize("where", ["header", "key"])
async def test_a_dead_letter_always_fits_its_topic(broker: Broker, topic_prefix: str, where: str) -> None:
    settings = settings_for(broker.bootstrap, topic_prefix, partitions=1)
    await ensure_topics(settings)
    name = CONDITION_REPORTS.name(settings.topic_prefix)
    key, header = (LARGE, b"") if where == "key" else (b"k", LARGE)
    await write_large(broker.bootstrap, name, key, b"no json", [("x", header)])
    await write_large(broker.bootstrap, name, b"k", b"no json either", [])

    async def both() -> bool:
        return len(await read_all(settings, DEAD_LETTERS)) == 2

    async with worker_for(condition_ingest.service(settings), settings):
        await until(both, message="the partition is stuck behind it")


async def test_a_table_whose_limit_is_moved_on_loses_nothing(broker: Broker, topic_prefix: str) -> None:
    settings = settings_for(broker.bootstrap, topic_prefix, partitions=1)
    await make_toys(settings)
    place = TopicPartition(KNOWN.name(settings.topic_prefix), 0)
    for number in range(10):
        await write_raw(settings, KNOWN, b"%d" % number, b"x")
    reader = TableReader(settings, client_id="test")
    seen: list[int] = []

    def sink(records: Sequence[Any]) -> None:
        seen.extend(record.offset for record in records)

    tail = reader.add(place, 0, sink, limit=0)
    reader.start()
    try:
        # As a restore does: up to the end as it was, then on for ever.
        reader.extend(tail, 5)
        await reader.reached(tail, 5)
        reader.extend(tail, None)
        await reader.reached(tail, 10)
    finally:
        await reader.stop()
    assert seen == list(range(10))


async def test_what_is_written_to_a_followed_table_during_a_restore_is_seen(
    broker: Broker, topic_prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = settings_for(broker.bootstrap, topic_prefix, partitions=1)
    await make_toys(settings)
    headers = to_headers(Meta(id="k", source="t", type=KNOWN.event_type))
    await write_raw(settings, KNOWN, b"first", b'{"name": "first"}', headers)
    real = Offsets.end
    asked: list[bool] = []

    async def end(self: Offsets, partitions: Any) -> Mapping[TopicPartition, int]:
        found = await real(self, list(partitions))
        if not asked:
            asked.append(True)
            await write_raw(settings, KNOWN, b"second", b'{"name": "second"}', headers)
        return found

    monkeypatch.setattr(Offsets, "end", end)
    async with worker_for(Counter(), settings) as worker:
        await worker.wait_ready()
        await write_numbers(settings, [Number(key="a", n=1, needs="second")])

        async def there() -> bool:
            return bool(await counted(settings))

        await until(there)
    assert (await counted(settings))["a"][0].total == 1
