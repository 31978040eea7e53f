"""Workloads: the decisions on one with their reasons, and lists of decisions and evictions."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from moorage.console.fleet_index import OPEN_STATES
from moorage.console.host import PageError
from moorage.console.kinds import BINDING, EVENT, EVICTION, PLACED, ObjectName
from moorage.console.pages import fleet, shared
from moorage.console.views import ConsolePage, Content, PageView
from moorage.decide.disruption.object_names import workload_name
from moorage.decide.kubernetes.object_texts import toleration_text
from moorage.decide.kubernetes.unstructured import at
from moorage_schemas.placement import PlacementState
from moorage_schemas.resources.names import DEFAULT_NAMESPACE

NO_NAMESPACE: Final = "-"
MOST: Final = 500
"""Bindings and evictions of a workload that its page shows."""
PENDING: Final = PlacementState.PENDING.value


async def evictions(view: PageView) -> Content:
    """`/console/evictions`: evictions that have not ended."""
    await view.fleet.refresh()
    rows = await fleet.visible_evictions(view)
    state, sought = view.query.get("state", ""), view.query.get("name", "").lower()
    found = [
        row
        for row in rows or ()
        if state in {"", row.state} and sought in f"{'/'.join(row.workload)} {row.target[1]}".lower()
    ]
    found.sort(key=fleet.urgency)
    return Content(
        "evictions/list.html",
        {"rows": "evictions/rows.html"},
        {"evictions": shared.paged(view, found), "denied": rows is None, "states": OPEN_STATES},
        (EVICTION,),
    )


async def placements(view: PageView) -> Content:
    """`/console/placements`: the decisions on workloads, or on unscheduled ones."""
    sought = view.query.get("name", "")
    if view.query.get("state") == PENDING:
        await view.fleet.refresh()
        waiting = await fleet.visible_waiting(view)
        names = None if waiting is None else _names_of(row.object_id for row in waiting)
    else:
        names = await shared.visible_names(view, PLACED)
    page = (await names.containing(sought)).page(view) if names is not None else shared.Paged((), 0, 1, 1)
    return Content(
        "placements/list.html",
        {"rows": "placements/rows.html"},
        {
            "page": page,
            "decisions": [_decision(one["status"]) for one in await shared.documents(view, page.rows)],
            "denied": names is None,
            "states": (PENDING,),
        },
        (PLACED,),
    )


def _names_of(ids: Iterable[ObjectName]) -> shared.ObjectNames:
    found: dict[str, list[str]] = {}
    for one in ids:
        found.setdefault(one.namespace, []).append(one.name)
    return shared.ObjectNames(PLACED, found)


def _decision(status: dict[str, Any]) -> dict[str, Any]:
    """Return a decision as the templates read it."""
    targets = (
        [(part["target"]["kind"], part["target"]["name"], part.get("replicas")) for part in status["targets"]]
        if status.get("targets")
        else []
    )
    if status.get("target"):
        targets.append((status["target"]["kind"], status["target"]["name"], 0))
    prioritizers = list(dict.fromkeys(name for one in status.get("scores") or () for name in one.get("scores") or {}))
    return {
        "workload": shared.workload_of(status["workload"]),
        "owner": shared.workload_of(status["owner"]) if status.get("owner") else None,
        "state": str(status.get("state") or ""),
        "targets": targets,
        "target_kind": targets[0][0] if targets else "Node",
        "reason": str(status.get("reason") or ""),
        "message": str(status.get("message") or ""),
        "decided": str(status.get("decidedTime") or ""),
        "generation": status.get("generation"),
        "previous": at(status, "previousTarget"),
        "considered": status.get("targetsConsidered") or 0,
        "filters": status.get("filters") or [],
        "scores": status.get("scores") or [],
        "prioritizers": prioritizers,
        "conditions": status.get("conditions") or [],
        "clusters": status.get("selected") or 0,
    }


async def _named(view: PageView) -> tuple[str, str, str]:
    """Return kind, namespace and name of the workload that the address names, if the user may get it."""
    kind, namespace, name = view.param("kind"), view.param("namespace"), view.param("name")
    namespace = "" if namespace == NO_NAMESPACE else namespace
    await view.rights.check("get", kind, namespace, name)
    return kind, namespace, name


async def one(view: PageView) -> Content:
    """`/console/workloads/{kind}/{namespace}/{name}`: the placement, bindings and evictions of a workload."""
    kind, namespace, name = await _named(view)
    place, own = namespace or DEFAULT_NAMESPACE, workload_name(kind, name)
    found = await view.reader.get(kind, namespace, name)
    placed = await view.reader.get(PLACED, place, own)
    if found is None and placed is None:
        raise PageError(404, f'{view.kinds.named(kind).plural} "{name}" not found')
    may_read = await view.rights.may("get", PLACED, place, own)
    return Content(
        "workloads/one.html",
        {
            "decision": "workloads/decision.html",
            "bindings": "workloads/bindings.html",
            "evictions": "workloads/evictions.html",
            "events": "events.html",
        },
        {
            "kind": kind,
            "namespace": namespace,
            "name": name,
            "decision": _decision(placed["status"]) if placed is not None and may_read else None,
            "may_read": may_read,
            "bindings": await _about(view, BINDING, place, own),
            "evictions": await _about(view, EVICTION, place, own),
            "tolerations": [toleration_text(one) for one in at(found, "spec", "tolerations") or ()],
            "events": await shared.events_about(view, kind, namespace, name, str(at(found, "metadata", "uid") or "")),
        },
        (kind, PLACED, BINDING, EVICTION, EVENT),
    )


async def _about(view: PageView, kind: str, namespace: str, own: str) -> list[dict[str, Any]] | None:
    """Return the latest bindings or evictions of a workload, the newest last. None if the user may not list them."""
    if not await view.rights.sees(kind, namespace):
        return None
    beginning = f"{own}:"
    here = (await view.reader.names(kind)).get(namespace, {})
    names = shared.ObjectNames(kind, {namespace: list(here)})
    ids = (await names.which(lambda _, name: name.startswith(beginning))).first(MOST)
    found = [one["status"] for one in await shared.documents(view, ids)]
    return sorted(found, key=lambda status: str(status.get("boundTime") or status.get("decidedTime") or ""))


async def why(view: PageView) -> Content:
    """`/console/workloads/{kind}/{namespace}/{name}/why`: the query worker's explanation: scores, filters, causes."""
    kind, namespace, name = await _named(view)
    explanation, missing = await shared.explained(view, {"kind": kind, "namespace": namespace, "name": name})
    return Content(
        "workloads/why.html",
        context={
            "kind": kind,
            "namespace": namespace,
            "name": name,
            "explanation": explanation,
            "missing": missing,
            "weights": _weights(explanation),
            "short": str((explanation or {}).get("targetKind", "Node")).removeprefix("Managed"),
        },
    )


def _weights(explanation: dict[str, Any] | None) -> dict[str, int]:
    """Return the prioritizers of an explanation with their weights."""
    parts = [part for target in (explanation or {}).get("targets") or () for part in target["scores"]]
    return {part["prioritizer"]: part["weight"] for part in parts}


_ONE: Final = "/console/workloads/{kind}/{namespace}/{name}"
PAGES: Final = (
    ConsolePage("/console/evictions", evictions),
    ConsolePage("/console/placements", placements),
    ConsolePage(_ONE, one),
    ConsolePage(f"{_ONE}/why", why),
)
