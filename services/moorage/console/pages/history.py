"""The history of the fleet: Events, evictions, changes of health, pauses, and states of zones, if they are kept."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from moorage.console.fleet_index import NOT_READY, UNKNOWN, TargetRow
from moorage.console.kinds import EVENT, EVICTION, TARGETS, ZONE
from moorage.console.pages import fleet, shared
from moorage.console.pages.incidents import incidents_of
from moorage.console.pages.pauses import PAUSE, scope_words
from moorage.console.rendering import address_of, object_url, target_url
from moorage.console.views import ConsolePage, Content, PageView
from moorage.decide.kubernetes.object_texts import Object
from moorage.decide.kubernetes.unstructured import at, name_of
from moorage_schemas.times import format_time
from moorage_schemas.zone import ZoneState

EVENTS: Final = "Events"
EVICTIONS: Final = "Evictions"
HEALTH: Final = "Health"
PAUSES: Final = "Pauses"
ZONES: Final = "Zones"
PARTS: Final = (EVENTS, EVICTIONS, HEALTH, PAUSES, ZONES)

MOST_EVENTS: Final = 5_000
"""The most Events that a page reads. More would delay other requests."""

_PORTION: Final = 500
"""Events that are read at a time. Then others get the processor."""


@dataclass(frozen=True, slots=True)
class HistoryRow:
    """Something that has happened."""

    time: str
    part: str
    """One of `PARTS`."""

    about: str
    address: str
    """The address of the object that it is about. Empty if it has no page."""

    what: str
    text: str
    is_warning: bool = False


async def history(view: PageView) -> Content:
    """`/console/history`: everything that has happened, the latest first."""
    await view.fleet.refresh()
    part, sought = view.query.get("part", ""), view.query.get("name", "").lower()
    rows: list[HistoryRow] = []
    denied: list[str] = []
    is_whole = True
    if part in {"", EVENTS}:
        events, is_whole = await _events(view)
        rows += (_of_event(view, one) for one in events or ())
        denied += ["events"] if events is None else []
    if part in {"", EVICTIONS}:
        evictions = await _evictions(view)
        rows += evictions or ()
        denied += ["evictions"] if evictions is None else []
    if part in {"", HEALTH}:
        zones, unseen = await fleet.visible_zones(view)
        rows += (_of_target(row) for zone in zones for row in zone.rows.values() if row.since)
        denied += unseen
    if part in {"", PAUSES} and not view.cluster:
        if await view.rights.may("list", PAUSE):
            rows += map(_of_pause, await view.reader.all(PAUSE))
        else:
            denied.append(view.kinds.named(PAUSE).plural)
    if part in {"", ZONES}:
        if await view.rights.may("list", ZONE):
            rows += (row for zone in await view.reader.all(ZONE) for row in _of_zone(zone))
        else:
            denied.append(view.kinds.named(ZONE).plural)
    found = [row for row in rows if sought in f"{row.about} {row.what} {row.text}".lower()]
    found.sort(key=lambda row: row.time, reverse=True)
    return Content(
        "history.html",
        {"rows": "history/rows.html"},
        {"rows": shared.paged(view, found), "parts_shown": PARTS, "denied": denied, "is_whole": is_whole},
        (EVENT, EVICTION, ZONE, *TARGETS, *(() if view.cluster else (PAUSE,))),
    )


async def _events(view: PageView) -> tuple[list[Object] | None, bool]:
    """Return the Events that the user may list, and whether these are all. None if the user may list none."""
    names = await shared.visible_names(view, EVENT)
    if names is None:
        return None, True
    namespaces = [""] if await view.rights.may("list", EVENT) else names.namespaces
    found: list[Object] = []
    for namespace in namespaces:
        path, rest = view.kinds.named(EVENT).path(namespace), ""
        while len(found) < MOST_EVENTS:
            query = {"limit": str(_PORTION), **({"continue": rest} if rest else {})}
            answer = await view.reader.api.read(path, query)
            found += answer["items"]
            await asyncio.sleep(0)
            if not (rest := str(at(answer, "metadata", "continue") or "")):
                break
    return found, len(found) < MOST_EVENTS


async def _evictions(view: PageView) -> list[HistoryRow] | None:
    """Return the evictions of the last day that the user may list: when they were requested, and when they ended."""
    ended, opened = await fleet.visible_ended(view), await fleet.visible_evictions(view)
    if ended is None and opened is None:
        return None
    rows = []
    for one in ended or ():
        name = one.object_id.name
        address = address_of("/console/evictions", state=one.state, name=name)
        rows.append(
            HistoryRow(one.ended, EVICTIONS, f"{one.object_id.namespace}/{_leaving(name)}", address, one.state, "")
        )
    for row in opened or ():
        about = f"{row.object_id.namespace}/{_leaving(row.object_id.name)}"
        address = address_of("/console/evictions", state=row.state, name=row.workload[2])
        rows.append(HistoryRow(row.requested or row.decided, EVICTIONS, about, address, row.state, row.why))
    return rows


def _leaving(name: str) -> str:
    """Return the name of an eviction in words: `web-0 from n1` for `web-0:node.n1:1`."""
    workload, _, target = name.rpartition(":")[0].rpartition(":")
    return f"{workload} from {target.partition('.')[2]}"


def _of_event(view: PageView, event: Object) -> HistoryRow:
    found = shared.event_row(event)
    kind, name = str(at(event, "involvedObject", "kind") or ""), str(at(event, "involvedObject", "name") or "")
    namespace = str(at(event, "involvedObject", "namespace") or "")
    about = f"{kind} {namespace}/{name}" if namespace else f"{kind} {name}"
    count = f", {found['count']} times" if found["count"] > 1 else ""
    return HistoryRow(
        time=found["time"],
        part=EVENTS,
        about=about,
        address=object_url(view.kinds.named(kind), namespace, name) if view.kinds.has(kind) else "",
        what=found["reason"] + count,
        text=found["message"],
        is_warning=found["type"] == "Warning",
    )


def _of_target(row: TargetRow) -> HistoryRow:
    is_bad = row.state in {NOT_READY, UNKNOWN}
    text = ", ".join((*row.taints, *(f"held {one}" for one in row.held)))
    return HistoryRow(
        row.since, HEALTH, f"{row.kind} {row.name}", target_url(row.kind, row.name), row.state, text, is_bad
    )


def _of_zone(zone: Object) -> Iterator[HistoryRow]:
    """Yield the states of a zone other than Normal, and the ends of its incidents."""
    for one in incidents_of(zone):
        for spell in one.spells:
            since = format_time(spell.since)
            yield HistoryRow(since, ZONES, f"Zone {one.name}", one.address, spell.state, spell.text, is_warning=True)
        if one.end is not None:
            yield HistoryRow(format_time(one.end), ZONES, f"Zone {one.name}", one.address, ZoneState.NORMAL.value, "")


def _of_pause(found: dict[str, Any]) -> HistoryRow:
    created = str(at(found, "metadata", "creationTimestamp") or "")
    reason = str(at(found, "spec", "reason") or "")
    return HistoryRow(created, PAUSES, name_of(found), "/console/pauses", f"Paused {scope_words(found)}", reason)


PAGES: Final = (ConsolePage("/console/history", history),)
