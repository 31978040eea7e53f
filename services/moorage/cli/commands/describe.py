"""`moorage describe`: all about an object, with the reasons of what was decided on it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any

import typer

from moorage.cli import kinds, naming, output, tables
from moorage.cli.client import Client, JsonObject
from moorage.cli.durations import age
from moorage.cli.errors import FAILED, ServerError, UsageError
from moorage.cli.kinds import Kind
from moorage.cli.own_tables import until
from moorage.cli.tables import at, taint_text
from moorage.cli.where import connect

_PODS = kinds.find("pods")
_TAINTS = kinds.find("taints")
_PLACEMENTS = kinds.find("placements")
_EVICTIONS = kinds.find("evictions")
_NONE = "<none>"
_HIDDEN = "moorage.io/last-applied-configuration"


def describe(
    ctx: typer.Context,
    what: Annotated[list[str], typer.Argument(metavar="KIND [NAME…] | KIND/NAME…", show_default=False)],
    *,
    namespace: Annotated[str, typer.Option("-n", "--namespace", help="Whose objects.")] = "default",
    all_namespaces: Annotated[bool, typer.Option("-A", "--all-namespaces", help="Those of every namespace.")] = False,
    selector: Annotated[str, typer.Option("-l", "--selector", help="Objects with these labels.")] = "",
) -> None:
    """Tell all about an object, with reasons."""
    failed, first = False, True
    asked = naming.parse(what)
    if all_namespaces and any(one.names for one in asked):
        raise UsageError("a resource cannot be retrieved by name across all namespaces")
    if selector and any(one.names for one in asked):
        raise UsageError("name cannot be provided when a selector is specified")
    with connect(ctx) as client:
        for one in asked:
            if one.names:
                places = [(namespace, name) for name in one.names]
            else:
                listed = client.list(one.kind, None if all_namespaces else namespace, selector)
                places = [
                    (str(at(item, "metadata", "namespace") or namespace), str(at(item, "metadata", "name")))
                    for item in tables.listed(one.kind, listed)
                ]
            for place, name in places:
                try:
                    found = client.get(one.kind, place, name)
                except ServerError as error:
                    if error.reason != "NotFound":
                        raise
                    output.warn(str(error))
                    failed = True
                    continue
                output.write(
                    ("" if first else "\n\n") + "".join(f"{line}\n" for line in _lines(client, one.kind, found))
                )
                first = False
    if first and not failed:
        output.warn(tables.nothing(None if all_namespaces else namespace, [one.kind for one in asked]))
    if failed:
        raise typer.Exit(FAILED)


def _lines(client: Client, kind: Kind, found: JsonObject) -> Iterator[str]:
    yield from _head(kind, found)
    if kind.kind == "Node":
        yield from _node(client, found)
    elif kind.kind == "Pod":
        yield from _pod(client, found)
    elif at(found, "spec", "template") is not None:
        yield from _controller(client, kind, found)
    else:
        for part in ("spec", "status"):
            if found.get(part):
                yield f"{part.title()}:"
                yield from (f"  {line}" for line in output.to_yaml(found[part]).splitlines())


def _head(kind: Kind, found: JsonObject) -> Iterator[str]:
    yield _pair("Name", at(found, "metadata", "name"))
    if kind.namespaced:
        yield _pair("Namespace", at(found, "metadata", "namespace"))
    yield from _many("Labels", _pairs(at(found, "metadata", "labels")))
    yield from _many("Annotations", _pairs(at(found, "metadata", "annotations")))
    if created := at(found, "metadata", "creationTimestamp"):
        yield _pair("Created", f"{created} ({age(created)} ago)")


def _node(client: Client, found: JsonObject) -> Iterator[str]:
    name = at(found, "metadata", "name")
    yield _pair("Roles", tables.node_roles(found))
    yield _pair("Unschedulable", str(bool(at(found, "spec", "unschedulable"))).lower())
    origins = {
        (one["status"]["key"], one["status"]["effect"]): one["status"]
        for one in client.list(_TAINTS, None)["items"]
        if one["status"]["target"] == {"kind": "Node", "name": name}
    }
    rows = []
    for taint in at(found, "spec", "taints") or []:
        known = origins.get((taint.get("key"), taint.get("effect")), {})
        since = taint.get("timeAdded") or known.get("timeAdded") or ""
        origin = ",".join(known.get("origins") or []) or "being worked in"
        rows.append(
            [taint_text(taint), origin, f"{since} ({age(since)} ago)" if since else "", known.get("reason", "")]
        )
    yield from _table("Taints", ["TAINT", "ORIGIN", "SINCE", "REASON"], rows)
    conditions = [
        [
            str(one.get(field) or "")
            for field in ("type", "status", "lastHeartbeatTime", "lastTransitionTime", "reason", "message")
        ]
        for one in at(found, "status", "conditions") or []
    ]
    yield from _table("Conditions", ["TYPE", "STATUS", "HEARTBEAT", "TRANSITION", "REASON", "MESSAGE"], conditions)
    for field in ("capacity", "allocatable"):
        if offered := at(found, "status", field):
            yield from _many(field.title(), [f"{key}: {value}" for key, value in offered.items()])
    pods = [
        [str(at(one, "metadata", "namespace")), str(at(one, "metadata", "name")), tables.pod_status(one)]
        for one in client.list(_PODS, None)["items"]
        if at(one, "spec", "nodeName") == name
    ]
    yield from _table(f"Pods ({len(pods)})", ["NAMESPACE", "NAME", "STATUS"], pods)
    leaving = [
        one
        for one in client.list(_EVICTIONS, None)["items"]
        if one["status"]["target"]["name"] == name and one["status"]["state"] in {"Scheduled", "Requested"}
    ]
    yield from _evictions(leaving)


def _pod(client: Client, found: JsonObject) -> Iterator[str]:
    namespace, name = str(at(found, "metadata", "namespace")), str(at(found, "metadata", "name"))
    yield _pair("Node", at(found, "spec", "nodeName"))
    yield _pair("Status", tables.pod_status(found))
    owner = next(iter(at(found, "metadata", "ownerReferences") or []), None)
    yield _pair(
        "Made by", f"{owner['kind'].lower()}/{owner['name']}" if owner else "nobody: a bare pod is not made again"
    )
    yield from _many("Node selector", _pairs(at(found, "spec", "nodeSelector")))
    yield from _many("Tolerations", [toleration_text(one) for one in at(found, "spec", "tolerations") or []])
    yield from _placement(client, namespace, name)
    evictions = [
        one
        for one in client.list(_EVICTIONS, namespace)["items"]
        if one["status"]["workload"].get("name") == name and one["status"]["workload"].get("kind") == "Pod"
    ]
    yield from _evictions(evictions)


def _placement(client: Client, namespace: str, name: str) -> Iterator[str]:
    try:
        decision = client.get(_PLACEMENTS, namespace, name)["status"]
    except ServerError as error:
        if error.reason != "NotFound":
            raise
        yield _pair("Placement", "not decided yet")
        return
    yield "Placement:"
    yield _pair("  State", f"{decision['state']} ({decision.get('reason') or 'no reason'})")
    yield _pair("  Decided", f"{decision['decidedTime']} ({age(decision['decidedTime'])} ago)")
    if decision.get("message"):
        yield _pair("  Message", decision["message"])
    if before := decision.get("previousTarget"):
        yield _pair("  Before on", f"{before['kind'].lower()}/{before['name']}")
    if decision.get("replaces"):
        yield _pair("  Replaces", decision["replaces"])
    yield _pair("  Considered", f"{decision.get('targetsConsidered', 0)} targets")
    filters = [
        [str(one["filter"]), str(one["count"]), str(one["reason"]), ",".join(one.get("targets") or [])]
        for one in decision.get("filters") or []
    ]
    yield from _table("  Filters", ["FILTER", "RULED OUT", "REASON", "TARGETS"], filters, indent="    ")
    scores = [
        [one["target"], str(one["total"]), ", ".join(f"{key} {value}" for key, value in one.get("scores", {}).items())]
        for one in decision.get("scores") or []
    ]
    yield from _table("  Scores", ["TARGET", "TOTAL", "BY PRIORITIZER"], scores, indent="    ")


def _controller(client: Client, kind: Kind, found: JsonObject) -> Iterator[str]:
    yield _pair("Replicas", tables.replicas(found))
    spec = at(found, "spec", "template", "spec") or {}
    yield from _many("Tolerations", [toleration_text(one) for one in spec.get("tolerations") or []])
    uid = at(found, "metadata", "uid")
    pods = [
        [str(at(one, "metadata", "name")), tables.pod_status(one), str(at(one, "spec", "nodeName") or _NONE)]
        for one in client.list(_PODS, str(at(found, "metadata", "namespace")))["items"]
        if any(owner.get("uid") == uid for owner in at(one, "metadata", "ownerReferences") or [])
    ]
    yield from _table(f"Pods of this {kind.kind} ({len(pods)})", ["NAME", "STATUS", "NODE"], pods)


def _evictions(found: list[JsonObject]) -> Iterator[str]:
    rows = []
    for one in found:
        status = one["status"]
        due = status.get("deadline") or ""
        rows.append(
            [
                str(status["workload"].get("name")),
                str(status["target"]["name"]),
                str(status["state"]),
                f"{due} ({until(due)})" if due and status["state"] == "Scheduled" else due,
                str(status.get("message") or status.get("reason") or ""),
            ]
        )
    yield from _table("Evictions", ["WORKLOAD", "TARGET", "STATE", "DEADLINE", "REASON"], rows)


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


def _pair(name: str, value: Any) -> str:
    return f"{name + ':':<16}{value if value not in (None, '') else _NONE}"


def _pairs(values: Mapping[str, Any] | None) -> list[str]:
    return [f"{key}={value}" for key, value in sorted((values or {}).items()) if key != _HIDDEN]


def _many(name: str, values: list[str]) -> Iterator[str]:
    first, *rest = values or [_NONE]
    yield _pair(name, first)
    for value in rest:
        yield " " * 16 + value


def _table(name: str, head: list[str], rows: list[list[str]], *, indent: str = "  ") -> Iterator[str]:
    if not rows:
        yield _pair(name, _NONE)
        return
    yield f"{name}:"
    for line in output.table(head, rows).splitlines():
        yield indent + line
