"""Events in words, for the chains of explanations, `moorage watch` and the demo."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final

from moorage.decide.disruption.object_names import shown_zone
from moorage.decide.kubernetes.durations import rate_text
from moorage_schemas.base import Model
from moorage_schemas.budget import BudgetCounted, EvictionAnswered, EvictionAsked, EvictionSlot
from moorage_schemas.condition import ConditionChanged, ConditionReported, WorkloadConditionChanged
from moorage_schemas.dead_letter import Audited, DeadLettered
from moorage_schemas.eviction import EvictionDecided, EvictionState
from moorage_schemas.leave_request import LeaveRequested
from moorage_schemas.maintenance import MaintenanceProgressed
from moorage_schemas.placement import WorkloadBound, WorkloadPlaced
from moorage_schemas.refs import TargetRef, WorkloadRef
from moorage_schemas.resource import ResourceDeclared
from moorage_schemas.taint import Taint, TaintRecord, TargetTainted
from moorage_schemas.timer import SetTimer, TimerFired
from moorage_schemas.zone import NoExecuteGranted, ZoneChanged, ZoneMembered

Clock = Callable[[datetime | None], str]
"""Returns the time of day of an instant as text."""

_DECISION: Final = "PlacementDecision"
_NAMED: Final = 8  # the largest number of clusters that are named


def local_clock(when: datetime | None) -> str:
    """Return the time of day to the second, in this machine's time zone."""
    return _time_of_day(None if when is None else when.astimezone())


def utc_clock(when: datetime | None) -> str:
    """Return the time of day to the second, in UTC."""
    return _time_of_day(None if when is None else when.astimezone(UTC))


def _time_of_day(when: datetime | None) -> str:
    return "--:--:--" if when is None else when.strftime("%H:%M:%S")


def target(ref: TargetRef | None) -> str:
    """Return a target as `node/n1`."""
    return "nowhere" if ref is None else f"{ref.kind.value.lower()}/{ref.name}"


def workload(ref: WorkloadRef) -> str:
    """Return a workload as `pod/web-0`, with the namespace unless it is `default`."""
    name = f"{ref.kind.lower()}/{ref.name}"
    return name if ref.namespace in {"", "default"} else f"{name} ({ref.namespace})"


def words(  # noqa: C901, PLR0911, PLR0912 - one case for each event
    key: str, event: Model | None, clock: Clock = local_clock
) -> str:
    """Return an event in words.

    Args:
        key: the key of its record.
        event: the event. None for a tombstone.
        clock: returns times of day as text.
    """
    match event:
        case None:
            return f"{key} deleted"
        case ConditionReported():
            about = f"{workload(event.workload)} on " if event.workload else ""
            return f"{about}{target(event.target)} {event.type}={event.status.value}{_why(event.reason, event.source)}"
        case WorkloadConditionChanged():  # before ConditionChanged, which is its base class
            about = f"{workload(event.workload)} on {target(event.target)}"
            return f"{about} {event.type}={event.status.value}{_why(event.reason, event.source)}"
        case ConditionChanged():
            return f"{target(event.target)} {event.type}={event.status.value}{_why(event.reason, event.source)}"
        case TargetTainted():
            return _taints(event)
        case SetTimer() if event.deadline is None:
            return f"{event.id} cancelled"
        case SetTimer():
            return f"{event.id} set for {clock(event.deadline)}"
        case TimerFired():
            late = (event.fired_time - event.deadline).total_seconds()
            return f"{event.id} fired, {late * 1000:.0f} ms after its time"
        case EvictionDecided():
            return _eviction(event, clock)
        case WorkloadPlaced():
            return _placed(event, clock)
        case WorkloadBound():
            part = f", {event.replicas} replicas" if event.replicas else ""
            return f"{workload(event.workload)} bound to {target(event.target)}{part}"
        case ZoneMembered():
            state = "ready" if event.ready else f"not ready since {clock(event.since)}"
            return f"{target(event.target)} in zone {shown_zone(event.zone)} is {state}"
        case ZoneChanged():
            return _zone(event)
        case NoExecuteGranted():
            said = "may get its NoExecute taint" if event.granted else "withdrawn: may have no NoExecute taint"
            return f"{target(event.target)} in zone {shown_zone(event.zone)} {said}{_why(event.reason)}"
        case LeaveRequested():
            when = f"by {clock(event.deadline)}" if event.deadline else "at once"
            by = f"{event.requester.key} requests it{_why(event.reason, event.message)}"
            return f"{workload(event.workload)} off {target(event.target)} {when}: {by}"
        case EvictionAsked():
            what = "is in progress" if event.requested else f"waits for a grant, due at {clock(event.due_time)}"
            return f"{workload(event.workload)} off {target(event.target)} {what}"
        case EvictionAnswered():
            said = "granted" if event.granted else f"held by {', '.join(event.held_by)}"
            return f"{workload(event.workload)} off {target(event.target)} {said}{_why(event.message)}"
        case EvictionSlot():
            said = "counts" if event.granted else f"held by {', '.join(event.held_by)}"
            return f"{workload(event.workload)} off {target(event.target)} {said}"
        case BudgetCounted() if event.active is False:
            until = f" until {clock(event.changes_time)}" if event.changes_time is not None else ""
            return f"{event.budget.replace('//', '/')} holds nothing{until}: its schedule has no window now"
        case BudgetCounted():
            counts = f"{event.in_progress} in progress, {event.in_window} in the window, {event.held} held"
            return f"{event.budget.replace('//', '/')} allows {event.allowed}: {counts}"
        case MaintenanceProgressed():
            stages = Counter(one.stage for one in event.targets)
            counts = ", ".join(f"{count} {stage}" for stage, count in sorted(stages.items()))
            return f"Maintenance/{event.name} {event.phase}{f': {counts}' if counts else ''}"
        case ResourceDeclared():
            return f"{event.key.replace('//', '/')} declared, version {event.version}"
        case DeadLettered():
            what = f"{event.key or 'a record'} of {event.topic}"
            return f"{what} refused by {event.service}: {event.reason}: {event.message}"
        case Audited():
            return f"{event.actor} {event.verb} {event.resource} {event.outcome}".rstrip()
        case _:
            return key


def taint_words(taint: Taint | TaintRecord) -> str:
    """Return a taint as kubectl writes it."""
    value = f"={taint.value}" if taint.value else ""
    return f"{taint.key}{value}:{taint.effect}"


def _taints(event: TargetTainted) -> str:
    marks = ", ".join(f"{taint_words(taint)} ({'+'.join(taint.origins)})" for taint in event.taints)
    held = ", ".join(f"{one.key}:{one.effect}{_why(one.reason)}" for one in event.held)
    kept = ", ".join(f"{name}={value}" for name, value in sorted(event.labels.items()))
    more = (f"; waits for {held}" if held else "") + (f"; the system reports {kept}" if kept else "")
    return f"{target(event.target)} has {marks or 'no taints'}{more}"


def _eviction(event: EvictionDecided, clock: Clock) -> str:
    state = event.state.value
    if event.state is EvictionState.SCHEDULED and event.deadline:
        state += f" at {clock(event.deadline)}"
    elif event.state is EvictionState.HELD and event.held_by:
        state += f" by {', '.join(event.held_by)}"
    if event.purge_mode:
        state += f", {event.purge_mode}"
    state += _deployer(event)
    why = event.message if event.state is EvictionState.HELD and event.message else event.reason
    return f"{workload(event.workload)} off {target(event.target)}: {state}{_why(why)}"


def _deployer(event: EvictionDecided) -> str:
    """Return the deployer's report, or that it is missing."""
    if event.acknowledged is not None:
        return f", acknowledged by {event.acknowledged.source}"
    if (said := event.escalation) is not None:
        return f", escalated by {said.source}{_why(said.reason, said.message)}"
    return f", waits for {event.deployer}" if event.deployer and event.state is EvictionState.REQUESTED else ""


def _placed(event: WorkloadPlaced, clock: Clock) -> str:
    if event.workload.kind == _DECISION:
        moved = [*(f"+{name}" for name in event.added), *(f"-{name}" for name in event.removed)]
        more = f", and {len(moved) - _NAMED} more" if len(moved) > _NAMED else ""
        change = f": {' '.join(moved[:_NAMED])}{more}" if moved else ""
        return f"{workload(event.workload)} has {_clusters(len(event.clusters))}{change}"
    if event.conditions:  # only an OCM placement has conditions; it is not on a target itself
        return f"{workload(event.workload)} selects {_clusters(event.selected)}{_why(event.reason, event.message)}"
    here = f" on {target(event.target)}" if event.target else ""
    if event.targets:
        parts = [f"{target(one.target)}{f' ({one.replicas})' if one.replicas else ''}" for one in event.targets]
        here = f" on {', '.join(parts)}"
    leaving = [f"{target(one.target)} until {clock(one.until)}" for one in event.leaving]
    away = f", leaving {', '.join(leaving)}" if leaving else ""
    return f"{workload(event.workload)} {event.state.value}{here}{away}{_why(event.reason, event.message)}"


def _clusters(count: int) -> str:
    return "1 cluster" if count == 1 else f"{count} clusters"


def _zone(event: ZoneChanged) -> str:
    state = f"{event.state.value}, stopped: every zone is disrupted" if event.stopped else event.state.value
    counts = f"{event.not_ready} of {event.nodes} not ready"
    waiting = f", {event.waiting} waiting" if event.waiting else ""
    rate = rate_text(event.rate) if event.rate else "none may pass"
    return f"zone {shown_zone(event.zone)} {state}: {counts}{waiting}, {rate}"


def _why(*parts: str) -> str:
    said = ", ".join(part for part in parts if part)
    return f"  ({said})" if said else ""
