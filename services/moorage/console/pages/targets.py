"""Targets: a list of them, the page of one with its conditions, taints, workloads and evictions, and their causes."""

from __future__ import annotations

from typing import Any, Final

from moorage.console import api
from moorage.console.changes import target_of
from moorage.console.errors import PageError
from moorage.console.fleet_index import STATES, TargetRow, readiness, zone_of
from moorage.console.names import (
    BINDING,
    EVENT,
    EVICTION,
    NODE,
    TAINT,
    TARGETS,
    about_target,
    local_names,
    target_prefix,
)
from moorage.console.pages import fleet, shared, target_actions
from moorage.console.texts import node_status, taint_text, unreported
from moorage.console.views import ConsolePage, Content, PageView
from moorage.decide.kubernetes.unstructured import at
from moorage_schemas.taint import TaintOrigin

NO_ZONE: Final = "-"
"""What a parameter says for the targets that are in no zone."""

_ORDER: Final = {state: number for number, state in enumerate(STATES)}


async def listed(view: PageView) -> Content:
    """`/console/targets`: targets by kind, zone, state, taint and name, those to look at first."""
    await view.fleet.refresh()
    query = view.query
    zones, denied = await fleet.visible_zones(view)
    rows = [row for zone in zones for row in zone.rows.values() if _selected(row, query)]
    rows.sort(key=lambda row: (_ORDER[row.state], row.kind, row.zone, row.name))
    kinds = sorted({zone.kind for zone in zones}) or [NODE]
    return Content(
        "targets/list.html",
        {"rows": "targets/rows.html"},
        {
            "targets": shared.paged(view, rows),
            "denied": denied,
            "kinds": kinds,
            "states": STATES,
            "zones": sorted({zone.zone for zone in zones}),
        },
        TARGETS,
    )


def _selected(row: TargetRow, query: Any) -> bool:
    zone = query.get("zone", "")
    return (
        query.get("kind", "") in {"", row.kind}
        and (not zone or row.zone == ("" if zone == NO_ZONE else zone))
        and query.get("state", "") in {"", row.state, row.readiness}
        and (not query.get("taint") or query["taint"] in row.taints or _is_held(row, query["taint"]))
        and query.get("name", "").lower() in row.name.lower()
    )


def _is_held(row: TargetRow, taint: str) -> bool:
    return any(text.startswith(f"{taint}: ") for text in row.held)


async def _named(view: PageView) -> tuple[str, str, dict[str, Any]]:
    """Kind, name and document of the target that the address names, if the user may get it.

    Raises:
        PageError: 404 if there is no such target, 403 if the user may not get it.
    """
    kind, name = view.param("kind"), view.param("name")
    if kind not in TARGETS:
        raise PageError(404, f"kind: invalid value {kind[:63]!r}: must be one of {', '.join(TARGETS)}")
    return kind, name, await target_of(view, kind, name)


async def one(view: PageView) -> Content:
    """`/console/targets/{kind}/{name}`: everything about one target."""
    kind, name, found = await _named(view)
    await view.fleet.refresh()
    return Content(
        "targets/one.html",
        {
            "summary": "targets/summary.html",
            "taints": "targets/taints.html",
            "cordon": "targets/cordon.html",
            "conditions": "targets/conditions.html",
            "evictions": "targets/evictions.html",
            "workloads": "targets/workloads.html",
            "events": "events.html",
        },
        {
            "kind": kind,
            "name": name,
            "found": found,
            "status": node_status(found) if kind == NODE else readiness(kind, found),
            "note": unreported(found),
            "zone": zone_of(kind, found),
            "labels": sorted((at(found, "metadata", "labels") or {}).items()),
            "taints": await _taints(view, kind, name, found),
            "held": [
                {"taint": taint_text(held), "since": held.get("since") or "", "why": held.get("reason") or ""}
                for held in at(found, "status", "heldTaints") or ()
            ],
            "conditions": at(found, "status", "conditions") or [],
            "bound": await _bound(view, kind, name),
            "evictions": await _evictions(view, kind, name),
            "events": await shared.events_about(view, kind, "", name, str(at(found, "metadata", "uid") or "")),
            **await target_actions.offered(view, kind, name, found),
        },
        (kind, BINDING, EVICTION, TAINT, EVENT),
    )


async def why(view: PageView) -> Content:
    """`/console/targets/{kind}/{name}/why`: the query worker's explanation: where its state comes from, and its causes.

    Raises:
        PageError: 404 if there is no such target, 403 if the user may not get it or have it explained.
    """
    kind, name, _ = await _named(view)
    query = {"kind": kind, "name": name, **({"all": "true"} if view.query.get("all") else {})}
    answer = await view.api.call("GET", api.EXPLAIN, query=query)
    if answer.code in {403, 404}:
        answer.check()
    told = local_names(answer.document.get("explanation"), view.cluster) if not answer.failed else None
    missing = answer.message if answer.failed else ""
    if told is not None and "target" not in told:
        told, missing = None, "the query worker is of an earlier version, which explains no targets"
    return Content(
        "targets/why.html",
        context={"kind": kind, "name": name, "told": told, "missing": missing, "causes_of": _causes(told)},
    )


def _causes(told: dict[str, Any] | None) -> dict[str, int]:
    """The number of the chain that shows how an event came about, by the event's id.

    The best chain is the one that ends with the event. In others it is in the middle.
    """
    chains = list(enumerate((told or {}).get("chains") or (), 1))
    ends = {chain["steps"][-1].get("id", ""): number for number, chain in reversed(chains)}
    inside = {step.get("id", ""): number for number, chain in reversed(chains) for step in chain["steps"]}
    return {**inside, **ends}


async def _taints(view: PageView, kind: str, name: str, found: dict[str, Any]) -> list[dict[str, Any]]:
    """The taints of a target, each with where it comes from."""
    rows = []
    for taint in at(found, "spec", "taints") or ():
        part = about_target(kind, name, str(taint.get("effect", "")), str(taint.get("key", "")))
        known = at(await shared.document_of(view, TAINT, "", part), "status") or {}
        rows.append(
            {
                "taint": taint_text(taint),
                "key": str(taint.get("key") or ""),
                "effect": str(taint.get("effect") or ""),
                # What a state or a policy demands comes back at once.
                "can_be_removed": not known.get("origins") or TaintOrigin.EXPLICIT in known["origins"],
                "added": taint.get("timeAdded") or known.get("timeAdded") or "",
                "origins": list(known.get("origins") or ()),
                "why": known.get("reason") or "",
            }
        )
    return rows


async def _bound(view: PageView, kind: str, name: str) -> shared.Paged | None:
    """Namespace and name of what is bound to a target, a page of it. None if the user may list no bindings.

    The names of bindings say so, which is much faster to read than the bindings.
    """
    ending = f":{target_prefix(kind, name)}"
    names = await shared.visible_names(view, BINDING)
    if names is None:
        return None
    page = (await names.which(lambda _, binding: binding.endswith(ending))).page(view)
    rows = [(one.namespace, one.name.removesuffix(ending)) for one in page.rows]
    return shared.Paged(rows, page.total, page.number, page.last)


async def _evictions(view: PageView, kind: str, name: str) -> list[Any] | None:
    rows = await fleet.visible_evictions(view)
    if rows is None:
        return None
    return sorted((row for row in rows if row.target == (kind, name)), key=fleet.urgency)


_ONE: Final = "/console/targets/{kind}/{name}"
PAGES: Final = (
    ConsolePage("/console/targets", listed),
    ConsolePage(_ONE, one),
    ConsolePage(f"{_ONE}/why", why),
)
