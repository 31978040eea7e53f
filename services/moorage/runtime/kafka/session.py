"""How long a worker may be silent before its partitions are assigned to others: as short as the broker allows."""

from __future__ import annotations

import structlog
from aiokafka.errors import KafkaError

from moorage.runtime.kafka import clients
from moorage.runtime.kafka.topics_admin import broker_setting
from moorage.runtime.settings import Settings

log = structlog.get_logger(__name__)

KAFKAS_LEAST_MS = 6000
"""Kafka's default of `group.min.session.timeout.ms`. It is assumed of a broker that does not tell its own."""

_LEAST = "group.min.session.timeout.ms"


async def session_timeout(settings: Settings) -> int:
    """Return the session's time in milliseconds: the setting, or the broker's minimum if that is longer.

    Raises:
        KafkaError: Kafka does not answer.
    """
    least = await _least(settings)
    if least <= settings.session_timeout_ms:
        return settings.session_timeout_ms
    log.warning(
        "session.longer",
        wanted_ms=settings.session_timeout_ms,
        used_ms=least,
        why=f"the broker's {_LEAST} allows no shorter session, so a killed worker is noticed later",
    )
    return least


async def _least(settings: Settings) -> int:
    admin = clients.admin_client(settings)
    await admin.start()
    try:
        return int(await broker_setting(admin, _LEAST) or KAFKAS_LEAST_MS)
    except (KafkaError, ValueError) as error:
        if isinstance(error, KafkaError) and error.retriable:
            raise
        log.debug("session.least_unknown", error=repr(error))
        return KAFKAS_LEAST_MS
    finally:
        await admin.close()
