"""The targets with other or held taints because of a change, and the zones in another state."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from moorage.decide.taints.eviction_verdict import taint_text
from moorage.insight.copy.run import Course, Simulated
from moorage_schemas.taint import HeldTaint, Taint, TaintRecord, TargetTainted
from moorage_schemas.times import format_time
from moorage_schemas.topics import TAINTS, ZONES
from moorage_schemas.zone import ZoneChanged

Document = dict[str, Any]
Identity = tuple[str, str]


def tainted(simulated: Simulated) -> list[Document]:
    """Return the targets that have other taints at the end than without the change, or had a taint held."""
    before: Mapping[str, TargetTainted] = simulated.snapshot.table(TAINTS)
    changed, without = _last(simulated.changed), _last(simulated.without)
    waits = _waits(simulated)
    rows = []
    for key in sorted({*changed, *without}):
        if key in changed and changed[key] is None:
            continue  # the target was deleted, which is not a change of its taints
        mine = _by_identity(changed.get(key, before.get(key)))
        other = _by_identity(without.get(key, before.get(key)))
        added = [one for identity, one in mine.items() if not _same(one, other.get(identity))]
        removed = [one for identity, one in other.items() if identity not in mine or mine[identity].value != one.value]
        waiting = waits.get(key, [])
        if added or removed or waiting:
            rows.append(
                {
                    "target": key,
                    "added": [
                        {"taint": taint_text(one.as_taint()), "at": format_time(one.time_added)} for one in added
                    ],
                    "removed": [{"taint": taint_text(one.as_taint())} for one in removed],
                    "waited": waiting,
                }
            )
    return rows


def zone_waits(simulated: Simulated) -> Callable[[str, Taint], list[Document]]:
    """Return a function that returns what held a taint of a target: its zone's rate, or a hold of its condition."""
    waits = _waits(simulated)
    zone = {record.name: record.event.zone for record in simulated.changed.written(TAINTS) if record.event is not None}

    def of(target: str, taint: Taint) -> list[Document]:
        wanted = f"{taint.key}:{taint.effect}"
        return [
            {
                "by": [f"zone {zone[target]}" if "zone" in one["reason"] else "taint-add-hold"],
                "from": one["since"],
                "until": one["until"],
            }
            for one in waits.get(target, ())
            if one["taint"] == wanted
        ]

    return of


def zones(simulated: Simulated) -> list[Document]:
    """Return the zones that are at some time in another state than without the change."""
    before: Mapping[str, ZoneChanged] = simulated.snapshot.table(ZONES)
    changed, without = _states(simulated.changed), _states(simulated.without)
    rows = []
    for key in sorted({*changed, *without}):
        known = before.get(key)
        was = known.state.value if known is not None else None
        mine, other = changed.get(key, []), without.get(key, [])
        names = [state for _, state, _, _ in mine]
        if names != [state for _, state, _, _ in other] and any(name != was for name in names):
            rows.append(
                {
                    "zone": key,
                    "before": was,
                    "states": [
                        {
                            "at": format_time(at),
                            "state": state,
                            "stopped": stopped,
                            "rate": rate if math.isfinite(rate) else "Infinity",
                        }
                        for at, state, stopped, rate in mine
                    ],
                }
            )
    return rows


def _last(course: Course) -> dict[str, TargetTainted | None]:
    return {record.name: record.event for record in course.written(TAINTS)}


def _by_identity(event: TargetTainted | None) -> dict[Identity, TaintRecord]:
    return {} if event is None else {one.identity: one for one in event.taints}


def _same(one: TaintRecord, other: TaintRecord | None) -> bool:
    return other is not None and (one.value, one.time_added) == (other.value, other.time_added)


def _waits(simulated: Simulated) -> dict[str, list[Document]]:
    """Return the taints that were held only in the run with the change, with the times."""
    otherwise = {
        (record.name, held.key, held.effect)
        for record in simulated.without.written(TAINTS)
        if record.event is not None
        for held in record.event.held
    }
    found: dict[str, dict[Identity, tuple[HeldTaint, datetime | None]]] = {}
    for record in simulated.changed.written(TAINTS):
        event: TargetTainted | None = record.event
        mine = found.setdefault(record.name, {})
        held = {(one.key, one.effect): one for one in (event.held if event is not None else ())}
        for identity, (one, until) in list(mine.items()):
            if until is None and identity not in held:
                mine[identity] = (one, record.time)
        for identity, one in held.items():
            if (record.name, *identity) not in otherwise:
                mine[identity] = (one, None)
    return {
        name: [
            {
                "taint": f"{one.key}:{one.effect}",
                "since": format_time(one.since),
                "until": None if until is None else format_time(until),
                "reason": one.reason,
            }
            for one, until in some.values()
        ]
        for name, some in found.items()
        if some
    }


def _states(course: Course) -> dict[str, list[tuple[datetime, str, bool, float]]]:
    found: dict[str, list[tuple[datetime, str, bool, float]]] = {}
    for record in course.written(ZONES):
        event: ZoneChanged | None = record.event
        if event is None:
            continue
        mine = found.setdefault(record.name, [])
        entry = (record.time, event.state.value, event.stopped, event.rate)
        if not mine or mine[-1][1:3] != entry[1:3]:
            mine.append(entry)
    return found
