"""Creates all Kafka clients of Moorage from the settings."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Iterable, Sequence
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.coordinator.assignors.abstract import AbstractPartitionAssignor

from moorage.runtime.kafka.clients.security import security
from moorage.runtime.process.failures import RuntimeFailure
from moorage.runtime.settings.process_settings import Settings
from moorage.runtime.wire.codec import light

FETCH_MAX_WAIT_MS = 5_000
"""How long the broker may hold an empty fetch, in milliseconds. New records end it, and so does a partition that is
resumed or sought, or that the broker comes to lead (`fetch_connections`)."""

PRODUCER_BATCH_BYTES = 900_000
"""The largest size of a producer's batch, in bytes: below the 1,048,588 of a topic's `max.message.bytes`."""

_MAX_REQUEST_BYTES = 5 * 1_048_576
_TRANSACTION_RETRY_MS = 20
_REQUEST_TIMEOUT_MS = 15_000
_REBALANCE_MARGIN_MS = 5_000


def servers(settings: Settings) -> list[str]:
    """Return the addresses of the brokers. Raises RuntimeFailure if the settings name none."""
    found = [part.strip() for part in settings.bootstrap_servers.split(",") if part.strip()]
    if not found:
        raise RuntimeFailure("bootstrap_servers: invalid value '': must name a broker, such as localhost:9092")
    return found


def group_consumer(
    settings: Settings, *, group: str, client_id: str, assignor: AbstractPartitionAssignor, session_timeout_ms: int
) -> AIOKafkaConsumer:
    """Return a member of a consumer group that commits nothing by itself. Subscribe it after `start`.

    Args:
        settings: the address of Kafka, and the transaction's timeout.
        group: the name of the group.
        client_id: the name of the client.
        assignor: the member's part in the division of partitions.
        session_timeout_ms: the result of `broker_times.session_timeout`.
    """
    return AIOKafkaConsumer(
        **_common(settings, client_id),
        group_id=group,
        isolation_level="read_committed",
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        partition_assignment_strategy=(assignor,),
        session_timeout_ms=session_timeout_ms,
        heartbeat_interval_ms=min(settings.heartbeat_interval_ms, session_timeout_ms // 3),
        # A member that drains may need the time of a whole transaction before it joins again.
        rebalance_timeout_ms=max(session_timeout_ms, settings.transaction_timeout_ms) + _REBALANCE_MARGIN_MS,
        fetch_max_wait_ms=FETCH_MAX_WAIT_MS,
        value_deserializer=light,
    )


def rejoin(consumer: AIOKafkaConsumer) -> None:
    """Let a member of a group join it again, to report its changes. The partitions are divided again."""
    consumer._coordinator.request_rejoin()  # noqa: SLF001 - aiokafka has no public way


def table_consumer(
    settings: Settings, *, client_id: str, committed_only: bool = True, max_wait_ms: int = FETCH_MAX_WAIT_MS
) -> AIOKafkaConsumer:
    """Return a consumer without a group: `read_committed` for tables, `read_uncommitted` for requesting offsets.

    A consumer that reads to an end and stops needs a short `max_wait_ms`: a fetch of partitions that have nothing more
    would delay the next one.
    """
    return AIOKafkaConsumer(
        **_common(settings, client_id),
        isolation_level="read_committed" if committed_only else "read_uncommitted",
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        fetch_max_wait_ms=max_wait_ms,
        value_deserializer=light,
    )


def transactional_producer(settings: Settings, *, transactional_id: str) -> AIOKafkaProducer:
    """Return the one producer that may write for a partition. Its start fences every earlier producer of that id."""
    return AIOKafkaProducer(
        **_common(settings, transactional_id),
        transactional_id=transactional_id,
        transaction_timeout_ms=settings.transaction_timeout_ms,
        enable_idempotence=True,
        acks="all",
        # A transaction right after another one often has to be retried while the first one's markers are written.
        retry_backoff_ms=_TRANSACTION_RETRY_MS,
        max_batch_size=PRODUCER_BATCH_BYTES,
        max_request_size=_MAX_REQUEST_BYTES,
    )


def reports_producer(settings: Settings, *, client_id: str, timeout_ms: int) -> AIOKafkaProducer:
    """Return a producer for condition reports, without transactions. A report is durable when it is confirmed."""
    return AIOKafkaProducer(
        **_common(settings, client_id) | {"request_timeout_ms": timeout_ms}, enable_idempotence=True, acks="all"
    )


def admin_client(settings: Settings, *, client_id: str = "moorage-admin") -> AIOKafkaAdminClient:
    """Return a client for administration."""
    return AIOKafkaAdminClient(**_common(settings, client_id))


@contextlib.asynccontextmanager
async def administration(settings: Settings, *, client_id: str = "moorage-admin") -> AsyncIterator[AIOKafkaAdminClient]:
    """Yield a connected client for administration, and close it at the end.

    Raises:
        KafkaError: Kafka does not answer, or refuses.
    """
    admin = admin_client(settings, client_id=client_id)
    try:
        await admin.start()
        yield admin
    finally:
        await admin.close()


def _common(settings: Settings, client_id: str) -> dict[str, Any]:
    return {
        "bootstrap_servers": servers(settings),
        "client_id": client_id,
        **security(settings),
        "request_timeout_ms": _REQUEST_TIMEOUT_MS,
        # Errors reveal new leaders and brokers. This only limits how long another change goes unnoticed.
        "metadata_max_age_ms": 60_000,
    }


def topic_names(topics: Sequence[Any], prefix: str) -> list[str]:
    """Return the names in Kafka of topics from the table."""
    return [topic.name(prefix) for topic in topics]


def whole_partitions(tps: Iterable[TopicPartition], topics: Iterable[str]) -> set[int]:
    """Return the partitions of which every topic is assigned.

    While a member of a version with other sources is in the group, each topic is divided among the members that read
    it. Then the assignments of the topics do not line up. A partition belongs to the member that has all of its topics.
    A source that only one member reads waits until that member has the whole partition.
    """
    given, wanted = set(tps), list(topics)
    return {tp.partition for tp in given if all(TopicPartition(topic, tp.partition) in given for topic in wanted)}
