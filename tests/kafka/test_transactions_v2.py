"""Transactions of version 2 on a broker, and what a cluster without them gets."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import struct
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import pytest
import pytest_asyncio
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.client import AIOKafkaClient, CoordinationType
from aiokafka.conn import AIOKafkaConnection
from aiokafka.errors import (
    IncompatibleBrokerVersion,
    MessageSizeTooLargeError,
    ProducerFenced,
    RequestTimedOutError,
)
from aiokafka.protocol.api import RequestStruct, Response
from aiokafka.protocol.types import Boolean, CompactArray, CompactString, Int8, Int16, Int32, Schema, TaggedFields
from tests.support.brokers import EmbeddedBroker, until_it_has_groups

from moorage.runtime.kafka.clients import transactions_v2
from moorage.runtime.kafka.clients.fenced_producer import PartitionProducer
from moorage.runtime.kafka.clients.transactions_v2 import FEATURE, FixedRequest, ProducerIdReplacedError, is_version_2
from moorage.runtime.settings.process_settings import Settings
from moorage.runtime.wire.codec import Outgoing

pytestmark = pytest.mark.kafka

PRODUCE, COORDINATOR, ADD_PARTITIONS, ADD_OFFSETS, END, OFFSETS = 0, 10, 24, 25, 26, 28
TRANSACTIONAL: Final = {PRODUCE, ADD_PARTITIONS, ADD_OFFSETS, END, OFFSETS}
SECONDS = 60.0
"""Seconds after which a test that waits has failed."""

LAST_EPOCH = 32766
"""The last epoch of a producer id."""

STATES = "__transaction_state"
SETTINGS = {
    "broker.session.timeout.ms": "3000",
    # A broker that is busy answers late, and does not let the client send the request again.
    "add.partitions.to.txn.retry.backoff.max.ms": "60000",
    "transaction.state.log.num.partitions": "1",
}

NO_TAGS: Final[dict[int, bytes]] = {}
_ROOMS = itertools.count()


@dataclass
class Room:
    """A broker, its clients, and the requests that were sent to it."""

    broker: EmbeddedBroker
    life: contextlib.AsyncExitStack
    sent: Counter[tuple[int, int]] = field(default_factory=Counter)
    """The number of requests of transactions, by their key and version."""

    lookups: int = 0
    """The number of requests for coordinators."""

    numbers: Iterator[int] = field(default_factory=lambda: itertools.count(next(_ROOMS) * 1000))

    def name(self) -> str:
        return f"name-{next(self.numbers)}"

    async def topic(self, partitions: int = 2, **settings: str) -> list[TopicPartition]:
        name = self.name()
        admin = AIOKafkaAdminClient(bootstrap_servers=self.broker.bootstrap)
        await admin.start()
        try:
            await admin.create_topics([NewTopic(name, partitions, 1, topic_configs=settings)])
        finally:
            await admin.close()
        return [TopicPartition(name, number) for number in range(partitions)]

    async def producer(self, id_: str | None = None, **options: Any) -> AIOKafkaProducer:
        made = AIOKafkaProducer(
            bootstrap_servers=self.broker.bootstrap,
            transactional_id=id_ or self.name(),
            **{"retry_backoff_ms": 20, **options},
        )
        await made.start()
        self.life.push_async_callback(_stop, made)
        return made

    async def partition_producer(self) -> PartitionProducer:
        made = PartitionProducer(Settings(bootstrap_servers=self.broker.bootstrap), transactional_id=self.name())
        await made.start()
        self.life.push_async_callback(made.close)
        return made

    async def values(self, *tps: TopicPartition, isolation: str = "read_committed") -> list[bytes]:
        """The values of all records up to the present ends, in the order of partitions."""
        consumer = AIOKafkaConsumer(
            bootstrap_servers=self.broker.bootstrap, isolation_level=isolation, enable_auto_commit=False
        )
        await consumer.start()
        try:
            consumer.assign(tps)
            await consumer.seek_to_beginning(*tps)
            asking = AIOKafkaConsumer(bootstrap_servers=self.broker.bootstrap)
            await asking.start()
            try:
                ends = await asking.end_offsets(tps)
            finally:
                await asking.stop()
            found: dict[TopicPartition, list[bytes]] = {tp: [] for tp in tps}
            async with asyncio.timeout(SECONDS):
                while any([await consumer.position(tp) < end for tp, end in ends.items()]):
                    for tp, records in (await consumer.getmany(timeout_ms=1000)).items():
                        found[tp] += [record.value for record in records]
            return [value for tp in tps for value in found[tp]]
        finally:
            await consumer.stop()

    async def committed(self, group: str, tp: TopicPartition) -> int | None:
        """The committed offset of a group, when no transaction is open."""
        admin = AIOKafkaAdminClient(bootstrap_servers=self.broker.bootstrap)
        await admin.start()
        try:
            found: int = (await admin.list_consumer_group_offsets(group, partitions=[tp]))[tp].offset
            return None if found < 0 else found
        finally:
            await admin.close()

    async def set_version(self, version: int) -> None:
        """Set the feature of the cluster."""
        client = AIOKafkaClient(bootstrap_servers=self.broker.bootstrap)
        await client.bootstrap()
        try:
            change = (FEATURE, version, _UPGRADE if version >= 2 else _DOWNGRADE, NO_TAGS)
            request = FixedRequest(
                UpdateFeaturesRequest(timeout_ms=10_000, updates=[change], validate_only=False, tags=NO_TAGS)
            )
            response = await client.send(client.get_random_node(), request)
            assert (response.error_code, [row[:2] for row in response.results]) == (0, [(FEATURE, 0)])
        finally:
            await client.close()


_UPGRADE, _DOWNGRADE = 1, 2


class UpdateFeaturesResponse(Response):  # type: ignore[misc]  # aiokafka publishes no types
    API_KEY = 57
    API_VERSION = 1
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        ("error_code", Int16),
        ("error_message", CompactString()),
        (
            "results",
            CompactArray(
                ("feature", CompactString()),
                ("error_code", Int16),
                ("error_message", CompactString()),
                ("tags", TaggedFields),
            ),
        ),
        ("tags", TaggedFields),
    )


class UpdateFeaturesRequest(RequestStruct):  # type: ignore[misc]  # aiokafka publishes no types
    API_KEY = 57
    API_VERSION = 1
    FLEXIBLE_VERSION = True
    RESPONSE_TYPE = UpdateFeaturesResponse
    SCHEMA = Schema(
        ("timeout_ms", Int32),
        (
            "updates",
            CompactArray(
                ("feature", CompactString()), ("level", Int16), ("upgrade_type", Int8), ("tags", TaggedFields)
            ),
        ),
        ("validate_only", Boolean),
        ("tags", TaggedFields),
    )


async def _stop(producer: AIOKafkaProducer) -> None:
    with contextlib.suppress(ProducerFenced):
        await producer.stop()
    ended = producer._txn_manager.wait_for_transaction_end()
    if ended is not None and ended.done():
        ended.exception()  # read, because a test has read it elsewhere


@pytest_asyncio.fixture(loop_scope="session", scope="module")
async def broker(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[EmbeddedBroker]:
    own = EmbeddedBroker(tmp_path_factory.mktemp("transactions") / "kafka", SETTINGS)
    await own.start()
    try:
        await until_it_has_groups(own.bootstrap)
        yield own
    finally:
        await own.close()


@pytest_asyncio.fixture(loop_scope="session")
async def room(broker: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Room]:
    async with contextlib.AsyncExitStack() as life:
        made = Room(broker, life)
        send = AIOKafkaConnection.send

        def sending(self: AIOKafkaConnection, request: Any, *args: Any, **options: Any) -> Any:
            if request.API_KEY in TRANSACTIONAL:
                made.sent[request.API_KEY, request.prepare(self._versions).API_VERSION] += 1
            made.lookups += request.API_KEY == COORDINATOR
            return send(self, request, *args, **options)

        monkeypatch.setattr(AIOKafkaConnection, "send", sending)
        yield made


@contextlib.contextmanager
def lost(monkeypatch: pytest.MonkeyPatch, key: int, error: Exception, *, is_sent: bool = True) -> Iterator[list[int]]:
    """Lose the answer to the next request of a kind. Yields the requests whose answer was lost.

    Args:
        monkeypatch: pytest's.
        key: the kind of the request.
        error: what its sender gets instead.
        is_sent: whether the broker gets the request.
    """
    found: list[int] = []
    send = AIOKafkaClient.send

    async def sending(self: AIOKafkaClient, node_id: int, request: Any, **options: Any) -> Any:
        if found or key != request.API_KEY:
            return await send(self, node_id, request, **options)
        found.append(key)
        if is_sent:
            await send(self, node_id, request, **options)
        raise error

    with monkeypatch.context() as patched:
        patched.setattr(AIOKafkaClient, "send", sending)
        yield found


def epoch_of(producer: AIOKafkaProducer) -> tuple[int, int]:
    return producer._txn_manager.producer_id, producer._txn_manager.producer_epoch


async def write(producer: AIOKafkaProducer, tp: TopicPartition, *values: bytes) -> None:
    """Write records, each in a batch of its own."""
    for value in values:
        await producer.send_and_wait(tp.topic, value, key=b"k", partition=tp.partition)


async def transaction(producer: AIOKafkaProducer, tp: TopicPartition, *values: bytes) -> None:
    await producer.begin_transaction()
    await write(producer, tp, *values)
    await producer.commit_transaction()


async def test_records_and_offsets_of_several_groups_count_together(room: Room) -> None:
    tps, groups = await room.topic(), [room.name(), room.name()]
    producer = await room.producer()
    assert is_version_2(producer._txn_manager)
    for round_, is_committed in ((1, True), (2, False), (3, True)):
        await producer.begin_transaction()
        for tp in tps:
            await write(producer, tp, b"%d" % round_)
        for group in groups:
            await producer.send_offsets_to_transaction({tps[0]: round_, tps[1]: 10 * round_}, group)
        await (producer.commit_transaction() if is_committed else producer.abort_transaction())
    await transaction(producer, tps[0], b"last")
    assert await room.values(*tps) == [b"1", b"3", b"last", b"1", b"3"]
    assert [await room.committed(group, tp) for group in groups for tp in tps] == [3, 30, 3, 30]
    assert room.sent.keys() == {(PRODUCE, 12), (OFFSETS, 5), (END, 5)}


async def test_the_coordinator_of_each_group_is_looked_up_once(room: Room) -> None:
    (tp, _), groups = await room.topic(), [room.name(), room.name(), room.name()]
    producer = await room.producer()

    async def commit(number: int) -> None:
        await producer.begin_transaction()
        for group in groups:
            await producer.send_offsets_to_transaction({tp: number}, group)
        await producer.commit_transaction()

    await commit(0)
    room.lookups = 0
    for number in range(1, 4):
        await commit(number)
    assert room.lookups == 0
    producer._sender._coordinator_dead(CoordinationType.GROUP)  # as after an answer that it has moved
    await commit(4)
    assert room.lookups == 1
    assert [await room.committed(group, tp) for group in groups] == [4, 4, 4]


async def test_each_transaction_has_the_next_epoch_and_begins_its_sequences_anew(room: Room) -> None:
    (tp, other) = await room.topic()
    producer = await room.producer()
    id_, first = epoch_of(producer)
    for number in range(5):
        assert epoch_of(producer) == (id_, first + number)
        await producer.begin_transaction()
        await write(producer, tp, b"a", b"b")
        await write(producer, other, b"c")
        manager = producer._txn_manager
        assert (manager.sequence_number(tp), manager.sequence_number(other)) == (2, 1)
        await (producer.abort_transaction() if number == 3 else producer.commit_transaction())
    assert await room.values(tp, other) == [b"a", b"b"] * 4 + [b"c"] * 4


async def test_a_batch_that_was_made_early_has_the_epoch_of_its_transaction(room: Room) -> None:
    (tp, _) = await room.topic()
    producer = await room.producer()
    batches = [producer.create_batch() for _ in range(3)]
    for number, batch in enumerate(batches):
        assert batch.append(timestamp=None, key=b"k", value=b"%d" % number) is not None
        batch.close()
    for batch in batches:
        await producer.begin_transaction()
        await producer.send_batch(batch, tp.topic, partition=tp.partition)
        await producer.commit_transaction()
    assert await room.values(tp) == [b"0", b"1", b"2"]


async def test_transactions_in_a_row_are_not_sent_again(room: Room) -> None:
    (tp, other) = await room.topic()
    producer, group, count = await room.producer(), room.name(), 200
    await transaction(producer, tp, b"first")  # the broker may still be creating the topic
    room.sent.clear()
    for number in range(count):
        await transaction(producer, tp, b"%d" % number)
    assert room.sent == {(PRODUCE, 12): count, (END, 5): count}
    assert await room.values(tp) == [b"first", *(b"%d" % number for number in range(count))]

    # A broker does not wait for the end of the transaction before, if offsets come first.
    for number in range(count):
        await producer.begin_transaction()
        await producer.send_offsets_to_transaction({other: number}, group)
        await producer.commit_transaction()
    assert await room.committed(group, other) == count - 1


async def test_a_transaction_without_anything_sends_nothing(room: Room) -> None:
    (tp, _) = await room.topic()
    producer = await room.producer()
    first = epoch_of(producer)
    for end in (producer.commit_transaction, producer.abort_transaction):
        await producer.begin_transaction()
        await end()
    await producer.begin_transaction()
    empty = producer.create_batch()
    empty.close()
    await producer.send_batch(empty, tp.topic, partition=tp.partition)
    await producer.commit_transaction()
    assert (epoch_of(producer), room.sent) == (first, {})
    await transaction(producer, tp, b"1")
    assert await room.values(tp) == [b"1"]


async def _produce(producer: AIOKafkaProducer, tp: TopicPartition, _group: str) -> None:
    await write(producer, tp, b"zombie")


async def _offsets(producer: AIOKafkaProducer, tp: TopicPartition, group: str) -> None:
    await producer.send_offsets_to_transaction({tp: 99}, group)


async def _commit(producer: AIOKafkaProducer, _tp: TopicPartition, _group: str) -> None:
    await producer.commit_transaction()


@pytest.mark.parametrize("act", [_produce, _offsets, _commit])
@pytest.mark.parametrize("is_open", [True, False])
async def test_a_producer_with_a_successor_is_fenced(
    room: Room, act: Callable[[AIOKafkaProducer, TopicPartition, str], Awaitable[None]], *, is_open: bool
) -> None:
    (tp, other), group, id_ = await room.topic(), room.name(), room.name()
    zombie = await room.producer(id_)
    await transaction(zombie, tp, b"before")
    await zombie.begin_transaction()
    if is_open or act is _commit:
        await write(zombie, tp, b"open")
        await zombie.send_offsets_to_transaction({tp: 98}, group)
    successor = await room.producer(id_)
    if not is_open:
        await transaction(successor, other, b"successor")
    with pytest.raises(ProducerFenced):
        await act(zombie, tp, group)
    await transaction(successor, tp, b"after")
    assert await room.values(tp) == [b"before", b"after"]
    assert await room.committed(group, tp) is None
    with pytest.raises((ProducerFenced, AssertionError)):
        await zombie.abort_transaction()


async def remember(room: Room, **epochs: int) -> None:
    """Restart the broker, so that it finds these transactional ids with their last epochs."""
    await room.producer()  # creates the topic
    writer = AIOKafkaProducer(bootstrap_servers=room.broker.bootstrap, client_id=_INTERNAL, acks="all")
    await writer.start()
    try:
        for number, (id_, epoch) in enumerate(epochs.items()):
            key = struct.pack(f">hh{len(id_)}s", 0, len(id_), id_.encode())
            value = struct.pack(
                ">hqhibiqq", 0, _IDS + number, epoch, 60_000, 0, -1, 1, -1
            )  # a state without partitions
            await writer.send_and_wait(STATES, value, key=key, partition=0)
    finally:
        await writer.stop()
    await room.broker.restart()
    await until_it_has_groups(room.broker.bootstrap)


_IDS = 12_345_678
_INTERNAL = "__admin_client"
"""The client that may write to internal topics."""


async def test_after_the_last_epoch_comes_another_producer_id(room: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    (tp, other) = await room.topic()
    await remember(room, one=LAST_EPOCH - 4, two=LAST_EPOCH - 2)
    zombie = await room.producer("one")
    assert epoch_of(zombie) == (_IDS, LAST_EPOCH - 3)
    successor = await room.producer("one")
    seen = []
    for number in range(5):
        seen.append(epoch_of(successor))
        await transaction(successor, tp, b"%d" % number)
    new = seen[-1][0]
    assert new != _IDS
    assert seen == [(_IDS, LAST_EPOCH - 2), (_IDS, LAST_EPOCH - 1), (_IDS, LAST_EPOCH), (new, 0), (new, 1)]
    await zombie.begin_transaction()
    with pytest.raises(ProducerIdReplacedError):
        await write(zombie, other, b"zombie")  # the other partition's log has the last epoch of the old id
    with pytest.raises(ProducerIdReplacedError):
        await zombie.abort_transaction()

    # The answer to the end with the last epoch is lost.
    producer = await room.producer("two")
    await transaction(producer, other, b"first")
    assert epoch_of(producer) == (_IDS + 1, LAST_EPOCH)
    with lost(monkeypatch, END, RequestTimedOutError()) as found:
        await transaction(producer, other, b"second")
    assert (found, epoch_of(producer)[1]) == ([END], 0)
    await transaction(producer, other, b"third")
    assert await room.values(tp, other) == [b"0", b"1", b"2", b"3", b"4", b"first", b"second", b"third"]


@pytest.mark.parametrize("key", [PRODUCE, OFFSETS, END])
@pytest.mark.parametrize("is_committed", [True, False])
async def test_what_is_sent_again_because_its_answer_was_lost_counts_once(
    room: Room, monkeypatch: pytest.MonkeyPatch, key: int, *, is_committed: bool
) -> None:
    (tp, _), group = await room.topic(), room.name()
    producer = await room.producer()
    await transaction(producer, tp, b"before")
    first = epoch_of(producer)
    await producer.begin_transaction()
    with lost(monkeypatch, key, RequestTimedOutError()) as found:
        await write(producer, tp, b"1", b"2")
        await producer.send_offsets_to_transaction({tp: 7}, group)
        await (producer.commit_transaction() if is_committed else producer.abort_transaction())
    assert found == [key]
    assert epoch_of(producer) == (first[0], first[1] + 1)
    await transaction(producer, tp, b"after")
    assert await room.values(tp) == [b"before", *([b"1", b"2"] if is_committed else []), b"after"]
    assert await room.committed(group, tp) == (7 if is_committed else None)


async def test_an_end_whose_answer_was_lost_does_not_end_what_a_successor_has_begun(
    room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tp, _), id_ = await room.topic(), room.name()
    old = await room.producer(id_, retry_backoff_ms=1)
    await old.begin_transaction()
    await write(old, tp, b"old")
    send, is_lost = AIOKafkaClient.send, asyncio.Event()
    begun = asyncio.Event()

    async def sending(self: AIOKafkaClient, node_id: int, request: Any, **options: Any) -> Any:
        response = await send(self, node_id, request, **options)
        if self is old.client and request.API_KEY == END and not is_lost.is_set():
            is_lost.set()
            await begun.wait()
            raise RequestTimedOutError
        return response

    monkeypatch.setattr(AIOKafkaClient, "send", sending)
    ending = asyncio.create_task(old.commit_transaction())
    await is_lost.wait()
    successor = await room.producer(id_)
    await successor.begin_transaction()
    await write(successor, tp, b"new")
    begun.set()
    with pytest.raises(ProducerFenced):
        await ending
    await successor.abort_transaction()
    assert await room.values(tp) == [b"old"]


async def test_a_transaction_with_a_refused_batch_can_only_be_aborted(room: Room) -> None:
    (tp,), (small,) = await room.topic(1), await room.topic(1, **{"max.message.bytes": "200"})
    producer = await room.producer()
    for is_awaited in (True, False):
        await producer.begin_transaction()
        await write(producer, tp, b"no")
        sent = await producer.send(small.topic, b"x" * 1000, key=b"k", partition=0)
        if is_awaited:
            with pytest.raises(MessageSizeTooLargeError):
                await sent
        with pytest.raises(MessageSizeTooLargeError):
            await producer.commit_transaction()
        sent.exception()
        await producer.abort_transaction()
        await transaction(producer, small, b"yes")
    assert await room.values(tp, small) == [b"yes"] * 2


async def test_a_transaction_that_has_not_reached_the_broker_is_aborted(
    room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tp, _) = await room.topic()
    producer = await room.producer()
    for before in ([], [b"1"]):  # before the first transaction, and after one
        for value in before:
            await transaction(producer, tp, value)
        first = epoch_of(producer)
        await producer.begin_transaction()
        with (
            lost(monkeypatch, PRODUCE, IncompatibleBrokerVersion("another broker"), is_sent=False),
            pytest.raises(IncompatibleBrokerVersion),
        ):
            await write(producer, tp, b"no")
        await producer.abort_transaction()
        assert epoch_of(producer) == (first[0], first[1] + 1)
    await transaction(producer, tp, b"2")
    assert await room.values(tp) == [b"1", b"2"]


async def test_the_producer_of_a_partition_sweeps_and_writes(room: Room) -> None:
    tps, groups = await room.topic(), [room.name(), room.name()]
    producer = await room.partition_producer()
    await producer.sweep(tps, {group: {tps[0]: 1} for group in groups})
    for number in range(3):
        records = [Outgoing.of(tp.topic, tp.partition, b"k", b"%d" % number, []) for tp in tps]
        # Each transaction before has a record and a marker in each partition, the swept one as well.
        expected = dict.fromkeys(tps, 2 * (number + 1))
        await producer.write(records, {group: {tps[0]: 10 + number} for group in groups}, expected=expected)
    assert await room.values(*tps) == [b"0", b"1", b"2"] * 2
    assert [await room.committed(group, tps[0]) for group in groups] == [12, 12]
    assert not {key for key, _ in room.sent} & {ADD_PARTITIONS, ADD_OFFSETS}


async def commits_as_before(room: Room) -> None:
    """Check that a new producer uses transactions of version 0."""
    tps, groups, id_ = await room.topic(), [room.name(), room.name()], room.name()
    room.sent.clear()
    producer = await room.producer(id_)
    assert not is_version_2(producer._txn_manager)
    first = epoch_of(producer)
    for number in range(3):
        await producer.begin_transaction()
        for tp in tps:
            await write(producer, tp, b"%d" % number)
        for group in groups:
            await producer.send_offsets_to_transaction({tps[0]: number}, group)
        await (producer.abort_transaction() if number == 1 else producer.commit_transaction())
    assert epoch_of(producer) == first
    assert await room.values(*tps) == [b"0", b"2"] * 2
    assert [await room.committed(group, tps[0]) for group in groups] == [2, 2]
    assert {key for key, _ in room.sent} == TRANSACTIONAL
    assert {version for key, version in room.sent if key in (ADD_PARTITIONS, ADD_OFFSETS, END, OFFSETS)} == {0}
    await producer.begin_transaction()
    await room.producer(id_)
    with pytest.raises(ProducerFenced):
        await producer.send_offsets_to_transaction({tps[0]: 9}, groups[0])


async def test_a_cluster_without_the_feature_gets_transactions_of_version_0(room: Room) -> None:
    (tp, _), id_ = await room.topic(), room.name()
    new = await room.producer(id_)
    await transaction(new, tp, b"2")
    try:
        await room.set_version(1)
        await commits_as_before(room)
        await transaction(new, tp, b"still 2")  # a producer keeps its version
        old = await room.producer(id_)
        assert not is_version_2(old._txn_manager)
        await transaction(old, tp, b"1")
        await room.set_version(0)
        await commits_as_before(room)
        await transaction(old, tp, b"0")
    finally:
        await room.set_version(2)
    await transaction(old, tp, b"still 0")
    new = await room.producer(id_)
    assert is_version_2(new._txn_manager)
    await transaction(new, tp, b"2 again")
    assert await room.values(tp) == [b"2", b"still 2", b"1", b"0", b"still 0", b"2 again"]


async def test_producers_of_both_versions_fence_each_other(room: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    (tp, _), id_ = await room.topic(), room.name()
    last: AIOKafkaProducer | None = None
    for number in range(4):
        monkeypatch.setattr(transactions_v2, "supports_version_2", lambda _, is_new=number % 2: bool(is_new))
        producer = await room.producer(id_)
        assert is_version_2(producer._txn_manager) == bool(number % 2)
        await transaction(producer, tp, b"%d" % number)
        if last is not None:
            with pytest.raises(ProducerFenced):
                await last.commit_transaction()
        await producer.begin_transaction()
        await write(producer, tp, b"open")
        last = producer
    assert last is not None
    await last.abort_transaction()
    assert await room.values(tp) == [b"0", b"1", b"2", b"3"]


async def test_a_broker_that_cannot_be_asked_gets_transactions_of_version_0(
    room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    with lost(monkeypatch, transactions_v2.ApiVersionRequest_v3.API_KEY, IncompatibleBrokerVersion("old")) as found:
        await commits_as_before(room)
    assert found == [transactions_v2.ApiVersionRequest_v3.API_KEY]


async def test_a_lost_answer_about_the_features_is_requested_again(room: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    key = transactions_v2.ApiVersionRequest_v3.API_KEY
    with lost(monkeypatch, key, RequestTimedOutError()) as found:
        producer = await room.producer()
    assert found == [key]
    assert is_version_2(producer._txn_manager)
