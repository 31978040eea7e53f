"""The gateway's interface to Kafka: durable writes and their places."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from moorage_schemas.base import Model
from moorage_schemas.envelope import Meta
from moorage_schemas.topics import AUDIT, CONDITION_REPORTS, CONFIGURATION, RESOURCES, Topic

WRITTEN: tuple[Topic, ...] = (RESOURCES, CONFIGURATION, AUDIT, CONDITION_REPORTS)
"""The topics that the gateway writes."""


@dataclass(frozen=True, slots=True)
class Write:
    """One record to write. The event of a tombstone is None."""

    topic: Topic
    key: str
    partition_key: str
    event: Model | None
    meta: Meta


class Place(NamedTuple):
    """The place of a record in the log."""

    topic: Topic
    partition: int
    offset: int


class Log(Protocol):
    """The durable log that the gateway writes."""

    @property
    def obstacle(self) -> str:
        """Why nothing can be written now. Empty if writes are possible."""

    async def commit(self, writes: Sequence[Write]) -> list[Place]:
        """Write records of the gateway's own topics, all or none. Returns when they are durable.

        Raises:
            StatusError: 503 if nothing was written, 504 if the outcome is unknown, 413 if a record is too large.
        """

    async def report(self, writes: Sequence[Write]) -> None:
        """Write condition reports. Returns when all of them are durable.

        Raises:
            StatusError: as `commit`. Some may have been written.
        """
