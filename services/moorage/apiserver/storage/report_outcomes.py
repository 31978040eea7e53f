"""What becomes of a report that was written: whether it counts, changes nothing, or is refused after all.

condition-ingest decides that, and its records show it. A caller who waits for the outcome has the gateway read them.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any, Protocol

from moorage.apiserver.storage.durable_log import Write
from moorage_schemas.dead_letter import DeadLettered


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
        """What was decided about each report. None for those of which it is not known in time.

        Args:
            offsets: the offset of each report in its partition.
            seconds: how long to wait.
        """


class ReportOutcomes(Protocol):
    """Finds out what becomes of reports."""

    def follow(self, writes: Sequence[Write]) -> AbstractAsyncContextManager[Following | None]:
        """Follow reports that are about to be written. None if that is not possible now."""
