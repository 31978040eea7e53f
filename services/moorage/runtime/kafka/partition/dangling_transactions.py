"""Ends transactions of earlier tasks that are still open because the broker lost their markers.

When a producer has started, no earlier transaction of its id should be open. Kafka 4.3.1 violates this when a partition
has no leader at the moment in which the transaction coordinator ends a transaction. The coordinator treats the
partition as deleted, skips its marker, and marks the transaction as complete. This can happen when a single broker
hangs for longer than its session with the controller. The records stay open on the partition: consumers cannot read
past them, and a later commit of the same producer would make them visible. (docs/decisions/0013)
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import structlog
from aiokafka import AIOKafkaConsumer, TopicPartition

from moorage.runtime.kafka.clients import clients
from moorage.runtime.kafka.clients.fenced_producer import PartitionProducer
from moorage.runtime.kafka.partition.context import WorkerContext
from moorage.runtime.process import metrics
from moorage.runtime.process.failures import StartAfresh
from moorage.runtime.service import source_name
from moorage.runtime.wire import codec
from moorage_schemas.topics import DEAD_LETTERS, JOURNAL, Topic

log = structlog.get_logger(__name__)

_SLOW = 0.5  # seconds from which a transaction counts as slow; a normal one takes a tenth of that
_CHECK_AGAIN: Final = 0.05  # seconds
_READ_MS: Final = 200


@dataclass(frozen=True, slots=True)
class Sound:
    """The positions from which a task can safely continue."""

    committed: Mapping[Topic, int | None]
    """The committed offset of each source; None where none was ever committed."""

    no_later: Mapping[Topic, int] = field(default_factory=dict)
    """Positions after which it must not begin, even if other state rests on later ones; empty when nothing was lost."""


async def end_lost_transactions(
    context: WorkerContext[Any],
    partition: int,
    producers: Sequence[PartitionProducer],
    committed: Mapping[Topic, int | None],
) -> Sound:
    """End a transaction that is open on a service's changelog partitions, if any.

    Apart from `timers`, only the partition's task writes to these partitions. The transaction is aborted, even if the
    coordinator had decided to commit it, and its work is done again under the same ids.

    When only some of its markers were lost, its offsets may be committed nevertheless. The decisions behind these
    offsets are lost, so the offsets are set back to the beginning of the transaction, which its records state. This is
    done first, because once the transaction is ended, the error can no longer be detected. Later transactions may have
    left state on other changelogs; the positions in that state do not count either. A lost transaction that wrote only
    to outputs is not detected, because outputs have other writers.

    A transaction of another writer that is open for a long time is treated as lost. Sweeping does no harm in that case.

    Args:
        context: the context of the worker's session.
        partition: the task's partition.
        producers: the producers that tasks of the partition write with, alone or in a chain; started and not in a
        transaction. The first one is the task's own.
        committed: the group's committed offset of each source.

    Returns:
        The committed offsets, set back where decisions were lost, and the positions after which the task must not
        begin.

    Raises:
        TimeoutError: the transaction is still open; another start may end it.
        KafkaError: Kafka does not answer, or refuses.
    """
    states = [context.tp(topic, partition) for topic in context.service.changelogs]
    hanging = await _still_open(context, states) if states else []
    if not hanging:
        return Sound(committed)
    metrics.LOST_MARKERS.labels(context.service.name).inc()
    place = {"service": context.service.name, "partition": partition}
    log.warning("partition.marker_lost", **place, open=_named(hanging))
    outputs = {
        context.tp(topic, number)
        for topic in (*context.service.outputs, DEAD_LETTERS)
        for number in range(context.partitions)
    } | {context.tp(JOURNAL, partition)}
    sound = await _set_back(context, partition, producers[0], committed, hanging)
    # The transaction's offsets are pending as well. This one is aborted, so the values do not matter.
    offsets = {context.tp(topic, partition): offset or 0 for topic, offset in sound.committed.items()}
    for producer in producers:
        await producer.sweep(sorted({*states, *outputs}), {context.group: offsets})
    hanging = await _still_open(context, states)
    if hanging:
        raise TimeoutError(f"a transaction whose markers the broker lost could not be ended: {_named(hanging)}")
    log.info("partition.marker_made_up", **place)
    return sound


async def _set_back(
    context: WorkerContext[Any],
    partition: int,
    producer: PartitionProducer,
    committed: Mapping[Topic, int | None],
    hanging: Iterable[TopicPartition],
) -> Sound:
    """Commit the offsets at which an open transaction began, where later ones are committed.

    Earlier transactions have decided on everything below these offsets.
    """
    begun = await _began(context, hanging)
    # Records of earlier versions do not state where their batch began. Then the positions of other state are used.
    positions = {topic: [one[topic.short] for one in begun if topic.short in one] for topic in committed}
    no_later = {topic: min(found) for topic, found in positions.items() if found}
    sound = {
        topic: offset if offset is None else min(offset, no_later.get(topic, offset) if all(begun) else 0)
        for topic, offset in committed.items()
    }
    if sound != committed:
        offsets = {context.tp(topic, partition): offset or 0 for topic, offset in sound.items()}
        await producer.write([], {context.group: offsets})
        log.info(
            "partition.offsets_set_back",
            service=context.service.name,
            partition=partition,
            offsets={topic.short: offset for topic, offset in sound.items()},
        )
    return Sound(sound, no_later)


async def _began(context: WorkerContext[Any], hanging: Iterable[TopicPartition]) -> list[dict[str, int]]:
    """Return where the service's own batches in open transactions began: the next offset of each source."""
    found: list[dict[str, int]] = []
    own = source_name(context.service.name)
    begins = await context.offsets.stable(hanging)
    ends = await context.offsets.end(hanging)
    async with _reading(context, begins) as consumer:
        while [tp for tp, end in ends.items() if await consumer.position(tp) < end]:
            for records in (await consumer.getmany(timeout_ms=_READ_MS)).values():
                begun = [codec.positions_before(record.headers, own) for record in records]
                found.extend(one for one in begun if one is not None and one not in found)
    return found


@contextlib.asynccontextmanager
async def _reading(
    context: WorkerContext[Any], positions: Mapping[TopicPartition, int]
) -> AsyncIterator[AIOKafkaConsumer]:
    """Yield a consumer at these positions that also reads records that are not committed."""
    consumer = clients.table_consumer(context.settings, client_id=f"{context.client_id}-hanging", committed_only=False)
    try:
        await consumer.start()
        consumer.assign(list(positions))
        for tp, offset in positions.items():
            consumer.seek(tp, offset)
        yield consumer
    finally:
        with contextlib.suppress(Exception):  # the client is given up after any error
            await consumer.stop()


async def mind_a_slow_commit(context: WorkerContext[Any], partition: int, seconds: float) -> None:
    """Check that a slow commit has its markers, because the broker may have hung in the meantime.

    Without markers, the records would stay invisible until the next commit to the same partitions. After a new start
    the transaction is aborted, and its work is done again. A commit that took no longer than usual is not checked.

    Raises:
        StartAfresh: a transaction is still open on the task's changelog partitions.
        KafkaError: Kafka does not answer.
    """
    states = [context.tp(topic, partition) for topic in context.service.changelogs]
    if seconds >= _SLOW and states and (hanging := await _still_open(context, states)):
        raise StartAfresh(f"the broker has lost markers of a committed transaction: {_named(hanging)}")


async def markers_lost_since(context: WorkerContext[Any], partition: int) -> list[str]:
    """Check whether an earlier commit of this service on the task's changelog partitions is still open.

    A commit may be acknowledged quickly and lose its markers afterwards. On a partition without other writers, the next
    commit shows this. `timers` has several writers, and an open transaction of one of them blocks all. Only that
    writer's next transaction there, or its next start, can end it. The first open record shows which writer it is.

    Returns:
        The names of the open partitions; empty when all is well, or when the transaction is another writer's.

    Raises:
        KafkaError: Kafka does not answer.
    """
    states = [context.tp(topic, partition) for topic in context.service.changelogs]
    hanging = await _still_open(context, states) if states else []
    if not hanging:
        return []
    writers = await _writers(context, hanging)
    return _named(tp for tp in hanging if writers.get(tp) in (None, source_name(context.service.name)))


async def _writers(context: WorkerContext[Any], hanging: Iterable[TopicPartition]) -> dict[TopicPartition, str]:
    """Return the CloudEvents source of the first open record of each partition, if the record has one."""
    stable = await context.offsets.stable(hanging)
    ends = await context.offsets.end(stable)
    found: dict[TopicPartition, str] = {}
    passed: set[TopicPartition] = set()
    async with _reading(context, stable) as consumer:
        while len(passed) < len(stable):
            for tp, records in (await consumer.getmany(timeout_ms=_READ_MS)).items():
                if tp not in passed:
                    passed.add(tp)
                    source = dict(records[0].headers).get("ce_source")
                    if source is not None:
                        found[tp] = source.decode(errors="replace")
            passed.update([tp for tp, end in ends.items() if await consumer.position(tp) >= end])
    return found


async def _still_open(context: WorkerContext[Any], partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
    """Return the partitions with a transaction below their present end that stays open for longer than is allowed.

    `timers` has several writers. Their regular transactions have ended by then.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + context.settings.transaction_timeout_ms / 1000
    ends = await context.offsets.end(partitions)
    while True:
        stable = await context.offsets.stable(ends)
        ends = {tp: end for tp, end in ends.items() if stable[tp] < end}
        if not ends or loop.time() >= deadline:
            return list(ends)
        await asyncio.sleep(_CHECK_AGAIN)


def _named(partitions: Iterable[TopicPartition]) -> list[str]:
    return [f"{tp.topic}/{tp.partition}" for tp in sorted(partitions)]
