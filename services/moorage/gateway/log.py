"""What the gateway needs of Kafka: to write durably, and to be told what was written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from moorage_schemas.base import Model
from moorage_schemas.envelope import Meta
from moorage_schemas.topics import AUDIT, CONDITION_REPORTS, RESOURCES, Topic

WRITTEN: tuple[Topic, ...] = (RESOURCES, AUDIT, CONDITION_REPORTS)
"""The topics that the gateway writes."""


@dataclass(frozen=True, slots=True)
class Write:
    """One record to be written; its event is None for a tombstone."""

    topic: Topic
    key: str
    partition_key: str
    event: Model | None
    meta: Meta


class Place(NamedTuple):
    """Where a record stands in the log."""

    topic: Topic
    partition: int
    offset: int


class Log(Protocol):
    """The durable log, as the gateway writes it."""

    @property
    def obstacle(self) -> str:
        """Why nothing can be written now, in words; empty when all is well."""

    async def commit(self, writes: Sequence[Write]) -> list[Place]:
        """Write records of the gateway's own topics, all or nothing; returns when they are durable.

        Raises:
            StatusError: 503 when nothing was written, 504 when it is not known whether it was, 413 when a record is
                too large.
        """

    async def report(self, writes: Sequence[Write]) -> None:
        """Write condition reports; returns when all of them are durable.

        Raises:
            StatusError: as `commit`; some may have been written.
        """
