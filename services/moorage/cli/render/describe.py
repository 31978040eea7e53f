"""Lines of `moorage describe`: pairs, lists and tables as kubectl lays them out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from moorage.cli.api.client import JsonObject
from moorage.cli.api.objects import at
from moorage.cli.render import output
from moorage.cli.render.cells import NONE, taint_text
from moorage.cli.render.durations import age
from moorage.cli.render.own_tables import until

_HIDDEN = "moorage.io/last-applied-configuration"


def pair(name: str, value: Any) -> str:
    """`Name:           value`."""
    return f"{name + ': ':<16}{value if value not in (None, '') else NONE}"


def pairs(values: Mapping[str, Any] | None) -> list[str]:
    """Labels or annotations, one text each."""
    return [f"{key}={value}" for key, value in sorted((values or {}).items()) if key != _HIDDEN]


def many(name: str, values: list[str]) -> Iterator[str]:
    """A name with several values, one a line."""
    first, *rest = values or [NONE]
    yield pair(name, first)
    for value in rest:
        yield " " * 16 + value


def table(name: str, head: list[str], rows: list[list[str]], *, indent: str = "  ") -> Iterator[str]:
    """A table below its name."""
    if not rows:
        yield pair(name, NONE)
        return
    yield f"{name}:"
    for line in output.table(head, rows).splitlines():
        yield indent + line


def since(when: Any) -> str:
    """A time and how long ago it was; empty without one."""
    return f"{when} ({age(when)} ago)" if when else ""


def conditions(found: JsonObject) -> Iterator[str]:
    """The conditions of a target."""
    fields = ("type", "status", "lastHeartbeatTime", "lastTransitionTime", "reason", "message")
    rows = [[str(one.get(field) or "") for field in fields] for one in at(found, "status", "conditions") or []]
    yield from table("Conditions", ["TYPE", "STATUS", "HEARTBEAT", "TRANSITION", "REASON", "MESSAGE"], rows)


def evictions(found: list[JsonObject]) -> Iterator[str]:
    """Evictions with what they wait for."""
    rows = []
    for one in found:
        status = one["status"]
        due = status.get("deadline") or ""
        waits = status["state"] in {"Scheduled", "Held"}
        rows.append(
            [
                str(status["workload"].get("name")),
                str(status["target"]["name"]),
                str(status["state"]),
                f"{due} ({until(due)})" if due and waits else due,
                ",".join(status.get("heldBy") or []) if status["state"] == "Held" else "",
                str(status.get("message") or status.get("reason") or ""),
            ]
        )
    yield from table("Evictions", ["WORKLOAD", "TARGET", "STATE", "DEADLINE", "HELD BY", "REASON"], rows)


def grounds(decision: Mapping[str, Any]) -> Iterator[str]:
    """What a decision rests on: how many targets were looked at, what ruled them out, and the best scores."""
    yield pair("  Considered", f"{decision.get('targetsConsidered', 0)} targets")
    filters = [
        [str(one["filter"]), str(one["count"]), str(one["reason"]), ",".join(one.get("targets") or [])]
        for one in decision.get("filters") or []
    ]
    yield from table("  Filters", ["FILTER", "RULED OUT", "REASON", "TARGETS"], filters, indent="    ")
    scores = [
        [one["target"], str(one["total"]), ", ".join(f"{key} {value}" for key, value in one.get("scores", {}).items())]
        for one in decision.get("scores") or []
    ]
    yield from table("  Scores", ["TARGET", "TOTAL", "BY PRIORITIZER"], scores, indent="    ")


def toleration_text(toleration: Mapping[str, Any]) -> str:
    """A toleration in one line, as kubectl shows it: `key=value:Effect op=Exists for 300s`."""
    key, value = str(toleration.get("key") or ""), str(toleration.get("value") or "")
    text = key + (f"={value}" if value else "")
    if effect := toleration.get("effect"):
        text += f":{effect}"
    operator = toleration.get("operator")
    if operator and (operator != "Equal" or not value):
        text += f" op={operator}"
    seconds = toleration.get("tolerationSeconds")
    return (text + (f" for {seconds}s" if seconds is not None else "")).strip()


def taint_texts(taints: Any) -> list[str]:
    """Taints as they are written on the command line."""
    return [taint_text(taint) for taint in taints or []]
