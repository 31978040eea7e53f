"""Reads partitions once, from given starts to given ends, for commands that read the present content of topics."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, Final

from aiokafka import AIOKafkaConsumer, TopicPartition

CONNECT_SECONDS: Final = 15.0
"""Seconds within which Kafka must answer the first time."""

STALLED_SECONDS: Final = 30.0
"""Seconds without progress after which a read is given up."""

_POLL_MS: Final = 200
_AT_ONCE: Final = 5000  # records

Progress = Callable[[int, int], None]
"""Called with the number of positions that were read, and their total."""


async def read_to(
    consumer: AIOKafkaConsumer,
    starts: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
    progress: Progress | None = None,
) -> AsyncIterator[tuple[TopicPartition, list[Any]]]:
    """Yield the records of partitions from their starts to their ends, each partition in its order.

    Positions without a record, which compaction and transactions leave behind, count as read. The consumer is assigned
    only the partitions to read.

    Args:
        consumer: a started consumer that belongs to no group.
        starts: the first offset of each partition.
        ends: the offset before which the read of each partition ends; records from there on are left out.
        progress: called with the progress of the read.

    Raises:
        KafkaError: an answer is an error.
        TimeoutError: nothing was received for `STALLED_SECONDS`.
    """
    waiting = {tp for tp in starts if starts[tp] < ends[tp]}
    wanted = sum(ends[tp] - starts[tp] for tp in waiting)
    if not waiting:
        return
    consumer.assign(sorted(waiting))
    for tp in waiting:
        consumer.seek(tp, starts[tp])
    clock = asyncio.get_running_loop().time
    moved, read = clock(), 0
    while waiting:
        for tp, records in (await consumer.getmany(timeout_ms=_POLL_MS, max_records=_AT_ONCE)).items():
            yield tp, [record for record in records if record.offset < ends[tp]]
        done = {tp for tp in waiting if await consumer.position(tp) >= ends[tp]}
        if done:
            consumer.pause(*done)
            waiting -= done
        before, read = read, wanted - sum([ends[tp] - await consumer.position(tp) for tp in waiting])
        if read > before:
            moved = clock()
        elif clock() - moved > STALLED_SECONDS:
            raise TimeoutError(f"no records for {STALLED_SECONDS:g} s, {wanted - read} positions before the end")
        if progress is not None:
            progress(read, wanted)
