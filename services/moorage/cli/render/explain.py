"""An explanation as lines of text, from its JSON document."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from moorage.apiserver.kinds.kind import ServedKind
from moorage.apiserver.kinds.printing.columns import NONE
from moorage.apiserver.machinery.schema import Field, Form, Schema
from moorage.cli.errors import CliError
from moorage.cli.render.describe import pair, table
from moorage.cli.render.durations import to_the_second
from moorage.decide.kubernetes.durations import human
from moorage_schemas.times import parse_time

Document = Mapping[str, Any]

_HELD: Final = "Held"


def _target(told: Document) -> Iterator[str]:
    """Yield the explanation of a target without its chains."""
    kind, _, name = told["target"].partition("/")
    at = _time(told["at"])
    yield pair("Target", f"{kind} {name}")
    yield pair("State", f"{told['status']}, SchedulingDisabled" if told["cordoned"] else told["status"])
    if (zone := told["zone"]) is not None:
        yield pair("Zone", zone["what"].removeprefix("zone ") or zone["name"])
    if told["notReadySince"] is not None:
        yield pair("Not ready", f"since {_since(told['notReadySince'], at)}")
    yield pair("As of", told["at"])
    yield ""
    yield from _conditions(told, at)
    yield from _taints(told, at)
    if told["held"]:
        yield from _held(told, at)
    yield from _evictions(told, at)


def _conditions(told: Document, at: datetime) -> Iterator[str]:
    rows = []
    for one in told["conditions"]:
        why = ": ".join(part for part in (one["reason"], one["message"]) if part)
        heard = f"{one['source'] or 'an unnamed source'}, {_ago(one['lastHeartbeatTime'], at)}"
        rows.append([one["type"], one["status"], _since(one["lastTransitionTime"], at), heard, why])
    yield from table("Conditions", ["TYPE", "STATUS", "SINCE", "LAST REPORTED BY", "WHY"], rows)


def _taints(told: Document, at: datetime) -> Iterator[str]:
    rows = [
        [
            one["taint"],
            ", ".join(origin["origin"] for origin in one["origins"]),
            _since(one["timeAdded"], at),
            str(one["evictions"]),
            one["reason"],
        ]
        for one in told["taints"]
    ]
    yield from table("Taints", ["TAINT", "FROM", "SINCE", "EVICTIONS", "WHY"], rows)


def _held(told: Document, at: datetime) -> Iterator[str]:
    rows = []
    for one in told["held"]:
        place = f" (number {one['place']} in its queue)" if one["place"] is not None else ""
        rows.append([one["taint"], _since(one["since"], at), f"{one['reason']}{place}"])
    yield from table("Held taints", ["TAINT", "WANTED SINCE", "WAITS FOR"], rows)


def _evictions(told: Document, at: datetime) -> Iterator[str]:
    rows = []
    for one in told["evictions"]:
        ref = one["workload"]
        name = f"{ref['namespace']}/{ref['name']}" if ref["namespace"] else ref["name"]
        held = ", ".join(one["heldBy"]) if one["state"] == _HELD else ""
        due = _due(one["deadline"], at) if one["deadline"] is not None else NONE
        why = held or ", ".join(one["taints"]) or one["message"] or one["reason"]
        rows.append([f"{ref['kind'].lower()} {name}", one["state"], due, why])
    states = ", ".join(f"{count} {state}" for state, count in told["evictionStates"].items())
    less = f"; {told['leftOut']} more with --all" if told["leftOut"] else ""
    title = f"Evictions ({states}{less})" if states else "Evictions"
    yield from table(title, ["WORKLOAD", "STATE", "DUE", "HELD BY, OR WHY"], rows)


def _since(text: str, at: datetime) -> str:
    return f"{text} ({_ago(text, at)})"


def _ago(text: str, at: datetime) -> str:
    return f"{human(max(0.0, (at - _time(text)).total_seconds()))} ago"


def _due(text: str, at: datetime) -> str:
    away = (_time(text) - at).total_seconds()
    return f"in {human(away)}" if away > 0 else f"{human(-away)} ago"


_EVICTED: Final = "Evicted"

_NAMED: Final = 10
"""Targets that are named in one line, at most."""

_ROWS: Final = 25
"""The most pods that are shown without --all."""


def lines(told: Document, *, every: bool = False, closely: bool = False) -> Iterator[str]:
    """Yield all of an explanation.

    With `every`, all pods of a controller are shown; with `closely`, the verdict of each filter and prioritizer.
    """
    yield from map(to_the_second, _lines(told, every=every, closely=closely))


def _lines(told: Document, *, every: bool, closely: bool) -> Iterator[str]:
    if "pods" in told:
        yield from _summary(told, every=every)
    elif "target" in told:
        yield from _target(told)
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
    """Yield the pods of a controller, one a line: those that wait or are to leave first, and not too many."""
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
    """Return the targets of a decision, by name."""
    if decision["target"] is not None:
        return str(decision["target"]["name"])
    parts = [
        f"{one['target']['name']} ({one['replicas']})" if one["replicas"] else one["target"]["name"]
        for one in decision["targets"]
    ]
    return ", ".join(parts) or NONE


def _here(told: Document, decision: Document) -> str:
    """Return where the workload is by a decision."""
    if decision["target"] is not None or decision["targets"] or not told["here"]:
        return _where(decision)
    more = len(told["here"]) - _NAMED
    return ", ".join(told["here"][:_NAMED]) + (f" and {more} more" if more > 0 else "")


def _decision(told: Document) -> Iterator[str]:
    kind, namespace, name = told["workload"].split("/", 2)
    yield pair("Workload", f"{kind} {namespace}/{name}" if namespace else f"{kind} {name}")
    if told["owner"]:
        yield pair("Controlled by", told["owner"])
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
    yield pair("Decided now", "the same" if told["agrees"] else "different. Changed since then:")
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
    """Return the short name of targets: `Node`, `Cluster`."""
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


_DEEPEST = 12
"""How many levels of fields are shown. Some structures contain themselves."""

_TYPE_NAMES: Final = {
    Form.INT_OR_STRING: "IntOrString",
    Form.QUANTITY: "Quantity",
    Form.ANY: "Object",
    Form.TIME: "string",
}


def structure_lines(kind: ServedKind, schema: Schema, path: Sequence[str], *, recursive: bool) -> Iterator[str]:
    """Yield the description of a kind, or of the field at a path. Raises CliError if the field does not exist."""
    if kind.group:
        yield f"GROUP:      {kind.group}"
    yield f"KIND:       {kind.kind}"
    yield f"VERSION:    {kind.version}"
    yield ""
    at = schema
    for name in path:
        inner = _elements(at)
        found = inner.at(name)
        if found is None:
            raise CliError(f'field "{name}" does not exist')
        at = found
    if path:
        yield f"FIELD: {path[-1]} <{type_name(at)}>"
        yield ""
    fields = _elements(at).fields
    if fields:
        yield "FIELDS:"
        yield from _structure_fields(fields.values(), recursive=recursive, depth=1)


def _structure_fields(fields: Iterable[Field], *, recursive: bool, depth: int) -> Iterator[str]:
    for field in sorted(fields, key=lambda one: one.name):
        required = " -required-" if field.required else ""
        yield f"{'  ' * depth}{field.name}\t<{type_name(field.schema)}>{required}"
        if recursive and depth < _DEEPEST:
            yield from _structure_fields(_elements(field.schema).fields.values(), recursive=True, depth=depth + 1)


def type_name(schema: Schema) -> str:
    """Return the type of a value: `string`, `[]Toleration`, `map[string]string`."""
    if schema.form is Form.LIST:
        return f"[]{type_name(schema.items)}" if schema.items else "[]Object"
    if schema.form is Form.MAP:
        return f"map[string]{type_name(schema.items)}" if schema.items else "Object"
    if schema.form is Form.STRUCT:
        return schema.name.rpartition(".")[2] or "Object"
    return _TYPE_NAMES.get(schema.form, str(schema.form.value))


def _elements(schema: Schema) -> Schema:
    """Return the structure of the elements of lists and maps."""
    while schema.form in {Form.LIST, Form.MAP} and schema.items is not None:
        schema = schema.items
    return schema
