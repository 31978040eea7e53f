"""Compares the settings of existing topics with the table, and sets missing ones.

A setting without a value on the topic itself is set by every process when it starts. An existing value is never changed
by a process: it may be an operator's choice, or from an earlier version of the table. `moorage topics apply` shows such
values, and changes them with `--overwrite`. So an operator overrides the table by setting a value on the topic.
Settings that the table does not have are never touched.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final

import structlog
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import KafkaError, for_code
from aiokafka.protocol.api import Request, RequestStruct, Response
from aiokafka.protocol.types import Array, Boolean, Int8, Int16, Int32, Schema, String
from typing_extensions import override

from moorage.runtime.kafka.admin.topics_admin import try_on
from moorage.runtime.kafka.clients import clients
from moorage.runtime.process.failures import TopicsError
from moorage.runtime.settings.process_settings import Settings
from moorage_schemas.topics import TOPICS, Topic

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

    @override
    def build(self, request_struct_class: type[_IncrementalAlterConfigs]) -> _IncrementalAlterConfigs:
        resources = [
            (_TOPIC, topic, [(name, _SET, value) for name, value in values.items()])
            for topic, values in self._wanted.items()
        ]
        return request_struct_class(resources, False)  # noqa: FBT003 - the struct takes its fields in order


def refusals(answer: Any) -> Sequence[tuple[str, int, str]]:
    """Return the topics whose settings were not changed: the name, the error code and the broker's explanation."""
    return [(name, code, why or "") for code, why, _, name in answer.resources if code]


log = structlog.get_logger(__name__)

_ANSWER_SECONDS: Final = 30.0
"""Seconds for which requests are repeated while brokers come and go."""

_ON_THE_TOPIC: Final = 1
"""The source of a setting that has a value on the topic itself (`DYNAMIC_TOPIC_CONFIG`)."""


@dataclass(frozen=True, slots=True)
class SettingDifference:
    """A setting of a topic that differs from the table."""

    topic: str
    """The name of the topic in Kafka."""

    setting: str
    present: str
    wanted: str
    chosen: bool
    """Whether the present value is set on the topic. Otherwise it is the default of the cluster."""


async def differences(settings: Settings, topics: Sequence[Topic] = TOPICS) -> list[SettingDifference]:
    """Return the settings of existing topics that differ from the table, in its order.

    Raises:
        KafkaError: Kafka does not answer.
        OSError: there was no connection.
    """
    admin = clients.admin_client(settings)
    await admin.start()
    try:
        return await _differences(admin, settings, topics)
    finally:
        await admin.close()


async def change(settings: Settings, wanted: Iterable[SettingDifference]) -> None:
    """Set the settings to the values of the table. All other settings of the topics keep theirs.

    Raises:
        KafkaError: Kafka does not answer.
        OSError: there was no connection.
        TopicsError: the broker refuses a change. The message names the topic and the broker's reason.
    """
    admin = clients.admin_client(settings)
    await admin.start()
    try:
        refused = await _change(admin, wanted)
    finally:
        await admin.close()
    if refused:
        listed = "; ".join(f"{topic}: {why}" for topic, why in refused)
        raise TopicsError(f"settings of topics could not be changed: {listed}")


async def add_missing(settings: Settings, topics: Sequence[Topic] = TOPICS) -> None:
    """Set the settings that have no value on the topics. Log all other differences.

    A process also works with other settings, so this never fails. A missing answer, or a change that the broker
    refuses, for example for lack of permission, is logged.
    """
    try:
        admin = clients.admin_client(settings)
        await admin.start()
        try:
            found = await _differences(admin, settings, topics)
            missing = [one for one in found if not one.chosen]
            refused = await _change(admin, missing)
        finally:
            await admin.close()
    except (KafkaError, OSError) as error:
        log.warning("topics.settings_unknown", error=repr(error))
        return
    for topic, why in refused:
        log.warning("topics.settings_refused", topic=topic, why=why)
    names = {topic for topic, _ in refused}
    for one in found:
        if one.chosen:
            log.info(
                "topics.setting_differs", topic=one.topic, setting=one.setting, value=one.present, table=one.wanted
            )
        elif one.topic not in names:
            log.info("topics.setting_added", topic=one.topic, setting=one.setting, value=one.wanted, before=one.present)


async def _differences(
    admin: AIOKafkaAdminClient, settings: Settings, topics: Sequence[Topic]
) -> list[SettingDifference]:
    wanted = {topic.name(settings.topic_prefix): topic.config() for topic in topics}
    requested = [
        ConfigResource(ConfigResourceType.TOPIC, name, dict.fromkeys(config)) for name, config in wanted.items()
    ]
    answers = await try_on(
        lambda: admin.describe_configs(requested), deadline=asyncio.get_running_loop().time() + _ANSWER_SECONDS
    )
    present: dict[str, dict[str, tuple[str, bool]]] = {}
    for code, _, _, name, entries in (one for answer in answers for one in answer.resources):
        if not code:  # otherwise the topic does not exist
            present[name] = {entry[0]: (entry[1], entry[3] == _ON_THE_TOPIC) for entry in entries}
    return [
        SettingDifference(name, setting, now[0], value, chosen=now[1])
        for name, config in wanted.items()
        if name in present
        for setting, value in config.items()
        if (now := present[name].get(setting)) is not None and now[0] != value
    ]


async def _change(admin: AIOKafkaAdminClient, wanted: Iterable[SettingDifference]) -> list[tuple[str, str]]:
    """Set settings. Return the topics for which this was refused, with the reason."""
    values: dict[str, dict[str, str]] = defaultdict(dict)
    for one in wanted:
        values[one.topic][one.setting] = one.wanted
    if not values:
        return []

    async def update() -> Any:
        # aiokafka's own method for a request to any broker, which passes it on; it has no public one.
        answer = await admin._send_to_controller(SetTopicConfigs(values))  # noqa: SLF001 - as above
        for name, code, why in refusals(answer):
            if for_code(code).retriable:
                raise for_code(code)(f"the settings of {name} could not be changed now: {why}")
        return answer

    answer = await try_on(update, deadline=asyncio.get_running_loop().time() + _ANSWER_SECONDS)
    return [(name, f"{for_code(code).__name__}: {why}") for name, code, why in refusals(answer)]
