"""The last hour of the fleet, computed from objects that are kept: it survives a restart of the gateway."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import accumulate
from typing import Any, Final

from moorage.console.fleet_index import NOT_READY, READY, UNKNOWN, TargetRow, ZoneRows
from moorage.console.kinds import EVENT, EVICTION
from moorage.console.pictures.sparkline import Series, sparkline
from moorage.console.views import PageView
from moorage.decide.kubernetes.object_texts import last_seen
from moorage.decide.kubernetes.unstructured import at
from moorage_schemas.resources.names import DEFAULT_NAMESPACE
from moorage_schemas.times import format_time, parse_time

SPAN: Final = 60
"""Minutes that are shown. Events, from which past failures follow, are kept for an hour."""

_MINUTE: Final = timedelta(minutes=1)
_FAILED: Final = ("NodeNotReady", "ClusterNotReady", "Unavailable", "AvailableUnknown")
"""The reasons of Events that a target is no longer ready."""


async def trends(view: PageView, zones: Iterable[ZoneRows]) -> list[dict[str, Any]]:
    """Return the series of the last hour that the user may see, each with its picture."""
    rows = [row for zone in zones for row in zone.rows.values()]
    until = view.now
    failures = await _failures(view, rows)
    found = [("notready", Series("Not ready", not_ready(rows, failures, until), until, _MINUTE))]
    requested = await _requested(view)
    if requested is not None:
        found.append(("evictions", Series("Evictions a minute", a_minute(requested, until), until, _MINUTE)))
    return [{"series": series, "kind": kind, "picture": sparkline(series, kind)} for kind, series in found]


def not_ready(rows: Iterable[TargetRow], failures: Mapping[tuple[str, str], str], until: datetime) -> list[int]:
    """Return how many targets were NotReady or Unknown at the end of each of the last minutes.

    A target that is ready again counts from its last failure, as far as `failures` has it, by kind and name.
    """
    changes = Counter[int]()
    for row in rows:
        if row.state in {NOT_READY, UNKNOWN}:
            changes[_number(row.since, until)] += 1
        elif row.state == READY and (failed := failures.get((row.kind, row.name))) and failed < row.since:
            changes[_number(failed, until)] += 1
            changes[_number(row.since, until)] -= 1
    return list(accumulate(changes[number] for number in range(SPAN)))


def a_minute(requested: Iterable[Mapping[int, int]], until: datetime) -> list[int]:
    """Return how many evictions were requested in each of the last minutes, the present one included."""
    last = int(until.timestamp() // 60)
    counts = Counter[int]()
    for one in requested:
        for minute in range(last - SPAN + 1, last + 1):
            counts[minute] += one.get(minute, 0)
    return [counts[minute] for minute in range(last - SPAN + 1, last + 1)]


def _number(when: str, until: datetime) -> int:
    """Return the first of the minutes at whose end a change counts. Those before the span count from its beginning."""
    if not when:
        return 0
    back = int((until - parse_time(when)) / _MINUTE)
    return min(SPAN - 1, max(0, SPAN - 1 - back))


async def _failures(view: PageView, rows: Sequence[TargetRow]) -> dict[tuple[str, str], str]:
    """Return when targets that are ready again failed last, by kind and name, from the Events of the last hour."""
    begin = format_time(view.now - _MINUTE * SPAN)
    recovered = any(row.state == READY and row.since > begin for row in rows)
    if not recovered or not await view.rights.may("list", EVENT, DEFAULT_NAMESPACE):
        return {}
    found: dict[tuple[str, str], str] = {}
    for reason in _FAILED:
        for event in await view.reader.all(EVENT, DEFAULT_NAMESPACE, fieldSelector=f"reason={reason}"):
            about = str(at(event, "involvedObject", "kind")), str(at(event, "involvedObject", "name"))
            found[about] = max(found.get(about, ""), last_seen(event))
    return found


async def _requested(view: PageView) -> Sequence[Mapping[int, int]] | None:
    """Return the counts of requested evictions of the namespaces that the user may see. None if that is none."""
    every = view.fleet.requested
    if await view.rights.may("list", EVICTION):
        return list(every.values())
    seen = [counts for place, counts in list(every.items()) if await view.rights.may("list", EVICTION, place)]
    return seen or None
