"""Workloads: the decisions on one with their reasons, and lists of decisions and evictions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from http import HTTPStatus
from typing import Any, Final

from markupsafe import Markup

from moorage.console.fleet_index import ENDED_STATES, OPEN_STATES, EndedRow, eviction_row
from moorage.console.host import PageError
from moorage.console.kinds import BINDING, EVENT, EVICTION, NODE, PLACED, ObjectName
from moorage.console.pages import audit, fleet, shared
from moorage.console.pictures.matrix import matrix
from moorage.console.pictures.score_stack import ScoreBar, score_stack
from moorage.console.views import ConsolePage, Content, PageView
from moorage.decide.disruption.object_names import workload_name
from moorage.decide.kubernetes.object_texts import toleration_text
from moorage.decide.kubernetes.unstructured import at
from moorage_schemas.placement import PlacementState
from moorage_schemas.resources.names import DEFAULT_NAMESPACE

NO_NAMESPACE: Final = "-"
ENDED: Final = "Ended"
"""The choice of evictions that were completed or cancelled in the last day."""

MOST: Final = 500
"""Bindings and evictions of a workload that its page shows."""
PENDING: Final = PlacementState.PENDING.value


async def evictions(view: PageView) -> Content:
    """`/console/evictions`: evictions that have not ended, or those that have ended in the last day."""
    await view.fleet.refresh()
    state, sought = view.query.get("state", ""), view.query.get("name", "").lower()
    rows = await fleet.visible_evictions(view)
    ended = await fleet.visible_ended(view)
    if state in (ENDED, *ENDED_STATES):
        page = await _ended(view, ended or (), state, sought)
    else:
        found = [
            row
            for row in rows or ()
            if state in {"", row.state} and sought in f"{'/'.join(row.workload)} {row.target[1]}".lower()
        ]
        found.sort(key=fleet.urgency)
        page = shared.paged(view, found)
    counts = Counter(row.state for row in (*(rows or ()), *(ended or ())))
    return Content(
        "evictions/list.html",
        {"counts": "evictions/counts.html", "rows": "evictions/rows.html"},
        {
            "evictions": page,
            "gantt": shared.eviction_picture(view, page.rows),
            "counts": {word: counts[word] for word in (*OPEN_STATES, *ENDED_STATES) if counts[word]},
            "is_past": state in (ENDED, *ENDED_STATES),
            "denied": rows is None and ended is None,
            "states": (*OPEN_STATES, ENDED, *ENDED_STATES),
        },
        (EVICTION,),
    )


async def _ended(view: PageView, ended: Sequence[EndedRow], state: str, sought: str) -> shared.Paged:
    """Return a page of evictions that have ended, the latest first."""
    found = [
        row
        for row in ended
        if state in {ENDED, row.state} and sought in f"{row.object_id.namespace}/{row.object_id.name}"
    ]
    found.sort(key=lambda row: row.ended, reverse=True)
    page = shared.paged(view, found)
    documents = await shared.documents(view, [row.object_id for row in page.rows])
    rows = [
        eviction_row(
            ObjectName(EVICTION, at(one, "metadata", "namespace") or "", one["metadata"]["name"]), one["status"]
        )
        for one in documents
    ]
    return shared.Paged(rows, page.total, page.number, page.last)


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
    decisions = [_decision(one["status"]) for one in await shared.documents(view, page.rows)]
    return Content(
        "placements/list.html",
        {"rows": "placements/rows.html"},
        {
            "page": page,
            "decisions": decisions,
            "matrix": _matrix(decisions),
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
    first = targets[0][1] if targets else ""
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
        "picture": score_stack(
            [
                ScoreBar(one["target"], one["total"], one.get("scores") or {}, is_chosen=one["target"] == first)
                for one in status.get("scores") or ()
            ],
            prioritizers,
        ),
        "conditions": status.get("conditions") or [],
        "clusters": status.get("selected") or 0,
    }


def _matrix(decisions: Sequence[dict[str, Any]]) -> Markup:
    """Return the picture of the workloads of a page by cluster. Empty if none of them is on a cluster."""
    rows = []
    for one in decisions:
        placed = {name: int(replicas or 0) for kind, name, replicas in one["targets"] if kind != NODE}
        if placed:
            rows.append(("/".join(filter(None, one["workload"][1:])), placed))
    clusters = Counter(name for _, placed in rows for name in placed)
    names = [name for name, _ in sorted(clusters.items(), key=lambda item: (-item[1], item[0]))]
    return matrix(rows, names) if rows else Markup("")


async def _named(view: PageView) -> tuple[str, str, str]:
    """Return kind, namespace and name of the workload that the address names, if the user may get it."""
    kind, namespace, name = view.param("kind"), view.param("namespace"), view.param("name")
    namespace = "" if namespace == NO_NAMESPACE else namespace
    await view.rights.check("get", kind, namespace, name)
    return kind, namespace, name


async def one(view: PageView) -> Content:
    """`/console/workloads/{kind}/{namespace}/{name}`: the placement, bindings and evictions of a workload.

    A workload that no longer exists has the evictions and Events that are kept.
    """
    kind, namespace, name = await _named(view)
    place, own = namespace or DEFAULT_NAMESPACE, workload_name(kind, name)
    found = await view.reader.get(kind, namespace, name)
    placed = await view.reader.get(PLACED, place, own)
    evicted = await _about(view, EVICTION, place, own)
    has_ended = found is None and placed is None
    if has_ended and not evicted:
        raise PageError(404, f'{view.kinds.named(kind).plural} "{name}" not found')
    uid = str(at(found, "metadata", "uid") or (evicted[-1].get("workloadUid") if evicted else None) or "")
    may_read = await view.rights.may("get", PLACED, place, own)
    return Content(
        "workloads/one.html",
        {
            "decision": "workloads/decision.html",
            "bindings": "workloads/bindings.html",
            "evictions": "workloads/evictions.html",
            "events": "events.html",
            "audit": "audit/about.html",
        },
        {
            "kind": kind,
            "namespace": namespace,
            "name": name,
            "has_ended": has_ended,
            "decision": _decision(placed["status"]) if placed is not None and may_read else None,
            "may_read": may_read,
            "bindings": await _about(view, BINDING, place, own),
            "evictions": evicted,
            "gantt": shared.eviction_picture(
                view, [eviction_row(ObjectName(EVICTION, place, own), status) for status in evicted or ()]
            ),
            "tolerations": [toleration_text(one) for one in at(found, "spec", "tolerations") or ()],
            "audit": await audit.about(view, kind, namespace, name),
            "events": await shared.events_about(view, kind, namespace, name, uid),
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
    try:
        explanation, missing = await shared.explained(view, {"kind": kind, "namespace": namespace, "name": name})
    except PageError as error:
        if error.code != HTTPStatus.NOT_FOUND or not await _about(
            view, EVICTION, namespace or DEFAULT_NAMESPACE, workload_name(kind, name)
        ):
            raise
        explanation, missing = None, f"{name} no longer exists."
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
