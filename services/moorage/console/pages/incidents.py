"""The page of an incident: from the time at which a zone leaves Normal until it is Normal again.

The states are in the record of the zone, as many as it keeps. Everything else is read from what is kept otherwise:
evictions for a day, Events for an hour, present taints and pauses, and the audit for 30 days.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from markupsafe import Markup

from moorage.console.audit_lines import AUDIT_EVENT, PATIENCE, AuditLine
from moorage.console.fleet_index import EvictionRow, TargetRow, eviction_row
from moorage.console.host import PageError
from moorage.console.kinds import EVENT, EVICTION, NODE, ZONE, ObjectName
from moorage.console.pages import fleet, shared
from moorage.console.pages.pauses import PAUSE, scope_words
from moorage.console.pictures.incident_timeline import TimelineBar, TimelineLane, TimelinePoint, incident_timeline
from moorage.console.rendering import address_of, object_url, target_url
from moorage.console.views import ConsolePage, Content, PageView
from moorage.decide.disruption.object_names import shown_zone, target_prefix, zone_of_object
from moorage.decide.kubernetes.object_texts import Object, last_seen, taint_text, zone_state
from moorage.decide.kubernetes.unstructured import at, name_of
from moorage_schemas.resources.names import DEFAULT_NAMESPACE
from moorage_schemas.times import format_time, parse_time
from moorage_schemas.zone import KEPT_TRANSITIONS, ZoneState

AROUND: Final = timedelta(minutes=5)
"""How long before and after an incident the timeline reaches: nodes fail before their zone does."""

MOST_READ: Final = 200
"""Nodes and evictions that have ended that are read for a page, of each."""

MOST_ACTS: Final = 500
"""Lines of the audit that are read for a page."""

_ROOT: Final = "/console/incidents"
_NORMAL: Final = ZoneState.NORMAL.value
_SUDDEN: Final = timedelta(seconds=1)
_READ_AT_ONCE: Final = 10
_REASONS: Final = {"NodeNotReady": "NotReady", "NodeReady": "Ready"}
_GUARDS: Final = frozenset(
    {PAUSE, "EvictionBudget", "PodDisruptionBudget", "MoorageConfiguration", "DedicatedNodes", "Pod"}
)
"""The kinds whose writes by people belong to an incident, besides those of the zone's nodes."""

LANES: Final = ("Zone", "Health", "Taints", "Evictions", "Pauses", "People")
_BARS: Final = {ZoneState.PARTIAL_DISRUPTION.value: "held", ZoneState.FULL_DISRUPTION.value: "bad"}


@dataclass(frozen=True, slots=True)
class ZoneSpell:
    """A time for which a zone was in one state other than Normal."""

    state: str
    since: datetime
    until: datetime | None
    """None while it lasts."""

    nodes: int
    not_ready: int

    @property
    def text(self) -> str:
        """The nodes that were not ready at its beginning."""
        return f"{self.not_ready} of {self.nodes} nodes not ready"


@dataclass(frozen=True, slots=True)
class Incident:
    """The states of a zone between two times at which it was Normal."""

    zone: str
    """The name of the zone's object."""

    spells: tuple[ZoneSpell, ...]
    """Its states, the first one first."""

    is_whole: bool
    """Whether its beginning is known. Otherwise it may have begun earlier."""

    @property
    def name(self) -> str:
        """The name of the zone."""
        return shown_zone(zone_of_object(self.zone))

    @property
    def begin(self) -> datetime:
        """When the zone left Normal."""
        return self.spells[0].since

    @property
    def end(self) -> datetime | None:
        """When the zone was Normal again. None while it is not."""
        return self.spells[-1].until

    @property
    def states(self) -> str:
        """Its states in their order."""
        return ", ".join(one.state for one in self.spells)

    @property
    def address(self) -> str:
        """The address of its page."""
        return address_of(f"{_ROOT}/{self.zone}", since=format_time(self.begin))


def incidents_of(zone: Object) -> list[Incident]:
    """Return the incidents of a zone that its record has, the latest first."""
    history = at(zone, "status", "history") or ()
    times = [parse_time(str(one["since"])) for one in history]
    found: list[Incident] = []
    spells: list[ZoneSpell] = []
    # A full record has lost what came before. So has one that begins with another state than Normal.
    is_whole = False
    for number, one in enumerate(history):
        if one.get("state") == _NORMAL:
            if spells:
                found.append(Incident(name_of(zone), tuple(spells), is_whole))
            spells, is_whole = [], True
            continue
        until = times[number + 1] if number + 1 < len(times) else None
        state = zone_state({"status": one})
        spells.append(ZoneSpell(state, times[number], until, int(one.get("nodes") or 0), int(one.get("notReady") or 0)))
    if spells:
        found.append(Incident(name_of(zone), tuple(spells), is_whole))
    return found[::-1]


@dataclass(frozen=True, slots=True)
class IncidentRow:
    """Something that happened in an incident."""

    time: datetime
    lane: str
    about: str
    what: str
    text: str = ""
    address: str = ""
    kind: str = "event"
    """The class of its point in the picture."""


@dataclass
class _Timeline:
    """The findings about an incident."""

    begin: datetime
    end: datetime
    rows: list[IncidentRow] = field(default_factory=list)
    pauses: list[TimelineBar] = field(default_factory=list)
    denied: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def has(self, when: datetime | None) -> bool:
        """Return whether a time is in it."""
        return when is not None and self.begin <= when <= self.end

    def add(self, row: IncidentRow) -> None:
        """Add what is in it."""
        if self.has(row.time):
            self.rows.append(row)


async def incident(view: PageView) -> Content:
    """`/console/incidents/{zone}`: one incident of a zone, the one that began at `since`, or the latest."""
    name = view.param("zone")
    await view.rights.check("get", ZONE, "", name)
    zone = await view.reader.get(ZONE, "", name)
    if zone is None:
        raise PageError(404, f'zones "{name}" not found')
    one = _chosen(incidents_of(zone), view.query.get("since", ""), name)
    await view.fleet.refresh()
    last = min(view.now, one.end + AROUND) if one.end is not None else view.now
    found = _Timeline(one.begin - AROUND, last)
    _add_states(found, one)
    nodes = await _nodes(view, found, one.name)
    await _add_health(view, found, nodes)
    evictions = await _evictions(view, found, nodes)
    await _add_taints(view, found, nodes, evictions)
    for eviction in evictions:
        _add_eviction(found, eviction)
    await _add_pauses(view, found)
    await _add_acts(view, found, one, nodes)
    found.rows.sort(key=lambda row: (row.time, LANES.index(row.lane)))
    return Content(
        "incidents/one.html",
        {"summary": "incidents/summary.html", "timeline": "incidents/timeline.html"},
        {
            "incident": one,
            "lasted": (one.end or view.now) - one.begin,
            "rows": shared.paged(view, found.rows),
            "picture": _picture(found, one, view.now),
            "denied": found.denied,
            "notes": found.notes,
            "kept": KEPT_TRANSITIONS,
        },
        (ZONE, NODE, EVICTION, EVENT, *(() if view.cluster else (PAUSE,))),
    )


def _chosen(incidents: Sequence[Incident], since: str, name: str) -> Incident:
    if not incidents:
        raise PageError(404, f'zones "{name}": no incident is kept')
    if not since:
        return incidents[0]
    found = next((one for one in incidents if format_time(one.begin) == since), None)
    if found is None:
        raise PageError(404, f"since: invalid value {since[:63]!r}: expected the time at which a kept incident began")
    return found


def _add_states(found: _Timeline, one: Incident) -> None:
    for spell in one.spells:
        found.add(
            IncidentRow(spell.since, "Zone", one.name, spell.state, spell.text, f"/console/zones/{one.zone}", "queued")
        )
    if one.end is not None:
        found.add(IncidentRow(one.end, "Zone", one.name, _NORMAL, "", f"/console/zones/{one.zone}", "done"))


async def _nodes(view: PageView, found: _Timeline, zone: str) -> dict[str, TargetRow]:
    """Return the present nodes of the zone, as far as the user may list them."""
    if not await view.rights.may("list", NODE):
        found.denied.append(view.kinds.named(NODE).plural)
        return {}
    rows = view.fleet.zones.get((NODE, zone))
    return dict(rows.rows) if rows is not None else {}


async def _add_health(view: PageView, found: _Timeline, nodes: Mapping[str, TargetRow]) -> None:
    """Add the last change of each node's health, and earlier ones of which there are Events."""
    seen = set()
    for row in nodes.values():
        if row.since:
            seen.add((row.name, row.since[:19]))
            found.add(_health(row.name, parse_time(row.since), row.state))
    if not await view.rights.may("list", EVENT, DEFAULT_NAMESPACE):
        found.denied.append(view.kinds.named(EVENT).plural)
        return
    for reason, state in _REASONS.items():
        for event in await view.reader.all(EVENT, DEFAULT_NAMESPACE, fieldSelector=f"reason={reason}"):
            name = str(at(event, "involvedObject", "name") or "")
            times = {last_seen(event), str(event.get("firstTimestamp") or "")} - {""}
            for when in times if name in nodes else ():
                if (name, when[:19]) not in seen:
                    seen.add((name, when[:19]))
                    found.add(_health(name, parse_time(when), state))


def _health(name: str, when: datetime, state: str) -> IncidentRow:
    kind = "done" if state == "Ready" else "leaves"
    return IncidentRow(when, "Health", f"Node {name}", state, "", target_url(NODE, name), kind)


async def _evictions(view: PageView, found: _Timeline, nodes: Mapping[str, TargetRow]) -> list[EvictionRow]:
    """Return the evictions from the nodes of the zone in that time, as far as the user may list them."""
    opened, ended = await fleet.visible_evictions(view), await fleet.visible_ended(view)
    if opened is None and ended is None:
        found.denied.append(view.kinds.named(EVICTION).plural)
        return []
    prefixes = {target_prefix(f"{NODE}/{name}") for name in nodes}
    begin = format_time(found.begin)
    past = [row for row in ended or () if row.ended >= begin and _target_of(row.object_id) in prefixes]
    past.sort(key=lambda row: row.ended, reverse=True)
    if len(past) > MOST_READ:
        found.notes.append(f"{len(past) - MOST_READ} evictions that ended earlier are left out.")
    documents = await shared.documents(view, (row.object_id for row in past[:MOST_READ]))
    rows = [row for row in opened or () if row.target[0] == NODE and row.target[1] in nodes]
    for document in documents:
        metadata = document["metadata"]
        object_id = ObjectName(EVICTION, str(metadata.get("namespace") or ""), str(metadata["name"]))
        rows.append(eviction_row(object_id, at(document, "status") or {}))
    return rows


def _target_of(eviction: ObjectName) -> str:
    """Return the target in the name of an eviction: `node.n1` of `web-0:node.n1:1`."""
    return eviction.name.rpartition(":")[0].rpartition(":")[2]


async def _add_taints(
    view: PageView, found: _Timeline, nodes: Mapping[str, TargetRow], evictions: Iterable[EvictionRow]
) -> None:
    """Add the taints that nodes have, and those for which workloads have left. Other removed taints are not kept."""
    seen: set[tuple[str, datetime]] = set()
    tainted = [row.name for row in nodes.values() if row.taints]
    if len(tainted) > MOST_READ:
        found.notes.append(f"The taints of {len(tainted) - MOST_READ} nodes are left out.")
    for number, name in enumerate(tainted[:MOST_READ], 1):
        document = await view.reader.get(NODE, "", name)
        for taint in at(document, "spec", "taints") or ():
            if taint.get("timeAdded"):
                when = parse_time(str(taint["timeAdded"]))
                seen.add((name, when))
                found.add(_taint(name, when, taint_text(taint)))
        if number % _READ_AT_ONCE == 0:
            await asyncio.sleep(0)
    for row in evictions:
        name, when = row.target[1], parse_time(row.since) if row.since else found.begin - AROUND
        if (name, when) not in seen:
            seen.add((name, when))
            found.add(_taint(name, when, f"{row.workload[1]}/{row.workload[2]} leaves"))


def _taint(name: str, when: datetime, text: str) -> IncidentRow:
    return IncidentRow(when, "Taints", f"Node {name}", "Tainted", text, target_url(NODE, name), "queued")


def _add_eviction(found: _Timeline, row: EvictionRow) -> None:
    """Add what is known of an eviction: when its taint was set, its deadline, its request and its end."""
    about = f"{row.workload[1]}/{row.workload[2]} from {row.target[1]}"
    address = address_of("/console/evictions", state=row.state, name=row.workload[2])

    def add(when: str, what: str, text: str = "", kind: str = "event") -> None:
        if when:
            found.add(IncidentRow(parse_time(when), "Evictions", about, what, text, address, kind))

    add(row.since, "Scheduled", f"deadline {row.deadline[11:19]}" if row.deadline else "", "wait")
    due = parse_time(row.deadline) if row.deadline else None
    if row.state == "Held":
        add(row.decided, "Held", ", ".join(row.held_by), "queued")
    elif row.requested and due is not None and parse_time(row.requested) - due > _SUDDEN:
        add(row.deadline, "Held", f"until {row.requested[11:19]}", "queued")
    add(row.requested, "Requested", row.why, "leaves")
    if row.ended:
        add(row.ended, row.state, "", "done" if row.state == "Completed" else "gone")


async def _add_pauses(view: PageView, found: _Timeline) -> None:
    if view.cluster:
        return
    if not await view.rights.may("list", PAUSE):
        found.denied.append(view.kinds.named(PAUSE).plural)
        return
    for one in await view.reader.all(PAUSE):
        created = at(one, "metadata", "creationTimestamp")
        if created and (begin := parse_time(str(created))) <= found.end:
            text = f"{name_of(one)}: {scope_words(one)}"
            found.pauses.append(TimelineBar("wait", max(begin, found.begin), found.end, text))
            reason = str(at(one, "spec", "reason") or "")
            found.add(IncidentRow(begin, "Pauses", text, "Paused", reason, "/console/pauses", "wait"))


async def _add_acts(view: PageView, found: _Timeline, one: Incident, nodes: Mapping[str, TargetRow]) -> None:
    """Add what people have written meanwhile, from the audit, and the pauses that they have ended."""
    if not await view.rights.may("list", AUDIT_EVENT):
        found.denied.append(view.kinds.named(AUDIT_EVENT).plural)
        return
    query = {
        "limit": str(MOST_ACTS),
        "fieldSelector": "responseStatus.status=Success,user.username!=",
        "sinceTime": format_time(found.begin),
        # Without an end while it lasts, so that the part that is kept can be used again.
        **({"untilTime": format_time(found.end)} if one.end is not None else {}),
    }
    part = await view.audit.read(view.api, view.kinds, query, patience=PATIENCE)
    if part.missing:
        found.notes.append(f"Acts of people are missing: {part.missing}.")
    if part.more:
        found.notes.append(f"Only the latest {MOST_ACTS} writes are searched for acts of people.")
    begun: dict[str, datetime] = {}
    for line in reversed(part.lines):
        if line.kind not in _GUARDS and not (line.kind == NODE and line.name in nodes):
            continue
        when = parse_time(line.time)
        found.add(_act(view, line, when))
        if line.kind == PAUSE and line.verb == "create":
            begun[line.name] = when
        elif line.kind == PAUSE and line.verb == "delete":
            found.pauses.append(TimelineBar("wait", begun.get(line.name, found.begin), when, line.name))


def _act(view: PageView, line: AuditLine, when: datetime) -> IncidentRow:
    address = object_url(view.kinds.named(line.kind), line.namespace, line.name) if line.name else ""
    return IncidentRow(when, "People", line.about, line.verb, f"by {line.user}", address)


def _picture(found: _Timeline, one: Incident, now: datetime) -> Markup:
    points: dict[str, list[TimelinePoint]] = {lane: [] for lane in LANES}
    for row in found.rows:
        points[row.lane].append(TimelinePoint(row.kind, row.time, f"{row.about} {row.what}"))
    states = [
        TimelineBar(_bar(spell), spell.since, spell.until or now, f"{spell.state}: {spell.text}")
        for spell in one.spells
    ]
    bars: dict[str, Sequence[TimelineBar]] = {"Zone": states, "Pauses": found.pauses}
    # The states and the pauses are bars, and need no points.
    lanes = [TimelineLane(lane, bars.get(lane, ()), () if lane in bars else points[lane]) for lane in LANES]
    return incident_timeline(one.name, lanes, found.begin, found.end)


def _bar(spell: ZoneSpell) -> str:
    return next((kind for state, kind in _BARS.items() if spell.state.startswith(state)), "bad")


PAGES: Final = (ConsolePage(f"{_ROOT}/{{zone}}", incident),)
