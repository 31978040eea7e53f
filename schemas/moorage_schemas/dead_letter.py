"""Events about refused records, and the audit log."""

from __future__ import annotations

from enum import StrEnum
from typing import ClassVar, Final

from pydantic import Field

from moorage_schemas.base import Model, Timestamp

REPLAY_HEADER: Final = "ce_mooragereplayof"
"""The header of a report that was sent again from a dead letter: the name of the letter."""


class RefusalReason(StrEnum):
    """Why a record was refused."""

    NOT_JSON = "NotJSON"
    INVALID_ENVELOPE = "InvalidEnvelope"
    INVALID_EVENT = "InvalidEvent"
    TOO_LARGE = "TooLarge"
    UNKNOWN_TARGET = "UnknownTarget"
    FUTURE_TIME = "FutureTime"
    WRONG_KEY = "WrongKey"
    FORBIDDEN = "Forbidden"
    TOO_MANY_REQUESTS = "TooManyRequests"
    """A source has reported more than its limits allow. `count` says how many such reports the record stands for."""

    UNDELIVERED = "Undelivered"
    """An event that a webhook has not taken in time. `value` is the name of the webhook."""


class DeadLettered(Model):
    """A record that was refused, with the reason and the original. Topic `dead-letters`."""

    event_type: ClassVar[str] = "io.moorage.record.refused.v1"

    service: str
    reason: RefusalReason
    message: str
    field: str = ""
    value: str = ""
    """The offending value, truncated to 256 characters."""

    rule: str = ""
    topic: str
    partition: int = Field(ge=0)
    offset: int = Field(ge=0)
    key: str = ""
    headers: dict[str, str] = Field(default_factory=dict)
    original: str
    """The record's value: plain text if it is UTF-8, otherwise base64."""

    original_encoding: str = Field(default="utf-8", pattern="^(utf-8|base64)$")
    original_size: int = Field(ge=0)
    """The size in bytes. It is larger than the content of `original` if `truncated` is set."""

    truncated: bool = False
    refused_time: Timestamp
    count: int = Field(default=1, ge=1)
    """How many records it stands for, of which the last one is shown. Reports beyond a limit are counted, and one
    record a minute is written for each source."""


class Audited(Model):
    """Who did what to which resource. Topic `audit`."""

    event_type: ClassVar[str] = "io.moorage.resource.audited.v1"

    actor: str
    """The program, as it names itself. Nothing shows that it is the one."""

    verb: str
    resource: str
    """The record key of the resource. Of a request that was refused, what it asked for: `pods/status shop/web`, or a
    path."""

    uid: str = ""
    version: int = 0
    outcome: str = ""
    """`committed`, or of a request that was refused `unauthenticated` or `forbidden`."""

    user: str = ""
    """As whom the request was made. Empty if the gateway has acted by itself, and if nobody has shown who they are."""

    groups: list[str] = Field(default_factory=list)
    sender: str = ""
    """Who has sent it, if on behalf of another user."""

    address: str = ""
    """From where a request came that was refused."""

    reason: str = ""
    """Why it was refused."""

    count: int = Field(default=1, ge=1)
    """How many such requests the record stands for. Refusals that repeat within seconds are one record."""

    time: Timestamp
