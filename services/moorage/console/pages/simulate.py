"""Simulations: a change of a target is simulated, drawn, and applied on request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from moorage.console import api, changes
from moorage.console.changes import ApiWrite
from moorage.console.host import PageError, bad_request
from moorage.console.kinds import BINDING, NODE, TARGETS, ApiKind
from moorage.console.rendering import target_url, workload_url
from moorage.console.sessions import check_same_site
from moorage.console.views import Action, ConsolePage, Content, Done, Form, PageView, required
from moorage.decide.disruption.object_names import target_prefix
from moorage.decide.kubernetes.durations import human
from moorage.decide.kubernetes.unstructured import at
from moorage.decide.taints.dialects.table import DIALECTS
from moorage_schemas.resources.workload_kinds import POD
from moorage_schemas.times import parse_time

QUESTIONS: Final = {
    "taint": "it gets a taint",
    "untaint": "a taint is removed",
    "cordon": "it is cordoned",
    "uncordon": "it is uncordoned",
    "drain": "it is drained",
    "delete": "it is deleted",
    "silent": "it stops reporting",
    "failed": "it is reported as not ready",
}
"""The changes that can be simulated, in words that go on from "what if"."""

OUTAGES: Final = {"silent": "Unknown", "failed": "False"}
"""The outages. They cannot be applied."""

_MOST: Final = 999  # pods of a node that is drained

Asked = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class TargetPlan:
    """A change of one target."""

    kind: str
    name: str
    what: str
    writes: tuple[ApiWrite, ...] = ()
    status: str = ""
    """How the target fails, if it does."""

    skipped: tuple[str, ...] = ()
    """The pods that a drain leaves, because their DaemonSet would bring them back."""

    @property
    def question(self) -> dict[str, Any]:
        """The request to the query worker."""
        writes = [
            {"method": one.method, "path": one.path, "body": one.body, "contentType": one.content_type}
            for one in self.writes
        ]
        failing = {"failing": [f"{self.kind}/{self.name}"], "status": self.status} if self.status else {}
        return {"writes": writes, **failing}


def questions_of(kind: str) -> list[tuple[str, str]]:
    """Return the changes that can be simulated for targets of a kind."""
    missing = set() if kind == NODE else {"drain"}
    if not changes.can_be_cordoned(kind):
        missing |= {"cordon", "uncordon"}
    return [(word, text) for word, text in QUESTIONS.items() if word not in missing]


async def planned(view: PageView, asked: Asked) -> TargetPlan:
    """Return the change that an address or a form describes, for the target as it is now.

    Raises:
        PageError: 400 if it is wrong, 403 if the user may not get the target, 404 if it does not exist.
    """
    kind, name, what = required(asked, "kind"), required(asked, "name"), required(asked, "what")
    if kind not in TARGETS:
        raise bad_request(f"kind: invalid value {kind[:63]!r}: must be one of {', '.join(TARGETS)}")
    words = [word for word, _ in questions_of(kind)]
    if what not in words:
        raise bad_request(f"what: invalid value {what[:63]!r}: must be one of {', '.join(words)}")
    document = await changes.target_of(view, kind, name)
    if what in OUTAGES:
        return TargetPlan(kind, name, what, status=OUTAGES[what])
    if what == "drain":
        return await _drained(view, kind, name, document)
    return TargetPlan(kind, name, what, (_write(view.kinds.named(kind), name, what, document, asked),))


def first_write(view: PageView, document: Mapping[str, Any], asked: Asked) -> ApiWrite:
    """Return the request that patches a target as it is now, in a plan that begins with a patch.

    Raises:
        PageError: 400 if it no longer fits the target.
    """
    kind, what = view.kinds.named(required(asked, "kind")), required(asked, "what")
    return _write(kind, required(asked, "name"), "cordon" if what == "drain" else what, document, asked)


def _write(kind: ApiKind, name: str, what: str, document: Mapping[str, Any], asked: Asked) -> ApiWrite:
    if what in {"cordon", "uncordon"}:
        return changes.cordoned(kind, document, cordon=what == "cordon")
    if what == "delete":
        return changes.write_of(kind, "delete", name=name)
    key, effect, value = required(asked, "key"), required(asked, "effect"), asked.get("value", "").strip()
    if what == "untaint":
        return changes.tainted(kind, document, f"{key}:{effect}-")
    return changes.tainted(kind, document, f"{key}={value}:{effect}" if value else f"{key}:{effect}")


async def _drained(view: PageView, kind: str, name: str, document: Mapping[str, Any]) -> TargetPlan:
    """Cordon a node, and evict its pods, as `kubectl drain --ignore-daemonsets --force` does."""
    ending, pods = f":{target_prefix(f'{kind}/{name}')}", view.kinds.named(POD)
    writes, skipped = [changes.cordoned(view.kinds.named(kind), document, cordon=True)], []
    names = (await view.reader.names(BINDING)).items()
    bound = sorted((place, one.removesuffix(ending)) for place, own in names for one in own if one.endswith(ending))
    for namespace, pod_name in bound:
        if not await view.rights.may("get", POD, namespace, pod_name):
            continue
        pod = await view.reader.get(POD, namespace, pod_name)
        if pod is None:
            continue
        owners = at(pod, "metadata", "ownerReferences") or ()
        if any(one.get("controller") and one.get("kind") == "DaemonSet" for one in owners):
            skipped.append(f"{namespace}/{pod_name}")
            continue
        metadata = {"name": pod_name, "namespace": namespace}
        body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": metadata}
        writes.append(changes.write_of(pods, "create", namespace, pod_name, "eviction", body=body))
    if len(writes) > _MOST:
        raise PageError(422, f"{name} has {len(writes) - 1} pods: at most {_MOST - 1} can be evicted at once here")
    return TargetPlan(kind, name, "drain", tuple(writes), skipped=tuple(skipped))


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
        "questions": questions_of(kind),
        "effects": [(str(effect), str(effect)) for effect in DIALECTS[kind].effects],
        "spans": [(word, human(seconds)) for word, seconds in _SPANS.items()],
        "span": span,
        "outcome": None,
        "refused": "",
        "plan": None,
    }
    if query.get("what") and context["may_simulate"]:
        check_same_site(view.request)  # another site's page would keep the fleet busy
        try:
            plan = await planned(view, query)
            context |= await _answered(view, plan, seconds)
        except PageError as error:
            context["refused"] = error.message
    return Content("simulate/form.html", context=context)


async def _answered(view: PageView, plan: TargetPlan, seconds: int) -> dict[str, Any]:
    """Return the answer to a question, as the templates read it."""
    answer = await view.api.call("POST", api.SIMULATE, body={**plan.question, "seconds": seconds})
    answer.check()
    return {
        "plan": plan,
        "outcome": _effects(answer.document),
        "missing_right": await changes.missing_right(view.rights, plan.writes),
        "fields": [(name, view.query[name]) for name in _FIELDS if view.query.get(name)],
        "is_outage": plan.what in OUTAGES,
    }


def _effects(found: Mapping[str, Any]) -> dict[str, Any]:
    """Return the result of a simulation as the templates read it."""
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
            ("Move", summary["moved"]),
            ("Placed", summary["placed"]),
            ("Unschedulable", summary["nowhere"]),
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
    """Return a workload that leaves: when, and drawn on the time that passes."""
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
        "state": one["state"],
        "after": _after(due, taken),
        "is_sure": bool(one["at"]),
        "width": round(_WIDTH * min(1.0, max(0.0, passed / whole)), 1),
        "holds": "; ".join(holds),
        "without": "stays" if one["without"] is None else "also leaves",
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
    """Return a workload by its key: `Pod/shop/web-0`."""
    kind, namespace, name = key.split("/", 2)
    return {"url": workload_url(kind, namespace, name), "kind": kind, "namespace": namespace, "name": name}


def _places(where: Mapping[str, Any] | None) -> list[dict[str, str]]:
    """Return targets with their pages. `Cluster/c1 x3` has a number of replicas."""
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
    plan = await planned(view, form)
    if not plan.writes:
        raise PageError(400, f"what: invalid value {plan.what!r}: an outage cannot be applied")
    first, *rest = plan.writes
    if first.method == "PATCH":
        # A target that another user has changed meanwhile is not set back.
        await changes.change_target(view, plan.kind, plan.name, lambda found: first_write(view, found, form))
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
    said = f"Done: {plan.name}: {QUESTIONS[plan.what]}."
    if kept:
        said += f" A disruption budget keeps {len(kept)} pods: {', '.join(kept[:5])}. Drain it again later."
    return Done(said, "/" if plan.what == "delete" else target_url(plan.kind, plan.name))


PAGES: Final = (ConsolePage(_PAGE, ask, in_clusters=False),)
ACTIONS: Final = (Action(_APPLY, apply),)
