"""The objects of the fleet as the API shows them."""

from __future__ import annotations

from typing import Any, ClassVar

from pydantic import Field

from moorage_schemas.base import Model

LEADER_KEY = "/leader"
"""The key of the record that names the leading gateway. No key of an object begins with a slash."""

COMPLETE_KEY = "/complete"
"""The key of the record that says that all objects are in the topic."""


class GatewayLeader(Model):
    """The gateway that writes: it has taken over from all that led before this record."""

    instance: str
    """Different for each run of a gateway."""

    address: str = ""
    """Where the other gateways reach it, such as `http://10.0.0.7:8080`."""


class ObjectShown(Model):
    """One object as the API shows it now. Topic `objects`, keyed by `Kind/namespace/name`; a tombstone when it is gone.

    All records are in one partition. The resource version of an object is the offset of its record plus one. Two keys
    name no object: `/leader` and `/complete`.
    """

    event_type: ClassVar[str] = "io.moorage.object.shown.v1"

    object: dict[str, Any] = Field(default_factory=dict)
    """The object without `metadata.resourceVersion`. Empty in the two records that show none."""

    leader: GatewayLeader | None = None
    """Which gateway leads from this record on."""
