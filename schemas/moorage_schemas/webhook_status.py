"""How a webhook fares, as the webhook worker writes it."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from moorage_schemas.base import Model, Timestamp


class WebhookStatusChanged(Model):
    """What became of the events for a webhook. Topic `webhook-statuses`, keyed by the resource (`Webhook//ops`).

    It is written when something changes, at most every few seconds, and once an hour otherwise. The times are of any
    worker. A tombstone follows the end of the webhook.
    """

    event_type: ClassVar[str] = "io.moorage.webhook.status.changed.v1"

    uid: str
    """The uid of the resource."""

    generation: int = Field(ge=1)
    """The `metadata.generation` of the resource that it is about."""

    last_success_time: Timestamp | None = None
    last_failure_time: Timestamp | None = None
    failing_since: Timestamp | None = None
    """The time of the first attempt that failed since one succeeded. None while they succeed."""

    delivering_since: Timestamp | None = None
    """The time of the first attempt that succeeded since one failed. None while they fail."""

    failure: str = ""
    """Why the last attempt failed that did."""

    disabled_time: Timestamp | None = None
    """When the receiver said that it is gone for good (410). Nothing is sent until the spec of the resource changes."""

    missed_since: Timestamp | None = None
    """If nobody read for it for so long that Kafka has forgotten which keys were deleted: from when on. Ends of
    bindings since then may not have been sent."""

    backlog: int = Field(default=0, ge=0)
    """Records of its topics that are not yet known to be taken, given up or not wanted."""

    written_time: Timestamp
    """When this was written."""
