"""Columns of Moorage's own kinds: what is declared to it, and what the services have decided."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from moorage.cli.api.objects import at
from moorage.cli.render.cells import AGE, NONE, Cell, Columns, Object, since, taint_text, text
from moorage.cli.render.durations import age, human
from moorage_schemas.times import parse_time

_STATUS = "status"


def until(deadline: str | None) -> str:
    """How long until a deadline; `due` when it has passed."""
    if not deadline:
        return NONE
    left = (parse_time(deadline) - datetime.now(UTC)).total_seconds()
    return f"in {human(left)}" if left > 0 else "due"


def _target(*path: str) -> Cell:
    def cell(found: Object) -> str:
        target = at(found, *path)
        return f"{target['kind'].lower()}/{target['name']}" if isinstance(target, Mapping) else NONE

    return cell


def _workload(*path: str) -> Cell:
    def cell(found: Object) -> str:
        ref = at(found, *path)
        return f"{ref['kind'].lower()}/{ref['name']}" if isinstance(ref, Mapping) else NONE

    return cell


def _taints(found: Object) -> str:
    return ",".join(taint_text(taint) for taint in at(found, "status", "taints") or []) or NONE


def _deadline(found: Object) -> str:
    waits = at(found, "status", "state") in {None, "Scheduled", "Held"}
    return until(at(found, "status", "deadline")) if waits else NONE


def _held_by(found: Object) -> str:
    held = at(found, "status", "state") == "Held"
    return (",".join(at(found, "status", "heldBy") or []) or NONE) if held else NONE


def _placed_on(found: Object) -> str:
    """The target, or the targets of what can be on several."""
    several = at(found, "status", "targets") or []
    names = ",".join(f"{one['target']['kind'].lower()}/{one['target']['name']}" for one in several)
    return names or _target("status", "target")(found)


def zone_state(found: Object) -> str:
    """A zone's state, and whether it is stopped because every zone is fully disrupted."""
    state = str(at(found, "status", "state") or "Normal")
    return f"{state},Stopped" if at(found, "status", "stopped") else state


def rate_text(rate: Any) -> str:
    """A rate as people read it: `1 every 10s`, `no limit`, `0`."""
    if rate is None:
        return NONE
    if rate == "inf" or float(rate) == float("inf"):
        return "no limit"
    if float(rate) <= 0:
        return "0"
    return f"{float(rate):g}/s" if float(rate) >= 1 else f"1 every {1 / float(rate):g}s"


def _next(found: Object) -> str:
    queue = at(found, "status", "queue") or []
    return str(queue[0].get("target")) if queue else NONE


def _origins(found: Object) -> str:
    if at(found, "status", "held"):
        return "held"
    return ",".join(at(found, "status", "origins") or []) or NONE


def scope_text(scope: Any) -> str:
    """The scope of a budget or a pause: `zones=eu/eu-1;namespaces=shop`; `<all>` for the fleet."""
    parts = []
    for field, value in (scope or {}).items() if isinstance(scope, Mapping) else ():
        if isinstance(value, list) and value:
            parts.append(f"{field}={','.join(map(str, value))}")
        elif isinstance(value, Mapping):
            parts.append("<labels>")
    return ";".join(parts) or "<all>"


def _scope(found: Object) -> str:
    return scope_text(at(found, "spec", "scope"))


def _window(found: Object) -> str:
    count = at(found, "spec", "maxInWindow")
    return NONE if count is None else f"{count} in {at(found, 'spec', 'windowSeconds') or 3600}s"


COLUMNS: Final[dict[str, Columns]] = {
    "DedicatedNodes": (
        (
            ("KEY", text("spec", "key", default="dedicated")),
            ("VALUE", text("spec", "value")),
            ("EFFECT", text("spec", "effect", default="NoSchedule")),
            AGE,
        ),
        (),
    ),
    "EvictionBudget": (
        (
            ("PER", text("spec", "per", default="Fleet")),
            ("AT-A-TIME", text("spec", "maxConcurrent")),
            ("IN-WINDOW", _window),
            ("ALLOWED", text("status", "allowed", default="<unknown>")),
            ("UNDER-WAY", text("status", "inProgress", default="0")),
            ("HELD", text("status", "held", default="0")),
            AGE,
        ),
        (("SCOPE", _scope), ("PATIENCE", text("spec", "patienceSeconds"))),
    ),
    "EvictionPause": (
        (
            ("SCOPE", _scope),
            ("HELD", text("status", "held", default="0")),
            ("REASON", text("spec", "reason")),
            AGE,
        ),
        (),
    ),
    "WorkloadPlacement": (
        (
            ("STATE", text(_STATUS, "state")),
            ("TARGET", _placed_on),
            ("REASON", text(_STATUS, "reason")),
            ("AGE", since(_STATUS, "decidedTime")),
        ),
        (
            ("OWNER", _workload(_STATUS, "owner")),
            ("PREVIOUS", _target(_STATUS, "previousTarget")),
            ("MESSAGE", text(_STATUS, "message")),
        ),
    ),
    "Binding": (
        (
            ("WORKLOAD", _workload(_STATUS, "workload")),
            ("TARGET", _target(_STATUS, "target")),
            ("AGE", since(_STATUS, "boundTime")),
        ),
        (("OWNER", _workload(_STATUS, "owner")), ("GENERATION", text(_STATUS, "generation"))),
    ),
    "Eviction": (
        (
            ("WORKLOAD", _workload(_STATUS, "workload")),
            ("TARGET", _target(_STATUS, "target")),
            ("STATE", text(_STATUS, "state")),
            ("DUE", _deadline),
            ("HELD-BY", _held_by),
            ("AGE", since(_STATUS, "decidedTime")),
        ),
        (("TAINTS", _taints), ("REASON", text(_STATUS, "reason")), ("MESSAGE", text(_STATUS, "message"))),
    ),
    "Condition": (
        (
            ("TARGET", _target(_STATUS, "target")),
            ("TYPE", text(_STATUS, "type")),
            ("STATUS", text(_STATUS, "status")),
            ("REASON", text(_STATUS, "reason")),
            ("SINCE", since(_STATUS, "lastTransitionTime")),
            ("HEARTBEAT", since(_STATUS, "lastHeartbeatTime")),
        ),
        (("SOURCE", text(_STATUS, "source")), ("MESSAGE", text(_STATUS, "message"))),
    ),
    "Taint": (
        (
            ("TARGET", _target(_STATUS, "target")),
            ("TAINT", lambda found: taint_text(at(found, "status") or {})),
            ("ORIGIN", _origins),
            ("AGE", lambda found: age(at(found, "status", "timeAdded") or at(found, "status", "since"))),
        ),
        (("REASON", text(_STATUS, "reason")),),
    ),
    "Timer": (
        (
            ("TARGET", _target(_STATUS, "target")),
            ("OWNER", text(_STATUS, "owner")),
            ("DUE", lambda found: until(at(found, "status", "deadline"))),
        ),
        (("DEADLINE", text(_STATUS, "deadline")), ("SUBJECT", text(_STATUS, "subject"))),
    ),
    "Zone": (
        (
            ("STATE", zone_state),
            ("NODES", text(_STATUS, "nodes", default="0")),
            ("NOT-READY", text(_STATUS, "notReady", default="0")),
            ("RATE", lambda found: rate_text(at(found, "status", "rate"))),
            ("WAITING", text(_STATUS, "waiting", default="0")),
            ("NEXT", _next),
        ),
        (
            ("TOKENS", text(_STATUS, "tokens")),
            ("GRANTED", lambda found: str(len(at(found, "status", "granted") or []))),
        ),
    ),
    "Budget": (
        (
            ("ALLOWED", text(_STATUS, "allowed", default="0")),
            ("UNDER-WAY", text(_STATUS, "inProgress", default="0")),
            ("IN-WINDOW", text(_STATUS, "inWindow", default="0")),
            ("HELD", text(_STATUS, "held", default="0")),
            ("COUNTED", since(_STATUS, "countedTime")),
        ),
        (
            ("EXPECTED", text(_STATUS, "expected", default="0")),
            ("HEALTHY", text(_STATUS, "healthy", default="0")),
            ("TOKENS", text(_STATUS, "tokens")),
        ),
    ),
}
