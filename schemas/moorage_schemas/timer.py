"""Durable deadlines. The timer service does not know their purpose."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field

from moorage_schemas.base import Model, Timestamp
from moorage_schemas.refs import TargetRef


class SetTimer(Model):
    """Set, move or cancel a timer. Topic `timers`, keyed by the timer's id, partitioned by the target.

    Only the service that owns the timer writes its key. Each record is an upsert with a generation: a lower generation
    is ignored, and an equal one changes nothing. An upsert without a deadline cancels the timer. The owner writes a
    tombstone when it no longer needs the timer.
    """

    event_type: ClassVar[str] = "io.moorage.timer.set.v1"

    id: str
    target: TargetRef
    owner: str
    """The service that set the timer, such as `eviction`."""

    generation: int = Field(ge=1)
    deadline: Timestamp | None
    """An absolute time. Empty means that the timer is cancelled."""

    subject: str = ""
    """What the timer is about. Only the owner interprets it."""

    correlation_id: str = ""
    """The correlation id of the chain that set the timer. `TimerFired` continues the chain, also after a restart."""

    traceparent: Annotated[str, Field(exclude_if=lambda context: not context)] = ""
    """The trace context of the chain that set the timer. Empty in records of earlier versions."""


class TimerFired(Model):
    """A deadline has passed. Topic `timer-fired`, keyed by the timer's id, partitioned by the target.

    Written at or after the deadline, never before it, and once for each generation.
    """

    event_type: ClassVar[str] = "io.moorage.timer.fired.v1"

    id: str
    target: TargetRef
    owner: str
    generation: int = Field(ge=1)
    deadline: Timestamp
    fired_time: Timestamp
    subject: str = ""
