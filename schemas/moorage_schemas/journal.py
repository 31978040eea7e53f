"""What a service did that does not follow from the records alone, for `moorage replay`."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from moorage_schemas.base import Model


class StepsTaken(Model):
    """Steps of a service that were too many to wait for a record, or to ride with one. Topic `journal`."""

    event_type: ClassVar[str] = "io.moorage.steps.taken.v1"

    service: str
    run: str
    """The process, or the owner of one partition in it; steps are numbered from its beginning."""

    first: int = Field(ge=0)
    """The number of the first step."""

    steps: str
    """The steps: JSON, compressed with zlib, as base64. What they mean is the runtime's own."""
