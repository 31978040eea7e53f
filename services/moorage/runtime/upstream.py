"""How far the services lag behind that make this service's sources."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from aiokafka import TopicPartition

from moorage.runtime.context import WorkerContext
from moorage.runtime.service import Upstream
from moorage.runtime.tables.reader import Tail
from moorage_schemas.topics import Topic

_TOO_FAR: Final = 20_000
"""Records that nobody looks through: so far behind, everything is taken to be concerned."""


async def upstream_lag(
    context: WorkerContext[Any],
    partition: int,
    upstream: Sequence[Upstream],
    *,
    ends: Mapping[Topic, int],
    progress: Callable[[Upstream], Mapping[str, int]],
) -> frozenset[str] | None:
    """Of which keys something is committed that an upstream service has not worked through.

    What it has worked through stands in the records that it wrote last, and where it had nothing to write, in its
    committed offsets, which follow within a second.

    Args:
        context: of the worker's session.
        partition: the owner's.
        upstream: who makes sources.
        ends: up to where each of their topics is committed.
        progress: how far a service had come by what it wrote last, by short name.

    Returns:
        The keys; None when there is too much to look through.

    Raises:
        KafkaError: Kafka does not answer.
    """
    lagging: set[str] = set()
    for one in upstream:
        done = progress(one)
        if all(done.get(topic.short, 0) >= ends[topic] for topic in one.topics):
            continue
        tps = {topic: context.tp(topic, partition) for topic in one.topics}
        group = f"{context.settings.topic_prefix}.{one.service}"
        committed = await context.offsets.committed(group, tps.values())
        for topic, tp in tps.items():
            begin = max(done.get(topic.short, 0), committed.get(tp, 0))
            if not begin:
                begin = (await context.offsets.begin([tp]))[tp]
            if begin >= ends[topic]:
                continue
            if ends[topic] - begin > _TOO_FAR:
                return None
            keys = await _keys(context, tp, begin, ends[topic])
            lagging.update(found for key in keys if (found := one.concerns(topic, key)) is not None)
    return frozenset(lagging)


async def _keys(context: WorkerContext[Any], tp: TopicPartition, begin: int, end: int) -> set[str]:
    """The keys of the records of a span."""
    keys: set[str] = set()

    def take(records: Sequence[Any]) -> None:
        keys.update((record.key or b"").decode(errors="replace") for record in records)

    tail: Tail = context.reader.add(tp, begin, take, limit=end)
    try:
        await context.reader.reached(tail, end)
    finally:
        context.reader.remove([tp])
    return keys
