"""Requests, answers and states of transactions of version 2, without a broker."""

from __future__ import annotations

import asyncio
import io
import struct
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka import TopicPartition
from aiokafka.client import CoordinationType
from aiokafka.errors import (
    ConcurrentTransactions,
    GroupAuthorizationFailedError,
    IllegalOperation,
    IncompatibleBrokerVersion,
    InvalidTxnState,
    KafkaError,
    MessageSizeTooLargeError,
    NotLeaderForPartitionError,
    OutOfOrderSequenceNumber,
    ProducerFenced,
    TopicAuthorizationFailedError,
    TransactionalIdAuthorizationFailed,
    UnknownError,
)
from aiokafka.producer.message_accumulator import MessageAccumulator, MessageBatch
from aiokafka.producer.sender import EndTxnHandler, Sender, SendProduceReqHandler, TxnOffsetCommitHandler
from aiokafka.producer.transaction_manager import TransactionManager, TransactionResult, TransactionState
from aiokafka.protocol.api import RequestStruct
from aiokafka.structs import OffsetAndMetadata

import moorage.runtime.kafka.clients  # noqa: F401 - applies the patches
from moorage.runtime.kafka.clients.transactions_v2 import (
    ApiVersionRequest_v3,
    ApiVersionResponse_v3,
    EndHandler,
    EndTxnRequest_v5,
    EndTxnResponse_v5,
    FixedRequest,
    OffsetsHandler,
    ProduceHandler,
    ProduceRequest_v12,
    ProduceResponse_v12,
    ProducerIdReplacedError,
    TransactionAbortableError,
    TxnOffsetCommitRequest_v5,
    TxnOffsetCommitResponse_v5,
    error_of,
    is_version_2,
    supports_version_2,
)

TP, OTHER = TopicPartition("topic", 3), TopicPartition("topic", 4)
NO_TAGS: dict[int, bytes] = {}
BACKOFF, SOON = 0.1, 0.001
FENCED, CONCURRENT, ABORTABLE = 90, 51, 120


def text(value: str) -> bytes:
    return bytes([len(value) + 1]) + value.encode()


# The protocol, by its bytes.


def test_the_requests_have_the_form_of_the_protocol() -> None:
    asking = ApiVersionRequest_v3("aiokafka", "0.14.0", NO_TAGS)
    assert asking.encode() == text("aiokafka") + text("0.14.0") + b"\0"
    produce = ProduceRequest_v12("id", -1, 9, [("topic", [(3, b"data", NO_TAGS), (4, b"", NO_TAGS)], NO_TAGS)], NO_TAGS)
    partitions = b"\3" + struct.pack(">i", 3) + text("data") + b"\0" + struct.pack(">i", 4) + b"\1" + b"\0"
    assert produce.encode() == text("id") + struct.pack(">hi", -1, 9) + b"\2" + text("topic") + partitions + b"\0\0"
    row = (3, 17, -1, "", NO_TAGS)
    offsets = TxnOffsetCommitRequest_v5("id", "group", 5, 6, -1, "", None, [("topic", [row], NO_TAGS)], NO_TAGS)
    head = text("id") + text("group") + struct.pack(">qhi", 5, 6, -1) + b"\1\0"
    partition = struct.pack(">iqi", 3, 17, -1) + b"\1\0"
    assert offsets.encode() == head + b"\2" + text("topic") + b"\2" + partition + b"\0\0"
    end = EndTxnRequest_v5("id", 5, 6, True, NO_TAGS)  # noqa: FBT003 - the order of the protocol
    assert end.encode() == text("id") + struct.pack(">qh", 5, 6) + b"\1\0"


@pytest.mark.parametrize("request_", [ApiVersionRequest_v3, ProduceRequest_v12, EndTxnRequest_v5])
def test_the_headers_have_tags_but_for_the_answer_with_the_features(request_: type[RequestStruct]) -> None:
    made = request_(*([0] * len(request_.SCHEMA)))
    header = made.build_request_header(7, "me").encode()
    assert header == struct.pack(">hhih2s", made.API_KEY, made.API_VERSION, 7, 2, b"me") + b"\0"
    answer = io.BytesIO(struct.pack(">i", 7) + b"\0")
    assert made.parse_response_header(answer).correlation_id == 7
    assert answer.tell() == (4 if request_ is ApiVersionRequest_v3 else 5)


def test_the_answers_are_read_with_their_unknown_tags() -> None:
    tags = b"\1\7\2xx"  # tag 7, of two bytes
    partition = struct.pack(">ihqqq", 3, 87, 11, -1, 0)
    errors = b"\2" + struct.pack(">i", 0) + text("bad") + tags
    raw = b"\2" + text("topic") + b"\2" + partition + errors + text("no") + tags + tags + struct.pack(">i", 0) + tags
    (row,) = ProduceResponse_v12.decode(raw).topics
    assert row == ("topic", [(3, 87, 11, -1, 0, [(0, "bad", {7: b"xx"})], "no", {7: b"xx"})], {7: b"xx"})
    raw = struct.pack(">i", 0) + b"\2" + text("topic") + b"\2" + struct.pack(">ih", 3, 47) + b"\0\0\0"
    assert TxnOffsetCommitResponse_v5.decode(raw).errors == [("topic", [(3, 47, {})], {})]
    ended = EndTxnResponse_v5.decode(struct.pack(">ihqh", 0, 0, 2**40, 32767) + b"\0")
    assert (ended.error_code, ended.producer_id, ended.producer_epoch) == (0, 2**40, 32767)


def features(code: int = 0, level: int | None = 2, **highest: int) -> ApiVersionResponse_v3:
    """An answer of a broker.

    Args:
        code: its error.
        level: that of the feature, if the cluster has finalized it.
        highest: the highest versions of requests that differ.
    """
    versions = {"produce": 13, "offsets": 5, "end": 5} | highest
    keys = {"produce": 0, "offsets": 28, "end": 26}
    rows = b"".join(struct.pack(">hhh", keys[name], 0, version) + b"\0" for name, version in versions.items())
    tags = [b"\1\x08" + struct.pack(">q", 9)]
    if level is not None:
        named = b"\3" + text("other") + struct.pack(">hh", 9, 0) + b"\0"
        named += text("transaction.version") + struct.pack(">hh", level, level) + b"\0"
        tags.append(bytes([2, len(named)]) + named)
    raw = struct.pack(">h", code) + bytes([len(versions) + 1]) + rows + struct.pack(">i", 0)
    found: ApiVersionResponse_v3 = ApiVersionResponse_v3.decode(raw + bytes([len(tags)]) + b"".join(tags))
    return found


def test_version_2_needs_the_feature_and_the_requests() -> None:
    assert features().finalized_features == {"other": 9, "transaction.version": 2}
    assert supports_version_2(features())
    assert supports_version_2(features(level=3))
    for without in (
        features(level=1),
        features(level=None),
        features(produce=11),
        features(offsets=4),
        features(end=4),
        features(code=35),
    ):
        assert not supports_version_2(without)


def test_a_request_is_refused_by_a_connection_to_a_broker_without_it() -> None:
    request = FixedRequest(EndTxnRequest_v5("id", 5, 6, True, NO_TAGS))  # noqa: FBT003 - the order of the protocol
    assert request.prepare({26: (0, 7)}).API_VERSION == 5
    for versions in ({26: (0, 4)}, {26: (6, 7)}, {}):
        with pytest.raises(IncompatibleBrokerVersion):
            request.prepare(versions)


@pytest.mark.parametrize(
    ("code", "error"),
    [
        (47, ProducerFenced),
        (48, InvalidTxnState),
        (49, ProducerIdReplacedError),
        (51, ConcurrentTransactions),
        (90, ProducerFenced),
        (120, TransactionAbortableError),
        (999, UnknownError),
    ],
)
def test_codes_mean_errors(code: int, error: type[KafkaError]) -> None:
    assert type(error_of(code)) is error
    assert error_of(0) is None


def test_a_replaced_producer_id_counts_as_fencing() -> None:
    assert issubclass(ProducerIdReplacedError, ProducerFenced)


# The states of a producer.


class Client:
    """A client whose requests are answered by the test."""

    _client_id = "me"

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.sent: list[Any] = []
        self.updates = 0

    async def send(self, _node_id: int, request: Any, **_: Any) -> Any:
        self.sent.append(request)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def force_metadata_update(self) -> None:
        self.updates += 1

    async def _maybe_wait_metadata(self) -> None: ...


class Producer:
    """A sender with its manager, in a transaction."""

    def __init__(self, *answers: Any, version_2: bool = True) -> None:
        self.client = Client(*answers)
        self.manager = TransactionManager("id", 1000)
        if version_2:
            self.manager.moorage_version_2 = True
        self.manager.set_pid_and_epoch(5, 6)
        self.manager.begin_transaction()
        cluster = SimpleNamespace(leader_for_partition=lambda _: 1)
        self.accumulator = MessageAccumulator(cluster, 1000, 0, 30, txn_manager=self.manager)
        self.sender = Sender(
            self.client,
            acks=-1,
            txn_manager=self.manager,
            message_accumulator=self.accumulator,
            retry_backoff_ms=BACKOFF * 1000,
            request_timeout_ms=9,
        )

    async def batches(self, *tps: TopicPartition) -> dict[TopicPartition, MessageBatch]:
        """Batches that were taken for sending."""
        for tp in tps:
            await self.accumulator.add_message(tp, b"k", b"v", 1)
        nodes, _ = self.accumulator.drain_by_nodes(())
        found: dict[TopicPartition, MessageBatch] = nodes[1]
        return found

    async def offsets(self, *tps: TopicPartition) -> tuple[OffsetsHandler, asyncio.Future[None]]:
        given = {tp: OffsetAndMetadata(10 * tp.partition, "") for tp in tps}
        future = self.manager.add_offsets_to_txn(given, "group")
        pending, group = self.manager.offsets_to_commit()
        return OffsetsHandler(self.sender, pending, group), future


def produced(**codes: int) -> ProduceResponse_v12:
    """An answer with the code of each partition: `p3` is partition 3."""
    rows: list[Any] = [(int(name[1:]), code, 100, -1, 0, [], None, NO_TAGS) for name, code in codes.items()]
    return ProduceResponse_v12([("topic", rows, NO_TAGS)], 0, NO_TAGS)


async def test_handlers_are_chosen_by_the_version() -> None:
    for version_2 in (True, False):
        producer = Producer(version_2=version_2)
        assert is_version_2(producer.manager) == version_2
        for name, new, old in (
            ("SendProduceReqHandler", ProduceHandler, SendProduceReqHandler),
            ("TxnOffsetCommitHandler", OffsetsHandler, TxnOffsetCommitHandler),
            ("EndTxnHandler", EndHandler, EndTxnHandler),
        ):
            make = Sender._do_txn_commit.__wrapped__.__globals__[name]
            made = make(producer.sender, *([None, None] if new is OffsetsHandler else [None]))
            assert type(made) is (new if version_2 else old.__wrapped__)


async def test_a_partition_belongs_to_the_transaction_when_it_is_sent() -> None:
    producer = Producer()
    batches = await producer.batches(TP, OTHER)
    assert producer.manager.partitions_to_add() == set()
    assert producer.manager.is_empty_transaction()
    request = ProduceHandler(producer.sender, batches).create_request().prepare({0: (0, 13)})
    assert producer.manager.txn_partitions == {TP, OTHER}
    ((topic, partitions, _),) = request.topics
    assert (request.transactional_id, request.required_acks, request.timeout) == ("id", -1, 9)
    assert (topic, [row[0] for row in partitions]) == ("topic", [3, 4])
    for _, data, _ in partitions:
        assert struct.unpack_from(">qhi", data, 43) == (5, 6, 0)  # the id, epoch and sequence in the batch
    producer.manager.state = TransactionState.COMMITTING_TRANSACTION
    with pytest.raises(IllegalOperation):
        await producer.batches(TopicPartition("topic", 5))


async def test_with_version_0_a_partition_is_added_first() -> None:
    producer = Producer(version_2=False)
    await producer.accumulator.add_message(TP, b"k", b"v", 1)
    assert producer.manager.partitions_to_add() == {TP}
    future = producer.manager.add_offsets_to_txn({TP: OffsetAndMetadata(1, "")}, "group")
    assert producer.manager.consumer_group_to_add() == "group"
    future.cancel()


async def test_a_batch_is_sent_again_with_its_epoch_until_it_is_confirmed() -> None:
    producer = Producer(produced(p3=CONCURRENT, p4=0), produced(p3=6), produced(p3=46))
    batches = await producer.batches(TP, OTHER)
    first = batches[TP].get_data_buffer()
    await ProduceHandler(producer.sender, batches).do(1)
    assert (await batches[OTHER].future).offset == 100
    for _ in range(2):
        (again,) = producer.accumulator.drain_by_nodes(())[0].values()
        assert again == {TP: batches[TP]}
        assert not again[TP].future.done()
        assert again[TP].get_data_buffer() == first
        await ProduceHandler(producer.sender, again).do(1)
    assert batches[TP].future.done(), "a duplicate is confirmed"
    assert producer.client.updates == 1, "the leader may have moved"
    assert producer.manager.state is TransactionState.IN_TRANSACTION


@pytest.mark.parametrize(
    ("code", "error"),
    [
        (10, MessageSizeTooLargeError),
        (29, TopicAuthorizationFailedError),
        (45, OutOfOrderSequenceNumber),
        (47, ProducerFenced),
        (49, ProducerIdReplacedError),
        (120, TransactionAbortableError),
    ],
)
async def test_a_refused_batch_fails_its_transaction(code: int, error: type[KafkaError]) -> None:
    producer = Producer(produced(p3=code, p4=0))
    batches = await producer.batches(TP, OTHER)
    await ProduceHandler(producer.sender, batches).do(1)
    with pytest.raises(error):
        await batches[TP].future
    with pytest.raises(error):
        producer.manager.committing_transaction()
    producer.manager.aborting_transaction()
    assert not producer.manager.is_empty_transaction(), "the abort is sent"


async def test_a_batch_that_is_refused_during_the_commit_prevents_it() -> None:
    producer = Producer(produced(p3=10))
    batches = await producer.batches(TP)
    producer.manager.committing_transaction()
    ending = asyncio.create_task(producer.sender._do_txn_commit(TransactionResult.COMMIT))
    await ProduceHandler(producer.sender, batches).do(1)
    await ending
    assert producer.manager.state is TransactionState.ABORTABLE_ERROR
    assert len(producer.client.sent) == 1, "no end is sent"
    with pytest.raises(MessageSizeTooLargeError):
        await producer.manager.wait_for_transaction_end()
    batches[TP].future.exception()


async def test_a_batch_that_is_refused_during_the_abort_changes_nothing() -> None:
    producer = Producer(NotLeaderForPartitionError(), IncompatibleBrokerVersion("no"))
    batches = await producer.batches(TP)
    producer.manager.aborting_transaction()
    await ProduceHandler(producer.sender, batches).do(1)
    assert not batches[TP].future.done()
    producer.accumulator.drain_by_nodes(())
    await ProduceHandler(producer.sender, batches).do(1)
    assert isinstance(batches[TP].future.exception(), IncompatibleBrokerVersion)
    assert producer.manager.state is TransactionState.ABORTING_TRANSACTION


def answered(**codes: int) -> TxnOffsetCommitResponse_v5:
    rows = [(int(name[1:]), code, NO_TAGS) for name, code in codes.items()]
    return TxnOffsetCommitResponse_v5(0, [("topic", rows, NO_TAGS)], NO_TAGS)


async def test_offsets_need_no_group_to_be_added_and_are_sent_again_alone() -> None:
    producer = Producer()
    handler, future = await producer.offsets(TP, OTHER)
    assert producer.manager.consumer_group_to_add() is None
    assert not producer.manager.is_empty_transaction()
    request = handler.create_request().prepare({28: (0, 5)})
    assert (request.transactional_id, request.group_id) == ("id", "group")
    assert (request.producer_id, request.producer_epoch, request.generation_id) == (5, 6, -1)
    assert request.topics == [("topic", [(3, 30, -1, "", {}), (4, 40, -1, "", {})], {})]
    assert handler.handle_response(answered(p3=CONCURRENT, p4=0)) == SOON
    assert not future.done()
    assert [row[0] for row in handler.create_request().prepare({28: (0, 5)}).topics[0][1]] == [3]
    assert handler.handle_response(answered(p3=14)) == BACKOFF  # COORDINATOR_LOAD_IN_PROGRESS
    assert handler.handle_response(answered(p3=0)) is None
    await future


async def test_waits_become_longer_until_the_transaction_ends() -> None:
    producer = Producer(produced(p3=CONCURRENT))
    handler, _ = await producer.offsets(TP)
    ending = EndHandler(producer.sender, TransactionResult.COMMIT)
    waits = [handler.handle_response(answered(p3=CONCURRENT)) for _ in range(9)]
    assert waits == [0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.064, BACKOFF, BACKOFF]
    assert ending.handle_response(ended(CONCURRENT)) == BACKOFF
    assert handler.handle_response(answered(p3=0)) is None
    producer.manager.committing_transaction()
    assert ending.handle_response(ended(0, 5, 7)) is None
    assert ending.handle_response(ended(CONCURRENT)) == SOON


async def test_offsets_that_are_answered_after_a_batch_was_refused_change_nothing() -> None:
    for code in (0, ABORTABLE, CONCURRENT):
        producer = Producer(produced(p3=10))
        batches = await producer.batches(TP)
        handler, future = await producer.offsets(TP)
        await ProduceHandler(producer.sender, batches).do(1)
        with pytest.raises(MessageSizeTooLargeError):
            await future
        assert handler.handle_response(answered(p3=code)) is None
        assert producer.manager.state is TransactionState.ABORTABLE_ERROR


@pytest.mark.parametrize("code", [7, 15, 16])
async def test_a_coordinator_that_has_moved_is_looked_up(code: int) -> None:
    producer = Producer()
    handler, _ = await producer.offsets(TP)
    producer.sender._coordinators = {CoordinationType.GROUP: 1, CoordinationType.TRANSACTION: 2}
    assert handler.handle_response(answered(p3=code)) == BACKOFF
    assert producer.sender._coordinators == {CoordinationType.TRANSACTION: 2}
    assert EndHandler(producer.sender, TransactionResult.COMMIT).handle_response(ended(code)) == BACKOFF
    assert producer.sender._coordinators == {}


@pytest.mark.parametrize(("code", "error"), [(30, GroupAuthorizationFailedError), (120, TransactionAbortableError)])
async def test_refused_offsets_fail_their_transaction(code: int, error: type[KafkaError]) -> None:
    producer = Producer()
    handler, future = await producer.offsets(TP)
    assert handler.handle_response(answered(p3=code)) is None
    with pytest.raises(error):
        await future
    assert producer.manager.state is TransactionState.ABORTABLE_ERROR
    producer.manager.aborting_transaction()
    assert not producer.manager.is_empty_transaction()


@pytest.mark.parametrize(
    ("code", "error"),
    [
        (47, ProducerFenced),
        (90, ProducerFenced),
        (49, ProducerIdReplacedError),
        (53, TransactionalIdAuthorizationFailed),
    ],
)
async def test_some_refusals_end_the_producer(code: int, error: type[KafkaError]) -> None:
    producer = Producer()
    handler, _ = await producer.offsets(TP)
    with pytest.raises(error):
        handler.handle_response(answered(p3=code))
    for result in TransactionResult:
        with pytest.raises(error):
            EndHandler(producer.sender, result).handle_response(ended(code))


def ended(code: int = 0, producer_id: int = -1, epoch: int = -1) -> EndTxnResponse_v5:
    return EndTxnResponse_v5(0, code, producer_id, epoch, NO_TAGS)


@pytest.mark.parametrize("next_", [(5, 7), (99, 0)])
async def test_an_end_gives_the_epoch_of_the_next_transaction(next_: tuple[int, int]) -> None:
    producer = Producer()
    producer.manager.increment_sequence_number(TP, 4)
    producer.manager.committing_transaction()
    handler = EndHandler(producer.sender, TransactionResult.COMMIT)
    request = handler.create_request().prepare({26: (0, 5)})
    assert (request.producer_id, request.producer_epoch, request.transaction_result) == (5, 6, True)
    assert handler.handle_response(ended(CONCURRENT)) == SOON
    assert (producer.manager.producer_id, producer.manager.producer_epoch) == (5, 6)
    assert handler.handle_response(ended(0, *next_)) is None
    assert (producer.manager.producer_id, producer.manager.producer_epoch) == next_
    assert producer.manager.sequence_number(TP) == 0
    await producer.manager.wait_for_transaction_end()
    abort = EndHandler(producer.sender, TransactionResult.ABORT).create_request().prepare({26: (0, 5)})
    assert (abort.producer_epoch, abort.transaction_result) == (next_[1], False)


async def test_a_commit_of_what_the_coordinator_has_ended_counts_as_fenced() -> None:
    producer = Producer()
    with pytest.raises(ProducerFenced):
        EndHandler(producer.sender, TransactionResult.COMMIT).handle_response(ended(48))
    with pytest.raises(InvalidTxnState):
        EndHandler(producer.sender, TransactionResult.ABORT).handle_response(ended(48))


async def test_an_end_may_require_an_abort() -> None:
    producer = Producer()
    producer.manager.committing_transaction()
    assert EndHandler(producer.sender, TransactionResult.COMMIT).handle_response(ended(ABORTABLE)) is None
    with pytest.raises(TransactionAbortableError):
        await producer.manager.wait_for_transaction_end()
    producer.manager.aborting_transaction()


async def test_the_version_is_found_out_once_before_the_producer_id() -> None:
    for answer, expected in (
        (features(), True),
        (features(level=1), False),
        (IncompatibleBrokerVersion("an old broker"), False),
    ):
        sender = Producer(answer, version_2=False).sender
        manager = sender._txn_manager = TransactionManager("id", 1000)
        done = SimpleNamespace(error_code=0, producer_id=1, producer_epoch=2)
        sender.client.answers += [done]
        assert await sender._do_init_pid(1)
        assert [request.API_KEY for request in sender.client.sent] == [18, 22]
        assert is_version_2(manager) == expected
        assert manager.state is TransactionState.READY


async def test_without_transactions_nothing_is_found_out() -> None:
    sender = Producer(version_2=False).sender
    sender._txn_manager = TransactionManager(None, 1000)
    sender.client.answers += [SimpleNamespace(error_code=0, producer_id=1, producer_epoch=2)]
    assert await sender._do_init_pid(1)
    assert [request.API_KEY for request in sender.client.sent] == [22]
