"""The fleet at a glance: targets by zone and state, taints, evictions, and unscheduled workloads with reasons."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from moorage.console import api
from moorage.console.fleet_index import (
    IMPACTS,
    MARKS,
    OPEN_STATES,
    STATES,
    EndedRow,
    EvictionRow,
    TargetRow,
    WaitingRow,
    ZoneRows,
    counts,
)
from moorage.console.host import path_of
from moorage.console.kinds import EVICTION, MANAGED_CLUSTER, NODE, PLACED, TARGETS, ZONE
from moorage.console.pages.trends import trends
from moorage.console.views import ConsolePage, Content, PageView
from moorage.decide.disruption.object_names import shown_zone
from moorage.decide.kubernetes.object_texts import zone_state
from moorage.decide.kubernetes.unstructured import at
from moorage_schemas.refs import HOME

SHOWN: Final = 12
"""Rows of each list on this page. The lists' own pages have the others."""

CELLS: Final = 400
"""The most squares of a zone. Each stands for several targets in a zone that has more."""

_SEVERITY: Final = {state: number for number, state in enumerate(STATES)}


@dataclass(frozen=True, slots=True)
class Cell:
    """A square of a zone: one target, or several that are next to each other by name."""

    state: str
    """The worst one among them."""

    marks: tuple[str, ...]
    """The marks beside the state: the impact of taints, `held`, and `cordoned`."""

    title: str
    kind: str
    name: str
    """Of the target. Empty for several."""

    @property
    def looks(self) -> str:
        """The classes of its marks."""
        return "".join(f" t-{mark}" for mark in self.marks)


@dataclass(frozen=True, slots=True)
class ZoneSummary:
    """A zone as this page shows it."""

    kind: str
    zone: str
    state: str
    """The state of the zone of nodes. Empty if it is not known, or may not be seen."""

    counts: dict[str, int]
    total: int
    each: int
    """The number of targets that a square stands for."""

    cells: tuple[Cell, ...]


async def overview(view: PageView) -> Content:
    """`/`: the whole fleet."""
    await view.fleet.refresh()
    zones, denied = await visible_zones(view)
    states = await _zone_states(view)
    return Content(
        "fleet.html",
        {
            "totals": "fleet/totals.html",
            "trends": "fleet/trends.html",
            "zones": "fleet/zones.html",
            "taints": "fleet/taints.html",
            "evicting": "fleet/evicting.html",
            "waiting": "fleet/waiting.html",
        },
        {
            "zones": [summary(zone, states) for zone in zones],
            "totals": totals(zones),
            "trends": await trends(view, zones) if zones else [],
            "taints": taints(zones),
            "denied": denied,
            "evicting": await evicting(view),
            "waiting": await waiting(view),
            "shown": SHOWN,
            "states": STATES,
            "marks": MARKS,
        },
        (*TARGETS, EVICTION, PLACED, ZONE),
    )


async def visible_zones(view: PageView) -> tuple[list[ZoneRows], list[str]]:
    """Return the zones of the targets that the user may list, and the plurals of the kinds that they may not."""
    found, denied = [], []
    for kind in TARGETS:
        zones = [zone for key, zone in sorted(view.fleet.zones.items()) if key[0] == kind]
        if await view.rights.may("list", kind):
            found += zones
            continue
        seen = [await _seen(view, zone) for zone in zones] if kind == MANAGED_CLUSTER else []
        found += [zone for zone in seen if zone.rows]
        if not any(zone.rows for zone in seen) and (kind == NODE or zones):
            denied.append(view.kinds.named(kind).plural)
    return found, denied


async def _seen(view: PageView, zone: ZoneRows) -> ZoneRows:
    """Return the managed clusters of a set that the user may get."""
    rows = {name: row for name, row in list(zone.rows.items()) if await view.rights.sees_managed(row.metadata)}
    return ZoneRows(zone.kind, zone.zone, rows, zone.revision)


def summary(zone: ZoneRows, states: Mapping[str, str]) -> ZoneSummary:
    """Return a zone as this page shows it."""
    rows = [zone.rows[name] for name in sorted(zone.rows)]
    each = -(-len(rows) // CELLS)
    cells = tuple(_cell(rows[first : first + each]) for first in range(0, len(rows), each or 1))
    state = states.get(zone.zone, "") if zone.kind == NODE else ""
    return ZoneSummary(zone.kind, zone.zone, state, counts(rows), len(rows), each, cells)


def _cell(rows: list[TargetRow]) -> Cell:
    worst = min(rows, key=lambda row: _SEVERITY[row.state])
    impacts = {row.impact for row in rows}
    marks = [*(impact for impact in IMPACTS if impact in impacts)][:1]
    marks += [word for word, has in (("held", _any_held(rows)), ("cordoned", _any_cordoned(rows))) if has]
    if len(rows) == 1:
        words = ", ".join((worst.state, *worst.taints, *(f"held {text}" for text in worst.held), *_cordon(worst)))
        return Cell(worst.state, tuple(marks), f"{worst.name}: {words}", worst.kind, worst.name)
    found = counts(rows)
    words = ", ".join(f"{found[word]} {MARKS.get(word, word)}" for word in (*STATES, *MARKS) if found[word])
    return Cell(worst.state, tuple(marks), f"{rows[0].name} to {rows[-1].name}: {words}", worst.kind, "")


def _any_held(rows: Iterable[TargetRow]) -> bool:
    return any(row.held for row in rows)


def _any_cordoned(rows: Iterable[TargetRow]) -> bool:
    return any(row.is_cordoned for row in rows)


def _cordon(row: TargetRow) -> tuple[str, ...]:
    return ("cordoned",) if row.is_cordoned else ()


async def _zone_states(view: PageView) -> dict[str, str]:
    """Return the states of the zones of nodes that the user may list."""
    if not await view.rights.may("list", ZONE):
        return {}
    return {shown_zone(str(at(one, "status", "zone"))): zone_state(one) for one in await view.reader.all(ZONE)}


def totals(zones: Iterable[ZoneRows]) -> dict[str, dict[str, int]]:
    """Return the number of targets of each kind, how many are in each state, and how many have each mark."""
    found: dict[str, Counter[str]] = {}
    for zone in zones:
        found.setdefault(zone.kind, Counter()).update(counts(zone.rows.values()))
    return {
        kind: {
            "Total": sum(every[state] for state in STATES),
            **{word: every[word] for word in (*reversed(STATES), *MARKS)},
        }
        for kind, every in found.items()
    }


def taints(zones: Iterable[ZoneRows]) -> list[tuple[str, int, int]]:
    """Return each taint with the number of targets that have it, and on which it is held, the most first."""
    there, held = Counter[str](), Counter[str]()
    for zone in zones:
        for row in zone.rows.values():
            there.update(row.taints)
            held.update(text.partition(": ")[0] for text in row.held)
    every = sorted(there.keys() | held.keys(), key=lambda taint: (-there[taint] - held[taint], taint))
    return [(taint, there[taint], held[taint]) for taint in every]


async def evicting(view: PageView) -> dict[str, Any]:
    """Return the open evictions that the user may see: how many are in each state, and those that come first."""
    rows = await visible_evictions(view)
    if rows is None:
        return {"denied": True}
    states = Counter(row.state for row in rows)
    first = heapq.nsmallest(SHOWN, rows, key=urgency)
    return {"denied": False, "counts": dict(sorted(states.items())), "rows": first, "total": len(rows)}


async def waiting(view: PageView) -> dict[str, Any]:
    """Return the unscheduled workloads that the user may see: their number by reason, and the longest waits."""
    rows = await visible_waiting(view)
    if rows is None:
        return {"denied": True}
    reasons = Counter(row.reason or "no reason" for row in rows)
    first = heapq.nsmallest(SHOWN, rows, key=lambda row: (row.since, row.object_id))
    return {"denied": False, "counts": dict(reasons.most_common()), "rows": first, "total": len(rows)}


async def visible_evictions(view: PageView) -> list[EvictionRow] | None:
    """Return the open evictions that the user may list. None if that is none anywhere."""
    return await _visible(view, EVICTION, view.fleet.evictions.values())


async def visible_ended(view: PageView) -> list[EndedRow] | None:
    """Return the evictions of the last day that have ended and that the user may list. None if that is none."""
    return await _visible(view, EVICTION, view.fleet.past.values())


async def visible_waiting(view: PageView) -> list[WaitingRow] | None:
    """Return the workloads that wait and that the user may list. None if that is none anywhere."""
    return await _visible(view, PLACED, view.fleet.waiting.values())


async def _visible(view: PageView, kind: str, rows: Iterable[Any]) -> list[Any] | None:
    if await view.rights.may("list", kind):
        return list(rows)
    found = [row for row in list(rows) if await view.rights.may("list", kind, row.object_id.namespace)]
    return found or None


def urgency(row: EvictionRow) -> tuple[int, str, tuple[str, str, str]]:
    """Return the sort key of an eviction: leaving now first, then held, then by deadline."""
    return OPEN_STATES.index(row.state), row.deadline, row.workload


_FORBIDDEN: Final = 403


async def clusters(view: PageView) -> Content:
    """`/console/clusters`: what `moorage bridge list` shows, with the pages of each cluster.

    Raises:
        PageError: no gateway leads.
    """
    answer = await view.api.call("GET", api.CLUSTERS)
    is_denied = answer.code == _FORBIDDEN
    if not is_denied:
        answer.check()
    rows = [await _cluster_row(view, one) for one in answer.document.get("items") or ()] if not is_denied else []
    return Content("clusters.html", context={"rows": rows, "is_denied": is_denied})


async def _cluster_row(view: PageView, found: dict[str, Any]) -> dict[str, Any]:
    name = str(found["name"])
    may_see = name == HOME or await view.rights.may_see_cluster(name)
    address = "" if not may_see else "/" if name == HOME else f"{path_of(name)}/console"
    return {
        "name": name,
        "address": address,
        "source": str(found["source"]),
        "targets": found["targets"],
        "workloads": found["workloads"],
        "heard": str(found.get("lastHeardTime") or ""),
    }


PAGES: Final = (
    ConsolePage("/", overview),
    ConsolePage("/console", overview),
    ConsolePage("/console/clusters", clusters, in_clusters=False),
)
