"""The gateway's interface to Kafka: durable writes, the version that shows them, and the outcomes of reports.

condition-ingest decides the outcomes, and its records show them. A caller who waits for the outcome has the gateway
read them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, Protocol

from moorage.apiserver.machinery.api_errors import too_large
from moorage.apiserver.storage.object_log import json_of, value_of
from moorage_schemas.base import Model
from moorage_schemas.dead_letter import DeadLettered
from moorage_schemas.envelope import Meta
from moorage_schemas.shown import ObjectShown
from moorage_schemas.topics import (
    AUDIT,
    CONDITION_REPORTS,
    CONFIGURATION,
    EVICTION_REQUESTS,
    OBJECTS,
    PROBE_GRANTS,
    RESOURCES,
    Topic,
)

WRITTEN: tuple[Topic, ...] = (
    RESOURCES,
    CONFIGURATION,
    PROBE_GRANTS,
    EVICTION_REQUESTS,
    AUDIT,
    OBJECTS,
    CONDITION_REPORTS,
)
"""The topics that the gateway writes."""

RECORD_OVERHEAD: Final = 512
"""The bytes that a record takes besides its key and value, at most."""


@dataclass(frozen=True)
class Write:
    """One record to write. The event of a tombstone is None."""

    topic: Topic
    key: str
    partition_key: str
    event: Model | None
    meta: Meta

    @cached_property
    def value(self) -> bytes | None:
        """The value of the record. Its size is checked before it is sent, so it is needed several times."""
        if isinstance(self.event, ObjectShown) and self.event.object:
            return value_of(json_of(self.event.object))  # as a store reads it without decoding all of it
        return None if self.event is None else self.event.model_dump_json().encode()


def check_sizes(writes: Iterable[Write]) -> None:
    """Check that every record fits into its topic. Raises StatusError: 413 if one is too large."""
    for write in writes:
        size = len(write.value or b"") + len(write.key.encode()) + RECORD_OVERHEAD
        if size > write.topic.max_message_bytes:
            raise too_large(f"the record of {write.key} ({size} bytes)", write.topic.max_message_bytes)


class Log(Protocol):
    """The durable log that the gateway writes."""

    @property
    def obstacle(self) -> str:
        """Why nothing can be written now. Empty if writes are possible."""

    async def commit(self, writes: Sequence[Write], *, is_shown: bool = True) -> int:
        """Write records of the gateway's own topics, all or none. Returns when they are durable.

        Without any, this confirms that this gateway still leads.

        Args:
            writes: the records.
            is_shown: whether what they change of the objects that are shown is written with them. Otherwise it follows
                when there is time, and changes of an object that come fast become one.

        Returns:
            The version that a store has reached when it shows them, if they are to be shown.

        Raises:
            StatusError: 503 if nothing was written, 504 if the outcome is unknown, 413 if a record is too large.
        """

    async def report(self, writes: Sequence[Write]) -> list[int]:
        """Write condition reports. Returns when all of them are durable.

        Returns:
            The offset of each in its partition.

        Raises:
            StatusError: as `commit`. Some may have been written.
        """


@dataclass(frozen=True, slots=True)
class ReportCounted:
    """The report is the condition now, or was it for a moment."""


@dataclass(frozen=True, slots=True)
class RefusedLater:
    """condition-ingest has refused the report."""

    letter: DeadLettered


@dataclass(frozen=True, slots=True)
class Unrecorded:
    """condition-ingest has read the report and has written nothing about it."""

    condition: Any | None
    """The last record of the condition that was written meanwhile, as `ConditionChanged` or a row. None if none was."""


Decided = ReportCounted | RefusedLater | Unrecorded


class Following(Protocol):
    """Follows what becomes of some reports."""

    async def decided(self, offsets: Sequence[int], seconds: float) -> list[Decided | None]:
        """Return what was decided about each report. None for those of which it is not known in time."""


class ReportOutcomes(Protocol):
    """Finds out what becomes of reports."""

    def follow(self, writes: Sequence[Write]) -> AbstractAsyncContextManager[Following | None]:
        """Follow reports that are about to be written. None if that is not possible now."""
