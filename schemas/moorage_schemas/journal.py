"""Steps of a service that cannot be derived from the records alone. `moorage replay` needs them."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from moorage_schemas.base import Model


class StepsTaken(Model):
    """Steps of a service that no other record carries. Topic `journal`.

    Steps are usually written in a header of the next record. They get a record of their own when they are too large for
    that header, or when too many have accumulated to wait for the next record.
    """

    event_type: ClassVar[str] = "io.moorage.steps.taken.v1"

    service: str
    run: str
    """The process, or the owner of one partition in it. Steps are numbered from the start of the run."""

    first: int = Field(ge=0)
    """The number of the first step."""

    steps: str
    """The steps as JSON, compressed with zlib and encoded as base64. Only the runtime interprets them."""
