"""What if: a change of a target is simulated and drawn, and applied if it is wanted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from moorage.console import api, changes, planning
from moorage.console.errors import PageError
from moorage.console.names import NODE, TARGETS
from moorage.console.planning import OUTAGES, TargetPlan
from moorage.console.rendering import target_url, workload_url
from moorage.console.sessions import check_same_site
from moorage.console.views import Action, ConsolePage, Content, Done, Form, PageView
from moorage.decide.kubernetes.durations import human
from moorage.decide.taints.dialects.table import DIALECTS
from moorage_schemas.times import parse_time

_PAGE: Final = "/console/simulate"
_APPLY: Final = "/console/actions/simulate/apply"
_SPANS: Final = {"10m": 600, "1h": 3_600, "6h": 21_600, "24h": 86_400}
_USUAL: Final = "1h"
_FIELDS: Final = ("kind", "name", "what", "key", "value", "effect")
_SHOWN: Final = 200
"""Rows of each table."""

_TOO_MANY: Final = 429
_GONE: Final = 404
_WIDTH: Final = 300.0
"""The width of a drawing of the time that passes."""


async def ask(view: PageView) -> Content:
    """`/console/simulate`: a question about a target, and the answer if it was asked."""
    query = view.query
    kind = query.get("kind", NODE)
    if kind not in TARGETS:
        raise PageError(404, f"kind: invalid value {kind[:63]!r}: must be one of {', '.join(TARGETS)}")
    span = query.get("for", _USUAL)
    seconds = _SPANS.get(span, _SPANS[_USUAL])
    context: dict[str, Any] = {
        "kind": kind,
        "name": query.get("name", ""),
        "may_simulate": await view.rights.may_create("simulations"),
        "kinds": [(one, one) for one in TARGETS],
        "questions": planning.questions_of(kind),
        "effects": [(str(effect), str(effect)) for effect in DIALECTS[kind].effects],
        "spans": [(word, human(seconds)) for word, seconds in _SPANS.items()],
        "span": span,
        "told": None,
        "refused": "",
        "plan": None,
    }
    if query.get("what") and context["may_simulate"]:
        check_same_site(view.request)  # another site's page would keep the fleet busy
        try:
            plan = await planning.planned(view, query)
            context |= await _answered(view, plan, seconds)
        except PageError as error:
            context["refused"] = error.message
    return Content("simulate/ask.html", context=context)


async def _answered(view: PageView, plan: TargetPlan, seconds: int) -> dict[str, Any]:
    """The answer to a question, as the templates read it."""
    answer = await view.api.call("POST", api.SIMULATE, body={**plan.question, "seconds": seconds})
    answer.check()
    return {
        "plan": plan,
        "told": _told(answer.document),
        "missing_right": await changes.missing_right(view.rights, plan.writes),
        "fields": [(name, view.query[name]) for name in _FIELDS if view.query.get(name)],
        "is_outage": plan.what in OUTAGES,
    }


def _told(found: Mapping[str, Any]) -> dict[str, Any]:
    """What a simulation found, as the templates read it."""
    taken, until = _time(found["taken"]), _time(found["until"])
    leaving = [_departure(one, taken, until) for one in found["leaving"]]
    moved = [one for one in found["decisions"] if one["to"] and one["to"]["state"] != "Pending"]
    gone = [one for one in found["decisions"] if not one["to"]]
    summary = found["summary"]
    nothing = not any(value for name, value in summary.items() if name != "waiting")
    return {
        "span": human((until - taken).total_seconds()),
        "quiet": found["quiet"],
        "nothing": nothing,
        "totals": [
            ("Leave", summary["leaving"]),
            ("Leave later", summary["scheduled"]),
            ("Held", summary["held"]),
            ("Go elsewhere", summary["moved"]),
            ("Placed", summary["placed"]),
            ("Nowhere to go", summary["nowhere"]),
            ("Spared", summary["spared"]),
            ("Deleted", summary["deleted"]),
        ],
        "leaving": leaving[:_SHOWN],
        "moves": [_move(one, taken) for one in [*moved, *gone][:_SHOWN]],
        "nowhere": [
            {
                **_of(one["workload"]),
                "from": _places(one["from"]),
                "after": _after(one["since"], taken),
                "why": one["message"],
            }
            for one in found["nowhere"][:_SHOWN]
        ],
        "taints": _taints(found["targets"], taken)[:_SHOWN],
        "more": {
            name: max(0, count - _SHOWN)
            for name, count in (
                ("leaving", len(leaving)),
                ("moves", len(moved) + len(gone)),
                ("nowhere", len(found["nowhere"])),
            )
        },
    }


def _departure(one: Mapping[str, Any], taken: datetime, until: datetime) -> dict[str, Any]:
    """A workload that leaves: when, and drawn on the time that passes."""
    due = one["at"] or one["deadline"]
    whole = (until - taken).total_seconds() or 1.0
    passed = (_time(due) - taken).total_seconds() if due else whole
    holds = [
        ", ".join(hold["by"]) + (f" for {_after(hold['until'], taken)}" if hold["until"] else "")
        for hold in one["holds"]
    ]
    return {
        **_of(one["workload"]),
        "from": _places({"targets": [one["target"]]}),
        "state": "Gone" if one["state"] == "Completed" else one["state"],
        "after": _after(due, taken),
        "is_sure": bool(one["at"]),
        "width": round(_WIDTH * min(1.0, max(0.0, passed / whole)), 1),
        "holds": "; ".join(holds),
        "without": "stays" if one["without"] is None else "leaves, too",
    }


def _move(one: Mapping[str, Any], taken: datetime) -> dict[str, Any]:
    return {
        **_of(one["workload"]),
        "replaces": one.get("replaces", "").rpartition("/")[2],
        "from": _places(one["from"]),
        "to": _places(one["to"]),
        "after": _after(one["at"], taken),
        "why": one["reason"],
    }


def _taints(targets: Sequence[Mapping[str, Any]], taken: datetime) -> list[dict[str, str]]:
    rows = []
    for one in targets:
        rows += [
            {"target": one["target"], "sign": "+", "taint": taint["taint"], "after": _after(taint["at"], taken)}
            for taint in one["added"]
        ]
        rows += [
            {"target": one["target"], "sign": "-", "taint": taint["taint"], "after": ""} for taint in one["removed"]
        ]
        rows += [
            {"target": one["target"], "sign": "…", "taint": f"{wait['taint']}: {wait['reason']}", "after": "waits"}
            for wait in one["waited"]
            if not wait["until"]
        ]
    return rows


def _of(key: str) -> dict[str, str]:
    """A workload by its key: `Pod/shop/web-0`."""
    kind, namespace, name = key.split("/", 2)
    return {"url": workload_url(kind, namespace, name), "kind": kind, "namespace": namespace, "name": name}


def _places(where: Mapping[str, Any] | None) -> list[dict[str, str]]:
    """Targets with their pages. `Cluster/c1 x3` has a number of replicas."""
    found = []
    for text in (where or {}).get("targets") or ():
        key, _, count = text.partition(" ")
        kind, _, name = key.partition("/")
        found.append({"url": target_url(kind, name), "name": name, "count": count})
    return found


def _after(when: str | None, taken: datetime) -> str:
    return "" if when is None else human(max(0.0, (_time(when) - taken).total_seconds()))


def _time(value: str) -> datetime:
    found: datetime = parse_time(value)
    return found


async def apply(view: PageView, form: Form) -> Done:
    """Make the change that was simulated."""
    plan = await planning.planned(view, form)
    if not plan.writes:
        raise PageError(400, f"what: invalid value {plan.what!r}: happens by itself, so there is nothing to apply")
    first, *rest = plan.writes
    if first.method == "PATCH":
        # A target that somebody else has changed meanwhile is not set back.
        await changes.change_target(view, plan.kind, plan.name, lambda found: planning.first_write(view, found, form))
    else:
        await changes.send(view, first)
    kept = []
    for write in rest:
        try:
            await changes.send(view, write)
        except PageError as error:
            if error.code == _GONE:
                continue
            if error.code != _TOO_MANY:
                raise
            kept.append(write.path.split("/")[-2])
    said = f"Done: {plan.name}: {planning.QUESTIONS[plan.what]}."
    if kept:
        said += f" A disruption budget keeps {len(kept)} pods: {', '.join(kept[:5])}. Drain it again later."
    return Done(said, "/" if plan.what == "delete" else target_url(plan.kind, plan.name))


PAGES: Final = (ConsolePage(_PAGE, ask, in_clusters=False),)
ACTIONS: Final = (Action(_APPLY, apply),)
