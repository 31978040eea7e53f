"""The clocks of the processes, as each has measured its own against the brokers'."""

from __future__ import annotations

from typing import ClassVar

from moorage_schemas.base import Model


class ClockMeasured(Model):
    """A measurement of a process's clock. Topic `clocks`, keyed by the process. The brokers set the record's time.

    The broker's answer to this record is the measurement, so the record has the result of the previous one.
    """

    event_type: ClassVar[str] = "io.moorage.clock.measured.v1"

    services: tuple[str, ...]
    """The services of the process."""

    host: str
    """The name of its machine."""

    version: str = ""
    """The version of Moorage that it runs. Empty if an earlier version wrote the record."""

    offset_seconds: float | None = None
    """By how many seconds its clock was ahead of the brokers' at the previous measurement; None before the first."""

    corrected: bool = False
    """Whether the process subtracts this from its clock."""
