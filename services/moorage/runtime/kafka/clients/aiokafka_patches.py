"""All patches of aiokafka. It creates its connections, clients and records itself, so its classes are changed.

Each wraps one function of aiokafka, and marks the wrapper with its name. `apply_patches` applies those that are not
applied yet, always in the order of `PATCHES`. They fit one version of aiokafka, and any other is refused.

Closed connections: asyncio drops what is written to a closed transport. uvloop raises `RuntimeError`, which aiokafka
does not expect (its issue 1038). In the task that keeps a client's metadata up to date, this ends the task without
notice. From then on, everything that waits for metadata waits forever. So such a write raises aiokafka's error of a
broken connection instead, and closes the connection.

Used topics: a client that has used no topic yet requests the metadata of all topics of the cluster, once in
`metadata_max_age_ms`. It then has each topic that it begins to use, so it never names one, and requests all of them
for its whole life. With 21 topics of 24 partitions this takes about half a megabyte in each client. A service has a
producer for each partition, most of which are idle in some services. So such a client requests the metadata of the
brokers alone. A topic is requested when it is first used: written to, subscribed, assigned, or queried. Subscriptions
by pattern, which need all topics, no longer work; Moorage has none. `fetch_all_metadata` still requests all.

Light records: aiokafka makes a dataclass with eleven fields of each record. This takes a third of the reading time, and
half a kilobyte for each waiting record. Consumers with `light` as their `value_deserializer` return
`LightRecord`s.

Late passwords: a password is taken as text, once for the life of a client. A `Password` is read when a connection
authenticates.

Positions: a transaction ends with markers, which are no records. aiokafka's `getmany` moves a position past them, and
then waits on. A caller that reads up to an end would have to check the position again and again. So `getmany` also
returns when an answer of a broker has moved a position without a record, and then returns nothing.

Groups: aiokafka commits the offsets of one group only in a transaction, and requests a group's coordinator once. A
chain of services commits those of the group of each service. So a producer adds each group to the transaction when it
differs from the one before, and has a coordinator for each.

Transactions in a row: a broker refuses the first partition of a transaction while it still writes the markers of the
one before, mostly for one or two milliseconds. aiokafka then waits for 20. So the first waits are shorter.

Unended transactions: a producer that starts waits, without limit and without a word, while its coordinator has not
ended the transaction of the one before. After ten seconds, and each ten more, it is logged which broker that is. A
coordinator may never end one: if a broker answers its marker with an unknown error, as one with a full disk may, Kafka
4.3.1 does not send the marker again until another broker, or the same one after a restart, becomes the coordinator.

Fetch sessions, fetch connections, transactions of version 2: the modules `fetch_sessions`, `fetch_connections` and
`transactions_v2` describe them.

Refusals: Kafka's refusals are hidden by other errors, or by none. They are noted in `REFUSALS`.
"""

from __future__ import annotations

import asyncio
import contextvars
import functools
from collections.abc import Callable, Collection, Iterable
from typing import Any, Final, NamedTuple

import aiokafka
import aiokafka.client
import structlog
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.client import AIOKafkaClient, CoordinationType
from aiokafka.conn import AIOKafkaConnection, CloseReason, OAuthAuthenticator
from aiokafka.consumer.fetcher import Fetcher, PartitionRecords
from aiokafka.errors import ConcurrentTransactions, KafkaConnectionError, KafkaError, SaslAuthenticationFailed
from aiokafka.producer import sender
from aiokafka.producer.sender import AddPartitionsToTxnHandler, InitPIDHandler, Sender
from aiokafka.producer.transaction_manager import TransactionManager

from moorage.runtime.kafka.clients import fetch_connections, transactions_v2
from moorage.runtime.kafka.clients.passwords import Password
from moorage.runtime.kafka.clients.refusals import REFUSALS, NotAuthenticatedError, not_allowed, refusal
from moorage.runtime.process.failures import RuntimeFailure
from moorage.runtime.wire.codec import LightRecord, light

log = structlog.get_logger(__name__)

_Function = Callable[..., Any]

FITTING: Final = "0.14"
"""The version of aiokafka that the patches fit, without its last number."""

_MARKS: Final = "moorage_patches"


class Patch(NamedTuple):
    """A change of one function of aiokafka."""

    name: str
    place: Any
    """The class or module that has the function."""

    function: str
    wrap: Callable[[_Function], _Function]
    """Returns the replacement of a function."""

    @property
    def is_applied(self) -> bool:
        """Whether calls of the function go through this patch."""
        return self.name in getattr(getattr(self.place, self.function), _MARKS, ())

    def apply(self) -> None:
        """Apply it, unless it is applied already."""
        if self.is_applied:
            return
        present = getattr(self.place, self.function)
        made = functools.update_wrapper(self.wrap(present), present)  # takes over the marks as well
        setattr(made, _MARKS, (*getattr(present, _MARKS, ()), self.name))
        setattr(self.place, self.function, made)


def check_version(version: str) -> None:
    """Check that the patches fit a version of aiokafka. Raises RuntimeFailure if they do not."""
    if version != FITTING and not version.startswith(f"{FITTING}."):
        raise RuntimeFailure(
            f"aiokafka: invalid version {version!r}: expected {FITTING}, because Moorage changes its inside; "
            "check each of aiokafka_patches.PATCHES against the new version first"
        )


def apply_patches() -> None:
    """Apply all patches that are not applied yet. Raises RuntimeFailure if aiokafka has another version."""
    check_version(aiokafka.__version__)
    for patch in PATCHES:
        patch.apply()


# Closed connections.


def _close_when_broken(send: _Function) -> _Function:
    def sending(self: AIOKafkaConnection, *args: Any, **kwargs: Any) -> Any:
        try:
            return send(self, *args, **kwargs)
        except KafkaError:  # KafkaError is a RuntimeError
            raise
        except RuntimeError as error:
            self.close(reason=CloseReason.CONNECTION_BROKEN, exc=error)
            raise KafkaConnectionError(f"Connection at {self.host}:{self.port} broken: {error}") from error

    return sending


# Used topics.


class _NoTopics(frozenset[str]):
    """The empty set, which counts as true.

    In Kafka's protocol an empty list means no topics, and a missing one means all. aiokafka sends a missing one for a
    set that counts as false.
    """

    def __bool__(self) -> bool:
        return True


_NO_TOPICS: Final = _NoTopics()


def _request_used_topics(update: _Function) -> _Function:
    async def updating(self: AIOKafkaClient, cluster_metadata: Any, topics: Collection[str] | None) -> Any:
        return await update(self, cluster_metadata, topics if topics is None or topics else _NO_TOPICS)

    return updating


# Light records.


def _make_light(record_of: _Function) -> _Function:
    def made(self: Any, tp: TopicPartition, record: Any) -> Any:
        if self._value_deserializer is not light:
            return record_of(self, tp, record)
        return LightRecord(
            tp.topic, tp.partition, record.offset, record.timestamp, record.key, record.value, tuple(record.headers)
        )

    return made


# Positions.


def _return_with_positions(fetch: _Function) -> _Function:
    async def fetching(
        self: Fetcher,
        partitions: Any,
        timeout: float = 0,  # noqa: ASYNC109 - aiokafka's parameter
        max_records: int | None = None,
    ) -> Any:
        if self._subscriptions.reassignment_in_progress:
            await self._subscriptions.wait_for_assignment()
        waiting = len(self._records)
        found = await fetch(self, partitions, 0, max_records)
        if found or not timeout or len(self._records) < waiting:
            return found
        waiter = self._create_fetch_waiter()
        try:
            await asyncio.wait((waiter,), timeout=timeout)
            if not waiter.done() or self._closed:
                return {}
            waiter.result()  # raises the errors of the group
        finally:
            waiter.cancel()
        return await fetch(self, partitions, 0, max_records)

    return fetching


def _return_with_resets(update: _Function) -> _Function:
    async def updating(self: Fetcher, *args: Any) -> bool:
        await update(self, *args)
        return True  # wakes those that wait

    return updating


# Late passwords.


def _read_password(make: _Function) -> _Function:
    def making(self: AIOKafkaConnection) -> Any:
        given = self._sasl_plain_password
        if isinstance(given, Password):
            self._sasl_plain_password = given.now()
            try:
                return make(self)
            finally:
                self._sasl_plain_password = given
        return make(self)

    return making


# Refusals.


_REFUSED: contextvars.ContextVar[list[str] | None] = contextvars.ContextVar("refused", default=None)
"""The refusals of the connections that a client has tried since it began to start."""


def _note_refusal(create: _Function) -> _Function:
    async def creating(host: str, port: int, **arguments: Any) -> AIOKafkaConnection:
        try:
            return await create(host, port, **arguments)
        except BaseException as error:
            text = refusal(error, _user(arguments.get("sasl_plain_username"), arguments.get("sasl_mechanism")))
            if text:
                REFUSALS.note(text)
                if (found := _REFUSED.get()) is not None:
                    found.append(text)
            raise

    return creating


def _raise_refusal(bootstrap: _Function) -> _Function:
    async def bootstrapping(self: AIOKafkaClient) -> None:
        found: list[str] = []
        token = _REFUSED.set(found)
        try:
            await bootstrap(self)
        except KafkaConnectionError:
            if found:
                raise NotAuthenticatedError(found[-1]) from None
            raise
        finally:
            _REFUSED.reset(token)

    return bootstrapping


def _note_hidden_topics(update: _Function) -> _Function:
    async def updating(self: AIOKafkaClient, cluster: Any, topics: Any) -> Any:
        done = await update(self, cluster, topics)
        hidden: Iterable[str] = cluster.unauthorized_topics
        if hidden:
            who = _user(self._sasl_plain_username, self._sasl_mechanism)
            REFUSALS.note(not_allowed(who, "Describe", "topic", set(hidden)))
        return done

    return updating


def _raise_refused_token(step: _Function) -> _Function:
    async def stepping(self: OAuthAuthenticator, payload: bytes | None) -> Any:
        # A broker that refuses a token answers with a text, and closes the connection after the client's next message
        # (RFC 7628, section 3.2.3). aiokafka takes any answer for a yes.
        if payload:
            raise SaslAuthenticationFailed(payload.decode(errors="replace"))
        return await step(self, payload)

    return stepping


def _user(username: str | None, mechanism: str | None) -> str:
    if username:
        return f"User:{username}"
    return "the subject of its token" if mechanism == "OAUTHBEARER" else "this process"


# Groups.


def _add_each_group(send: _Function) -> _Function:
    async def sending(self: AIOKafkaProducer, offsets: Any, group_id: str) -> None:
        before = getattr(self, "_moorage_group", group_id)
        if before != group_id:
            self._txn_manager._txn_consumer_group = None  # noqa: SLF001 - that the group before was added
            known = self.__dict__.setdefault("_moorage_coordinators", {})
            present = self._sender._coordinators  # noqa: SLF001 - of which one is that of the group before
            known[before] = present.pop(CoordinationType.GROUP, None)
            if (coordinator := known.get(group_id)) is not None:
                present[CoordinationType.GROUP] = coordinator
        self._moorage_group = group_id
        await send(self, offsets, group_id)

    return sending


# Transactions in a row.


_LONGEST = 0.02  # seconds; aiokafka's own wait


def _retry_soon(handle: _Function) -> _Function:
    def handling(self: AddPartitionsToTxnHandler, response: Any) -> float | None:
        wait: float | None = handle(self, response)
        sender = self._sender
        if wait is None or sender._txn_manager.txn_partitions:  # noqa: SLF001 - it is not the first partition
            transactions_v2.reset_wait(sender)
            return wait
        return min(wait, transactions_v2.next_wait(sender, _LONGEST))  # longer in case the broker takes longer

    return handling


# Unended transactions.


UNENDED: Final = 10.0
"""Seconds after which a transaction that its coordinator has not ended is logged, and between two such lines."""


def _report_unended(handle: _Function) -> _Function:
    def handling(self: InitPIDHandler, response: Any) -> float | None:
        wait: float | None = handle(self, response)
        sender = self._sender
        if response.error_code != ConcurrentTransactions.errno:
            sender.__dict__.pop("_moorage_unended", None)
            return wait
        now = asyncio.get_running_loop().time()
        began, reported = sender.__dict__.setdefault("_moorage_unended", (now, now))
        if now - reported >= UNENDED:
            sender.__dict__["_moorage_unended"] = (began, now)
            log.warning(
                "producer.waits_for_coordinator",
                transactional_id=sender._txn_manager.transactional_id,  # noqa: SLF001 - aiokafka has no public way
                broker=sender._coordinators.get(CoordinationType.TRANSACTION),  # noqa: SLF001 - as above
                seconds=round(now - began),
            )
        return wait

    return handling


PATCHES: Final = (
    Patch("closed connections", AIOKafkaConnection, "send", _close_when_broken),
    Patch("closed connections", AIOKafkaConnection, "_send_sasl_token", _close_when_broken),
    Patch("used topics", AIOKafkaClient, "_metadata_update", _request_used_topics),
    Patch("light records", PartitionRecords, "_consumer_record", _make_light),
    Patch("fetch connections", Fetcher, "fetched_records", fetch_connections.cut_when_taken),
    Patch("positions", Fetcher, "fetched_records", _return_with_positions),
    Patch("positions", Fetcher, "_update_fetch_positions", _return_with_resets),
    Patch("fetch sessions", Fetcher, "_proc_fetch_request", fetch_connections.fetch_in_sessions),
    Patch("fetch connections", AIOKafkaClient, "send", fetch_connections.send_apart),
    Patch("fetch connections", Fetcher, "seek_to", fetch_connections.cut_when_sought),
    Patch("fetch connections", Fetcher, "request_offset_reset", fetch_connections.cut_when_reset),
    Patch("fetch connections", Fetcher, "_get_actions_per_node", fetch_connections.rest_longer),
    Patch("fetch connections", AIOKafkaConsumer, "resume", fetch_connections.cut_when_resumed),
    Patch("late passwords", AIOKafkaConnection, "authenticator_plain", _read_password),
    Patch("late passwords", AIOKafkaConnection, "authenticator_scram", _read_password),
    Patch("groups", AIOKafkaProducer, "send_offsets_to_transaction", _add_each_group),
    Patch("transactions in a row", AddPartitionsToTxnHandler, "handle_response", _retry_soon),
    Patch("unended transactions", InitPIDHandler, "handle_response", _report_unended),
    Patch("transactions of version 2", Sender, "_do_init_pid", transactions_v2.find_version),
    Patch("transactions of version 2", Sender, "_do_txn_commit", transactions_v2.end_sound),
    Patch(
        "transactions of version 2",
        sender,
        "SendProduceReqHandler",
        transactions_v2.handle_by(transactions_v2.ProduceHandler),
    ),
    Patch(
        "transactions of version 2",
        sender,
        "TxnOffsetCommitHandler",
        transactions_v2.handle_by(transactions_v2.OffsetsHandler),
    ),
    Patch("transactions of version 2", sender, "EndTxnHandler", transactions_v2.handle_by(transactions_v2.EndHandler)),
    Patch("transactions of version 2", TransactionManager, "maybe_add_partition_to_txn", transactions_v2.add_partition),
    Patch("transactions of version 2", TransactionManager, "add_offsets_to_txn", transactions_v2.add_group),
    Patch("transactions of version 2", TransactionManager, "error_transaction", transactions_v2.keep_parts),
    Patch("refusals", aiokafka.client, "create_conn", _note_refusal),
    Patch("refusals", AIOKafkaClient, "bootstrap", _raise_refusal),
    Patch("refusals", AIOKafkaClient, "_metadata_update", _note_hidden_topics),
    Patch("refusals", OAuthAuthenticator, "step", _raise_refused_token),
)
"""The patches, in the order in which they are applied."""
