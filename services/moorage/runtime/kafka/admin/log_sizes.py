"""How many bytes each topic has on the brokers."""

from __future__ import annotations

from collections.abc import Sequence

from moorage.runtime.kafka.admin.admin_requests import DescribeLogDirs, sizes
from moorage.runtime.kafka.clients import clients
from moorage.runtime.settings.process_settings import Settings
from moorage_schemas.topics import TOPICS, Topic


async def log_sizes(settings: Settings, topics: Sequence[Topic] = TOPICS) -> dict[str, int]:
    """Return the bytes of each topic by its short name, over all partitions and all brokers that have a copy.

    Raises:
        KafkaError: Kafka does not answer.
    """
    names = {topic.name(settings.topic_prefix): topic.short for topic in topics}
    found = dict.fromkeys(names.values(), 0)
    admin = clients.admin_client(settings)
    await admin.start()
    try:
        cluster = await admin.describe_cluster()
        for broker in cluster["brokers"]:
            # aiokafka's own method for a request to one broker; it has no public one.
            answer = await admin._send_request_to_node(  # noqa: SLF001 - as above
                broker["node_id"], DescribeLogDirs(names, settings.partitions)
            )
            for name, size in sizes(answer).items():
                found[names[name]] += size
    finally:
        await admin.close()
    return found
