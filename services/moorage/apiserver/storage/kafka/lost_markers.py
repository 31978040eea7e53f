"""Ends transactions of earlier leaders that are still open because the broker lost their markers.

Kafka confirms a commit before it has written the markers of the transaction. A broker that ends in between may lose
them: after its restart the coordinator takes a partition that has no leader yet as deleted, and skips its marker
(docs/decisions/0013). Readers cannot get past such a record, and the next transaction of the same id decides what
becomes of it. No gateway has answered that it is written (docs/decisions/0041), so it is aborted.
"""

from __future__ import annotations

from collections.abc import Iterable

import structlog
from aiokafka import AIOKafkaProducer, TopicPartition

from moorage.apiserver.metrics import Metrics
from moorage.runtime.kafka.clients.fenced_producer import write_to_each
from moorage.runtime.kafka.tables.offsets import Offsets
from moorage.runtime.settings.process_settings import Settings

_log = structlog.get_logger(__name__)


async def end_open_transactions(
    settings: Settings, producer: AIOKafkaProducer, partitions: Iterable[TopicPartition], metrics: Metrics
) -> None:
    """Abort what earlier producers of the same transactional id have left open.

    A transaction of another id that is open at this moment is not touched.

    Args:
        settings: Kafka's addresses.
        producer: the leader's. It has started, so all transactions of its id are over, and it is in none.
        partitions: those that the leader writes.
        metrics: what is found is counted here.

    Raises:
        KafkaError: Kafka does not answer, or refuses.
    """
    offsets = Offsets(settings, name=f"{settings.topic_prefix}.gateway-open")
    try:
        await offsets.start()
        ends = await offsets.end(partitions)
        stable = await offsets.stable(ends)
    finally:
        await offsets.stop()
    still_open = [tp for tp, end in sorted(ends.items()) if stable[tp] < end]
    if not still_open:
        return
    metrics.lost_markers.inc()
    _log.warning("gateway.marker_lost", open=[f"{tp.topic}/{tp.partition}" for tp in still_open])
    await producer.begin_transaction()
    await write_to_each(producer, still_open)
    await producer.abort_transaction()
