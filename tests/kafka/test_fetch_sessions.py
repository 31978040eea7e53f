"""Fetch sessions on a broker, with and without room for them."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from tests.support.brokers import EmbeddedBroker
from tests.support.waiting import until

from moorage.runtime.kafka.clients.fetch_connections import fetches_of, hurry, rest
from moorage.runtime.kafka.clients.fetch_sessions import FetchSession, SessionFetchRequest

pytestmark = pytest.mark.kafka

SLOTS = "max.incremental.fetch.session.cache.slots"
SECONDS = 60.0
"""Seconds after which a test that waits has failed."""


@dataclass
class Room:
    """A broker, its clients, and the fetches that were sent to it."""

    broker: EmbeddedBroker
    fetches: dict[int, list[tuple[int, int, int, int]]] = field(default_factory=dict)
    """By session: the id, epoch, number of named partitions, and number of forgotten ones of each fetch."""

    spoiled: list[str] = field(default_factory=list)
    """The fields of a session that are wrong in its next fetches, one in each."""

    life: contextlib.AsyncExitStack = field(default_factory=contextlib.AsyncExitStack)
    numbers: itertools.count[int] = field(default_factory=itertools.count)

    def note(self, request: SessionFetchRequest) -> None:
        number, epoch = request.session
        if self.spoiled and epoch:
            wrong = self.spoiled.pop()
            request.session = (number + 17, epoch) if wrong == "id" else (number, epoch + 17)
        changed = sum(len(entries) for _, entries in request.changed)
        forgotten = sum(len(entries) for _, entries in request.forgotten)
        self.fetches.setdefault(id(request.fetches.session), []).append((number, epoch, changed, forgotten))

    def of(self, consumer: AIOKafkaConsumer) -> list[tuple[int, int, int, int]]:
        return self.fetches.setdefault(id(self.session(consumer)), [])

    @staticmethod
    def session(consumer: AIOKafkaConsumer) -> FetchSession:
        (node,) = [one.nodeId for one in consumer._client.cluster.brokers()]
        return fetches_of(consumer._fetcher, node).session

    async def topic(self, partitions: int) -> list[TopicPartition]:
        name = f"topic-{next(self.numbers)}"
        admin = AIOKafkaAdminClient(bootstrap_servers=self.broker.bootstrap)
        await admin.start()
        try:
            await admin.create_topics([NewTopic(name, partitions, 1)])
        finally:
            await admin.close()
        return [TopicPartition(name, number) for number in range(partitions)]

    async def producer(self, **options: Any) -> AIOKafkaProducer:
        made = AIOKafkaProducer(bootstrap_servers=self.broker.bootstrap, **options)
        await made.start()
        self.life.push_async_callback(made.stop)
        return made

    async def consumer(self, tps: list[TopicPartition], wait_ms: int = 100) -> AIOKafkaConsumer:
        made = AIOKafkaConsumer(
            bootstrap_servers=self.broker.bootstrap,
            enable_auto_commit=False,
            isolation_level="read_committed",
            fetch_max_wait_ms=wait_ms,
        )
        await made.start()
        self.life.push_async_callback(made.stop)
        made.assign(tps)
        for tp in tps:
            made.seek(tp, 0)
        return made

    async def steady(self, consumer: AIOKafkaConsumer) -> None:
        """Return when a fetch has named nothing."""
        seen = len(self.of(consumer))
        async with asyncio.timeout(SECONDS):
            while not any(fetch[2:] == (0, 0) for fetch in self.of(consumer)[seen:]):
                assert await consumer.getmany(timeout_ms=50) == {}


@pytest_asyncio.fixture(loop_scope="session")
async def room(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Room]:
    settings: dict[str, str] = getattr(request, "param", {})
    broker = EmbeddedBroker(tmp_path / "kafka", {"broker.session.timeout.ms": "3000", **settings})
    await broker.start()
    made = Room(broker)
    build = SessionFetchRequest.build

    def building(self: SessionFetchRequest, version: Any) -> Any:
        made.note(self)
        return build(self, version)

    monkeypatch.setattr(SessionFetchRequest, "build", building)
    try:
        async with made.life:
            yield made
    finally:
        await broker.close()


async def values(consumer: AIOKafkaConsumer, count: int) -> list[bytes]:
    """The values of the next records."""
    found: list[bytes] = []
    async with asyncio.timeout(SECONDS):
        while len(found) < count:
            for records in (await consumer.getmany(timeout_ms=1000)).values():
                found += [record.value for record in records]
    return found


async def test_a_session_reads_what_a_consumer_without_one_reads(room: Room) -> None:
    tps = await room.topic(8)
    producer = await room.producer()
    writer = await room.producer(transactional_id="writer")
    consumer = await room.consumer(tps)
    for tp in tps:
        await producer.send_and_wait(tp.topic, b"first", partition=tp.partition)
    assert await values(consumer, 8) == [b"first"] * 8
    await room.steady(consumer)
    first, *others = room.of(consumer)
    assert first[1:] == (0, 8, 0)
    assert {fetch[0] for fetch in others} == {room.session(consumer).id}
    assert room.session(consumer).id != 0

    # New records: one partition is named again, with its new offset.
    seen = len(room.of(consumer))
    await producer.send_and_wait(tps[3].topic, b"second", partition=3)
    assert await values(consumer, 1) == [b"second"]
    await room.steady(consumer)
    assert max(fetch[2] for fetch in room.of(consumer)[seen:]) == 1

    # A paused partition is forgotten. Resumed, it continues from its offset, and is sought like any other.
    consumer.pause(tps[3])
    await producer.send_and_wait(tps[3].topic, b"third", partition=3)
    await producer.send_and_wait(tps[4].topic, b"other", partition=4)
    assert await values(consumer, 1) == [b"other"]
    await room.steady(consumer)
    assert [fetch[3] for fetch in room.of(consumer) if fetch[3]] == [1]
    assert [fetch[1] for fetch in room.of(consumer)].count(0) == 1, "all in one session"
    consumer.resume(tps[3])
    assert await values(consumer, 1) == [b"third"]
    consumer.seek(tps[3], 0)
    assert await values(consumer, 3) == [b"first", b"second", b"third"]

    # Aborted records are left out, and the position passes them.
    for value, end in ((b"no", writer.abort_transaction), (b"yes", writer.commit_transaction)):
        await writer.begin_transaction()
        await writer.send_and_wait(tps[5].topic, value, partition=5)
        await end()
    assert await values(consumer, 1) == [b"yes"]
    async with asyncio.timeout(SECONDS):
        while await consumer.position(tps[5]) < 5:
            assert await consumer.getmany(timeout_ms=1000) == {}
    assert consumer.highwater(tps[5]) == 5

    # A new assignment begins another session.
    consumer.assign(tps[:2])
    for tp in tps[:2]:
        consumer.seek(tp, 0)
    assert await values(consumer, 2) == [b"first"] * 2
    assert [fetch[2] for fetch in room.of(consumer) if fetch[1] == 0][-1] == 2


async def test_partitions_rest_while_others_are_read_until_they_are_wanted_or_their_time_is_over(room: Room) -> None:
    resting, other = await room.topic(2)
    producer = await room.producer()
    consumer = await room.consumer([resting, other])
    for seconds in (2 * SECONDS, 0.2):
        await producer.send_and_wait(other.topic, b"first", partition=1)
        assert await values(consumer, 1) == [b"first"]
        rest(consumer, [resting], seconds)
        rest(consumer, [resting, other], 3 * SECONDS)  # a rest is not extended
        await producer.send_and_wait(resting.topic, b"rests", partition=0)
        if seconds > SECONDS:
            await producer.send_and_wait(other.topic, b"second", partition=1)
            assert await values(consumer, 1) == [b"second"]
            hurry(consumer, [other])
            assert await consumer.getmany(timeout_ms=0) == {}, "that one does not rest"
            hurry(consumer, [resting])
        assert await values(consumer, 1) == [b"rests"]
    assert [fetch[1] for fetch in room.of(consumer)].count(0) <= 2, "only a fetch that is cut begins another session"


async def test_a_session_that_the_broker_does_not_know_begins_again(room: Room) -> None:
    tps = await room.topic(3)
    producer = await room.producer()
    consumer = await room.consumer(tps)
    await room.steady(consumer)
    for wrong in ("id", "epoch"):  # FETCH_SESSION_ID_NOT_FOUND, INVALID_FETCH_SESSION_EPOCH
        seen = len(room.of(consumer))
        room.spoiled.append(wrong)
        await room.steady(consumer)
        await producer.send_and_wait(tps[1].topic, wrong.encode(), partition=1)
        assert await values(consumer, 1) == [wrong.encode()]
        await room.steady(consumer)
        assert [fetch[2] for fetch in room.of(consumer)[seen:] if fetch[1] == 0] == [3]


@pytest.mark.parametrize("room", [{SLOTS: "0"}], indirect=True)
async def test_a_consumer_without_room_for_its_session_reads_as_well(room: Room) -> None:
    tps = await room.topic(3)
    producer = await room.producer()
    consumer = await room.consumer(tps)
    for value in (b"1", b"2", b"3"):
        await producer.send_and_wait(tps[2].topic, value, partition=2)
        assert await values(consumer, 1) == [value]
    assert len(room.of(consumer)) >= 3
    assert set(room.of(consumer)) == {(0, 0, 3, 0)}


async def test_a_restart_of_the_broker_begins_a_session(room: Room) -> None:
    tps = await room.topic(3)
    consumer = await room.consumer(tps)
    await room.steady(consumer)
    seen = len(room.of(consumer))
    await room.broker.restart()
    producer = await room.producer()
    await producer.send_and_wait(tps[0].topic, b"after", partition=0)
    assert await values(consumer, 1) == [b"after"]
    await room.steady(consumer)
    assert any(fetch[1:3] == (0, 3) for fetch in room.of(consumer)[seen:])


LONG_MS = 600_000
"""The time for which a broker holds an empty fetch, longer than any test."""


async def waits(consumer: AIOKafkaConsumer) -> None:
    """Return when a fetch of the consumer waits at the broker."""
    (node,) = [one.nodeId for one in consumer._client.cluster.brokers()]
    fetches = fetches_of(consumer._fetcher, node)
    await until(lambda: fetches._cut is not None)


async def test_what_becomes_wanted_does_not_wait_for_an_empty_fetch(room: Room) -> None:
    tps = await room.topic(4)
    first, other, third, empty = tps
    producer = await room.producer()
    consumer = await room.consumer(tps, LONG_MS)
    await waits(consumer)
    for number in range(3):
        await producer.send_and_wait(first.topic, b"%d" % number, partition=first.partition)
    assert await values(consumer, 3) == [b"0", b"1", b"2"]

    # A partition that is resumed.
    consumer.pause(other)
    await waits(consumer)
    await producer.send_and_wait(first.topic, b"3", partition=first.partition)
    assert await values(consumer, 1) == [b"3"]
    await waits(consumer)
    await producer.send_and_wait(other.topic, b"other", partition=other.partition)
    consumer.resume(other)
    assert await values(consumer, 1) == [b"other"]

    # One that is sought, many times, and more often than there are connections.
    for number in (3, 2, 1, 0, 2):
        await waits(consumer)
        consumer.seek(first, number)
        assert await values(consumer, 4 - number) == [b"%d" % one for one in range(number, 4)]
    await waits(consumer)
    await consumer.seek_to_beginning(first)
    assert await values(consumer, 4) == [b"0", b"1", b"2", b"3"]

    # One whose records were left with the consumer while another fetch began.
    for number in range(3):
        await producer.send_and_wait(third.topic, b"%d" % number, partition=third.partition)
    found = await values_of(consumer, third, 1)
    await until(lambda: fetches_of(consumer._fetcher, 1)._cut is not None)
    found += await values_of(consumer, third, 3 - len(found))
    await producer.send_and_wait(third.topic, b"3", partition=third.partition)
    assert found + await values_of(consumer, third, 1) == [b"0", b"1", b"2", b"3"]

    # Other requests, and another assignment.
    await waits(consumer)
    async with asyncio.timeout(SECONDS):
        assert await consumer.end_offsets([first, empty]) == {first: 4, empty: 0}
    for _ in range(4):
        consumer.assign([first, empty])
        consumer.seek(first, 1)
        consumer.seek(empty, 0)
        assert await values(consumer, 3) == [b"1", b"2", b"3"]
        await waits(consumer)


async def values_of(consumer: AIOKafkaConsumer, tp: TopicPartition, count: int) -> list[bytes]:
    """The values of the next records of a partition, taken one by one."""
    found: list[bytes] = []
    async with asyncio.timeout(SECONDS):
        while len(found) < count:
            for records in (await consumer.getmany(tp, timeout_ms=1000, max_records=1)).values():
                found += [record.value for record in records]
    return found
