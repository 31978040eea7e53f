"""Copies of real topics: what is kept, from where services go on, and what is not seen."""

from __future__ import annotations

from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from tests.support.brokers import Broker
from tests.support.toys import (
    COUNTED,
    KNOWN,
    NUMBERS,
    TABLE,
    TALLIES,
    TOYS,
    Counter,
    Number,
    make_toys,
    number_record,
    settings_for,
    worker_for,
    write_numbers,
    write_raw,
)
from tests.support.waiting import until

from moorage.insight.copy.snapshot import Snapshot, SnapshotError
from moorage.runtime.settings.process_settings import Settings
from moorage_schemas.topics import Topic, partition_of

pytestmark = pytest.mark.kafka

KEYS = 5
LOADED = (NUMBERS, TABLE, TALLIES, KNOWN)


async def load(settings: Settings, **more: Any) -> Snapshot:
    return await Snapshot.load(settings, services=[Counter], topics=more.pop("topics", LOADED), **more)


async def commit(settings: Settings, offsets: dict[Topic, int]) -> None:
    """Move what the counter's group has committed, in every partition of some topics."""
    consumer = AIOKafkaConsumer(
        bootstrap_servers=settings.bootstrap_servers,
        group_id=f"{settings.topic_prefix}.counter",
        enable_auto_commit=False,
    )
    await consumer.start()
    try:
        tps = {
            TopicPartition(topic.name(settings.topic_prefix), p): offset
            for topic, offset in offsets.items()
            for p in range(settings.partitions)
        }
        consumer.assign(list(tps))
        await consumer.commit(tps)
    finally:
        await consumer.stop()


def place(key: str, settings: Settings) -> int:
    return partition_of(key, settings.partitions)


async def test_the_last_record_of_each_key_and_what_is_not_worked_through(broker: Broker, topic_prefix: str) -> None:
    settings = settings_for(broker.bootstrap, topic_prefix, partitions=1)
    await make_toys(settings)
    await write_numbers(settings, [Number(key=f"k{i % KEYS}", n=i) for i in range(50)], topic=TABLE)
    await write_numbers(settings, [Number(key="k0", n=i) for i in range(20)])
    await commit(settings, {TABLE: 40, NUMBERS: 15})
    told: list[tuple[int, int]] = []
    snapshot = await load(settings, progress=lambda read, wanted: told.append((read, wanted)))
    table = snapshot.records(TABLE)
    assert [one.offset for one in table] == [35, 36, 37, 38, 39, *range(40, 50)]
    assert [one.event.n for one in table if isinstance(one.event, Number)] == [one.offset for one in table]
    assert [one.offset for one in snapshot.records(NUMBERS)] == [15, 16, 17, 18, 19]
    assert snapshot.ends["toy-table", 0] == 50
    assert (snapshot.position("counter", TABLE, 0), snapshot.position("counter", NUMBERS, 0)) == (40, 15)
    assert all(0 <= read <= wanted for read, wanted in told)
    assert told[-1] == (55, 55)
    # Read without a service, only the last record of each key is left.
    plain = await Snapshot.load(settings, topics=[TABLE])
    assert [one.offset for one in plain.records(TABLE)] == [45, 46, 47, 48, 49]


async def test_a_service_that_never_ran_has_everything_before_it(broker: Broker, topic_prefix: str) -> None:
    settings = settings_for(broker.bootstrap, topic_prefix, partitions=1)
    await make_toys(settings)
    await write_numbers(settings, [Number(key="k", n=i) for i in range(5)])
    snapshot = await load(settings)
    assert [one.offset for one in snapshot.records(NUMBERS)] == [0, 1, 2, 3, 4]
    assert snapshot.position("counter", NUMBERS, 0) == 0


async def test_what_a_state_rests_on_goes_before_offsets_that_were_lost(broker: Broker, topic_prefix: str) -> None:
    settings = settings_for(broker.bootstrap, topic_prefix)
    await make_toys(settings)
    work = [Number(key=f"k{i % KEYS}", n=i) for i in range(40)]
    await write_numbers(settings, work)
    async with worker_for(Counter(), settings):

        async def done() -> bool:
            found = await Snapshot.load(settings, topics=[TALLIES])
            return bool(sum(event.count for event in found.table(TALLIES).values()) == len(work))

        await until(done)
    await commit(settings, {NUMBERS: 0})
    snapshot = await load(settings)
    for p in range(settings.partitions):
        assert snapshot.position("counter", NUMBERS, p) == snapshot.ends["toy-numbers", p]
    assert {key: event.count for key, event in snapshot.table(TALLIES).items()} == {f"k{i}": 8 for i in range(KEYS)}


async def test_an_open_transaction_is_neither_seen_nor_waited_for(broker: Broker, topic_prefix: str) -> None:
    settings = settings_for(broker.bootstrap, topic_prefix, partitions=1)
    await make_toys(settings)
    await write_numbers(settings, [Number(key="before", n=1)], topic=TABLE)
    producer = AIOKafkaProducer(bootstrap_servers=broker.bootstrap, transactional_id=f"{topic_prefix}open")
    await producer.start()
    try:
        await producer.begin_transaction()
        value, headers = number_record(TABLE, Number(key="open", n=2))
        name = TABLE.name(settings.topic_prefix)
        await (await producer.send(name, value, key=b"open", partition=0, headers=headers))
        await write_numbers(settings, [Number(key="after", n=3)], topic=TABLE)
        assert list((await load(settings)).table(TABLE)) == ["before"]
        await producer.abort_transaction()
    finally:
        await producer.stop()
    assert list((await load(settings)).table(TABLE)) == ["before", "after"]


async def test_what_is_no_event_is_left_out_and_counted(broker: Broker, topic_prefix: str) -> None:
    settings = settings_for(broker.bootstrap, topic_prefix)
    await make_toys(settings)
    await write_raw(settings, TABLE, b"odd", b"no json", partition=place("odd", settings))
    await write_raw(settings, TABLE, b"gone", None, partition=place("gone", settings))
    await write_numbers(settings, [Number(key="good", n=1)], topic=TABLE)
    snapshot = await load(settings)
    assert snapshot.unreadable == 1
    assert list(snapshot.table(TABLE)) == ["good"]
    tombstone = snapshot.last(TABLE, "gone")
    assert tombstone is not None
    assert tombstone.event is None


async def test_topics_that_are_not_there_are_an_error(broker: Broker, topic_prefix: str) -> None:
    settings = settings_for(broker.bootstrap, topic_prefix)
    with pytest.raises(SnapshotError, match=r"no such topic: .*toy-"):
        await load(settings)
    await make_toys(settings, [topic for topic in TOYS if topic is not COUNTED])
    assert list((await load(settings)).all()) == []
