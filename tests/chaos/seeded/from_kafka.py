"""The topics of a real run as a history. It is as exact as the timestamps of Kafka's records."""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any

from aiokafka import AIOKafkaConsumer, TopicPartition
from tests.chaos.seeded.history import Acknowledged, Entry, History

from moorage_schemas.topics import TOPICS

_PATIENCE = 60.0
"""Seconds within which everything must have been read."""


async def read_history(
    bootstrap: str,
    prefix: str,
    *,
    quiet: bool = True,
    skew: float = 0.0,
    settings: Mapping[str, object] | None = None,
    acknowledged: Sequence[Acknowledged] | None = None,
    ended: float | None = None,
) -> History:
    """Everything that a reader of committed records finds in a fleet's topics, from their beginnings to now.

    It is whole as long as nothing was compacted away, or expired.

    Args:
        bootstrap: Kafka's addresses, comma-separated.
        prefix: of the topics' names.
        quiet: whether all is done that was due.
        skew: seconds by which clocks may be off.
        settings: those of the services that are not the defaults.
        acknowledged: what outsiders were told; None counts every record as told that no service but the gateway wrote.
        ended: the end of the run in seconds since the epoch; None for the newest record's time.

    Raises:
        LookupError: a topic is missing.
        TimeoutError: not everything could be read within a minute.
    """
    consumer = AIOKafkaConsumer(
        bootstrap_servers=bootstrap,
        isolation_level="read_committed",
        enable_auto_commit=False,
        auto_offset_reset="earliest",
    )
    await consumer.start()
    try:
        async with asyncio.timeout(_PATIENCE):
            logs = await _read_all(consumer, {topic.name(prefix): topic.short for topic in TOPICS})
    finally:
        await consumer.stop()
    entries = list(in_order(logs.values()))
    told = acknowledged
    if told is None:
        told = [
            Acknowledged(entry.committed, entry.topic, entry.partition, entry.offset)
            for entry in entries
            if not (source := entry.headers.get("ce_source", "")).startswith("moorage/") or source == "moorage/gateway"
        ]
    times = [entry.appended for entry in entries]
    return History(
        entries=entries,
        acknowledged=told,
        exact=False,
        began=min(times, default=0.0),
        ended=max(times, default=0.0) if ended is None else ended,
        quiet=quiet,
        partitions=max((partition for _, partition in logs), default=0) + 1,
        skew=skew,
        settings=settings or {},
    )


async def _read_all(consumer: AIOKafkaConsumer, names: Mapping[str, str]) -> dict[tuple[str, int], list[Entry]]:
    """The records of every partition, by the topic's short name."""
    parts: list[TopicPartition] = []
    await consumer._client.force_metadata_update()  # a consumer that was given no topic knows of none yet
    for name in names:
        found = consumer.partitions_for_topic(name) or await _partitions(consumer, name)
        parts += [TopicPartition(name, partition) for partition in sorted(found)]
    consumer.assign(parts)
    ends = await consumer.end_offsets(parts)
    logs: dict[tuple[str, int], list[Entry]] = {(names[part.topic], part.partition): [] for part in parts}
    while not all([await consumer.position(part) >= end for part, end in ends.items()]):
        for part, records in (await consumer.getmany(timeout_ms=200)).items():
            logs[names[part.topic], part.partition] += [_entry(names[part.topic], record) for record in records]
    return logs


async def _partitions(consumer: AIOKafkaConsumer, name: str) -> set[int]:
    await consumer._client.add_topic(name)
    found: set[int] | None = consumer.partitions_for_topic(name)
    if not found:
        raise LookupError(f"topic {name} is missing")
    return found


def _entry(topic: str, record: Any) -> Entry:
    time = record.timestamp / 1000
    return Entry(
        topic=topic,
        partition=record.partition,
        offset=record.offset,
        key=(record.key or b"").decode("utf-8", "replace"),
        value=record.value,
        headers={name: (value or b"").decode("utf-8", "replace") for name, value in record.headers},
        appended=time,
        committed=time,
        order=0,
    )


def in_order(logs: Iterable[Sequence[Entry]]) -> Iterator[Entry]:
    """The records of some partitions in one order: by their timestamps, and in each partition as they are there.

    A record is not taken for earlier than the one before it in its partition.
    """

    def timed(log: Sequence[Entry]) -> Iterator[tuple[float, str, int, int, Entry]]:
        latest = accumulate((entry.committed for entry in log), max)
        for time, entry in zip(latest, log, strict=True):
            yield time, entry.topic, entry.partition, entry.offset, entry

    for order, (time, _, _, _, entry) in enumerate(heapq.merge(*(timed(log) for log in logs))):
        yield Entry(
            entry.topic,
            entry.partition,
            entry.offset,
            entry.key,
            entry.value,
            entry.headers,
            entry.appended,
            time,
            order,
        )
