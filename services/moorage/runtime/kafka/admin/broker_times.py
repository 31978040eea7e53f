"""Times that the brokers set: how short a worker's session may be, and how long a transactional id is kept."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import structlog
from aiokafka.errors import KafkaError

from moorage.runtime.kafka.admin.topics_admin import broker_settings
from moorage.runtime.kafka.clients import clients
from moorage.runtime.settings.process_settings import Settings

log = structlog.get_logger(__name__)

KAFKAS_LEAST_MS: Final = 6000
"""Kafka's default of `group.min.session.timeout.ms`, for brokers that do not report theirs."""

KAFKAS_KEPT_MS: Final = 7 * 24 * 3600 * 1000
"""Kafka's default of `transactional.id.expiration.ms`, for brokers that do not report theirs."""

_LEAST: Final = "group.min.session.timeout.ms"
_KEPT: Final = "transactional.id.expiration.ms"


@dataclass(frozen=True, slots=True)
class BrokerTimes:
    """Times that are set on the brokers."""

    least_session_ms: int = KAFKAS_LEAST_MS
    """The shortest session that a member of a group may have, in milliseconds."""

    ids_kept_ms: int = KAFKAS_KEPT_MS
    """How long the transactional id of a producer that writes nothing is remembered, in milliseconds."""


def session_timeout(settings: Settings, times: BrokerTimes) -> int:
    """Return how long a worker may be silent before its partitions are assigned to others, in milliseconds.

    This is the setting, or the broker's minimum if that is longer.
    """
    least = times.least_session_ms
    if least <= settings.session_timeout_ms:
        return settings.session_timeout_ms
    log.warning(
        "session.longer",
        wanted_ms=settings.session_timeout_ms,
        used_ms=least,
        why=f"the broker's {_LEAST} allows no shorter session, so a killed worker is noticed later",
    )
    return least


async def broker_times(settings: Settings) -> BrokerTimes:
    """Return the times of the brokers, or Kafka's defaults where they report none.

    Raises:
        KafkaError: Kafka does not answer.
    """
    admin = clients.admin_client(settings)
    await admin.start()
    try:
        found = await broker_settings(admin, _LEAST, _KEPT)
        return BrokerTimes(int(found.get(_LEAST, KAFKAS_LEAST_MS)), int(found.get(_KEPT, KAFKAS_KEPT_MS)))
    except (KafkaError, ValueError) as error:
        if isinstance(error, KafkaError) and error.retriable:
            raise
        log.debug("broker.times_unknown", error=repr(error))
        return BrokerTimes()
    finally:
        await admin.close()
