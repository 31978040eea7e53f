"""Tables of what the services have decided: placements, bindings, evictions, taints, zones and the like."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from moorage.cli.api.kinds import Kind
from moorage.cli.render.durations import age, human
from moorage.cli.render.ocm_tables import DECISION
from moorage.cli.render.tables import Cell, Column, at, taint_text, text
from moorage.core.apimachinery.durations import rate_text
from moorage_schemas.times import parse_time

_NONE = "<none>"


def _since(*path: str) -> Cell:
    return lambda found: age(at(found, *path))


def until(deadline: str | None) -> str:
    """How long until a deadline; `due` when it has passed."""
    if not deadline:
        return _NONE
    left = (parse_time(deadline) - datetime.now(UTC)).total_seconds()
    return f"in {human(left)}" if left > 0 else "due"


def _target(*path: str) -> Cell:
    def cell(found: Mapping[str, Any]) -> str:
        target = at(found, *path)
        return f"{target['kind'].lower()}/{target['name']}" if isinstance(target, Mapping) else _NONE

    return cell


def _workload(*path: str) -> Cell:
    def cell(found: Mapping[str, Any]) -> str:
        ref = at(found, *path)
        return f"{ref['kind'].lower()}/{ref['name']}" if isinstance(ref, Mapping) else _NONE

    return cell


def _taints(found: Mapping[str, Any]) -> str:
    return ",".join(taint_text(taint) for taint in at(found, "status", "taints") or []) or _NONE


def _deadline(found: Mapping[str, Any]) -> str:
    waits = at(found, "status", "state") in {None, "Scheduled", "Held"}
    return until(at(found, "status", "deadline")) if waits else _NONE


def _held_by(found: Mapping[str, Any]) -> str:
    held = at(found, "status", "state") == "Held"
    return (",".join(at(found, "status", "heldBy") or []) or _NONE) if held else _NONE


def _placed_on(found: Mapping[str, Any]) -> str:
    """The target, or the targets of what can be on several."""
    several = at(found, "status", "targets") or []
    names = ",".join(f"{one['target']['kind'].lower()}/{one['target']['name']}" for one in several)
    return names or _target("status", "target")(found)


def zone_state(found: Mapping[str, Any]) -> str:
    """A zone's state, and whether it is stopped because every zone is fully disrupted."""
    state = str(at(found, "status", "state") or "Normal")
    return f"{state},Stopped" if at(found, "status", "stopped") else state


def rate(said: Any) -> str:
    """A rate as people read it; `<none>` where none is said."""
    return _NONE if said is None else rate_text(said)


def _next(found: Mapping[str, Any]) -> str:
    queue = at(found, "status", "queue") or []
    return str(queue[0].get("target")) if queue else _NONE


def scheduled(found: Mapping[str, Any]) -> str:
    """The status of a ResourceBinding's condition `Scheduled`."""
    conditions = at(found, "status", "conditions") or []
    return next((str(one.get("status")) for one in conditions if one.get("type") == "Scheduled"), "Unknown")


def _clusters(found: Mapping[str, Any]) -> str:
    return ",".join(cluster_text(one) for one in at(found, "spec", "clusters") or []) or _NONE


def cluster_text(one: Mapping[str, Any]) -> str:
    """A cluster with its part of the replicas: `member1:2`."""
    return f"{one.get('name')}:{one['replicas']}" if one.get("replicas") else str(one.get("name"))


def _leaving(found: Mapping[str, Any]) -> str:
    tasks = at(found, "spec", "gracefulEvictionTasks") or []
    return ",".join(str(one.get("fromCluster")) for one in tasks) or _NONE


def _origins(found: Mapping[str, Any]) -> str:
    if at(found, "status", "held"):
        return "held"
    return ",".join(at(found, "status", "origins") or []) or _NONE


_STATUS = "status"
_TABLES: dict[str, tuple[tuple[Column, ...], tuple[Column, ...]]] = {
    "WorkloadPlacement": (
        (
            ("STATE", text(_STATUS, "state")),
            ("TARGET", _placed_on),
            ("REASON", text(_STATUS, "reason")),
            ("AGE", _since(_STATUS, "decidedTime")),
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
            ("AGE", _since(_STATUS, "boundTime")),
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
            ("AGE", _since(_STATUS, "decidedTime")),
        ),
        (("TAINTS", _taints), ("REASON", text(_STATUS, "reason")), ("MESSAGE", text(_STATUS, "message"))),
    ),
    "Condition": (
        (
            ("TARGET", _target(_STATUS, "target")),
            ("TYPE", text(_STATUS, "type")),
            ("STATUS", text(_STATUS, "status")),
            ("REASON", text(_STATUS, "reason")),
            ("SINCE", _since(_STATUS, "lastTransitionTime")),
            ("HEARTBEAT", _since(_STATUS, "lastHeartbeatTime")),
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
            ("RATE", lambda found: rate(at(found, "status", "rate"))),
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
            ("COUNTED", _since(_STATUS, "countedTime")),
        ),
        (
            ("EXPECTED", text(_STATUS, "expected", default="0")),
            ("HEALTHY", text(_STATUS, "healthy", default="0")),
            ("TOKENS", text(_STATUS, "tokens")),
        ),
    ),
    "PlacementDecision": DECISION,
    "ResourceBinding": (
        (("SCHEDULED", scheduled), ("CLUSTERS", _clusters), ("LEAVING", _leaving)),
        (("REPLICAS", text("spec", "replicas")), ("SINCE", _since(_STATUS, "lastScheduledTime"))),
    ),
}


def own_columns(kind: Kind, *, wide: bool) -> tuple[Column, ...]:
    """The columns of one of Moorage's own kinds, after the name."""
    plain, more = _TABLES[kind.kind]
    return (*plain, *more) if wide else plain
