"""Creates the topics of the table, and checks that all have the same number of partitions."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import TypeVar

import structlog
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import KafkaError, TopicAlreadyExistsError, TopicAuthorizationFailedError, for_code

from moorage.runtime.kafka.clients import clients
from moorage.runtime.kafka.clients.refusals import hidden_topic
from moorage.runtime.kafka.clients.security import principal
from moorage.runtime.process.failures import TopicsError
from moorage.runtime.settings.process_settings import Settings
from moorage_schemas.topics import TOPICS, Topic

log = structlog.get_logger(__name__)

T = TypeVar("T")

_READY_TIMEOUT = 60.0  # seconds until the leaders of new partitions must be reported
_TRY_AGAIN = 0.2  # seconds between attempts
_ALREADY_EXISTS = TopicAlreadyExistsError.errno
_UNKNOWN_TOPIC = 3
_COPIES = "default.replication.factor"


async def ensure_topics(settings: Settings, topics: Sequence[Topic] = TOPICS) -> dict[str, int]:
    """Create the topics that are missing. Return the number of partitions of each topic by its short name.

    The number of partitions of an existing fleet never changes, so missing topics are created with it. Once a broker
    has answered, requests that fail because brokers come and go are repeated for a minute.

    Raises:
        KafkaError: Kafka does not answer.
        TopicsError: the topics in the cluster have different numbers of partitions, or did not become ready.
    """
    admin = clients.admin_client(settings)
    await admin.start()
    deadline = asyncio.get_running_loop().time() + _READY_TIMEOUT
    try:
        counts = await try_on(lambda: _made(admin, settings, topics, deadline), deadline=deadline)
    finally:
        await admin.close()
    _check_equal(settings, counts)
    return counts


async def try_on(call: Callable[[], Awaitable[T]], *, deadline: float) -> T:
    """Return the result of an administrative request, repeated while brokers restart.

    Args:
        call: makes the request; it may be called several times.
        deadline: the time of the event loop's clock after which an error is final.

    Raises:
        KafkaError: the request cannot succeed, or did not until the deadline.
        OSError: there was no connection until the deadline.
    """
    while True:
        try:
            return await call()
        except (KafkaError, OSError) as error:
            passes = isinstance(error, OSError) or error.retriable
            if not passes or asyncio.get_running_loop().time() >= deadline:
                raise
            log.debug("admin.tries_again", error=repr(error))
        await asyncio.sleep(_TRY_AGAIN)


async def _made(
    admin: AIOKafkaAdminClient, settings: Settings, topics: Sequence[Topic], deadline: float
) -> dict[str, int]:
    counts = await _described(admin, settings, topics)
    existing = [count for count in counts.values() if count]
    _check_equal(settings, counts)
    missing = [topic for topic in topics if not counts.get(topic.short)]
    if missing:
        await _create(admin, settings, missing, existing[0] if existing else settings.partitions)
    return await _ready(admin, settings, topics, deadline)


def _check_equal(settings: Settings, counts: Mapping[str, int]) -> None:
    found = {count for count in counts.values() if count}
    if len(found) > 1:
        listed = ", ".join(
            f"{settings.topic_prefix}.{short}.v1: {count}" for short, count in sorted(counts.items()) if count
        )
        raise TopicsError(
            f"partitions: invalid value {sorted(found)!r}: all topics of the prefix {settings.topic_prefix!r} must "
            f"have the same number of partitions, so that a target's records line up ({listed})"
        )


async def _create(admin: AIOKafkaAdminClient, settings: Settings, topics: Iterable[Topic], partitions: int) -> None:
    copies = await wanted_copies(admin, settings)
    wanted = [
        NewTopic(
            name=topic.name(settings.topic_prefix),
            num_partitions=partitions,
            replication_factor=copies,
            topic_configs=topic.config(),
        )
        for topic in topics
    ]
    try:
        response = await admin.create_topics(wanted)
    except KafkaError as error:
        if error.retriable:
            raise
        raise TopicsError(f"the topics could not be created: {error}") from error
    for name, code, *rest in response.topic_errors:
        if code not in (0, _ALREADY_EXISTS):  # several processes start at once, and another one was faster
            if for_code(code).retriable:
                raise for_code(code)(f"topic {name} could not be created now")
            if code == TopicAuthorizationFailedError.errno:
                who = principal(settings)
                raise TopicsError(
                    f"topic {name} does not exist, and {who} may not Create it: create it with `moorage topics apply`"
                )
            why = rest[0] if rest else ""
            raise TopicsError(f"topic {name} could not be created: {for_code(code).__name__}: {why}")


async def wanted_copies(admin: AIOKafkaAdminClient, settings: Settings) -> int:
    """Return the number of copies of a new topic: that of the settings, or the cluster's default.

    aiokafka has no way to let the broker choose it.
    """
    return settings.replication_factor or int((await broker_settings(admin, _COPIES)).get(_COPIES, 1))


async def broker_settings(admin: AIOKafkaAdminClient, *names: str) -> dict[str, str]:
    """Return the values of settings of the brokers. Those that they do not report are left out.

    Raises:
        KafkaError: Kafka does not answer, or refuses.
    """
    cluster = await admin.describe_cluster()
    wanted = dict.fromkeys(names)
    broker = ConfigResource(ConfigResourceType.BROKER, str(cluster["controller_id"]), wanted)
    return {
        name: str(value)
        for response in await admin.describe_configs([broker])
        for code, _, _, _, configs in response.resources
        for name, value, *_ in (() if code else configs)
        if name in wanted and value is not None
    }


async def _described(
    admin: AIOKafkaAdminClient, settings: Settings, topics: Sequence[Topic], *, leaders: bool = False
) -> dict[str, int]:
    """Return the number of partitions by short name; 0 when the topic is missing or, with `leaders`, not ready."""
    names = {topic.name(settings.topic_prefix): topic.short for topic in topics}
    counts = dict.fromkeys(names.values(), 0)
    for found in await admin.describe_topics(list(names)):
        code = found["error_code"]
        if code == TopicAuthorizationFailedError.errno:
            raise TopicsError(hidden_topic(found["topic"], settings))
        if code and code != _UNKNOWN_TOPIC and not for_code(code).retriable:
            raise TopicsError(f"topic {found['topic']} cannot be read: {for_code(code).__name__}")
        parts = found["partitions"]
        if code or (leaders and any(part["leader"] < 0 or part["error_code"] for part in parts)):
            continue
        counts[names[found["topic"]]] = len(parts)
    return counts


async def _ready(
    admin: AIOKafkaAdminClient, settings: Settings, topics: Sequence[Topic], deadline: float
) -> dict[str, int]:
    while not all((counts := await _described(admin, settings, topics, leaders=True)).values()):
        if asyncio.get_running_loop().time() > deadline:
            missing = ", ".join(short for short, count in counts.items() if not count)
            raise TopicsError(f"the topics did not become ready within {_READY_TIMEOUT:.0f} s: {missing}")
        await asyncio.sleep(0.05)
    return counts
