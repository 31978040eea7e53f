"""Targets: a list of them, the page of one with its conditions, taints, workloads and evictions, and their causes."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, Final

from markupsafe import Markup

from moorage.console import changes
from moorage.console.changes import target_of
from moorage.console.fleet_index import MARKS, STATES, TargetRow, readiness, zone_of
from moorage.console.host import PageError, path_of
from moorage.console.kinds import BINDING, EVENT, EVICTION, NODE, TAINT, TARGETS, ZONE
from moorage.console.pages import audit, fleet, objects, shared
from moorage.console.pages.incidents import incidents_of
from moorage.console.pictures.condition_strips import ConditionStrip, EarlierStatus, condition_strips
from moorage.console.pictures.zone_bar import ZoneGauge, zone_bar
from moorage.console.rendering import target_url
from moorage.console.views import Action, ConsolePage, Content, Done, Form, PageView, required
from moorage.decide.disruption.object_names import NO_ZONE, about_target, shown_zone, target_prefix, zone_of_object
from moorage.decide.kubernetes.condition_reasons import CONDITION_REASONS
from moorage.decide.kubernetes.durations import rate_text
from moorage.decide.kubernetes.object_texts import last_seen, node_status, taint_text, unreported, zone_state
from moorage.decide.kubernetes.unstructured import at, name_of
from moorage.decide.taints.dialects.table import DIALECTS
from moorage_schemas.refs import TargetRef
from moorage_schemas.resources.configuration import CONFIGURATION_NAME, MoorageConfigurationSpec
from moorage_schemas.taint import TaintOrigin
from moorage_schemas.times import parse_time

_TARGET: Final = "/console/actions/targets/{kind}/{name}"


async def offered(view: PageView, kind: str, name: str, document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the actions on the page of a target."""
    # Nodes of a cluster are cordoned in the cluster. Only changes of the home fleet are simulated.
    is_home = not view.cluster
    return {
        "may_change": await view.rights.may("patch", kind, "", name),
        "can_be_cordoned": is_home and changes.can_be_cordoned(kind),
        "is_cordoned": changes.is_cordoned(kind, document),
        "effects": [str(effect) for effect in DIALECTS[kind].effects],
        "may_simulate": is_home and await view.rights.may_create("simulations"),
        "may_pause": await view.rights.at_home.may("create", "EvictionPause"),
        "whole_name": f"{view.cluster}:{kind}/{name}" if view.cluster else f"{kind}/{name}",
        "back": path_of(view.cluster) + view.address(),
    }


async def taint(view: PageView, form: Form) -> Done:
    """Add a taint."""
    kind, name = await _target(view)
    definition = view.kinds.named(kind)
    key, value, effect = required(form, "key"), form.get("value", "").strip(), required(form, "effect")
    spec = f"{key}={value}:{effect}" if value else f"{key}:{effect}"
    await changes.change_target(view, kind, name, lambda found: changes.tainted(definition, found, spec))
    return Done(f"{name} is tainted with {spec}.", target_url(kind, name))


async def untaint(view: PageView, form: Form) -> Done:
    """Remove a taint."""
    kind, name = await _target(view)
    definition = view.kinds.named(kind)
    spec = f"{required(form, 'key')}:{required(form, 'effect')}"
    await changes.change_target(view, kind, name, lambda found: changes.tainted(definition, found, f"{spec}-"))
    present = at(await changes.target_of(view, kind, name), "spec", "taints") or ()
    if any(f"{one.get('key')}:{one.get('effect')}" == spec for one in present):
        return Done(
            f"{spec} stays on {name} for now: its state or a policy requires it, or the decision is pending.",
            target_url(kind, name),
        )
    return Done(f"{spec} is removed from {name}.", target_url(kind, name))


async def cordon(view: PageView, form: Form) -> Done:
    """Cordon or uncordon a target."""
    kind, name = await _target(view)
    definition = view.kinds.named(kind)
    word = required(form, "do")
    if word not in {"cordon", "uncordon"}:
        raise PageError(400, f"do: invalid value {word[:63]!r}: must be cordon or uncordon")
    wants = word == "cordon"
    await changes.change_target(view, kind, name, lambda found: changes.cordoned(definition, found, cordon=wants))
    return Done(f"{name} is {word}ed.", target_url(kind, name))


async def _target(view: PageView) -> tuple[str, str]:
    kind, name = view.param("kind"), view.param("name")
    if kind not in TARGETS:
        raise PageError(404, f"kind: invalid value {kind[:63]!r}: must be one of {', '.join(TARGETS)}")
    if not await view.rights.may("patch", kind, "", name):
        nothing = changes.write_of(view.kinds.named(kind), "patch", name=name, body={})
        await changes.send(view, nothing)  # the API refuses it, and the audit has that
    return kind, name


ACTIONS: Final = (
    Action(f"{_TARGET}/taint", taint, in_clusters=True),
    Action(f"{_TARGET}/untaint", untaint, in_clusters=True),
    Action(f"{_TARGET}/cordon", cordon),
)


_ORDER: Final = {state: number for number, state in enumerate(STATES)}


async def listed(view: PageView) -> Content:
    """`/console/targets`: targets by kind, zone, state, taint and name, most urgent first."""
    await view.fleet.refresh()
    query = view.query
    zones, denied = await fleet.visible_zones(view)
    rows = [row for zone in zones for row in zone.rows.values() if _selected(row, query)]
    rows.sort(key=lambda row: (_ORDER[row.state], not row.held, not row.taints, row.kind, row.zone, row.name))
    kinds = sorted({zone.kind for zone in zones}) or [NODE]
    return Content(
        "targets/list.html",
        {"rows": "targets/rows.html"},
        {
            "targets": shared.paged(view, rows),
            "denied": denied,
            "kinds": kinds,
            "states": STATES,
            "marks": MARKS,
            "zones": sorted({zone.zone or NO_ZONE for zone in zones}),
        },
        TARGETS,
    )


def _selected(row: TargetRow, query: Any) -> bool:
    zone = query.get("zone", "")
    return (
        query.get("kind", "") in {"", row.kind}
        and (not zone or (row.zone or NO_ZONE) == zone)
        and query.get("state", "") in {"", row.state}
        and query.get("mark", "") in {"", *row.marks}
        and (not query.get("taint") or query["taint"] in row.taints or _is_held(row, query["taint"]))
        and query.get("name", "").lower() in row.name.lower()
    )


def _is_held(row: TargetRow, taint: str) -> bool:
    return any(text.startswith(f"{taint}: ") for text in row.held)


async def _named(view: PageView) -> tuple[str, str, dict[str, Any]]:
    """Return kind, name and document of the target that the address names, if the user may get it."""
    kind, name = view.param("kind"), view.param("name")
    if kind not in TARGETS:
        raise PageError(404, f"kind: invalid value {kind[:63]!r}: must be one of {', '.join(TARGETS)}")
    return kind, name, await target_of(view, kind, name)


async def one(view: PageView) -> Content:
    """`/console/targets/{kind}/{name}`: everything about one target."""
    kind, name, found = await _named(view)
    await view.fleet.refresh()
    events = await shared.events_about(view, kind, "", name, str(at(found, "metadata", "uid") or ""))
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
            "audit": "audit/about.html",
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
            "strips": _strips(view, kind, at(found, "status", "conditions") or (), events["found"]),
            "bound": await _bound(view, kind, name),
            "evictions": (rows := await _evictions(view, kind, name)),
            "gantt": shared.eviction_picture(view, rows),
            "events": events,
            "audit": await audit.about(view, kind, "", name),
            **await offered(view, kind, name, found),
        },
        (kind, BINDING, EVICTION, TAINT, EVENT),
    )


async def why(view: PageView) -> Content:
    """`/console/targets/{kind}/{name}/why`: the query worker's explanation: where its state comes from, and its causes.

    Raises:
        PageError: 404 if the target does not exist, 403 if the user may not get it or have it explained.
    """
    kind, name, _ = await _named(view)
    explanation, missing = await shared.explained(view, {"kind": kind, "name": name})
    if explanation is not None and "target" not in explanation:
        explanation, missing = None, "the query worker is of an earlier version, which cannot explain targets"
    return Content(
        "targets/why.html",
        context={
            "kind": kind,
            "name": name,
            "explanation": explanation,
            "missing": missing,
            "causes_of": _causes(explanation),
        },
    )


def _causes(explanation: dict[str, Any] | None) -> dict[str, int]:
    """Return the number of the chain that shows how an event came about, by the event's id.

    The best chain is the one that ends with the event. In others it is in the middle.
    """
    chains = list(enumerate((explanation or {}).get("chains") or (), 1))
    ends = {chain["steps"][-1].get("id", ""): number for number, chain in reversed(chains)}
    inside = {step.get("id", ""): number for number, chain in reversed(chains) for step in chain["steps"]}
    return {**inside, **ends}


async def _taints(view: PageView, kind: str, name: str, found: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the taints of a target, each with where it comes from."""
    rows = []
    for taint in at(found, "spec", "taints") or ():
        part = about_target(f"{kind}/{name}", str(taint.get("effect", "")), str(taint.get("key", "")))
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


def earlier_statuses(
    kind: str, condition: str, since: datetime | None, events: Iterable[Mapping[str, Any]]
) -> list[EarlierStatus]:
    """Return the statuses that a condition has had before its last change, as far as Events about its target are kept.

    An Event counts all changes of one reason, and has the times of the first and the last one.
    """
    status_of = {reason: status for status, reason in CONDITION_REASONS.get((kind, condition), {}).items()}
    changes: dict[datetime, str] = {}
    for event in events:
        if (status := status_of.get(str(event.get("reason")))) is not None:
            times = {str(event.get("firstTimestamp") or ""), last_seen(event)} - {""}
            changes |= {parse_time(when): status for when in times}
    # The last change is known to the microsecond, and its Event has whole seconds.
    known = [when for when in sorted(changes) if since is not None and when < since.replace(microsecond=0)]
    ends = [*known[1:], since] if since is not None else []
    return [EarlierStatus(changes[when], when, end) for when, end in zip(known, ends, strict=False)]


def _strips(
    view: PageView, kind: str, conditions: Iterable[Mapping[str, Any]], events: Sequence[Mapping[str, Any]]
) -> Markup:
    """Return the picture of the conditions of a target. Empty if it has none."""

    def when(one: Mapping[str, Any], field: str) -> datetime | None:
        return parse_time(str(one[field])) if one.get(field) else None

    rows = [
        ConditionStrip(
            str(one.get("type") or ""),
            str(one.get("status") or ""),
            when(one, "lastTransitionTime"),
            when(one, "lastHeartbeatTime"),
            earlier_statuses(kind, str(one.get("type") or ""), when(one, "lastTransitionTime"), events),
        )
        for one in conditions
    ]
    return condition_strips(rows, view.now) if rows else Markup("")


async def _bound(view: PageView, kind: str, name: str) -> shared.Paged | None:
    """Return namespace and name of what is bound to a target, a page of it. None if the user may list no bindings.

    They are read from the names of the bindings, which is much faster than reading the bindings.
    """
    ending = f":{target_prefix(f'{kind}/{name}')}"
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
CONFIGURATION: Final = "MoorageConfiguration"
DRAWN: Final = 24
"""Zones that are drawn, those with the largest part that is not ready."""

GUARDS: Final = ("EvictionPause", "EvictionBudget", "PodDisruptionBudget", "Budget")
"""The kinds that limit evictions, the strongest first."""

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
    threshold = await _threshold(view)
    rows = [_zone(one, threshold) for one in await view.reader.all(ZONE)] if may_list else []
    drawn = heapq.nsmallest(DRAWN, rows, key=lambda row: -row["not_ready"] / (row["nodes"] or 1))
    return Content(
        "zones/list.html",
        {"pictures": "zones/pictures.html", "rows": "zones/rows.html"},
        {"zones": shared.paged(view, rows), "denied": not may_list, "drawn": drawn, "left_out": len(rows) - len(drawn)},
        (ZONE,),
    )


async def zone(view: PageView) -> Content:
    """`/console/zones/{name}`: one zone, with its queue."""
    name = view.param("name")
    await view.rights.check("get", ZONE, "", name)
    found = await view.reader.get(ZONE, "", name)
    if found is None:
        raise PageError(404, f'zones "{name}" not found')
    return Content(
        "zones/one.html",
        {"zone": "zones/zone.html", "incidents": "zones/incidents.html"},
        {"zone": _zone(found, await _threshold(view)), "incidents": incidents_of(found)},
        (ZONE,),
    )


async def _threshold(view: PageView) -> float | None:
    """Return the part of a zone that is in partial disruption. None if the user may not get the configuration."""
    if not await view.rights.at_home.may("get", CONFIGURATION, "", CONFIGURATION_NAME):
        return None
    home = replace(view.reader, api=replace(view.reader.api, cluster=""))
    found = await home.get(CONFIGURATION, "", CONFIGURATION_NAME)
    spec = at(found, "spec") or {}
    return float(spec.get("unhealthyZoneThreshold", MoorageConfigurationSpec().unhealthy_zone_threshold))


def _zone(found: dict[str, Any], threshold: float | None) -> dict[str, Any]:
    status = found.get("status") or {}
    rate, tokens = status.get("rate"), status.get("tokens")
    gauge = ZoneGauge(
        nodes=status.get("nodes") or 0,
        not_ready=status.get("notReady") or 0,
        threshold=threshold,
        tokens=tokens if isinstance(tokens, int | float) else None,
        rate=rate_text(rate) if rate is not None else "",
        waiting=status.get("waiting") or 0,
        granted=len(status.get("granted") or ()),
    )
    name = shown_zone(zone_of_object(name_of(found)))
    return {
        "picture": zone_bar(name, gauge),
        "object": name_of(found),
        "name": name,
        "state": zone_state(found),
        "stopped": bool(status.get("stopped")),
        "nodes": gauge.nodes,
        "not_ready": gauge.not_ready,
        "rate": gauge.rate,
        "tokens": tokens,
        "waiting": gauge.waiting,
        "queue": [_queued(one) for one in status.get("queue") or ()],
        "granted": [_queued(one) for one in status.get("granted") or ()],
    }


def _queued(one: dict[str, Any]) -> dict[str, Any]:
    """Return a node that waits for its taint, or may have it."""
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
    ConsolePage("/console/targets", listed),
    ConsolePage(_ONE, one),
    ConsolePage(f"{_ONE}/why", why),
    ConsolePage("/console/zones", zones),
    ConsolePage("/console/zones/{name}", zone),
    ConsolePage("/console/budgets", budgets),
)
