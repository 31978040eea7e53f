"""The explanation of a target as lines for people, from its JSON document."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, Final

from moorage.apiserver.kinds.printing.columns import NONE
from moorage.cli.render.describe import pair, table
from moorage.decide.kubernetes.durations import human
from moorage_schemas.times import parse_time

Document = Mapping[str, Any]

_HELD: Final = "Held"


def lines(told: Document) -> Iterator[str]:
    """All of an explanation but its chains."""
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


def _time(text: str) -> datetime:
    found: datetime = parse_time(text)
    return found
