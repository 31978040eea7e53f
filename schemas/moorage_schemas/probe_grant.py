"""What sources of reports may report, as condition-ingest reads it."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from moorage_schemas.base import Model
from moorage_schemas.resources.probe_grants import ProbeGrantSpec


class ProbeGrantChanged(Model):
    """A present grant. Topic `probe-grants`, keyed by its name. A tombstone ends it.

    The gateway writes it in one transaction with the resource `ProbeGrant`. condition-ingest follows this topic,
    because each partition needs all grants, but reads only its own part of `resources`.
    """

    event_type: ClassVar[str] = "io.moorage.probegrant.changed.v1"

    uid: str = ""
    generation: int = Field(ge=1)
    """`metadata.generation` of the resource."""

    spec: ProbeGrantSpec
