"""Whether a consumer still brings what Kafka has."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any, Final

from aiokafka.errors import KafkaError

from moorage.runtime.context import WorkerContext
from moorage.runtime.owner import Phase

_ASKING: Final = 5.0  # seconds in which Kafka says where partitions end


async def behind(context: WorkerContext[Any], phases: Mapping[int, Phase]) -> frozenset[int]:
    """Partitions at work of which Kafka has more than the consumer has come to.

    It asks Kafka anew over a connection of its own: a consumer that has fallen silent does not know that there is
    more. A transaction that is open may hide records for as long as it may take. Empty when Kafka does not answer.

    Args:
        context: of the worker's session.
        phases: of the worker's owners, by partition.
    """
    working: Iterable[int] = [partition for partition, phase in phases.items() if phase is Phase.RUNNING]
    tps = {context.tp(topic, partition): partition for partition in working for topic in context.service.sources}
    found = set()
    try:
        async with asyncio.timeout(_ASKING):
            ends = await context.offsets.end(tps)
            for tp, end in ends.items():
                if end > await context.consumer.position(tp):
                    found.add(tps[tp])
    except (KafkaError, TimeoutError, OSError, RuntimeError):  # no answer, or all of it is just changing
        return frozenset()
    return frozenset(found)
