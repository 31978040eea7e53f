"""How many bytes each topic has on the brokers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

from aiokafka.protocol.api import Request, RequestStruct, Response
from aiokafka.protocol.types import Array, Boolean, Int16, Int32, Int64, Schema, String

from moorage.runtime.kafka.clients import clients
from moorage.runtime.settings.process_settings import Settings
from moorage_schemas.topics import TOPICS, Topic

_TEXT = String("utf-8")


class _DescribeLogDirsResponse(Response):  # type: ignore[misc]  # aiokafka has no types
    API_KEY: ClassVar[int] = 35
    API_VERSION: ClassVar[int] = 1
    SCHEMA: ClassVar[Schema] = Schema(
        ("throttle_time_ms", Int32),
        (
            "results",
            Array(
                ("error_code", Int16),
                ("log_dir", _TEXT),
                (
                    "topics",
                    Array(
                        ("name", _TEXT),
                        (
                            "partitions",
                            Array(("partition", Int32), ("size", Int64), ("offset_lag", Int64), ("is_future", Boolean)),
                        ),
                    ),
                ),
            ),
        ),
    )


class _DescribeLogDirs(RequestStruct):  # type: ignore[misc]  # as above
    API_KEY: ClassVar[int] = 35
    API_VERSION: ClassVar[int] = 1
    RESPONSE_TYPE: ClassVar[type[Response]] = _DescribeLogDirsResponse
    SCHEMA: ClassVar[Schema] = Schema(("topics", Array(("topic", _TEXT), ("partitions", Array(Int32)))))


class DescribeLogDirs(Request[_DescribeLogDirs]):  # type: ignore[misc]  # as above
    """Requests the size of partitions on one broker.

    Args:
        topics: the names of the topics.
        partitions: the number of partitions of each.
    """

    API_KEY: ClassVar[int] = 35

    def __init__(self, topics: Iterable[str], partitions: int) -> None:
        self._topics = list(topics)
        self._partitions = list(range(partitions))

    def build(self, request_struct_class: type[_DescribeLogDirs]) -> _DescribeLogDirs:
        """Return the request."""
        return request_struct_class([(topic, self._partitions) for topic in self._topics])


def sizes(answer: Any) -> dict[str, int]:
    """Return the bytes of each topic from an answer to `DescribeLogDirs`."""
    found: dict[str, int] = {}
    for _, _, topics in answer.results:
        for name, partitions in topics:
            found[name] = found.get(name, 0) + sum(size for _, size, *_ in partitions)
    return found


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
            answer = await admin._send_request_to_node(broker["node_id"], DescribeLogDirs(names, settings.partitions))
            for name, size in sizes(answer).items():
                found[names[name]] += size
    finally:
        await admin.close()
    return found
