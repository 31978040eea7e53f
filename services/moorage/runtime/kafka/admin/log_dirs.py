"""Requests the disks of the brokers: how large they are, and how much of them is free (KIP-827)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import for_code
from aiokafka.protocol.api import RequestStruct, Response
from aiokafka.protocol.types import (
    Boolean,
    CompactArray,
    CompactString,
    Int16,
    Int32,
    Int64,
    Schema,
    TaggedFields,
)

from moorage.runtime.kafka.clients.transactions_v2 import FixedRequest

_TEXT = CompactString("utf-8")


class _DescribeLogDirsResponse(Response):  # type: ignore[misc]  # aiokafka publishes no types
    API_KEY: ClassVar[int] = 35
    API_VERSION: ClassVar[int] = 4
    SCHEMA: ClassVar[Schema] = Schema(
        ("throttle_time_ms", Int32),
        ("error_code", Int16),
        (
            "results",
            CompactArray(
                ("error_code", Int16),
                ("log_dir", _TEXT),
                (
                    "topics",
                    CompactArray(
                        ("name", _TEXT),
                        (
                            "partitions",
                            CompactArray(
                                ("partition", Int32),
                                ("size", Int64),
                                ("offset_lag", Int64),
                                ("is_future_key", Boolean),
                                ("tags", TaggedFields),
                            ),
                        ),
                        ("tags", TaggedFields),
                    ),
                ),
                ("total_bytes", Int64),
                ("usable_bytes", Int64),
                ("tags", TaggedFields),
            ),
        ),
        ("tags", TaggedFields),
    )


class _DescribeLogDirsRequest(RequestStruct):  # type: ignore[misc]  # as above
    API_KEY: ClassVar[int] = 35
    API_VERSION: ClassVar[int] = 4
    FLEXIBLE_VERSION: ClassVar[bool] = True
    RESPONSE_TYPE: ClassVar[type[Response]] = _DescribeLogDirsResponse
    SCHEMA: ClassVar[Schema] = Schema(
        (
            "topics",
            CompactArray(("topic", _TEXT), ("partitions", CompactArray(Int32)), ("tags", TaggedFields)),
        ),
        ("tags", TaggedFields),
    )


@dataclass(frozen=True, slots=True)
class LogDir:
    """A folder in which a broker keeps its logs."""

    broker: int
    path: str
    total: int
    """The size of its disk in bytes."""

    usable: int
    """The free bytes of the disk."""


async def log_dirs(admin: AIOKafkaAdminClient, broker: int) -> list[LogDir]:
    """Return the folders of a broker. Those whose disk is unknown to the broker are left out.

    Raises:
        KafkaError: Kafka does not answer, refuses, or is older than 3.3.
    """
    request = FixedRequest(_DescribeLogDirsRequest([], {}))  # no topics: the sizes of partitions are not needed
    answer = await admin._send_request_to_node(broker, request)  # noqa: SLF001 - it has no public way
    if answer.error_code:
        raise for_code(answer.error_code)("DescribeLogDirs")
    found = []
    for code, path, _, total, usable, _ in answer.results:
        if code:
            raise for_code(code)(path)
        if total >= 0:
            found.append(LogDir(broker, path, total, usable))
    return found
