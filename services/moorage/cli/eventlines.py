"""Events as lines for people: what happened, to what, and when."""

from __future__ import annotations

from datetime import datetime

from rich.text import Text

from moorage.cli.reading import Seen
from moorage.cli.tables import taint_text
from moorage_schemas.base import Model
from moorage_schemas.condition import ConditionChanged, ConditionReported
from moorage_schemas.dead_letter import Audited, DeadLettered
from moorage_schemas.eviction import EvictionDecided
from moorage_schemas.placement import WorkloadBound, WorkloadPlaced
from moorage_schemas.refs import TargetRef, WorkloadRef
from moorage_schemas.resource import ResourceDeclared
from moorage_schemas.taint import TargetTainted
from moorage_schemas.timer import SetTimer, TimerFired

STYLES = {
    "condition-reports": "cyan",
    "conditions": "cyan",
    "taints": "yellow",
    "timers": "blue",
    "timer-fired": "blue",
    "evictions": "red",
    "placements": "green",
    "bindings": "green",
    "dead-letters": "magenta",
}
"""A colour for each topic."""


def clock(when: datetime | None) -> str:
    """The local time of day with milliseconds."""
    return "--:--:--.---" if when is None else when.astimezone().strftime("%H:%M:%S.%f")[:-3]


def target(ref: TargetRef | None) -> str:
    """`node/n1`."""
    return "nowhere" if ref is None else f"{ref.kind.value.lower()}/{ref.name}"


def workload(ref: WorkloadRef) -> str:
    """`pod/web-0`, with the namespace unless it is `default`."""
    name = f"{ref.kind.lower()}/{ref.name}"
    return name if ref.namespace in {"", "default"} else f"{name} ({ref.namespace})"


def line(seen: Seen, width: int) -> Text:
    """One event as a line: time, topic (padded to `width`), what happened."""
    style = STYLES.get(seen.topic.short, "white")
    when = seen.meta.time if seen.meta is not None and seen.meta.time is not None else seen.timestamp
    text = Text(no_wrap=True, overflow="ignore")
    text.append(clock(when), "dim")
    text.append(f"  {seen.topic.short:<{width}}  ", style)
    text.append(f"refused: {seen.wrong}" if seen.wrong else words(seen.key, seen.event))
    return text


def words(key: str, event: Model | None) -> str:  # noqa: C901, PLR0911, PLR0912 - one case for each event
    """What an event says, in words."""
    match event:
        case None:
            return f"{key} deleted"
        case ConditionReported():
            return f"{target(event.target)} {event.type}={event.status.value}{_why(event.reason, event.source)}"
        case ConditionChanged():
            return f"{target(event.target)} {event.type}={event.status.value}{_why(event.reason, event.source)}"
        case TargetTainted():
            marks = ", ".join(
                f"{taint_text(taint.model_dump(mode='json'))} ({'+'.join(taint.origins)})" for taint in event.taints
            )
            return f"{target(event.target)} has {marks or 'no taints'}"
        case SetTimer() if event.deadline is None:
            return f"{event.id} cancelled"
        case SetTimer():
            return f"{event.id} set for {clock(event.deadline)}"
        case TimerFired():
            late = (event.fired_time - event.deadline).total_seconds()
            return f"{event.id} fired, {late * 1000:.0f} ms after its time"
        case EvictionDecided():
            due = f" at {clock(event.deadline)}" if event.deadline and event.state.value == "Scheduled" else ""
            return (
                f"{workload(event.workload)} off {target(event.target)}: {event.state.value}{due}{_why(event.reason)}"
            )
        case WorkloadPlaced():
            here = f" on {target(event.target)}" if event.target else ""
            return f"{workload(event.workload)} {event.state.value}{here}{_why(event.reason, event.message)}"
        case WorkloadBound():
            return f"{workload(event.workload)} bound to {target(event.target)}"
        case ResourceDeclared():
            return f"{event.key} declared, version {event.version}"
        case DeadLettered():
            what = f"{event.key or 'a record'} of {event.topic}"
            return f"{what} refused by {event.service}: {event.reason}: {event.message}"
        case Audited():
            return f"{event.actor} {event.verb} {event.resource} {event.outcome}".rstrip()
        case _:
            return key


def _why(*parts: str) -> str:
    said = ", ".join(part for part in parts if part)
    return f"  ({said})" if said else ""
