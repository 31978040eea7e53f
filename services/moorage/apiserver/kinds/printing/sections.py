"""The sections of `describe`: the content for an object, before it is formatted as text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple, Protocol

from moorage.apiserver.kinds.printing.columns import Object
from moorage.decide.kubernetes.durations import age
from moorage.decide.kubernetes.object_texts import taint_text, toleration_text, until, why_evicted
from moorage.decide.kubernetes.unstructured import at

OPEN = frozenset({"Scheduled", "Held", "Requested"})
"""The states of evictions that are not over."""

_HIDDEN = frozenset({"kubectl.kubernetes.io/last-applied-configuration", "moorage.io/last-applied-configuration"})
"""Annotations with the whole object as it was applied."""


class Pair(NamedTuple):
    """A name and a value in one line."""

    name: str
    value: Any


class Values(NamedTuple):
    """A name and several values, one in each line."""

    name: str
    values: Sequence[str]


class Rows(NamedTuple):
    """A table below its name."""

    name: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    indent: str = "  "


class Heading(NamedTuple):
    """A heading for the lines below it."""

    name: str


class Fields(NamedTuple):
    """An unchanged part of the object, below its name."""

    name: str
    value: Any


Section = Pair | Values | Rows | Heading | Fields


class Related(Protocol):
    """Reads the objects that belong to the one that is described."""

    def list(self, kind: str, namespace: str | None = None, selector: str = "") -> Sequence[Object]:
        """Return the objects of a kind, in all namespaces if none is named."""

    def get(self, kind: str, namespace: str, name: str) -> Object | None:
        """Return one object. None if there is none."""


def time_and_age(when: Any, now: datetime) -> str:
    """Return a time and how long ago it was. Empty without a time."""
    return f"{when} ({age(when, now)} ago)" if when else ""


def pairs(values: Mapping[str, Any] | None) -> list[str]:
    """Labels, annotations or a node selector, one text each."""
    return [f"{key}={value}" for key, value in sorted((values or {}).items()) if key not in _HIDDEN]


def taint_texts(taints: Any) -> list[str]:
    """Taints as they are written on the command line."""
    return [taint_text(taint) for taint in taints or []]


def as_declared(found: Object) -> Iterator[Section]:
    """`spec` and `status`, unchanged."""
    for part in ("spec", "status"):
        if found.get(part):
            yield Fields(part.title(), found[part])


def conditions(found: Object) -> Section:
    """Return the conditions of a target, with the times of their heartbeats."""
    fields = ("type", "status", "lastHeartbeatTime", "lastTransitionTime", "reason", "message")
    rows = [[str(one.get(field) or "") for field in fields] for one in at(found, "status", "conditions") or []]
    return Rows("Conditions", ["TYPE", "STATUS", "HEARTBEAT", "TRANSITION", "REASON", "MESSAGE"], rows)


def plain_conditions(found: Object) -> Section:
    """Conditions without times."""
    fields = ("type", "status", "reason", "message")
    rows = [[str(one.get(field) or "") for field in fields] for one in at(found, "status", "conditions") or []]
    return Rows("Conditions", ["TYPE", "STATUS", "REASON", "MESSAGE"], rows)


def evictions(found: Sequence[Object], now: datetime) -> Section:
    """Evictions, with the deadlines or guards that they wait for."""
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
                f"{due} ({until(due, now)})" if due and waits else due,
                ",".join(status.get("heldBy") or []) if status["state"] == "Held" else "",
                why_evicted(status),
            ]
        )
    return Rows("Evictions", ["WORKLOAD", "TARGET", "STATE", "DEADLINE", "HELD BY", "REASON"], rows)


def held_by(guard: str, related: Related, now: datetime, namespace: str | None = None) -> Section:
    """Return the evictions that a budget or a pause holds.

    `guard` is as in `heldBy` of evictions: `EvictionPause/all`. Without a namespace, those of all are returned.
    """
    found = [
        one
        for one in related.list("Eviction", namespace)
        if one["status"]["state"] == "Held" and guard in (one["status"].get("heldBy") or [])
    ]
    return evictions(found, now)


def grounds(decision: Mapping[str, Any]) -> Iterator[Section]:
    """Yield the grounds of a decision: the number of targets, what ruled them out, and the best scores."""
    yield Pair("  Considered", f"{decision.get('targetsConsidered', 0)} targets")
    filters = [
        [str(one["filter"]), str(one["count"]), str(one["reason"]), ",".join(one.get("targets") or [])]
        for one in decision.get("filters") or []
    ]
    yield Rows("  Filters", ["FILTER", "RULED OUT", "REASON", "TARGETS"], filters, indent="    ")
    scores = [
        [one["target"], str(one["total"]), ", ".join(f"{key} {value}" for key, value in one.get("scores", {}).items())]
        for one in decision.get("scores") or []
    ]
    yield Rows("  Scores", ["TARGET", "TOTAL", "BY PRIORITIZER"], scores, indent="    ")


def tolerations(declared: Any) -> Section:
    """Tolerations, one in each line."""
    return Values("Tolerations", [toleration_text(one) for one in declared or []])
