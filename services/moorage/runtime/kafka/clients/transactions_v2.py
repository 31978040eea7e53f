"""Transactions of version 2 (KIP-890, part 2), for transactional producers of aiokafka 0.14, which has version 0.

With version 0, a producer registers each partition and each group with the transaction's coordinator before it writes
there, and keeps its epoch. So a broker cannot distinguish a late request of one transaction from the next transaction.
With version 2, the broker that gets records or offsets registers them, and each end of a transaction gives the producer
another epoch. `AddPartitionsToTxn` and `AddOffsetsToTxn` are not sent, and a late request is refused.

A producer uses version 2 if the coordinator supports the versions of the requests and the cluster has finalized its
feature `transaction.version` at 2 or more. This is checked once, before its start fences earlier producers. Otherwise
nothing changes. A producer keeps its version until it is replaced: Kafka serves both when the feature is raised to 2 or
lowered to 1.

Epochs: a batch gets the producer id and epoch when it is taken for sending, and keeps them when it is sent again. The
end of a transaction waits for all its batches. So no batch has the epoch of another transaction. The answer to the end
has the epoch of the next transaction, whose sequence numbers begin at 0. When the epochs are used up, it has another
producer id. An end whose answer was lost is sent again with the same epoch; the coordinator recognizes it.

Fencing: `ProducerFenced` is raised whatever the broker calls it. `PRODUCER_FENCED` and `INVALID_PRODUCER_EPOCH`: the
epoch is outdated. `INVALID_PRODUCER_ID_MAPPING`: the producer id is, because epochs were used up meanwhile, or because
the broker has forgotten an idle producer. `INVALID_TXN_STATE` for a commit: the coordinator has ended the transaction,
after its timeout or for another producer.

Failed batches: a transaction with a batch or offsets that were refused can only be aborted, as with Kafka's own client.
With version 0, aiokafka commits the rest. The abort is sent to the coordinator even if nothing was written.
"""

from __future__ import annotations

import collections
import io
import logging
from collections.abc import Callable, Iterable
from typing import Any, ClassVar, Final

import aiokafka
from aiokafka import TopicPartition
from aiokafka.client import CoordinationType
from aiokafka.errors import (
    BrokerResponseError,
    ConcurrentTransactions,
    CoordinatorNotAvailableError,
    DuplicateSequenceNumber,
    GroupAuthorizationFailedError,
    IllegalOperation,
    IncompatibleBrokerVersion,
    InvalidProducerEpoch,
    InvalidProducerIdMapping,
    InvalidTxnState,
    KafkaError,
    NoError,
    NotCoordinatorError,
    ProducerFenced,
    RequestTimedOutError,
    TopicAuthorizationFailedError,
    TransactionalIdAuthorizationFailed,
    for_code,
)
from aiokafka.producer.sender import BaseHandler, EndTxnHandler, Sender, SendProduceReqHandler, TxnOffsetCommitHandler
from aiokafka.producer.transaction_manager import PidAndEpoch, TransactionManager, TransactionResult, TransactionState
from aiokafka.protocol.api import RequestStruct, Response, ResponseHeader_v0
from aiokafka.protocol.types import (
    Boolean,
    CompactArray,
    CompactBytes,
    CompactString,
    Int16,
    Int32,
    Int64,
    Schema,
    TaggedFields,
)
from typing_extensions import override

_Function = Callable[..., Any]

log = logging.getLogger(__name__)

FEATURE: Final = "transaction.version"
_VERSION: Final = 2

_OWN: Final = "moorage_version_2"
_WAIT: Final = "moorage_wait"
_SOON: Final = 0.001
"""Seconds until the first repetition of a request that came before the markers of the transaction before. If it has
records, the broker has waited already, 0.1 s by default."""

_PRODUCER_FENCED: Final = 90  # aiokafka has an error of this name without a code

_ALL: Final = -1  # the acknowledgements of a transactional producer

_TEXT: Final = CompactString("utf-8")
_NO_TAGS: Final[dict[int, bytes]] = {}


class TransactionAbortableError(BrokerResponseError):  # type: ignore[misc]  # aiokafka publishes no types
    """The transaction has to be aborted. The producer can go on with another one."""

    errno = 120
    message = "TRANSACTION_ABORTABLE"
    description = "The transaction has to be aborted."


class ProducerIdReplacedError(ProducerFenced):  # type: ignore[misc]  # aiokafka publishes no types
    """The coordinator has another producer id for the transactional id, or none."""

    def __init__(self, msg: str = "the transactional id has another producer id now, or was forgotten") -> None:
        super().__init__(msg)


def error_of(code: int) -> KafkaError | None:
    """Return the error that a code of an answer means; None if there is none."""
    if code == TransactionAbortableError.errno:
        return TransactionAbortableError()
    if code == InvalidProducerIdMapping.errno:
        return ProducerIdReplacedError()
    if code in (InvalidProducerEpoch.errno, _PRODUCER_FENCED):
        return ProducerFenced()
    return None if code == NoError.errno else for_code(code)()


# The protocol.


def _topics(*fields: tuple[str, Any]) -> Any:
    """Return the type of what a request or an answer has for each partition, grouped by topic, as in `by_topic`."""
    partition = (("partition", Int32), *fields, ("tags", TaggedFields))
    return CompactArray(("topic", _TEXT), ("partitions", CompactArray(*partition)), ("tags", TaggedFields))


class ApiVersionResponse_v3(Response):  # type: ignore[misc]  # noqa: N801 - aiokafka's names, and it has no types
    """The requests of a broker, and the features of its cluster."""

    API_KEY = 18
    API_VERSION = 3
    SCHEMA = Schema(
        ("error_code", Int16),
        (
            "api_versions",
            CompactArray(("api_key", Int16), ("min_version", Int16), ("max_version", Int16), ("tags", TaggedFields)),
        ),
        ("throttle_time_ms", Int32),
        ("tags", TaggedFields),
    )
    _FINALIZED: ClassVar = CompactArray(
        ("name", _TEXT), ("max_version_level", Int16), ("min_version_level", Int16), ("tags", TaggedFields)
    )
    _TAG: ClassVar = 2

    @property
    def finalized_features(self) -> dict[str, int]:
        """The level of each feature that the cluster has finalized."""
        raw = self.tags.get(self._TAG)
        rows = self._FINALIZED.decode(io.BytesIO(raw)) if raw else None
        return {name: level for name, level, *_ in rows or ()}

    def supports(self, request: type[RequestStruct]) -> bool:
        """Return whether the broker supports a request."""
        return any(
            key == request.API_KEY and lowest <= request.API_VERSION <= highest
            for key, lowest, highest, _ in self.api_versions
        )


class ApiVersionRequest_v3(RequestStruct):  # type: ignore[misc]  # noqa: N801 - as above
    """Requests them."""

    API_KEY = 18
    API_VERSION = 3
    FLEXIBLE_VERSION = True
    RESPONSE_TYPE = ApiVersionResponse_v3
    SCHEMA = Schema(("client_software_name", _TEXT), ("client_software_version", _TEXT), ("tags", TaggedFields))

    @override
    def parse_response_header(self, read_buffer: io.BytesIO | bytes) -> ResponseHeader_v0:
        return ResponseHeader_v0.decode(read_buffer)  # never with tags


class ProduceResponse_v12(Response):  # type: ignore[misc]  # noqa: N801 - as above
    """Where records were written."""

    API_KEY = 0
    API_VERSION = 12
    SCHEMA = Schema(
        (
            "topics",
            _topics(
                ("error_code", Int16),
                ("offset", Int64),
                ("timestamp", Int64),
                ("log_start_offset", Int64),
                (
                    "record_errors",
                    CompactArray(("batch_index", Int32), ("batch_index_error_message", _TEXT), ("tags", TaggedFields)),
                ),
                ("error_message", _TEXT),
            ),
        ),
        ("throttle_time_ms", Int32),
        ("tags", TaggedFields),
    )


class ProduceRequest_v12(RequestStruct):  # type: ignore[misc]  # noqa: N801 - as above
    """Writes records. The broker adds the partitions to the transaction."""

    API_KEY = 0
    API_VERSION = 12
    FLEXIBLE_VERSION = True
    RESPONSE_TYPE = ProduceResponse_v12
    SCHEMA = Schema(
        ("transactional_id", _TEXT),
        ("required_acks", Int16),
        ("timeout", Int32),
        ("topics", _topics(("messages", CompactBytes))),
        ("tags", TaggedFields),
    )


class TxnOffsetCommitResponse_v5(Response):  # type: ignore[misc]  # noqa: N801 - as above
    """The errors of partitions."""

    API_KEY = 28
    API_VERSION = 5
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        ("errors", _topics(("error_code", Int16))),
        ("tags", TaggedFields),
    )


class TxnOffsetCommitRequest_v5(RequestStruct):  # type: ignore[misc]  # noqa: N801 - as above
    """Writes the offsets of a group. Its coordinator adds the group to the transaction."""

    API_KEY = 28
    API_VERSION = 5
    FLEXIBLE_VERSION = True
    RESPONSE_TYPE = TxnOffsetCommitResponse_v5
    SCHEMA = Schema(
        ("transactional_id", _TEXT),
        ("group_id", _TEXT),
        ("producer_id", Int64),
        ("producer_epoch", Int16),
        ("generation_id", Int32),
        ("member_id", _TEXT),
        ("group_instance_id", _TEXT),
        ("topics", _topics(("offset", Int64), ("leader_epoch", Int32), ("metadata", _TEXT))),
        ("tags", TaggedFields),
    )


class EndTxnResponse_v5(Response):  # type: ignore[misc]  # noqa: N801 - as above
    """The producer id and epoch of the next transaction."""

    API_KEY = 26
    API_VERSION = 5
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        ("error_code", Int16),
        ("producer_id", Int64),
        ("producer_epoch", Int16),
        ("tags", TaggedFields),
    )


class EndTxnRequest_v5(RequestStruct):  # type: ignore[misc]  # noqa: N801 - as above
    """Ends a transaction."""

    API_KEY = 26
    API_VERSION = 5
    FLEXIBLE_VERSION = True
    RESPONSE_TYPE = EndTxnResponse_v5
    SCHEMA = Schema(
        ("transactional_id", _TEXT),
        ("producer_id", Int64),
        ("producer_epoch", Int16),
        ("transaction_result", Boolean),
        ("tags", TaggedFields),
    )


class FixedRequest:
    """A request in one version, of the kind that aiokafka's connections send.

    Args:
        struct: the request.
    """

    required_acks: Final = _ALL

    def __init__(self, struct: RequestStruct) -> None:
        self._struct = struct
        self.API_KEY: int = struct.API_KEY

    def prepare(self, versions: dict[int, tuple[int, int]]) -> RequestStruct:
        """Return the request. Raises IncompatibleBrokerVersion if the broker does not support it.

        Args:
            versions: the lowest and highest version that the broker supports of each request.
        """
        lowest, highest = versions.get(self.API_KEY, (0, -1))
        if not lowest <= self._struct.API_VERSION <= highest:
            raise IncompatibleBrokerVersion(f"{type(self._struct).__name__}: expected version {lowest} to {highest}")
        return self._struct


def by_topic(rows: Iterable[tuple[TopicPartition, tuple[Any, ...]]]) -> list[tuple[Any, ...]]:
    """Return the fields of partitions as requests have them: grouped by topic, with their number and their tags."""
    found: dict[str, list[tuple[Any, ...]]] = collections.defaultdict(list)
    for tp, row in rows:
        found[tp.topic].append((tp.partition, *row, _NO_TAGS))
    return [(topic, partitions, _NO_TAGS) for topic, partitions in found.items()]


# Requests and answers.


def next_wait(sender: Sender, longest: float) -> float:
    """Return the seconds until a request is sent again that came too early; each time longer in one transaction."""
    wait: float = getattr(sender, _WAIT, _SOON)
    setattr(sender, _WAIT, min(2 * wait, longest))
    return wait


def reset_wait(sender: Sender) -> None:
    """Let the next transaction begin with the shortest wait."""
    setattr(sender, _WAIT, _SOON)


def is_version_2(manager: TransactionManager) -> bool:
    """Return whether a producer's transactions are of version 2."""
    return getattr(manager, _OWN, False)


def supports_version_2(response: ApiVersionResponse_v3) -> bool:
    """Return whether a broker and its cluster have transactions of version 2."""
    requests = (ProduceRequest_v12, TxnOffsetCommitRequest_v5, EndTxnRequest_v5)
    return (
        response.error_code == NoError.errno
        and response.finalized_features.get(FEATURE, 0) >= _VERSION
        and all(response.supports(request) for request in requests)
    )


class _Handler:
    """The common part of the handlers."""

    _sender: Sender
    _default_backoff: float

    @property
    def _manager(self) -> TransactionManager:
        return self._sender._txn_manager  # noqa: SLF001 - as aiokafka's handlers do

    def _forget(self, coordinator: CoordinationType) -> None:
        """Let a coordinator be looked up again."""
        self._sender._coordinator_dead(coordinator)  # noqa: SLF001 - as aiokafka's handlers do

    def _wait(self, error: KafkaError, coordinator: CoordinationType) -> float | None:
        """Return the seconds after which the request is sent again; None if it is not, because it was refused."""
        if isinstance(error, ConcurrentTransactions):
            return next_wait(self._sender, self._default_backoff)
        if isinstance(error, CoordinatorNotAvailableError | NotCoordinatorError | RequestTimedOutError):
            self._forget(coordinator)
            return self._default_backoff
        return self._default_backoff if error.retriable else None


class FeaturesHandler(_Handler, BaseHandler):  # type: ignore[misc]  # aiokafka publishes no types
    """Determines the version of a producer's transactions."""

    @override
    def create_request(self) -> FixedRequest:
        return FixedRequest(ApiVersionRequest_v3("aiokafka", aiokafka.__version__, _NO_TAGS))

    @override
    def handle_response(self, response: ApiVersionResponse_v3) -> None:
        setattr(self._manager, _OWN, supports_version_2(response))

    @override
    def handle_error(self) -> float:
        self._forget(CoordinationType.TRANSACTION)
        return self._default_backoff


class ProduceHandler(_Handler, SendProduceReqHandler):  # type: ignore[misc]  # aiokafka publishes no types
    """Sends batches. A refused batch fails its transaction."""

    @override
    def create_request(self) -> FixedRequest:
        manager = self._manager
        manager.txn_partitions.update(self._batches)
        timeout = self._sender._request_timeout_ms  # noqa: SLF001 - as aiokafka's handlers do
        rows = ((tp, (batch.get_data_buffer(),)) for tp, batch in self._batches.items())
        return FixedRequest(ProduceRequest_v12(manager.transactional_id, _ALL, timeout, by_topic(rows), _NO_TAGS))

    @override
    async def do(self, node_id: int) -> None:
        await super().do(node_id)
        for batch in self._batches.values():
            future = batch.future
            if future.done() and not future.cancelled() and (error := future.exception()):
                fail(self._manager, error)

    @override
    def handle_response(self, response: ProduceResponse_v12) -> None:
        for topic, partitions, _ in response.topics:
            for partition, code, offset, timestamp, start, _, message, _ in partitions:
                tp = TopicPartition(topic, partition)
                batch = self._batches.get(tp)
                if batch is None:
                    continue
                error = error_of(code)
                if error is None or isinstance(error, DuplicateSequenceNumber):
                    batch.done(offset, timestamp, start)
                elif isinstance(error, ConcurrentTransactions):
                    self._default_backoff = next_wait(self._sender, self._default_backoff)
                    self._to_reenqueue.append(batch)
                elif self._can_retry(error, batch):
                    log.warning("Batch for %s is sent again: %s", tp, message or error)
                    if getattr(error, "invalid_metadata", False):
                        self._client.force_metadata_update()
                    self._to_reenqueue.append(batch)
                else:
                    refused = TopicAuthorizationFailedError(topic)
                    batch.failure(exception=refused if isinstance(error, TopicAuthorizationFailedError) else error)


class OffsetsHandler(_Handler, TxnOffsetCommitHandler):  # type: ignore[misc]  # aiokafka publishes no types
    """Sends the offsets of a group."""

    @override
    def create_request(self) -> FixedRequest:
        manager = self._manager
        rows = ((tp, (one.offset, -1, one.metadata)) for tp, one in sorted(self._offsets.items()))
        return FixedRequest(
            TxnOffsetCommitRequest_v5(
                *(manager.transactional_id, self._group_id, manager.producer_id, manager.producer_epoch),
                *(-1, "", None),  # no member of the group
                *(by_topic(rows), _NO_TAGS),
            )
        )

    @override
    def handle_response(self, response: TxnOffsetCommitResponse_v5) -> float | None:
        wait: float | None = None
        pending = self._manager.offsets_to_commit()
        if pending is None or pending[0] is not self._offsets:
            return None  # the transaction has failed meanwhile
        for topic, partitions, _ in response.errors:
            for partition, code, _ in partitions:
                tp, error = TopicPartition(topic, partition), error_of(code)
                if error is None:
                    self._manager.offset_committed(tp, self._offsets[tp].offset, self._group_id)
                elif isinstance(error, TransactionAbortableError | GroupAuthorizationFailedError):
                    is_group = isinstance(error, GroupAuthorizationFailedError)
                    self._manager.error_transaction(type(error)(self._group_id) if is_group else error)
                    return None
                elif (found := self._wait(error, CoordinationType.GROUP)) is None:
                    raise refusal(error, self._manager)
                else:
                    wait = found
        return wait


class EndHandler(_Handler, EndTxnHandler):  # type: ignore[misc]  # aiokafka publishes no types
    """Ends a transaction."""

    @override
    def create_request(self) -> FixedRequest:
        manager = self._manager
        return FixedRequest(
            EndTxnRequest_v5(
                *(manager.transactional_id, manager.producer_id, manager.producer_epoch),
                *(bool(self._commit_result), _NO_TAGS),
            )
        )

    @override
    def handle_response(self, response: EndTxnResponse_v5) -> float | None:
        manager, error = self._manager, error_of(response.error_code)
        if error is None:
            begin_epoch(manager, PidAndEpoch(response.producer_id, response.producer_epoch))
            manager.complete_transaction()
            reset_wait(self._sender)
            return None
        if isinstance(error, TransactionAbortableError):
            manager.error_transaction(error)
            return None
        if isinstance(error, InvalidTxnState) and self._commit_result is TransactionResult.COMMIT:
            raise ProducerFenced
        wait = self._wait(error, CoordinationType.TRANSACTION)
        if wait is None:
            raise refusal(error, manager)
        return wait


def refusal(error: KafkaError, manager: TransactionManager) -> KafkaError:
    """Return an error that ends a producer, with the transactional id if it is not permitted."""
    is_id = isinstance(error, TransactionalIdAuthorizationFailed)
    return type(error)(manager.transactional_id) if is_id else error


def begin_epoch(manager: TransactionManager, epoch: PidAndEpoch) -> None:
    """Give a producer the epoch of its next transaction, or another producer id with its first epoch."""
    manager._pid_and_epoch = epoch  # noqa: SLF001 - `set_pid_and_epoch` is for the first one
    manager._sequence_numbers.clear()  # noqa: SLF001 - aiokafka has no public way


def fail(manager: TransactionManager, error: BaseException) -> None:
    """Note that a part of the present transaction was refused, so that it can only be aborted."""
    if manager.state in (TransactionState.IN_TRANSACTION, TransactionState.COMMITTING_TRANSACTION):
        manager.error_transaction(error)


# Replacements of functions of aiokafka.


def find_version(initialize: _Function) -> _Function:
    """Return a replacement of `Sender._do_init_pid`, which gets a producer id. It returns whether there is one."""

    async def initializing(self: Sender, node_id: int) -> bool:
        manager = self._txn_manager
        if manager.transactional_id is not None and not hasattr(manager, _OWN):
            try:
                if not await FeaturesHandler(self).do(node_id):
                    return False
            except IncompatibleBrokerVersion:
                setattr(manager, _OWN, False)
        found: bool = await initialize(self, node_id)
        return found

    return initializing


def handle_by(version_2: type[BaseHandler]) -> Callable[[_Function], _Function]:
    """Return a wrapper of a class of handlers: calls of the result make one for the version of the transactions."""

    def wrap(version_0: _Function) -> _Function:
        def made(sender: Sender, *args: Any) -> Any:
            manager = sender._txn_manager  # noqa: SLF001 - aiokafka has no public way
            return (version_2 if is_version_2(manager) else version_0)(sender, *args)

        return made

    return wrap


def add_partition(add: _Function) -> _Function:
    """Return a replacement of `TransactionManager.maybe_add_partition_to_txn`, which lets a partition be added."""

    def adding(self: TransactionManager, tp: TopicPartition) -> None:
        if not is_version_2(self):
            add(self, tp)
        elif not self.is_in_transaction():
            raise IllegalOperation("records need a transaction")

    return adding


def add_group(add: _Function) -> _Function:
    """Return a replacement of `TransactionManager.add_offsets_to_txn`, which notes offsets of a group."""

    def adding(self: TransactionManager, offsets: Any, group_id: str) -> Any:
        committed = add(self, offsets, group_id)
        if is_version_2(self):
            self._txn_consumer_group = group_id  # as if it was added
        return committed

    return adding


def keep_parts(note: _Function) -> _Function:
    """Return a replacement of `TransactionManager.error_transaction`, which notes that a transaction has failed.

    The original forgets the parts of the transaction, and then an abort is not sent.
    """

    def noting(self: TransactionManager, error: BaseException) -> None:
        if not is_version_2(self):
            note(self, error)
            return
        partitions, group = set(self._txn_partitions), self._txn_consumer_group
        note(self, error)
        self._txn_partitions, self._txn_consumer_group = partitions, group
        self._transaction_waiter.exception()  # read, because an abort does not read it

    return noting


def end_sound(end: _Function) -> _Function:
    """Return a replacement of `Sender._do_txn_commit`, which ends a transaction."""

    async def ending(self: Sender, result: TransactionResult) -> None:
        manager = self._txn_manager
        if is_version_2(manager):
            await self._message_accumulator.flush_for_commit()
            if manager.needs_transaction_commit() is not result:
                return  # one of the batches was refused
        await end(self, result)

    return ending
