"""Older records of the chains behind a decision, read from the topics without leaving a trace.

Every event of a chain carries the id of the chain's first event, so records are picked by their headers and only those
are decoded. What concerns no target in particular is looked through whole; conditions and reports, of which there are
many, only in the partitions of the targets that a chain is about, and reports only from shortly before the chain.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from aiokafka import AIOKafkaConsumer, TopicPartition

from moorage.runtime import codec
from moorage.runtime.kafka import clients
from moorage.runtime.kafka.read_to_end import CONNECT_SECONDS, read_to
from moorage.runtime.service import Input
from moorage.runtime.settings import Settings
from moorage.simulation.copy.snapshot import Kept
from moorage.simulation.explain.chain import Chain, target_of
from moorage_schemas.topics import (
    BUDGETS,
    CONDITION_REPORTS,
    CONDITIONS,
    EVICTION_ANSWERS,
    EVICTION_ASKS,
    EVICTION_SLOTS,
    EVICTIONS,
    FLEET,
    RESOURCES,
    TAINTS,
    TIMER_FIRED,
    TIMERS,
    WORKLOAD_CONDITIONS,
    ZONE_GRANTS,
    ZONE_MEMBERS,
    ZONES,
    Topic,
    partition_of,
)

WHOLE: Final = (TAINTS, EVICTIONS, TIMERS, TIMER_FIRED, EVICTION_ANSWERS, ZONE_GRANTS, RESOURCES)
"""Looked through in every partition."""

OF_FLEET: Final = (ZONE_MEMBERS, ZONES, EVICTION_ASKS, EVICTION_SLOTS, BUDGETS)
"""Looked through in the one partition of the fleet: what the governor reads and writes."""

OF_TARGETS: Final = (CONDITIONS, WORKLOAD_CONDITIONS, CONDITION_REPORTS)
"""Looked through in the partitions of the targets of a chain."""

BEFORE: Final = timedelta(minutes=15)
"""How long before the oldest event that is known of a chain reports are looked for."""

_IDS = frozenset({"ce_id", "ce_correlationid"})


async def load_history(settings: Settings, partitions: int, chains: Iterable[Chain]) -> list[Kept]:
    """The records of chains that are still in the topics.

    Args:
        settings: where Kafka is, and the topics' prefix.
        partitions: how many each topic has.
        chains: as far as they are known.

    Raises:
        KafkaError: Kafka does not answer, or an answer is an error.
        TimeoutError: Kafka does not answer.
        OSError: Kafka cannot be reached.
    """
    known = [step.record for chain in chains for step in chain.steps if step.record is not None]
    wanted = frozenset(record.meta.correlation.encode() for record in known)
    if not known:
        return []
    topics = {topic.name(settings.topic_prefix): topic for topic in (*WHOLE, *OF_FLEET, *OF_TARGETS)}
    consumer = clients.table_consumer(settings, client_id="moorage-explain")
    try:
        async with asyncio.timeout(CONNECT_SECONDS):
            await consumer.start()
        every = [TopicPartition(topic.name(settings.topic_prefix), p) for topic in WHOLE for p in range(partitions)]
        fleet = partition_of(FLEET, partitions)
        every += [TopicPartition(topic.name(settings.topic_prefix), fleet) for topic in OF_FLEET]
        found = await _scan(consumer, topics, await consumer.beginning_offsets(every), wanted)
        targets = {target for record in (*known, *found) if (target := target_of(record))}
        parts = sorted({partition_of(target, partitions) for target in targets})
        oldest = min(record.timestamp for record in (*known, *found)) - BEFORE
        some = [TopicPartition(topic.name(settings.topic_prefix), p) for topic in OF_TARGETS for p in parts]
        found += await _scan(consumer, topics, await _starts(consumer, topics, some, oldest), wanted)
    finally:
        await consumer.stop()
    return found


async def _starts(
    consumer: AIOKafkaConsumer, topics: Mapping[str, Topic], tps: list[TopicPartition], oldest: datetime
) -> dict[TopicPartition, int]:
    """Where to begin: reports not before a time, everything else at the beginning."""
    starts: dict[TopicPartition, int] = dict(await consumer.beginning_offsets(tps)) if tps else {}
    reports = [tp for tp in tps if topics[tp.topic] is CONDITION_REPORTS]
    if reports:
        stamp = max(0, int(oldest.timestamp() * 1000))
        ends = await consumer.end_offsets(reports)
        for tp, place in (await consumer.offsets_for_times(dict.fromkeys(reports, stamp))).items():
            starts[tp] = ends[tp] if place is None else place.offset
    return starts


async def _scan(
    consumer: AIOKafkaConsumer,
    topics: Mapping[str, Topic],
    starts: Mapping[TopicPartition, int],
    wanted: frozenset[bytes],
) -> list[Kept]:
    """The records of some chains, from where each partition is to begin to its present end."""
    ends: dict[TopicPartition, int] = await consumer.end_offsets(list(starts)) if starts else {}
    found: list[Kept] = []
    async for tp, records in read_to(consumer, starts, ends):
        found += [kept for record in records if (kept := _picked(topics[tp.topic], record, wanted)) is not None]
    return found


def _picked(topic: Topic, record: Any, wanted: frozenset[bytes]) -> Kept | None:
    """A record if it belongs to one of the chains."""
    ids = [value for name, value in record.headers if name in _IDS]
    if ids and wanted.isdisjoint(ids):
        return None  # without ids in the headers it may be in structured mode
    found = codec.decode(topic, record, third_party=topic is CONDITION_REPORTS)
    if not isinstance(found, Input) or wanted.isdisjoint({found.meta.id.encode(), found.meta.correlation.encode()}):
        return None
    return Kept.of(found, datetime.fromtimestamp(record.timestamp / 1000, UTC))
