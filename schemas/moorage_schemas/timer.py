"""Durable deadlines. The timer service knows nothing of what they are for."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from moorage_schemas.base import Model, Timestamp
from moorage_schemas.refs import TargetRef


class SetTimer(Model):
    """Set, move or cancel a timer. Topic `timers`, keyed by the timer's id, partitioned by the target.

    Only the service that owns the timer writes its key. An upsert with a generation: a lower one is
    ignored, the same one changes nothing. A cancel is an upsert without deadline, and the owner writes a
    tombstone when it has no more use for the timer.
    """

    event_type: ClassVar[str] = "io.moorage.timer.set.v1"

    id: str
    target: TargetRef
    owner: str
    """The service that asked, such as `eviction`."""

    generation: int = Field(ge=1)
    deadline: Timestamp | None
    """Absolute; empty means cancelled."""

    subject: str = ""
    """For the owner: what it is about."""

    correlation_id: str = ""
    """The chain that asked for it; what is fired goes on with it, also after a restart."""


class TimerFired(Model):
    """A deadline has passed. Topic `timer-fired`, keyed by the timer's id, partitioned by the target.

    Emitted at or after the deadline, never before, once for each generation.
    """

    event_type: ClassVar[str] = "io.moorage.timer.fired.v1"

    id: str
    target: TargetRef
    owner: str
    generation: int = Field(ge=1)
    deadline: Timestamp
    fired_time: Timestamp
    subject: str = ""
