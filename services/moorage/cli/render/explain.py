"""An explanation as lines for people, from its JSON document: the same whoever has made it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any, Final

from moorage.apiserver.kinds.printing.columns import NONE
from moorage.cli.render import explain_target
from moorage.cli.render.describe import pair, table
from moorage.cli.render.durations import to_the_second
from moorage.decide.kubernetes.durations import human
from moorage_schemas.times import parse_time

Document = Mapping[str, Any]

_EVICTED: Final = "Evicted"

_NAMED: Final = 10
"""Targets that are named in one line, at most."""

_ROWS: Final = 25
"""Pods that are shown, unless all are asked for."""


def lines(told: Document, *, every: bool = False, closely: bool = False) -> Iterator[str]:
    """All of an explanation.

    Args:
        told: the document.
        every: show all pods of a controller.
        closely: tell each filter's and prioritizer's verdict on the targets that are shown, not one line for each.
    """
    yield from map(to_the_second, _lines(told, every=every, closely=closely))


def _lines(told: Document, *, every: bool, closely: bool) -> Iterator[str]:
    if "pods" in told:
        yield from _summary(told, every=every)
    elif "target" in told:
        yield from explain_target.lines(told)
        yield from _chains(told)
    else:
        yield from _explanation(told, closely=closely)


def _explanation(told: Document, *, closely: bool) -> Iterator[str]:
    yield from _decision(told)
    yield ""
    yield from _fleet(told)
    if closely:
        for one in told["targets"]:
            yield ""
            yield from _closely(told, one)
    elif told["targets"]:
        yield ""
        yield from _targets(told)
    if told["until"]:
        yield ""
        yield from _untils(told["until"], _time(told["at"]))
    yield from _chains(told)


def _summary(told: Document, *, every: bool) -> Iterator[str]:
    """The pods of a controller, one a line: those that wait or are to leave first, and not too many."""
    yield pair("Owner", told["owner"])
    counts = Counter(row["decision"]["state"] for row in told["pods"])
    yield pair("Pods", ", ".join(f"{count} {state}" for state, count in sorted(counts.items())))
    rows = []
    first = sorted(
        told["pods"], key=lambda row: (row["decision"]["target"] is not None, row["until"] is None, row["workload"])
    )
    for row in first if every else first[:_ROWS]:
        decision = row["decision"]
        until = _until_text(row["until"], _time(told["at"])) if row["until"] is not None else ""
        why = " ".join(part for part in (decision["reason"], decision["message"]) if part)
        rows.append([row["workload"].rpartition("/")[2], decision["state"], _where(decision), until, why])
    less = f" of {len(first)}, the others with --all" if len(rows) < len(first) else ""
    yield from table(f"Pods ({len(rows)}{less})", ["NAME", "STATE", "NODE", "UNTIL", "WHY"], rows)
    if rows:
        yield f"\nMore of one of them: moorage explain pod {'/'.join(first[0]['workload'].split('/')[1:])}"


def _where(decision: Document) -> str:
    """The targets of a decision, by name."""
    if decision["target"] is not None:
        return str(decision["target"]["name"])
    parts = [
        f"{one['target']['name']} ({one['replicas']})" if one["replicas"] else one["target"]["name"]
        for one in decision["targets"]
    ]
    return ", ".join(parts) or NONE


def _here(told: Document, decision: Document) -> str:
    """Where the workload is by a decision."""
    if decision["target"] is not None or decision["targets"] or not told["here"]:
        return _where(decision)
    more = len(told["here"]) - _NAMED
    return ", ".join(told["here"][:_NAMED]) + (f" and {more} more" if more > 0 else "")


def _decision(told: Document) -> Iterator[str]:
    kind, namespace, name = told["workload"].split("/", 2)
    yield pair("Workload", f"{kind} {namespace}/{name}" if namespace else f"{kind} {name}")
    if told["owner"]:
        yield pair("Made by", told["owner"])
    decision = told["decision"]
    if decision is None:
        yield pair("Decision", "none is written yet")
    else:
        yield pair("State", f"{decision['state']} ({decision['reason'] or 'no reason'})")
        if decision["state"] != _EVICTED:
            yield pair(_kind(told) if decision["target"] is not None else f"{_kind(told)}s", _here(told, decision))
        since = human((_time(told["at"]) - _time(decision["decidedTime"])).total_seconds())
        yield pair("Decided", f"{decision['decidedTime']} ({since} ago), generation {decision['generation']}")
        if decision["message"]:
            yield pair("Message", decision["message"])
        if decision["previousTarget"] is not None:
            yield pair("Before on", decision["previousTarget"]["name"])
        for condition in decision["conditions"]:
            said = f"{condition['type']}={condition['status']} ({condition['reason']}): {condition['message']}"
            yield pair("Condition", said)
    for note in told["notes"]:
        yield pair("Note", note)
    yield pair(
        "Decided now", "the same" if told["agrees"] else "otherwise: it was decided then, and this is different now"
    )
    for difference in told["differences"]:
        yield f"  - {difference}"


def _fleet(told: Document) -> Iterator[str]:
    where_from = " of its sets" if told["targetKind"] == "ManagedCluster" else ""
    kind = f"{_kind(told).lower()}s{where_from}"
    yield f"As of {told['at']} {told['fitting']} of {told['considered']} {kind} fit."
    rows = [[str(one["count"]), one["filter"], one["reason"]] for one in told["ruledOut"]]
    if rows:
        yield from table("Ruled out, each counted once", ["COUNT", "FILTER", "REASON"], rows)


def _targets(told: Document) -> Iterator[str]:
    parts = [part for one in told["targets"] for part in one["scores"]]
    weights = {part["prioritizer"]: part["weight"] for part in parts}
    head = ["", _kind(told).upper(), "RANK", "TOTAL", *(f"{by} x{weight}" for by, weight in weights.items()), "OUTCOME"]
    rows = [_row(one, weights) for one in told["targets"]]
    less = f", {told['leftOut']} more with --all" if told["leftOut"] else ""
    yield from table(f"{_kind(told)}s ({len(rows)} shown{less})", head, rows)


def _kind(told: Document) -> str:
    """What targets are called in short: `Node`, `Cluster`."""
    return str(told["targetKind"]).removeprefix("Managed")


def _row(one: Document, named: Iterable[str]) -> list[str]:
    scores = {part["prioritizer"]: str(part["score"]) for part in one["scores"]}
    return [
        "*" if one["here"] else "",
        one["name"],
        "" if one["rank"] is None else str(one["rank"]),
        "" if one["total"] is None else str(one["total"]),
        *(scores.get(by, "") for by in named),
        one["outcome"],
    ]


def _closely(told: Document, one: Document) -> Iterator[str]:
    yield pair(_kind(told), one["name"])
    yield pair("Outcome", one["outcome"])
    rows = []
    for by in one["filters"]:
        first, *rest = [*by["reasons"], *by["details"]] or [""]
        rows.append([by["filter"], "passes" if by["passed"] else "RULED OUT", first])
        rows += [["", "", more] for more in rest]
    yield from table("Filters", ["FILTER", "VERDICT", "WHY"], rows)
    yield from _scores(one)
    acts = {(True, True): "keeps away and evicts", (True, False): "keeps away", (False, True): "evicts"}
    taints = [
        [taint["words"], acts.get((taint["keepsAway"], taint["evicts"]), "only scores")] for taint in one["taints"]
    ]
    yield from table("Taints", ["TAINT", "EFFECT"], taints)


def _scores(one: Document) -> Iterator[str]:
    if one["rank"] is None:
        return
    rows = []
    for by in one["scores"]:
        first, *rest = by["details"] or [""]
        rows.append([by["prioritizer"], str(by["score"]), f"x {by['weight']}", str(by["points"]), first])
        rows += [["", "", "", "", more] for more in rest]
    rows.append(["total", "", "", f"{one['total']} (rank {one['rank']})", ""])
    yield from table("Scores", ["PRIORITIZER", "SCORE", "WEIGHT", "POINTS", "WHY"], rows)


def _untils(untils: Iterable[Document], at: datetime) -> Iterator[str]:
    yield "Until when:"
    for one in untils:
        yield f"  - {_until_text(one, at)}"


def _until_text(one: Document, at: datetime) -> str:
    what, when = str(one["what"]), one["when"]
    if when is None:
        return what
    away = (_time(when) - at).total_seconds()
    left = f"in {human(away)}" if away > 0 else f"{human(-away)} ago" if away < 0 else "now"
    return f"{what.removesuffix(f', until {when}')}: {when} ({left})"


def _chains(told: Document) -> Iterator[str]:
    for chain in told["chains"]:
        yield ""
        yield from _chain(chain)


def _chain(chain: Document) -> Iterator[str]:
    yield f"Events behind {chain['about']}, the first one first:"
    for step in chain["steps"]:
        if "topic" not in step:
            what = ("lost", f"{step['lost']}: {step['note']}") if step["lost"] else ("clock", step["note"])
            yield f"  {'?':<20}  {what[0]:<19}  {what[1]}"
            continue
        note = f"  [{step['note']}]" if step["note"] else ""
        when = to_the_second(step["time"]) if step["time"] else "?"
        yield f"  {when:<20}  {step['topic']:<19}  {step['what']}{note}"


def _time(text: str) -> datetime:
    found: datetime = parse_time(text)
    return found
