"""The one producer of a partition: its start fences every earlier one, it writes in transactions, and stays alive.

Kafka forgets a transactional id when nothing was written with it for `transactional.id.expiration.ms`, 7 days by
default. Then the next write fails. The producer must not simply register again and repeat it: meanwhile another one may
have come, written, and been forgotten (Kafka's KAFKA-18019). The partition would have to restore its state first, and
the gateway to read its tables. So an idle producer writes a record without effect in good time (`KeepAlive`).
"""

from __future__ import annotations

import asyncio
import contextlib
import time
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import structlog
from aiokafka import AIOKafkaProducer, TopicPartition

from moorage.runtime.kafka.clients import clients
from moorage.runtime.kafka.clients.record_batch import batches_of
from moorage.runtime.process.failures import StartAfresh
from moorage.runtime.settings.process_settings import Settings
from moorage.runtime.wire.codec import Outgoing

log = structlog.get_logger(__name__)

_START_TIMEOUT = 30.0  # seconds; the broker ends an earlier task's open transaction in that time
_CLOSE_TIMEOUT = 5.0
_ABORT_TIMEOUT = 3.0
_SWEEP_KEY = b"sweep"  # compacted topics accept no record without a key
_NONE_EXPECTED: Final[Mapping[TopicPartition, int]] = MappingProxyType({})

GroupOffsets = Mapping[str, Mapping[TopicPartition, int]]
"""The next offsets of sources, by consumer group. A group has at least one."""


def _named(partitions: Iterable[TopicPartition]) -> str:
    return ", ".join(f"{tp.topic}/{tp.partition}" for tp in sorted(partitions))


async def write_to_each(producer: AIOKafkaProducer, partitions: Iterable[TopicPartition]) -> None:
    """Write a record without effect to each partition, in a transaction that will be aborted.

    A partition is part of the transaction, and gets its marker, only after it has accepted a record.

    Raises:
        KafkaError: a partition has not accepted it.
    """
    sent = [await producer.send(tp.topic, key=_SWEEP_KEY, partition=tp.partition) for tp in partitions]
    for delivered in sent:
        await delivered


class SentBatch(NamedTuple):
    """A batch of records that was sent."""

    tp: TopicPartition
    records: Sequence[Outgoing]
    delivered: asyncio.Future[Any]
    """Aiokafka's metadata, with the offset of the first record; -1 when that is not known."""


async def send_batches(producer: AIOKafkaProducer, records: Iterable[Outgoing]) -> list[SentBatch]:
    """Send the records of a transaction, those of each partition in their order."""
    by_partition: dict[TopicPartition, list[Outgoing]] = {}
    for record in records:
        by_partition.setdefault(TopicPartition(record.topic, record.partition), []).append(record)
    now = int(time.time() * 1000)
    sent: list[SentBatch] = []
    for tp, group in by_partition.items():
        for batch in batches_of(group, now, clients.PRODUCER_BATCH_BYTES):
            delivered = await producer.send_batch(batch, tp.topic, partition=tp.partition)
            sent.append(SentBatch(tp, batch.records, delivered))
    return sent


class PartitionProducer:
    """A transactional producer with the partition's own transactional id.

    Args:
        settings: the address of Kafka, and the transaction's timeout.
        transactional_id: `<prefix>.<service>.<partition>`; the same for every task of the partition.
    """

    def __init__(self, settings: Settings, *, transactional_id: str) -> None:
        self._settings = settings
        self._id = transactional_id
        self._producer: AIOKafkaProducer | None = None
        self._in_transaction = False

    async def start(self) -> None:
        """Connect and fence all earlier producers of this id. When this returns, their open transactions have ended.

        Raises:
            KafkaError: Kafka does not answer, or refuses.
            TimeoutError: it took too long.
        """
        producer = clients.transactional_producer(self._settings, transactional_id=self._id)
        self._producer = producer
        async with asyncio.timeout(_START_TIMEOUT):
            await producer.start()

    async def write(
        self,
        records: Sequence[Outgoing],
        offsets: GroupOffsets,
        *,
        within: float | None = None,
        expected: Mapping[TopicPartition, int] = _NONE_EXPECTED,
    ) -> None:
        """Write records and the offsets of their input in one transaction: all or nothing.

        Returns when the transaction is committed. After any exception its outcome is unknown, and the producer must be
        discarded.

        Args:
            records: the records to write.
            offsets: the next offset of each source, by consumer group.
            within: seconds after which the transaction must not be committed, because its decisions are then outdated.
        None means the transaction's timeout.
            expected: the offset that the first record of some partitions must get.

        Raises:
            KafkaError: among them `ProducerFenced`, when another task of the partition has started.
            StartAfresh: it took longer than `within`, or an offset is not the expected one.
            TimeoutError: no answer within twice the transaction's timeout.
        """
        producer, loop = self._started(), asyncio.get_running_loop()
        began = loop.time()
        async with asyncio.timeout(2 * self._settings.transaction_timeout_ms / 1000):
            await producer.begin_transaction()
            self._in_transaction = True
            sent = await send_batches(producer, records)
            # A commit does not fail when one of its batches failed, so each batch must be confirmed. The offsets come
            # after them: a broker that verifies both at once refuses one, which is repeated after a pause.
            first: dict[TopicPartition, int] = {}
            for batch in sent:
                first.setdefault(batch.tp, (await batch.delivered).offset)
            if strange := {tp: first.get(tp) for tp, offset in expected.items() if first.get(tp) != offset}:
                raise StartAfresh(f"another producer has written to {_named(strange)}")
            for group, positions in offsets.items():
                await producer.send_offsets_to_transaction(dict(positions), group)
            if within is not None and loop.time() - began > within:
                raise StartAfresh(f"a decision could not be written within {within:g} s")
            await producer.commit_transaction()
            self._in_transaction = False

    async def sweep(self, partitions: Iterable[TopicPartition], offsets: GroupOffsets) -> None:
        """Write a record to each partition, and offsets, in one transaction, and abort it.

        The abort's markers end everything that an earlier producer of this id has left open there. None of it ever
        becomes visible. After any exception the producer must be discarded.

        Raises:
            KafkaError: among them `ProducerFenced`, when another task of the partition has started.
            TimeoutError: no answer within twice the transaction's timeout.
        """
        producer = self._started()
        async with asyncio.timeout(2 * self._settings.transaction_timeout_ms / 1000):
            await producer.begin_transaction()
            self._in_transaction = True
            await write_to_each(producer, partitions)
            for group, positions in offsets.items():
                await producer.send_offsets_to_transaction(dict(positions), group)
            await producer.abort_transaction()
            self._in_transaction = False

    def _started(self) -> AIOKafkaProducer:
        if self._producer is None:
            raise RuntimeError("the producer was not started")
        return self._producer

    async def close(self) -> None:
        """Abort an open transaction, and close the connections. Never raises."""
        producer, self._producer = self._producer, None
        if producer is None:
            return
        if self._in_transaction:
            with contextlib.suppress(Exception):  # otherwise the broker aborts it after its timeout
                async with asyncio.timeout(_ABORT_TIMEOUT):
                    await producer.abort_transaction()
        try:
            async with asyncio.timeout(_CLOSE_TIMEOUT):
                await producer.stop()
        except Exception as error:  # noqa: BLE001 - the producer is given up after any error
            log.debug("producer.close_failed", transactional_id=self._id, error=repr(error))
            with contextlib.suppress(Exception):
                await producer.client.close()


_SHARE: Final = 3
"""A producer writes at least this often in the time after which it would be forgotten."""

_LONGEST: Final = 24 * 3600.0
"""Seconds after which it writes at the latest. With Kafka's default, 7 days, this is the shorter time."""

_SPREAD: Final = 0.5
"""By which share of the interval producers may write earlier, so that those of many partitions do not write at once."""


class KeepAlive:
    """Signals when a producer has written nothing for so long that it must write something.

    Args:
        kept_ms: how long the brokers keep the id of an idle producer, in milliseconds.
        transactional_id: the producer's; it determines how much earlier than others the producer writes.
        due: called once when it must; again only after the next call of `wrote`.
    """

    def __init__(self, kept_ms: int, *, transactional_id: str, due: Callable[[], None]) -> None:
        part = zlib.crc32(transactional_id.encode()) / 2**32
        self._after = min(kept_ms / 1000 / _SHARE, _LONGEST) * (1 - _SPREAD * part)
        self._due = due
        self._wrote_at = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def wrote(self) -> None:
        """Note that the producer was started, or has committed or aborted a transaction."""
        loop = asyncio.get_running_loop()
        self._wrote_at = loop.time()
        if self._timer is None:  # otherwise the next check is when it fires, so that a busy producer sets no timers
            self._timer = loop.call_later(self._after, self._check)

    def close(self) -> None:
        """Stop, because the producer is given up."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _check(self) -> None:
        loop = asyncio.get_running_loop()
        left = self._wrote_at + self._after - loop.time()
        self._timer = loop.call_later(left, self._check) if left > 0 else None
        if self._timer is None:
            self._due()
