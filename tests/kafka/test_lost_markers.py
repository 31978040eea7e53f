"""Transactions that the broker calls complete although it wrote no marker for them."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

import httpx
import pytest
import pytest_asyncio
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.errors import KafkaError
from tests.support.brokers import Broker, EmbeddedBroker
from tests.support.gateways import has_its_roles, running_gateway
from tests.support.toys import (
    COUNTED,
    NUMBERS,
    TABLE,
    TALLIES,
    Counted,
    Counter,
    Number,
    Tally,
    assert_exactly_once,
    counted,
    make_toys,
    read_all,
    settings_for,
    worker_for,
    write_numbers,
    write_raw,
)
from tests.support.waiting import until

from moorage.runtime.kafka.clients import clients
from moorage.runtime.kafka.clients.fenced_producer import GroupOffsets, PartitionProducer, send_batches
from moorage.runtime.kafka.clients.transactions_v2 import is_version_2
from moorage.runtime.kafka.partition import dangling_transactions
from moorage.runtime.process import metrics
from moorage.runtime.settings.process_settings import Settings
from moorage.runtime.wire.codec import Outgoing
from moorage_schemas.base import Model
from moorage_schemas.envelope import Meta, to_headers
from moorage_schemas.topics import DEAD_LETTERS, FLEET, OBJECTS, RESOURCES, Topic, partition_of

pytestmark = pytest.mark.kafka

NODES = "/api/v1/nodes"
_PARTITIONS = 2
_PLANTED = "planted"
"""The key of all that is left open; no number has it."""


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def gullible_broker(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[EmbeddedBroker]:
    """A broker that takes records of a transaction whose coordinator knows nothing of their partition.

    So a test can leave behind what a broker leaves that ends a transaction without its markers. The moment in which
    that happens is too short to be hit each time.
    """
    own = EmbeddedBroker(tmp_path_factory.mktemp("kafka"), {"transaction.partition.verification.enable": "false"})
    await own.start()
    try:
        yield own
    finally:
        await own.close()


def place(settings: Settings, topic: Topic, partition: int) -> TopicPartition:
    return TopicPartition(topic.name(settings.topic_prefix), partition)


async def begun_behind_the_coordinators_back(
    settings: Settings, transactional_id: str, places: Sequence[TopicPartition]
) -> AIOKafkaProducer:
    """A producer in a transaction on partitions of which the coordinator is told nothing."""
    producer = clients.transactional_producer(settings, transactional_id=transactional_id)
    await producer.start()
    producer._txn_manager.moorage_version_2 = False  # with version 2, brokers tell the coordinator
    await producer.begin_transaction()
    producer._txn_manager._txn_partitions.update(places)
    return producer


async def leave_open(settings: Settings, partition: int, other: int) -> list[TopicPartition]:
    """What the owner of a partition leaves when every marker of its transaction is lost: state, events and offsets."""
    group = f"{settings.topic_prefix}.{Counter.name}"
    events: list[tuple[Topic, int, Model]] = [
        (TALLIES, partition, Tally(key=_PLANTED, count=100, total=100)),
        (COUNTED, partition, Counted(key=_PLANTED, seq=100, n=0, total=100)),
        (COUNTED, other, Counted(key=_PLANTED, seq=101, n=0, total=100)),
    ]
    places = [place(settings, topic, number) for topic, number, _ in events]
    producer = await begun_behind_the_coordinators_back(settings, f"{group}.{partition}", places)
    for (topic, number, event), tp in zip(events, places, strict=True):
        headers = to_headers(Meta(id=f"{_PLANTED}-{topic.short}-{number}", source="test", type=topic.event_type))
        value = event.model_dump_json().encode()
        sent = await producer.send(tp.topic, value, key=_PLANTED.encode(), partition=tp.partition, headers=headers)
        await sent
    producer._txn_manager._txn_consumer_group = group
    await producer.send_offsets_to_transaction({place(settings, TABLE, partition): 77}, group)
    await producer.stop()
    return places


async def commit_without_markers(
    producer: PartitionProducer, records: Sequence[Outgoing], offsets: Mapping[str, Mapping[TopicPartition, int]]
) -> list[TopicPartition]:
    """Write a transaction that gets no marker on any topic, only one for its offsets, if it has any."""
    raw = producer._producer
    assert raw is not None
    places = sorted({TopicPartition(record.topic, record.partition) for record in records})
    version_2 = is_version_2(raw._txn_manager)
    raw._txn_manager.moorage_version_2 = False  # as above, for this transaction
    await raw.begin_transaction()
    raw._txn_manager._txn_partitions.update(places)
    for batch in await send_batches(raw, records):
        await batch.delivered
    if offsets:
        for group, positions in offsets.items():
            await raw.send_offsets_to_transaction(dict(positions), group)
        await raw.commit_transaction()
    else:
        raw._txn_manager.committing_transaction()
        raw._txn_manager.complete_transaction()  # before its sender could ask the coordinator
    raw._txn_manager.moorage_version_2 = version_2
    return places


async def open_at(settings: Settings, places: Sequence[TopicPartition]) -> list[TopicPartition]:
    """Those on which a transaction is open."""
    found: list[dict[TopicPartition, int]] = []
    for committed_only in (True, False):
        consumer = clients.table_consumer(settings, client_id="test", committed_only=committed_only)
        async with consumer:
            found.append(await consumer.end_offsets(list(places)))
    stable, ends = found
    return [tp for tp in places if stable[tp] < ends[tp]]


async def committed_offset(settings: Settings, tp: TopicPartition) -> int | None:
    group = f"{settings.topic_prefix}.{Counter.name}"
    async with AIOKafkaConsumer(bootstrap_servers=settings.bootstrap_servers, group_id=group) as consumer:
        found = await consumer.committed(tp)
        return None if found is None else int(found)


def of_planted(records: Sequence[Any]) -> list[Any]:
    return [record for record in records if record.key in (_PLANTED.encode(), b"sweep")]


def swept() -> float:
    return float(metrics.LOST_MARKERS.labels(Counter.name)._value.get())


def restarts(why: str) -> float:
    return float(metrics.RESTARTS.labels(Counter.name, why)._value.get())


async def all_counted(settings: Settings, wanted: int) -> None:
    async def there() -> bool:
        return sum(map(len, (await counted(settings)).values())) >= wanted

    await until(there, message=f"{wanted} records were not processed")


async def test_an_owner_ends_what_the_broker_left_open_as_aborted(gullible_broker: EmbeddedBroker) -> None:
    settings = settings_for(
        gullible_broker.bootstrap, "lost", partitions=_PARTITIONS, batch_max_records=10, transaction_timeout_ms=4000
    )
    await make_toys(settings)
    work = [Number(key=f"k{i % 5}", n=i) for i in range(300)]
    assert {partition_of(number.key, _PARTITIONS) for number in work} == {0, 1}, "each partition must get commits"
    partition, other = 0, 1
    await write_numbers(settings, work[:100])
    async with worker_for(Counter(), settings) as worker:
        await worker.wait_ready()
        await all_counted(settings, 100)
    places = await leave_open(settings, partition, other)
    assert await open_at(settings, places) == places, "nothing was left open, so the test shows nothing"
    before = swept()

    await write_numbers(settings, work[100:200])
    async with worker_for(Counter(), settings) as worker:
        await worker.wait_ready(30)
        assert swept() == before + 1, "one owner had something to end"
        await all_counted(settings, 200)
        await write_numbers(settings, work[200:])
        await all_counted(settings, 300)
    assert await open_at(settings, places) == []
    assert_exactly_once(await counted(settings), work)
    assert of_planted([*await read_all(settings, TALLIES), *await read_all(settings, COUNTED)]) == []
    assert await committed_offset(settings, place(settings, TABLE, partition)) != 77
    # Whoever comes next finds nothing to end, and the state that was meant.
    async with worker_for(Counter(), settings) as worker:
        await worker.wait_ready(30)
        assert _PLANTED not in worker.tasks[partition].engines[0].state.tallies
    assert swept() == before + 1


async def test_an_owner_does_again_what_it_committed_without_markers(
    gullible_broker: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = settings_for(gullible_broker.bootstrap, "alive", partitions=1, transaction_timeout_ms=4000)
    await make_toys(settings)
    work = [Number(key=f"k{i % 5}", n=i) for i in range(30)]
    async with worker_for(Counter(), settings) as worker:
        await worker.wait_ready()
        await write_numbers(settings, work[:10])
        await all_counted(settings, 10)
        producer = worker.tasks[0]._producer
        assert producer is not None
        losing: list[TopicPartition] = []

        async def committed_without_markers(
            records: Sequence[Outgoing], _: GroupOffsets, *, within: float | None = None, **_named: Any
        ) -> None:
            assert within is None, "nothing that it writes is irrevocable"
            losing.extend(await commit_without_markers(producer, records, {}))

        # What it takes for slow is all that tells it to look.
        monkeypatch.setattr(dangling_transactions, "_SLOW", 0.0)
        monkeypatch.setattr(producer, "write", committed_without_markers)
        before = restarts("state"), swept()
        await write_numbers(settings, work[10:])
        await all_counted(settings, 30)
        assert losing, "nothing was written without markers, so the test shows nothing"
        assert (restarts("state"), swept()) == (before[0] + 1, before[1] + 1)
    assert_exactly_once(await counted(settings), work)


async def test_offsets_of_what_was_lost_are_set_back_to_where_it_began_and_before_it_is_ended(
    gullible_broker: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A dead letter that was written just before carries no positions, and is not written again."""
    settings = settings_for(gullible_broker.bootstrap, "back", partitions=1, transaction_timeout_ms=4000)
    group, tp = f"{settings.topic_prefix}.{Counter.name}", place(settings, NUMBERS, 0)
    await make_toys(settings)
    work = [Number(key=f"k{i % 5}", n=i) for i in range(30)]

    async def letters() -> int:
        return len(await read_all(settings, DEAD_LETTERS))

    async with worker_for(Counter(), settings) as worker:
        await worker.wait_ready()
        await write_numbers(settings, work[:10])
        await all_counted(settings, 10)
        begins = await write_raw(settings, NUMBERS, b"k1", b"{not json") + 1

        async def refused() -> bool:
            return await letters() == 1

        await until(refused)
        producer = worker.tasks[0]._producer
        assert producer is not None

        async def without_markers(
            records: Sequence[Outgoing], offsets: GroupOffsets, *, within: float | None = None, **_named: Any
        ) -> None:
            assert within is None, "nothing that it writes is irrevocable"
            read = {tp: worker.tasks[0].engines[0].positions[NUMBERS]}
            await commit_without_markers(producer, records, {group: {**offsets.get(group, {}), **read}})

        monkeypatch.setattr(dangling_transactions, "_SLOW", math.inf)
        monkeypatch.setattr(producer, "write", without_markers)
        await write_numbers(settings, work[10:])
        end = begins + 20

        async def all_there() -> bool:
            return await committed_offset(settings, tp) == end

        await until(all_there, message="the offsets were not committed")
    found: list[int | None] = []
    sweep = PartitionProducer.sweep

    async def once_in_vain(self: PartitionProducer, *given: Any) -> None:
        if not found:
            found.append(await committed_offset(settings, tp))
            raise KafkaError("the process could end here, too")
        await sweep(self, *given)

    monkeypatch.setattr(PartitionProducer, "sweep", once_in_vain)
    async with worker_for(Counter(), settings) as worker:
        await worker.wait_ready(30)
        await all_counted(settings, 30)
    assert found == [begins]
    assert_exactly_once(await counted(settings), work)
    assert await letters() == 1


async def test_an_owner_that_cannot_end_it_starts_afresh_until_it_is_over(broker: Broker, topic_prefix: str) -> None:
    settings = settings_for(broker.bootstrap, topic_prefix, partitions=_PARTITIONS, transaction_timeout_ms=1000)
    await make_toys(settings)
    work = [Number(key=f"k{i % 5}", n=i) for i in range(50)]
    await write_numbers(settings, work)
    tp = place(settings, TALLIES, 0)
    # The transaction of another producer, so the owner's markers do not end it.
    patient = settings.model_copy(update={"transaction_timeout_ms": 60_000})
    stranger = clients.transactional_producer(patient, transactional_id=f"{settings.topic_prefix}.stranger")
    await stranger.start()
    await stranger.begin_transaction()
    await stranger.send_and_wait(tp.topic, b"{}", key=_PLANTED.encode(), partition=tp.partition)
    before = restarts("kafka")
    async with worker_for(Counter(), settings) as worker:
        await until(lambda: restarts("kafka") > before, message="it waits for ever")
        assert not worker.ready
        await stranger.abort_transaction()
        await worker.wait_ready(30)
        await all_counted(settings, 50)
    await stranger.stop()
    assert await open_at(settings, [tp]) == []
    assert_exactly_once(await counted(settings), work)
    assert of_planted(await read_all(settings, TALLIES)) == []


async def test_a_leading_gateway_ends_what_the_broker_left_open(gullible_broker: EmbeddedBroker) -> None:
    settings = gateway_settings(gullible_broker, "left-open")
    async with running_gateway(settings) as client:
        await until(lambda: has_its_roles(client))  # from then on it writes nothing by itself
        assert (await client.post(NODES, json=a_node("n1"))).status_code == 201
    places = [
        place(settings, RESOURCES, partition_of(f"Node/{_PLANTED}", _PARTITIONS)),
        place(settings, OBJECTS, partition_of(FLEET, _PARTITIONS)),
    ]
    producer = await begun_behind_the_coordinators_back(settings, f"{settings.topic_prefix}.gateway", places)
    for tp in places:
        await producer.send_and_wait(tp.topic, b"{}", key=f"Node/{_PLANTED}".encode(), partition=tp.partition)
    await producer.stop()
    assert await open_at(settings, places) == places, "nothing was left open, so the test shows nothing"

    async with running_gateway(settings) as client:
        assert (await client.post(NODES, json=a_node("n2"))).status_code == 201
        assert await nodes(client) == {"n1", "n2"}
        assert await open_at(settings, places) == []
        assert "moorage_gateway_lost_markers_total 1.0" in (await client.get("/metrics")).text


async def test_a_gateway_answers_no_write_whose_markers_are_missing(
    gullible_broker: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = gateway_settings(gullible_broker, "unmarked").model_copy(update={"transaction_timeout_ms": 2000})

    async def without_markers(producer: AIOKafkaProducer) -> None:
        producer._txn_manager.committing_transaction()
        producer._txn_manager.complete_transaction()  # before its sender could ask the coordinator

    async with running_gateway(settings) as client:
        await until(lambda: has_its_roles(client))  # from then on it writes nothing by itself
        with monkeypatch.context() as patched:
            patched.setattr(AIOKafkaProducer, "commit_transaction", without_markers)
            answer = await client.post(NODES, json=a_node("n1"))
        assert answer.status_code == 504, answer.text
        assert "it is not known whether the object was written" in answer.json()["message"]

        async def written() -> bool:
            return (await client.post(NODES, json=a_node("n2"))).status_code == 201

        await until(written)
        assert await nodes(client) == {"n2"}


def gateway_settings(broker: Broker, prefix: str) -> Settings:
    return Settings(bootstrap_servers=broker.bootstrap, topic_prefix=prefix, partitions=_PARTITIONS, gateway_port=0)


def a_node(name: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}


async def nodes(client: httpx.AsyncClient) -> set[str]:
    """The names of the nodes that a gateway shows."""
    return {item["metadata"]["name"] for item in (await client.get(NODES)).json()["items"]}
