"""What Moorage relies on of Kafka and of aiokafka's clients, written once, and run on the simulation and on a broker.

Each contract gets a rig, which makes topics and clients.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, Protocol

import pytest
from aiokafka import TopicPartition
from aiokafka.abc import ConsumerRebalanceListener
from aiokafka.coordinator.protocol import ConsumerProtocol
from aiokafka.errors import CommitFailedError, IllegalOperation, IllegalStateError, ProducerFenced

SESSION: Final = 6.0
"""Seconds after which a group forgets a member that is silent."""


class Rig(Protocol):
    """Where a contract is run."""

    def name(self, what: str) -> str:
        """A name that nothing else has, for a group or a transactional id."""

    async def topic(self, partitions: int = 1, config: Mapping[str, str] | None = None) -> str:
        """A new topic."""

    async def producer(self, **options: Any) -> Any:
        """A producer, started."""

    async def consumer(self, **options: Any) -> Any:
        """A consumer that reads from the beginning, started."""

    async def admin(self) -> Any:
        """An administrator's client, started."""

    async def die(self, consumer: Any) -> None:
        """Let a member of a group fall silent, as if its process were killed."""

    async def compacted(self, topic: str) -> None:
        """Let the cleaner look at a topic; it is quick where the topic's settings let it."""


Contract = Callable[[Rig], Awaitable[None]]

CONTRACTS: dict[str, Contract] = {}


def contract(function: Contract) -> Contract:
    """Enter a contract into the table."""
    CONTRACTS[function.__name__] = function
    return function


async def _until(what: Callable[[], Awaitable[bool] | bool], seconds: float = 60.0) -> None:
    loop = asyncio.get_running_loop()
    deadline = loop.time() + seconds
    while True:
        found = what()
        if found if isinstance(found, bool) else await found:
            return
        assert loop.time() < deadline, "it did not come to pass"
        await asyncio.sleep(0.02)


async def _values(consumer: Any, count: int, seconds: float = 20.0) -> list[bytes]:
    """The values of the next records, as many as are wanted."""
    found: list[bytes] = []
    loop = asyncio.get_running_loop()
    deadline = loop.time() + seconds
    while len(found) < count:
        assert loop.time() < deadline, found
        for records in (await consumer.getmany(timeout_ms=200)).values():
            found += [record.value for record in records]
    return found


async def _nothing(consumer: Any) -> None:
    """No record comes, for a while."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + 0.6
    while loop.time() < deadline:
        assert await consumer.getmany(timeout_ms=200) == {}


async def _write(producer: Any, topic: str, *values: bytes, partition: int = 0, key: bytes = b"k") -> None:
    for value in values:
        await (await producer.send(topic, value, key=key, partition=partition))


async def _transaction(producer: Any, topic: str, *values: bytes, commit: bool = True, partition: int = 0) -> None:
    await producer.begin_transaction()
    await _write(producer, topic, *values, partition=partition)
    await (producer.commit_transaction() if commit else producer.abort_transaction())


async def _assigned(rig: Rig, topic: str, *partitions: int, **options: Any) -> Any:
    consumer = await rig.consumer(**options)
    consumer.assign([TopicPartition(topic, partition) for partition in partitions or (0,)])
    return consumer


@contract
async def a_transaction_is_seen_whole_once_it_is_committed(rig: Rig) -> None:
    topic = await rig.topic()
    producer = await rig.producer(transactional_id=rig.name("id"))
    committed = await _assigned(rig, topic, isolation_level="read_committed")
    any_ = await _assigned(rig, topic, isolation_level="read_uncommitted")
    await producer.begin_transaction()
    await _write(producer, topic, b"1", b"2")
    assert await _values(any_, 2) == [b"1", b"2"]
    await _nothing(committed)
    await producer.commit_transaction()
    assert await _values(committed, 2) == [b"1", b"2"]


@contract
async def where_the_broker_sets_the_time_its_answer_has_it(rig: Rig) -> None:
    plain, timed = await rig.topic(), await rig.topic(config={"message.timestamp.type": "LogAppendTime"})
    producer = await rig.producer(enable_idempotence=True)
    answers = [await producer.send_and_wait(timed, b"1", key=b"k", partition=0, timestamp_ms=5) for _ in range(2)]
    assert [answer.timestamp_type for answer in answers] == [1, 1]
    assert 5 < answers[0].timestamp <= answers[1].timestamp
    reader = await _assigned(rig, timed)
    found: list[int] = []
    await _until(lambda: _stamps(reader, found, 2))
    assert found == [answer.timestamp for answer in answers], "not that of the writer"
    assert (await producer.send_and_wait(plain, b"1", key=b"k", partition=0)).timestamp_type == 0


async def _stamps(consumer: Any, found: list[int], count: int) -> bool:
    """Add the times of the next records; whether there are as many as are wanted."""
    for records in (await consumer.getmany(timeout_ms=200)).values():
        found += [record.timestamp for record in records]
    return len(found) >= count


@contract
async def the_end_is_the_last_stable_offset_for_readers_of_committed_records(rig: Rig) -> None:
    topic = await rig.topic()
    tp = TopicPartition(topic, 0)
    producer = await rig.producer(transactional_id=rig.name("id"))
    committed = await rig.consumer(isolation_level="read_committed")
    any_ = await rig.consumer(isolation_level="read_uncommitted")
    assert await any_.end_offsets([tp]) == {tp: 0} == await committed.end_offsets([tp])
    await _transaction(producer, topic, b"1")
    await _until(lambda: _is(committed.end_offsets([tp]), {tp: 2}))
    assert await any_.end_offsets([tp]) == {tp: 2}, "the marker has an offset, too"
    await producer.begin_transaction()
    await _write(producer, topic, b"2", b"3")
    assert await any_.end_offsets([tp]) == {tp: 4}
    assert await committed.end_offsets([tp]) == {tp: 2}
    assert await committed.beginning_offsets([tp]) == {tp: 0}
    await producer.abort_transaction()
    await _until(lambda: _is(committed.end_offsets([tp]), {tp: 5}))


async def _is(asked: Awaitable[Any], wanted: Any) -> bool:
    return bool(await asked == wanted)


@contract
async def nobody_reads_past_an_open_transaction(rig: Rig) -> None:
    topic = await rig.topic()
    slow = await rig.producer(transactional_id=rig.name("slow"))
    quick = await rig.producer(transactional_id=rig.name("quick"))
    reader = await _assigned(rig, topic, isolation_level="read_committed")
    await slow.begin_transaction()
    await _write(slow, topic, b"slow")
    await _transaction(quick, topic, b"quick")
    await _nothing(reader)
    assert await reader.position(TopicPartition(topic, 0)) == 0
    await slow.commit_transaction()
    assert await _values(reader, 2) == [b"slow", b"quick"]


@contract
async def what_was_aborted_is_passed_and_never_seen(rig: Rig) -> None:
    topic = await rig.topic()
    tp = TopicPartition(topic, 0)
    producer = await rig.producer(transactional_id=rig.name("id"))
    reader = await _assigned(rig, topic, isolation_level="read_committed")
    await _transaction(producer, topic, b"no", b"no", commit=False)
    await _transaction(producer, topic, b"yes")
    assert await _values(reader, 1) == [b"yes"]
    await _passes(reader, tp, 5)
    await _transaction(producer, topic, b"no", commit=False)
    await _passes(reader, tp, 7)


async def _passes(reader: Any, tp: TopicPartition, offset: int) -> None:
    """The position comes to an offset without a record."""

    async def there() -> bool:
        assert await reader.getmany(timeout_ms=50) == {}
        return bool(await reader.position(tp) == offset)

    await _until(there)


@contract
async def the_position_passes_the_markers_at_the_end(rig: Rig) -> None:
    topic = await rig.topic()
    tp = TopicPartition(topic, 0)
    producer = await rig.producer(transactional_id=rig.name("id"))
    await _transaction(producer, topic, b"1", b"2")
    reader = await _assigned(rig, topic, isolation_level="read_committed")
    found: list[int] = []
    while len(found) < 2:
        for records in (await reader.getmany(timeout_ms=1000, max_records=1)).values():
            found += [record.offset for record in records]
            assert await reader.position(tp) == found[-1] + 1
    assert found == [0, 1]
    await _passes(reader, tp, 3)


@contract
async def a_poll_returns_when_only_its_position_has_moved(rig: Rig) -> None:
    topic = await rig.topic()
    tp = TopicPartition(topic, 0)
    producer = await rig.producer(transactional_id=rig.name("id"))
    reader = await _assigned(rig, topic, isolation_level="read_committed")
    aborted: asyncio.Future[None] = asyncio.ensure_future(_transaction(producer, topic, b"no", commit=False))
    async with asyncio.timeout(30):
        while await reader.position(tp) < 2:
            assert await reader.getmany(timeout_ms=60_000) == {}
        await aborted
        await _transaction(producer, topic, b"yes")
        assert await _values(reader, 1, seconds=30) == [b"yes"]
        while await reader.position(tp) < 4:
            assert await reader.getmany(timeout_ms=60_000) == {}


@contract
async def a_poll_returns_when_a_position_has_been_reset(rig: Rig) -> None:
    topic = await rig.topic()
    tp = TopicPartition(topic, 0)
    producer = await rig.producer()
    await _write(producer, topic, b"1")
    reader = await _assigned(rig, topic)
    assert await _values(reader, 1) == [b"1"]
    reader.seek(tp, 7)
    async with asyncio.timeout(30):
        while await reader.position(tp) == 7:
            await reader.getmany(timeout_ms=60_000)
    assert await reader.position(tp) <= 1, "it begins again"


@contract
async def a_new_producer_of_an_id_fences_the_old_one_and_ends_what_it_has_open(rig: Rig) -> None:
    topic, id_ = await rig.topic(), rig.name("id")
    tp = TopicPartition(topic, 0)
    old = await rig.producer(transactional_id=id_)
    await old.begin_transaction()
    await _write(old, topic, b"old")
    new = await rig.producer(transactional_id=id_)
    reader = await _assigned(rig, topic, isolation_level="read_committed")
    assert await reader.end_offsets([tp]) == {tp: 2}, "when the new one has started, nothing of the old one is open"
    with pytest.raises(ProducerFenced):
        await old.commit_transaction()
    with pytest.raises(AssertionError):
        await old.abort_transaction()
    await _transaction(new, topic, b"new")
    assert await _values(reader, 1) == [b"new"]


@contract
async def a_fenced_producer_cannot_begin_to_write(rig: Rig) -> None:
    topic, id_ = await rig.topic(), rig.name("id")
    old = await rig.producer(transactional_id=id_)
    await _transaction(old, topic, b"old")
    new = await rig.producer(transactional_id=id_)
    await old.begin_transaction()
    sent = await old.send(topic, b"zombie", key=b"k", partition=0)
    with pytest.raises(ProducerFenced):
        await sent
    await _transaction(new, topic, b"new")
    reader = await _assigned(rig, topic, isolation_level="read_uncommitted")
    assert await _values(reader, 2) == [b"old", b"new"]


@contract
async def a_fenced_producer_commits_no_offsets(rig: Rig) -> None:
    topic, id_, group = await rig.topic(), rig.name("id"), rig.name("group")
    tp = TopicPartition(topic, 0)
    old = await rig.producer(transactional_id=id_)
    new = await rig.producer(transactional_id=id_)
    await old.begin_transaction()
    with pytest.raises(ProducerFenced):
        await old.send_offsets_to_transaction({tp: 7}, group)
    await new.begin_transaction()
    await new.send_offsets_to_transaction({tp: 5}, group)
    await new.commit_transaction()
    asking = await rig.consumer(group_id=group)
    await _until(lambda: _is(asking.committed(tp), 5))


@contract
async def offsets_count_once_their_transaction_is_committed_whoever_is_in_the_group(rig: Rig) -> None:
    topic, group = await rig.topic(2), rig.name("group")
    tp, other = TopicPartition(topic, 0), TopicPartition(topic, 1)
    producer = await rig.producer(transactional_id=rig.name("id"))
    asking = await rig.consumer(group_id=group)
    admin = await rig.admin()
    assert await asking.committed(tp) is None
    await producer.begin_transaction()
    await producer.send_offsets_to_transaction({tp: 3}, group)
    assert await asking.committed(tp) is None
    await producer.commit_transaction()
    await _until(lambda: _is(asking.committed(tp), 3))
    await producer.begin_transaction()
    await producer.send_offsets_to_transaction({tp: 9}, group)
    await producer.abort_transaction()
    await producer.begin_transaction()
    await producer.send_offsets_to_transaction({other: 1}, group)
    await producer.commit_transaction()
    await _until(lambda: _is(asking.committed(other), 1))
    assert await asking.committed(tp) == 3
    found = await admin.list_consumer_group_offsets(group)
    assert {tp: given.offset for tp, given in found.items()} == {tp: 3, other: 1}
    unknown = await admin.list_consumer_group_offsets(rig.name("nobody"), partitions=[tp])
    assert unknown[tp].offset == -1


@contract
async def a_transaction_without_anything_is_nothing(rig: Rig) -> None:
    topic = await rig.topic()
    tp = TopicPartition(topic, 0)
    producer = await rig.producer(transactional_id=rig.name("id"))
    with pytest.raises(IllegalOperation):
        await producer.send(topic, b"1", key=b"k", partition=0)
    await producer.begin_transaction()
    with pytest.raises(AssertionError):
        await producer.begin_transaction()
    await producer.commit_transaction()
    await producer.begin_transaction()
    await producer.abort_transaction()
    asking = await rig.consumer()
    assert await asking.end_offsets([tp]) == {tp: 0}


@contract
async def the_coordinator_ends_what_takes_too_long(rig: Rig) -> None:
    topic = await rig.topic()
    tp = TopicPartition(topic, 0)
    producer = await rig.producer(transactional_id=rig.name("id"), transaction_timeout_ms=1000)
    reader = await _assigned(rig, topic, isolation_level="read_committed")
    await producer.begin_transaction()
    await _write(producer, topic, b"late")
    await _until(lambda: _is(reader.end_offsets([tp]), {tp: 2}))
    with pytest.raises(ProducerFenced):
        await producer.commit_transaction()
    await _passes(reader, tp, 2)


@contract
async def batches_go_out_in_the_order_of_their_records(rig: Rig) -> None:
    topic = await rig.topic(2)
    producer = await rig.producer(transactional_id=rig.name("id"))
    await producer.begin_transaction()
    sent = []
    for partition in range(2):
        batch = producer.create_batch()
        for number in range(3):
            row = {"timestamp": None, "key": b"k", "value": b"%d" % number, "headers": [("h", b"v")]}
            assert batch.append(**row) is not None
        batch.close()
        sent.append(await producer.send_batch(batch, topic, partition=partition))
    places = [await one for one in sent]
    await producer.commit_transaction()
    assert [(place.partition, place.offset) for place in places] == [(0, 0), (1, 0)]
    reader = await _assigned(rig, topic, 0, 1, isolation_level="read_committed")
    found: dict[int, list[Any]] = {0: [], 1: []}
    while sum(map(len, found.values())) < 6:
        for tp, records in (await reader.getmany(timeout_ms=1000)).items():
            found[tp.partition] += records
    for records in found.values():
        assert [(record.offset, record.value, list(record.headers)) for record in records] == [
            (number, b"%d" % number, [("h", b"v")]) for number in range(3)
        ]


@contract
async def seek_pause_and_resume(rig: Rig) -> None:
    topic = await rig.topic(2)
    one, two = TopicPartition(topic, 0), TopicPartition(topic, 1)
    producer = await rig.producer()
    for partition in range(2):
        await _write(producer, topic, *(b"%d-%d" % (partition, number) for number in range(4)), partition=partition)
    reader = await _assigned(rig, topic, 0, 1)
    reader.pause(one)
    assert reader.paused() == {one}
    assert await _values(reader, 4) == [b"1-0", b"1-1", b"1-2", b"1-3"]
    assert (await reader.position(one), await reader.position(two)) == (0, 4)
    reader.seek(one, 2)
    reader.resume(one)
    assert await _values(reader, 2) == [b"0-2", b"0-3"]
    reader.seek(two, 3)
    assert await _values(reader, 1) == [b"1-3"]
    with pytest.raises(IllegalStateError):
        reader.seek(TopicPartition(topic, 7), 0)
    with pytest.raises(IllegalStateError):
        await reader.position(TopicPartition(topic, 7))


@contract
async def what_was_fetched_before_a_pause_comes_after_it(rig: Rig) -> None:
    topic = await rig.topic()
    tp = TopicPartition(topic, 0)
    producer = await rig.producer()
    await _write(producer, topic, *(b"%d" % number for number in range(5)))
    reader = await _assigned(rig, topic)
    seen: list[bytes] = []
    while not seen:
        for records in (await reader.getmany(timeout_ms=10_000, max_records=2)).values():
            seen += [record.value for record in records]
    assert seen in ([b"0"], [b"0", b"1"])
    reader.pause(tp)
    await _nothing(reader)
    reader.resume(tp)
    assert seen + await _values(reader, 5 - len(seen)) == [b"%d" % number for number in range(5)]


@contract
async def an_offset_out_of_range_begins_again(rig: Rig) -> None:
    topic = await rig.topic()
    producer = await rig.producer()
    await _write(producer, topic, b"1", b"2")
    reader = await _assigned(rig, topic)
    reader.seek(TopicPartition(topic, 0), 100)
    assert await _values(reader, 2) == [b"1", b"2"]


@contract
async def a_group_goes_on_where_it_has_committed(rig: Rig) -> None:
    topic, group = await rig.topic(2), rig.name("group")
    one, two = TopicPartition(topic, 0), TopicPartition(topic, 1)
    producer = await rig.producer()
    await _write(producer, topic, b"1", b"2", b"3")
    first = await rig.consumer(group_id=group)
    first.subscribe([topic])
    assert await _values(first, 3) == [b"1", b"2", b"3"]
    await first.commit({one: 2})
    await first.stop()
    second = await rig.consumer(group_id=group)
    second.subscribe([topic])
    assert await _values(second, 1) == [b"3"]
    assert (await second.position(one), await second.position(two)) == (3, 0)


class _Listener(ConsumerRebalanceListener):  # type: ignore[misc]  # aiokafka publishes no types
    def __init__(self) -> None:
        self.told: list[tuple[str, list[int]]] = []
        self.mine: set[int] = set()

    async def on_partitions_revoked(self, revoked: set[TopicPartition]) -> None:
        self.told.append(("revoked", sorted(tp.partition for tp in revoked)))

    async def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
        self.mine = {tp.partition for tp in assigned}
        self.told.append(("assigned", sorted(self.mine)))


async def _member(rig: Rig, group: str, *topics: str) -> tuple[Any, _Listener]:
    consumer = await rig.consumer(
        group_id=group,
        session_timeout_ms=int(SESSION * 1000),
        heartbeat_interval_ms=500,
        rebalance_timeout_ms=20_000,
    )
    listener = _Listener()
    consumer.subscribe(topics, listener=listener)
    return consumer, listener


@contract
async def a_group_shares_out_by_range_whoever_joins_leaves_or_dies(rig: Rig) -> None:
    topic, more, group = await rig.topic(2), await rig.topic(2), rig.name("group")
    one, first = await _member(rig, group, topic, more)
    await _until(lambda: one.assignment() == {TopicPartition(name, p) for name in (topic, more) for p in range(2)})
    two, second = await _member(rig, group, topic, more)
    await _until(lambda: len(first.mine) == 1 == len(second.mine))
    assert first.mine | second.mine == {0, 1}
    for consumer, listener in ((one, first), (two, second)):
        (mine,) = listener.mine
        assert consumer.assignment() == {TopicPartition(topic, mine), TopicPartition(more, mine)}, "they line up"
    assert first.told[0] == ("revoked", [])
    assert ("revoked", [0, 0, 1, 1]) in first.told, "all of it is revoked before it is shared out anew"
    await two.stop()
    await _until(lambda: first.mine == {0, 1})
    three, third = await _member(rig, group, topic, more)
    await _until(lambda: len(first.mine) == 1 == len(third.mine))
    began = asyncio.get_running_loop().time()
    await rig.die(three)
    await _until(lambda: first.mine == {0, 1}, 4 * SESSION)
    assert asyncio.get_running_loop().time() - began > SESSION / 2, "it is missed when its session is over"


@contract
async def what_is_described_of_a_group_tells_who_holds_what(rig: Rig) -> None:
    topic, group = await rig.topic(2), rig.name("group")
    consumer, listener = await _member(rig, group, topic)
    await _until(lambda: listener.mine == {0, 1})
    admin = await rig.admin()
    held: dict[str, set[int]] = {}

    async def stable() -> bool:
        (response,) = await admin.describe_consumer_groups([group])
        ((code, name, state, _, _, members, *_),) = response.groups
        assert (code, name) == (0, group)
        for _, client, _, _, assignment in members if state == "Stable" else ():
            held[client] = {tp.partition for tp in ConsumerProtocol.ASSIGNMENT.decode(assignment).partitions()}
        return bool(state == "Stable")

    await _until(stable)
    assert list(held.values()) == [{0, 1}]
    await consumer.stop()


@contract
async def a_member_that_the_group_has_given_up_cannot_commit(rig: Rig) -> None:
    topic, group = await rig.topic(2), rig.name("group")
    tp = TopicPartition(topic, 0)
    one, first = await _member(rig, group, topic)
    await _until(lambda: first.mine == {0, 1})
    await one.commit({tp: 1})
    await rig.die(one)
    two, second = await _member(rig, group, topic)
    await _until(lambda: second.mine == {0, 1}, 4 * SESSION)
    assert await two.committed(tp) == 1
    stranger = await rig.consumer(group_id=group)
    stranger.assign([tp])
    with pytest.raises(CommitFailedError):
        await stranger.commit({tp: 5})
    await two.commit({tp: 2})
    assert await two.committed(tp) == 2


@contract
async def compaction_keeps_the_last_of_each_key_and_every_offset(rig: Rig) -> None:
    topic = await rig.topic(
        config={
            "cleanup.policy": "compact",
            "min.compaction.lag.ms": "0",
            "delete.retention.ms": "3600000",
            "segment.ms": "100",
            "min.cleanable.dirty.ratio": "0.0",
        }
    )
    tp = TopicPartition(topic, 0)
    producer = await rig.producer(transactional_id=rig.name("id"))
    await producer.begin_transaction()
    await _write(producer, topic, b"a1", key=b"a")
    await _write(producer, topic, b"b1", key=b"b")
    await _write(producer, topic, b"a2", key=b"a")
    await producer.commit_transaction()
    await producer.begin_transaction()
    await _write(producer, topic, b"no", key=b"b")
    await producer.abort_transaction()
    await producer.begin_transaction()
    await (await producer.send(topic, None, key=b"b", partition=0))
    await producer.commit_transaction()
    await asyncio.sleep(0.3)
    await producer.begin_transaction()
    await _write(producer, topic, b"last", key=b"z")
    await producer.commit_transaction()

    async def read() -> list[tuple[int, bytes, bytes | None]]:
        reader = await _assigned(rig, topic, isolation_level="read_committed")
        found = []
        while await reader.position(tp) < 10:
            for records in (await reader.getmany(timeout_ms=100)).values():
                found += [(record.offset, record.key, record.value) for record in records]
        await reader.stop()
        return found

    wanted = [(2, b"a", b"a2"), (6, b"b", None), (8, b"z", b"last")]
    written = [(0, b"a", b"a1"), (1, b"b", b"b1"), *wanted]
    found = await read()  # a broker's cleaner may have come already
    assert found == sorted(found)
    assert set(wanted) <= set(found) <= set(written)
    await rig.compacted(topic)
    await _until(lambda: _is(read(), wanted), 90.0)
    asking = await rig.consumer()
    assert await asking.beginning_offsets([tp]) == {tp: 0}
