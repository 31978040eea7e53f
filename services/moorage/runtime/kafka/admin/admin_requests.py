"""Two requests of Kafka's protocol that aiokafka 0.14 does not have, as classes for its clients.

`IncrementalAlterConfigs` (key 44) changes single settings. aiokafka has only the older `AlterConfigs`, which takes away
every setting of a topic that the request does not name. `DescribeLogDirs` (key 35) returns the size of partitions. Both
are versions that Kafka has had since 2.3 and still has in 4.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, Final

from aiokafka.protocol.api import Request, RequestStruct, Response
from aiokafka.protocol.types import Array, Boolean, Int8, Int16, Int32, Int64, Schema, String

_TOPIC: Final = 2
_SET: Final = 0
_TEXT = String("utf-8")


class _IncrementalAlterConfigsResponse(Response):  # type: ignore[misc]  # aiokafka has no types
    API_KEY: ClassVar[int] = 44
    API_VERSION: ClassVar[int] = 0
    SCHEMA: ClassVar[Schema] = Schema(
        ("throttle_time_ms", Int32),
        (
            "resources",
            Array(("error_code", Int16), ("error_message", _TEXT), ("resource_type", Int8), ("resource_name", _TEXT)),
        ),
    )


class _IncrementalAlterConfigs(RequestStruct):  # type: ignore[misc]  # as above
    API_KEY: ClassVar[int] = 44
    API_VERSION: ClassVar[int] = 0
    RESPONSE_TYPE: ClassVar[type[Response]] = _IncrementalAlterConfigsResponse
    SCHEMA: ClassVar[Schema] = Schema(
        (
            "resources",
            Array(
                ("resource_type", Int8),
                ("resource_name", _TEXT),
                ("configs", Array(("config_name", _TEXT), ("operation", Int8), ("config_value", _TEXT))),
            ),
        ),
        ("validate_only", Boolean),
    )


class SetTopicConfigs(Request[_IncrementalAlterConfigs]):  # type: ignore[misc]  # as above
    """Sets settings of topics. All others keep their values.

    Args:
        wanted: the values to set, by topic name and setting.
    """

    API_KEY: ClassVar[int] = 44

    def __init__(self, wanted: Mapping[str, Mapping[str, str]]) -> None:
        self._wanted = wanted

    def build(self, request_struct_class: type[_IncrementalAlterConfigs]) -> _IncrementalAlterConfigs:
        """Return the request."""
        resources = [
            (_TOPIC, topic, [(name, _SET, value) for name, value in values.items()])
            for topic, values in self._wanted.items()
        ]
        return request_struct_class(resources, False)  # noqa: FBT003 - the struct takes its fields in order


class _DescribeLogDirsResponse(Response):  # type: ignore[misc]  # as above
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


def refusals(answer: Any) -> Sequence[tuple[str, int, str]]:
    """Return the topics whose settings were not changed: the name, the error code and the broker's explanation."""
    return [(name, code, why or "") for code, why, _, name in answer.resources if code]
