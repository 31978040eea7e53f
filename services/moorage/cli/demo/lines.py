"""Short texts for the events of the demo. `moorage watch` shows the same events in full."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from rich.text import Text

from moorage.cli.api.topics import Seen
from moorage.cli.render.events import STYLES
from moorage.decide.kubernetes.durations import rate_text
from moorage.insight.explain.wording import local_clock, words
from moorage_schemas.base import Model
from moorage_schemas.condition import ConditionChanged
from moorage_schemas.eviction import EvictionDecided, EvictionState
from moorage_schemas.placement import PlacementState, WorkloadPlaced
from moorage_schemas.taint import TargetTainted
from moorage_schemas.timer import TimerFired
from moorage_schemas.zone import NoExecuteGranted, ZoneChanged

WIDTH: Final = 100
"""The columns that a line of the demo takes at most."""

CUT: Final = "…"


def line(seen: Seen, cause: datetime, about: str, *, verbose: bool) -> Text:
    """Return an event as a line: its time, the time since its cause, what it is about, and what happened.

    Args:
        seen: the event.
        cause: the time of its cause.
        about: the node or the zone in which the cause is.
        verbose: whether the whole text is wanted, however long it is.
    """
    when = seen.meta.time if seen.meta is not None and seen.meta.time is not None else seen.timestamp
    found = Text(f"   {local_clock(when)} ", "dim")
    found.append(f"{(when - cause).total_seconds():+7.3f}s  ", "bold")
    found.append(f"{_last(about):<2}  ", "dim")
    found.append(f"{seen.topic.short:<11}  ", STYLES.get(seen.topic.short, "white"))
    found.append(words(seen.key, seen.event) if verbose else brief(seen.key, seen.event, about))
    if not verbose and len(found) > WIDTH:
        found.truncate(WIDTH - len(CUT))
        found.append(CUT)
    return found


def brief(key: str, event: Model | None, about: str) -> str:  # noqa: PLR0911 - one case for each event
    """Return an event in a few words, without what the line says already.

    Args:
        key: the key of its record.
        event: the event. None for a tombstone.
        about: the node or the zone that the line names.
    """
    match event:
        case ConditionChanged():
            return f"{_named(event.target.name, about)}{event.type}={event.status.value}{_why(event.reason)}"
        case TargetTainted():
            present = ", ".join(_taint(one.key, one.effect) for one in event.taints) or "no taints"
            held = "".join(f"; waits for {_taint(one.key, one.effect)}" for one in event.held)
            return f"{_named(event.target.name, about)}{present}{held}"
        case EvictionDecided():
            return f"{event.workload.name} {_eviction(event)}"
        case WorkloadPlaced():
            return _placed(event)
        case ZoneChanged():
            return f"{_named(_last(event.zone), about)}{_zone(event)}"
        case NoExecuteGranted():
            return f"{_named(event.target.name, about)}{'may' if event.granted else 'may not'} get its NoExecute taint"
        case TimerFired():
            late = (event.fired_time - event.deadline).total_seconds()
            return f"{_subject(event.id)} due, fired {late * 1000:.0f} ms late"
        case _:
            return words(key, event)


def _named(name: str, about: str) -> str:
    """Return the name of a target and a space; nothing if the line names it already."""
    return "" if name == _last(about) else f"{name} "


def _last(name: str) -> str:
    """Return the zone of `region/zone`, and any other name as it is."""
    return name.rpartition("/")[2]


def _taint(key: str, effect: str) -> str:
    return f"{_last(key)}:{effect}"


def _zone(event: ZoneChanged) -> str:
    # In a zone with a rate, a node of the demo waits for the next tick at most: whether it is seen to wait depends on
    # when its report is read.
    waiting = f", {event.waiting} waiting" if event.waiting and not event.rate else ""
    rate = rate_text(event.rate) if event.rate else "rate 0"
    return f"{event.state.value}: {event.not_ready}/{event.nodes} not ready{waiting}, {rate}"


def _eviction(event: EvictionDecided) -> str:
    match event.state:
        case EvictionState.SCHEDULED if event.deadline:
            return f"Scheduled for {local_clock(event.deadline)}"
        case EvictionState.HELD if event.held_by:
            return f"Held by {', '.join(one.partition('/')[0] for one in event.held_by)}"
        case _:
            return f"{event.state.value}{_why(event.reason)}"


def _placed(event: WorkloadPlaced) -> str:
    name = event.workload.name
    if event.state is not PlacementState.PLACED or event.target is None:
        return f"{name} {event.state.value}{_why(event.reason)}"
    before = event.replaces.rpartition("/")[2]
    if not before:
        return f"{name} on {event.target.name}"
    # Replicas of one owner differ in the last part of their names.
    owner, _, own = before.rpartition("-")
    return f"{name} on {event.target.name}, replaces {f'{CUT}{own}' if owner and name.startswith(owner) else before}"


def _subject(timer: str) -> str:
    """Return the workload of a timer such as `evict|Pod/shop/web-0|Node/a1|1`, and any other id as it is."""
    parts = timer.split("|")
    return parts[1].rpartition("/")[2] if len(parts) > 1 else timer


def _why(reason: str) -> str:
    return f" ({reason})" if reason else ""
