"""Whether a worker still hears what Kafka has: its consumer, and what reads its tables."""

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

_ASKING: Final = 5.0  # seconds in which Kafka says where partitions end


@dataclass(frozen=True, slots=True)
class Behind:
    """Where Kafka has more than has come here.

    Attributes:
        partitions: those at work of whose sources the consumer has not brought all.
        tables: partitions of followed and global topics that are not read to the end, with the offset that each has
            come to.
    """

    partitions: frozenset[int] = frozenset()
    tables: Mapping[TopicPartition, int] = field(default_factory=dict)


async def behind(context: WorkerContext[Any], phases: Mapping[int, Phase], view: GlobalReader | None) -> Behind:
    """Where Kafka has more than this worker has come to.

    It asks Kafka anew over a connection of its own: a consumer that has fallen silent does not know that there is
    more. A transaction that is open may hide records of sources for as long as it may take; of tables only what is
    below every open transaction counts. Nothing when Kafka does not answer.

    Args:
        context: of the worker's session.
        phases: of the worker's owners, by partition.
        view: what reads the global view, if there is one.
    """
    working = [partition for partition, phase in phases.items() if phase is Phase.RUNNING]
    try:
        async with asyncio.timeout(_ASKING):
            return Behind(await _sources(context, working), await _tables(context, working, view))
    except (KafkaError, TimeoutError, OSError, RuntimeError):  # no answer, or all of it is just changing
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
