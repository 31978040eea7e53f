"""`moorage describe` of pods and of what makes them."""

from __future__ import annotations

from collections.abc import Iterator

from moorage.cli.api import kinds
from moorage.cli.api.client import Client, JsonObject
from moorage.cli.api.objects import at
from moorage.cli.errors import ServerError
from moorage.cli.render import kubernetes_tables
from moorage.cli.render.cells import NONE
from moorage.cli.render.describe import evictions, grounds, many, pair, pairs, table, toleration_text
from moorage.cli.render.durations import age

_PODS = kinds.find("pods")
_PLACEMENTS = kinds.find("workloadplacements")
_EVICTIONS = kinds.find("evictions")

_NOT_REPORTED = ": it is bound, and no deployer has reported it since"


def pod(client: Client, found: JsonObject) -> Iterator[str]:
    """A pod: where it is and why, what it tolerates, and its evictions."""
    namespace, name = str(at(found, "metadata", "namespace")), str(at(found, "metadata", "name"))
    yield pair("Node", at(found, "spec", "nodeName"))
    status = kubernetes_tables.pod_status(found)
    yield pair("Status", f"{status}{_NOT_REPORTED}" if status == kubernetes_tables.SCHEDULED else status)
    yield pair("Ready", kubernetes_tables.pod_ready(found))
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


def controller(client: Client, found: JsonObject) -> Iterator[str]:
    """What makes pods: how many there are to be, and the pods that there are."""
    yield pair("Replicas", f"{kubernetes_tables.replicas(found)} ready, {kubernetes_tables.scheduled(found)} scheduled")
    spec = at(found, "spec", "template", "spec") or {}
    yield from many("Tolerations", [toleration_text(one) for one in spec.get("tolerations") or []])
    uid = at(found, "metadata", "uid")
    pods = [
        [str(at(one, "metadata", "name")), kubernetes_tables.pod_status(one), str(at(one, "spec", "nodeName") or NONE)]
        for one in client.list(_PODS, str(at(found, "metadata", "namespace")))["items"]
        if any(owner.get("uid") == uid for owner in at(one, "metadata", "ownerReferences") or [])
    ]
    yield from table(f"Pods of this {found.get('kind')} ({len(pods)})", ["NAME", "STATUS", "NODE"], pods)


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
