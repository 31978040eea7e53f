"""Tables of what the services have decided: placements, bindings, evictions, conditions, taints, timers."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from moorage.cli.durations import age, human
from moorage.cli.kinds import Kind
from moorage.cli.tables import Cell, Column, at, taint_text, text
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
    waits = at(found, "status", "state") in {None, "Scheduled"}
    return until(at(found, "status", "deadline")) if waits else _NONE


def _origins(found: Mapping[str, Any]) -> str:
    return ",".join(at(found, "status", "origins") or []) or _NONE


_STATUS = "status"
_TABLES: dict[str, tuple[tuple[Column, ...], tuple[Column, ...]]] = {
    "Placement": (
        (
            ("STATE", text(_STATUS, "state")),
            ("TARGET", _target(_STATUS, "target")),
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
            ("AGE", _since(_STATUS, "timeAdded")),
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
}


def own_columns(kind: Kind, *, wide: bool) -> tuple[Column, ...]:
    """The columns of one of Moorage's own kinds, after the name."""
    plain, more = _TABLES[kind.kind]
    return (*plain, *more) if wide else plain
