"""Finds out whether the consumer and the table readers of a worker still receive what Kafka has."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from aiokafka import TopicPartition
from aiokafka.errors import KafkaError

from moorage.runtime.kafka.context import WorkerContext
from moorage.runtime.kafka.global_tables import GlobalReader
from moorage.runtime.kafka.partition_task import Phase

_ASKING: Final = 5.0  # seconds within which Kafka must return the ends of partitions


@dataclass(frozen=True, slots=True)
class Behind:
    """Where Kafka has more than this worker has received.

    Attributes:
        partitions: running partitions with sources that the consumer has not read to the end.
        tables: partitions of followed and global topics that are not read to the end, each with the offset that it has
            reached.
    """

    partitions: frozenset[int] = frozenset()
    tables: Mapping[TopicPartition, int] = field(default_factory=dict)


async def behind(context: WorkerContext[Any], phases: Mapping[int, Phase], view: GlobalReader | None) -> Behind:
    """Return where Kafka has more than this worker has received.

    The ends are requested over a separate connection, because a consumer that no longer receives anything does not know
    that there is more. An open transaction may hide records of sources until its timeout. For tables, only records
    below every open transaction count. The result is empty when Kafka does not answer.

    Args:
        context: the context of the worker's session.
        phases: the phases of the worker's owners, by partition.
        view: the reader of the global view, if there is one.
    """
    working = [partition for partition, phase in phases.items() if phase is Phase.RUNNING]
    try:
        async with asyncio.timeout(_ASKING):
            return Behind(await _sources(context, working), await _tables(context, working, view))
    except (KafkaError, TimeoutError, OSError, RuntimeError):  # no answer, or the partitions are changing right now
        return Behind()


async def _sources(context: WorkerContext[Any], working: Iterable[int]) -> frozenset[int]:
    tps = {context.tp(topic, partition): partition for partition in working for topic in context.service.sources}
    ends = await context.offsets.end(tps)
    return frozenset([tps[tp] for tp, end in ends.items() if end > await context.consumer.position(tp)])


async def _tables(
    context: WorkerContext[Any], working: Iterable[int], view: GlobalReader | None
) -> dict[TopicPartition, int]:
    followed = {context.tp(topic, partition) for partition in working for topic in context.service.follows}
    shared = view.followed if view is not None else frozenset()
    if not followed and not shared:
        return {}
    ends = await context.offsets.stable(followed | shared)
    found = await context.reader.behind({tp: ends[tp] for tp in followed})
    return found if view is None else found | await view.behind({tp: ends[tp] for tp in shared})
