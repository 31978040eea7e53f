"""Limits the age of a process's reads, so that it does not miss deletions while it is stopped.

A compacted topic keeps the tombstone of a deleted key only for a limited time (`delete.retention.ms`). A process may be
stopped for longer: its machine sleeps, it is suspended, or its network is down. If it then continued to read from its
position, it would miss the deletion. So everything is read again from the beginning when half of that time has passed
since the last complete read. Keys that were deleted before then are no longer in the topic, and keys that were deleted
since then still have their tombstones.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple

import structlog
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import KafkaError

from moorage.runtime.kafka.admin.topics_admin import try_on
from moorage.runtime.kafka.clients import clients
from moorage.runtime.process.clock import Clock
from moorage.runtime.process.failures import StartAfresh, TablesTooOld
from moorage.runtime.settings.process_settings import Settings
from moorage_schemas.topics import TOMBSTONE_RETENTION_MS, TOPICS, Cleanup

log = structlog.get_logger(__name__)

_KEPT: Final = "delete.retention.ms"
_ANSWER_SECONDS: Final = 60.0
"""Seconds for which the request for this setting is repeated while brokers come and go."""

_SAFE: Final = 0.5
"""The part of that time that may pass. The rest allows for the read itself, and for differences between clocks."""

_CHECKS: Final = 8
"""The number of checks within the limit of whether everything has been read."""


class Instant(NamedTuple):
    """A moment, measured by two clocks."""

    wall: float
    """Seconds of the wall clock. It continues while a machine sleeps, and can be set."""

    ticks: float
    """Seconds of the event loop's clock. It cannot be set, and may stop while a machine sleeps."""


class TableAge:
    """The time since which all reads are certainly complete.

    Args:
        clock: the wall clock.
        kept: seconds for which tombstones are kept.
    """

    def __init__(self, clock: Clock, kept: float) -> None:
        self._clock = clock
        self._limit = kept * _SAFE
        self._whole = self.instant()

    @property
    def interval(self) -> float:
        """Seconds between two checks of whether everything has been read."""
        return self._limit / _CHECKS

    @property
    def is_expired(self) -> bool:
        """Whether so much time has passed, on either clock, that deletions may have been missed."""
        now = self.instant()
        return max(now.wall - self._whole.wall, now.ticks - self._whole.ticks) > self._limit

    def instant(self) -> Instant:
        """Return the present moment."""
        return Instant(self._clock.now().timestamp(), asyncio.get_running_loop().time())

    def whole(self, instant: Instant) -> None:
        """Note that everything that was committed at that moment has been read."""
        if not self.is_expired:
            self._whole = max(self._whole, instant, key=lambda one: one.ticks)

    def check(self) -> None:
        """Check that the limit has not passed. Raises TablesTooOld: everything must be read again."""
        if self.is_expired:
            raise TablesTooOld(f"no complete read of the tables was confirmed for {self._limit:g} s")

    async def mind(self, read_to_ends: Callable[[], Awaitable[bool]]) -> None:
        """Check at intervals whether everything has been read, until cancelled.

        Args:
            read_to_ends: returns True when everything that was committed at the call has been read, and False when that
        is uncertain.
        """
        while True:
            await asyncio.sleep(self.interval)
            instant = self.instant()
            try:
                async with asyncio.timeout(self._limit):
                    if await read_to_ends():
                        self.whole(instant)
            except (KafkaError, TimeoutError, OSError, RuntimeError, StartAfresh) as error:
                # No answer, or the partitions are changing right now. The next check may succeed.
                log.debug("age.unknown", error=repr(error))


async def tombstones_kept(settings: Settings) -> float:
    """Return the number of seconds for which the compacted topics keep tombstones: the shortest of them.

    When the broker does not return it, this is the value with which the topics are created.

    Raises:
        KafkaError: Kafka does not answer.
    """
    names = [topic.name(settings.topic_prefix) for topic in TOPICS if topic.cleanup is Cleanup.COMPACT]
    admin = clients.admin_client(settings)
    await admin.start()
    try:
        answers = await try_on(
            lambda: admin.describe_configs(
                [ConfigResource(ConfigResourceType.TOPIC, name, {_KEPT: None}) for name in names]
            ),
            deadline=asyncio.get_running_loop().time() + _ANSWER_SECONDS,
        )
    finally:
        await admin.close()
    found = [
        int(value)
        for answer in answers
        for code, _, _, _, configs in answer.resources
        for name, value, *_ in (() if code else configs)
        if name == _KEPT
    ]
    return min(found, default=TOMBSTONE_RETENTION_MS) / 1000
