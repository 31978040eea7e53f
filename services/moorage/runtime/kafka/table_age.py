"""How old what a process knows may become: the one rule about records that are deleted while it stands still.

A compacted topic keeps the tombstone of a deleted key for a time only (`delete.retention.ms`). Who stands still for
longer (a machine that sleeps, a process that is stopped, a network that is cut) and then reads on where he was never
learns of it. So everything is read anew, from the beginning, when half of that time has passed since it was last known
to be read to its end; whatever was deleted before is gone from the topic then, and whatever was deleted since has its
tombstone still.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple

import structlog
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import KafkaError

from moorage.runtime.clock import Clock
from moorage.runtime.errors import StartAfresh, TablesTooOld
from moorage.runtime.kafka import clients
from moorage.runtime.kafka.topics_admin import try_on
from moorage.runtime.settings import Settings
from moorage_schemas.topics import TOMBSTONE_RETENTION_MS, TOPICS, Cleanup

log = structlog.get_logger(__name__)

_KEPT: Final = "delete.retention.ms"
_ASKING: Final = 60.0
"""Seconds for which the broker is asked for it, while brokers come and go."""

_SAFE: Final = 0.5
"""Of that time: the rest is for the reading itself, and for what clocks differ."""

_LOOKS: Final = 8
"""How often within the limit it is looked whether all has been read."""


class Instant(NamedTuple):
    """A moment by two clocks."""

    wall: float
    """Seconds of the wall clock: it goes on while a machine sleeps, and may be set."""

    ticks: float
    """Seconds of the event loop's clock: it is never set, and may stand still while a machine sleeps."""


class TableAge:
    """Since when what was read is known to be whole.

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
        """Seconds between two looks at whether all has been read."""
        return self._limit / _LOOKS

    @property
    def limit(self) -> float:
        """Seconds after which everything has to be read anew."""
        return self._limit

    @property
    def over(self) -> bool:
        """Whether so much time has passed, by either clock, that deletions may have been missed."""
        now = self.instant()
        return max(now.wall - self._whole.wall, now.ticks - self._whole.ticks) > self._limit

    def instant(self) -> Instant:
        """The present moment."""
        return Instant(self._clock.now().timestamp(), asyncio.get_running_loop().time())

    def whole(self, asked: Instant) -> None:
        """Everything has been read that was committed at that moment."""
        if not self.over:
            self._whole = max(self._whole, asked, key=lambda one: one.ticks)

    def check(self) -> None:
        """Do nothing while all is well.

        Raises:
            TablesTooOld: everything has to be read anew.
        """
        if self.over:
            raise TablesTooOld(f"nothing was known to be read to its end for {self._limit:g} s")

    async def mind(self, read_to_ends: Callable[[], Awaitable[bool]]) -> None:
        """Look again and again whether everything has been read; until cancelled.

        Args:
            read_to_ends: returns when all that is committed at the call has been read, False where that is not known.
        """
        while True:
            await asyncio.sleep(self.interval)
            asked = self.instant()
            try:
                async with asyncio.timeout(self._limit):
                    if await read_to_ends():
                        self.whole(asked)
            except (KafkaError, TimeoutError, OSError, RuntimeError, StartAfresh) as error:
                # No answer, or what is read is just changing; the next look may tell.
                log.debug("age.unknown", error=repr(error))


async def tombstones_kept(settings: Settings) -> float:
    """Seconds for which the compacted topics keep tombstones: the shortest of them.

    Where the broker does not tell, the time with which the topics are made.

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
            deadline=asyncio.get_running_loop().time() + _ASKING,
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
