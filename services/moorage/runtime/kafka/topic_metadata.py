"""Makes an aiokafka client request the metadata of only those topics that it uses.

A client of aiokafka 0.14 that has used no topic yet requests the metadata of all topics of the cluster, once in
`metadata_max_age_ms`. It then knows each topic that it comes to use, so it never names one, and requests all of them
for as long as it lives. With 21 topics of 24 partitions this takes about half a megabyte in each client, and a service
has a producer for each partition, most of which are idle in some services.
"""

from __future__ import annotations

import functools
from collections.abc import Collection
from typing import Any, Final

from aiokafka.client import AIOKafkaClient


class _NoTopics(frozenset[str]):
    """The empty set, which counts as true.

    In Kafka's protocol an empty list means no topics, and a missing one means all. aiokafka sends a missing one for a
    set that counts as false.
    """

    def __bool__(self) -> bool:
        return True


_NO_TOPICS: Final = _NoTopics()


def request_used_topics_only() -> None:
    """Make clients that have used no topic request the metadata of none: only that of the brokers.

    A topic is requested when it is first used: written to, subscribed, assigned, or asked about. Subscriptions by
    pattern, which need all topics, do not work any more; Moorage has none. `fetch_all_metadata` still requests all.

    This changes aiokafka's class, because aiokafka creates its clients itself. Further calls change nothing.
    """
    update = AIOKafkaClient._metadata_update  # noqa: SLF001 - aiokafka has no public way
    if hasattr(update, "__wrapped__"):
        return

    @functools.wraps(update)
    async def updating(self: AIOKafkaClient, cluster_metadata: Any, topics: Collection[str] | None) -> Any:
        return await update(self, cluster_metadata, topics if topics is None or topics else _NO_TOPICS)

    AIOKafkaClient._metadata_update = updating  # noqa: SLF001 - as above
