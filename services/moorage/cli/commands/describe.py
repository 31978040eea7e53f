"""`moorage describe`: all about an object, with the reasons of what was decided on it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

import typer

from moorage.cli.api import kinds, object_names, resource_arguments
from moorage.cli.api.client import Client, JsonObject
from moorage.cli.api.endpoints import connect
from moorage.cli.api.kinds import Kind
from moorage.cli.errors import FAILED, ServerError, UsageError
from moorage.cli.render import describe_ocm, describe_targets, output, tables
from moorage.cli.render.describe import NONE, evictions, grounds, many, pair, pairs, table, toleration_text
from moorage.cli.render.durations import age
from moorage.cli.render.tables import at

_PODS = kinds.find("pods")
_PLACEMENTS = kinds.find("workloadplacements")
_EVICTIONS = kinds.find("evictions")


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
    asked = resource_arguments.parse(what)
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


_TELLERS = {
    "Node": describe_targets.node,
    "Cluster": describe_targets.cluster,
    "Zone": describe_targets.zone,
    "MachineSet": describe_targets.machine_set,
    "ResourceBinding": describe_targets.binding,
    "PodDisruptionBudget": describe_targets.disruption_budget,
    "EvictionBudget": describe_targets.guard,
    "EvictionPause": describe_targets.guard,
    "ManagedCluster": describe_ocm.cluster,
    "ManagedClusterSet": describe_ocm.cluster_set,
    "ManagedClusterSetBinding": describe_ocm.binding,
    "Placement": describe_ocm.placement,
    "PlacementDecision": describe_ocm.decision,
    "AddOnPlacementScore": describe_ocm.score,
    "ManagedClusterAddOn": describe_ocm.add_on,
}


def _lines(client: Client, kind: Kind, found: JsonObject) -> Iterator[str]:
    yield from _head(kind, found)
    if teller := _TELLERS.get(kind.kind):
        yield from teller(client, {"kind": kind.kind, **found})
    elif kind.kind == "Pod":
        yield from _pod(client, found)
    elif at(found, "spec", "template") is not None:
        yield from _controller(client, kind, found)
    else:
        for part in ("spec", "status"):
            if found.get(part):
                yield f"{part.title()}:"
                yield from (f"  {line}" for line in output.to_yaml(found[part]).splitlines())


_NOT_REPORTED = ": it is bound, and no deployer has reported it since"


def _head(kind: Kind, found: JsonObject) -> Iterator[str]:
    yield pair("Name", object_names.shown(kind, found))
    if kind.namespaced:
        yield pair("Namespace", at(found, "metadata", "namespace"))
    yield from many("Labels", pairs(at(found, "metadata", "labels")))
    yield from many("Annotations", pairs(at(found, "metadata", "annotations")))
    if created := at(found, "metadata", "creationTimestamp"):
        yield pair("Created", f"{created} ({age(created)} ago)")


def _pod(client: Client, found: JsonObject) -> Iterator[str]:
    namespace, name = str(at(found, "metadata", "namespace")), str(at(found, "metadata", "name"))
    yield pair("Node", at(found, "spec", "nodeName"))
    status = tables.pod_status(found)
    yield pair("Status", f"{status}{_NOT_REPORTED}" if status == tables.SCHEDULED else status)
    yield pair("Ready", tables.pod_ready(found))
    owner = next(iter(at(found, "metadata", "ownerReferences") or []), None)
    yield pair(
        "Made by", f"{owner['kind'].lower()}/{owner['name']}" if owner else "nobody: a bare pod is not made again"
    )
    yield from many("Node selector", pairs(at(found, "spec", "nodeSelector")))
    yield from many("Tolerations", [toleration_text(one) for one in at(found, "spec", "tolerations") or []])
    yield from _placement(client, namespace, name)
    leaving = [
        one
        for one in client.list(_EVICTIONS, namespace)["items"]
        if one["status"]["workload"].get("name") == name and one["status"]["workload"].get("kind") == "Pod"
    ]
    yield from evictions(leaving)


def _placement(client: Client, namespace: str, name: str) -> Iterator[str]:
    try:
        decision = client.get(_PLACEMENTS, namespace, name)["status"]
    except ServerError as error:
        if error.reason != "NotFound":
            raise
        yield pair("Placement", "not decided yet")
        return
    yield "Placement:"
    yield pair("  State", f"{decision['state']} ({decision.get('reason') or 'no reason'})")
    yield pair("  Decided", f"{decision['decidedTime']} ({age(decision['decidedTime'])} ago)")
    if decision.get("message"):
        yield pair("  Message", decision["message"])
    if before := decision.get("previousTarget"):
        yield pair("  Before on", f"{before['kind'].lower()}/{before['name']}")
    if decision.get("replaces"):
        yield pair("  Replaces", decision["replaces"])
    yield from grounds(decision)


def _controller(client: Client, kind: Kind, found: JsonObject) -> Iterator[str]:
    yield pair("Replicas", f"{tables.replicas(found)} ready, {tables.scheduled(found)} scheduled")
    spec = at(found, "spec", "template", "spec") or {}
    yield from many("Tolerations", [toleration_text(one) for one in spec.get("tolerations") or []])
    uid = at(found, "metadata", "uid")
    pods = [
        [str(at(one, "metadata", "name")), tables.pod_status(one), str(at(one, "spec", "nodeName") or NONE)]
        for one in client.list(_PODS, str(at(found, "metadata", "namespace")))["items"]
        if any(owner.get("uid") == uid for owner in at(one, "metadata", "ownerReferences") or [])
    ]
    yield from table(f"Pods of this {kind.kind} ({len(pods)})", ["NAME", "STATUS", "NODE"], pods)
