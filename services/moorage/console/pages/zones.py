"""The brakes: zones with their rates and queues, and budgets and pauses that hold evictions."""

from __future__ import annotations

from typing import Any, Final

from moorage.console.errors import PageError
from moorage.console.names import ZONE
from moorage.console.pages import objects, shared
from moorage.console.texts import zone_state
from moorage.console.views import ConsolePage, Content, PageView
from moorage.decide.disruption.zone_names import zone_of_object
from moorage.decide.kubernetes.durations import rate_text
from moorage.decide.kubernetes.unstructured import at
from moorage_schemas.refs import TargetRef

GUARDS: Final = ("EvictionPause", "EvictionBudget", "PodDisruptionBudget", "Budget")
"""The kinds that say how fast work may leave, the strongest first."""

MOST: Final = 200
"""Rows of each kind on the page of budgets. The kinds' own pages have the others."""

_TITLES: Final = {
    "EvictionPause": "Pauses",
    "EvictionBudget": "Eviction budgets",
    "PodDisruptionBudget": "Pod disruption budgets",
    "Budget": "Counts",
}


async def zones(view: PageView) -> Content:
    """`/console/zones`: every zone with its state, its rate, and the nodes that wait."""
    may_list = await view.rights.may("list", ZONE)
    rows = [_zone(one) for one in await view.reader.all(ZONE)] if may_list else []
    return Content(
        "zones/list.html",
        {"rows": "zones/rows.html"},
        {"zones": shared.paged(view, rows), "denied": not may_list},
        (ZONE,),
    )


async def zone(view: PageView) -> Content:
    """`/console/zones/{name}`: one zone, with its queue."""
    name = view.param("name")
    await view.rights.check("get", ZONE, "", name)
    found = await view.reader.get(ZONE, "", name)
    if found is None:
        raise PageError(404, f'zones "{name}" not found')
    return Content("zones/one.html", {"zone": "zones/zone.html"}, {"zone": _zone(found)}, (ZONE,))


def _zone(found: dict[str, Any]) -> dict[str, Any]:
    status = found.get("status") or {}
    rate = status.get("rate")
    return {
        "object": str(at(found, "metadata", "name")),
        "name": zone_of_object(str(at(found, "metadata", "name"))),
        "state": zone_state(found),
        "stopped": bool(status.get("stopped")),
        "nodes": status.get("nodes") or 0,
        "not_ready": status.get("notReady") or 0,
        "rate": rate_text(rate) if rate is not None else "",
        "tokens": status.get("tokens"),
        "waiting": status.get("waiting") or 0,
        "queue": [_queued(one) for one in status.get("queue") or ()],
        "granted": [_queued(one) for one in status.get("granted") or ()],
    }


def _queued(one: dict[str, Any]) -> dict[str, Any]:
    """A node that waits for its taint, or may have it."""
    target = one.get("target")
    if isinstance(target, str):
        parsed = TargetRef.parse(target)
        named = str(parsed.kind), parsed.name
    else:
        named = str(at(target, "kind") or ""), str(at(target, "name") or "")
    return {"target": named, "since": str(one.get("since") or "")}


async def budgets(view: PageView) -> Content:
    """`/console/budgets`: what holds evictions, and what is counted."""
    tables = []
    for kind in GUARDS:
        names = await shared.visible_names(view, kind)
        rows = None if names is None else await objects.table(view, kind, names.first(MOST))
        tables.append((_TITLES[kind], kind, rows))
    return Content("budgets/list.html", {"rows": "budgets/rows.html"}, {"tables": tables}, GUARDS)


PAGES: Final = (
    ConsolePage("/console/zones", zones),
    ConsolePage("/console/zones/{name}", zone),
    ConsolePage("/console/budgets", budgets),
)
