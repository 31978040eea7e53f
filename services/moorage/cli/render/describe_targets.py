"""`moorage describe` of nodes, clusters, zones, machine sets, bindings, budgets and pauses."""

from __future__ import annotations

from collections.abc import Iterator

from moorage.cli.api import kinds
from moorage.cli.api.client import Client, JsonObject
from moorage.cli.api.objects import at
from moorage.cli.render import output
from moorage.cli.render.cells import UNREPORTED, condition_status, taint_text
from moorage.cli.render.describe import conditions, evictions, many, pair, since, table, taint_texts
from moorage.cli.render.durations import age
from moorage.cli.render.karmada_tables import cluster_text
from moorage.cli.render.kubernetes_tables import node_roles, node_status, pod_status
from moorage.cli.render.own_tables import rate_text, zone_state

_NODES = kinds.find("nodes")
_PODS = kinds.find("pods")
_TAINTS = kinds.find("taints")
_ZONES = kinds.find("zones")
_EVICTIONS = kinds.find("evictions")
_BINDINGS = kinds.find("resourcebindings")
_OPEN = {"Scheduled", "Held", "Requested"}


def node(client: Client, found: JsonObject) -> Iterator[str]:
    """A node: its zone, taints and those that wait, conditions, pods, evictions."""
    name = at(found, "metadata", "name")
    yield pair("Roles", node_roles(found))
    yield pair("Status", node_status(found) + _unreported(found))
    yield pair("Unschedulable", str(bool(at(found, "spec", "unschedulable"))).lower())
    yield from _zone_of(client, found)
    yield from taints(client, found)
    yield from conditions(found)
    for field in ("capacity", "allocatable"):
        if offered := at(found, "status", field):
            yield from many(field.title(), [f"{key}: {value}" for key, value in offered.items()])
    pods = [
        [str(at(one, "metadata", "namespace")), str(at(one, "metadata", "name")), pod_status(one)]
        for one in client.list(_PODS, None)["items"]
        if at(one, "spec", "nodeName") == name
    ]
    yield from table(f"Pods ({len(pods)})", ["NAMESPACE", "NAME", "STATUS"], pods)
    yield from _leaving(client, found)


def _unreported(found: JsonObject) -> str:
    """What it means that nobody has reported `Ready`; nothing where somebody has."""
    return "" if condition_status(found, "Ready") else ": no probe has reported Ready, so it counts as ready"


def cluster(client: Client, found: JsonObject) -> Iterator[str]:
    """A cluster: where it is, taints, conditions, what belongs on it, evictions."""
    name = at(found, "metadata", "name")
    yield pair("Sync mode", at(found, "spec", "syncMode") or "Push")
    yield pair("Provider", at(found, "spec", "provider"))
    yield pair("Region", at(found, "spec", "region"))
    yield pair("Zones", ",".join(at(found, "spec", "zones") or []) or at(found, "spec", "zone"))
    yield pair("Ready", (condition_status(found, "Ready") or UNREPORTED) + _unreported(found))
    yield from taints(client, found)
    yield from conditions(found)
    rows = [
        [
            str(at(one, "metadata", "namespace")),
            str(at(one, "metadata", "name")),
            str(part.get("replicas") or ""),
            "leaving" if any(name == task.get("fromCluster") for task in _tasks(one)) else "",
        ]
        for one in client.list(_BINDINGS, None)["items"]
        for part in _parts(one)
        if part.get("name") == name
    ]
    yield from table(f"Resources ({len(rows)})", ["NAMESPACE", "NAME", "REPLICAS", "STATE"], rows)
    yield from _leaving(client, found)


def zone(client: Client, found: JsonObject) -> Iterator[str]:
    """A zone: its state, its rate, and who waits."""
    status = found.get("status") or {}
    yield pair("State", zone_state(found))
    if status.get("stopped"):
        yield pair("Stopped", "every zone is fully disrupted: no node gets a taint that evicts")
    yield pair("Nodes", f"{status.get('nodes', 0)}, of which {status.get('notReady', 0)} are not ready")
    yield pair("Rate", rate_text(status.get("rate")))
    yield pair("Tokens", f"{status.get('tokens', 0)} at {status.get('tokensTime') or '<unknown>'}")
    granted = [[str(one.get("target")), since(one.get("since"))] for one in status.get("granted") or []]
    yield from table("Granted", ["TARGET", "NOT READY SINCE"], granted)
    waiting = [[str(one.get("target")), since(one.get("since"))] for one in status.get("queue") or []]
    yield from table(f"Waiting ({status.get('waiting', 0)})", ["TARGET", "NOT READY SINCE"], waiting)
    members = [
        [str(at(one, "metadata", "name")), node_status(one), ",".join(taint_texts(at(one, "spec", "taints")))]
        for one in client.list(_NODES, None)["items"]
        if zone_name(one) == status.get("zone")
    ]
    yield from table(f"Nodes of this zone ({len(members)})", ["NAME", "STATUS", "TAINTS"], members)


def machine_set(client: Client, found: JsonObject) -> Iterator[str]:
    """A machine set: how many nodes, what they are made with, and which there are."""
    status = found.get("status") or {}
    wanted = at(found, "spec", "replicas")
    there = f"{status.get('replicas', 0)} there, {status.get('readyReplicas', 0)} ready"
    yield pair("Replicas", f"{1 if wanted is None else wanted} wanted, {there}")
    template = at(found, "spec", "template", "spec") or {}
    yield from many("New nodes get", taint_texts(template.get("taints")))
    yield from many("And labels", [f"{k}={v}" for k, v in (at(template, "metadata", "labels") or {}).items()])
    uid = at(found, "metadata", "uid")
    rows = [
        [
            str(at(one, "metadata", "name")),
            node_status(one),
            age(at(one, "metadata", "creationTimestamp")),
            ",".join(taint_texts(at(one, "spec", "taints"))),
        ]
        for one in client.list(_NODES, None)["items"]
        if any(owner.get("uid") == uid for owner in at(one, "metadata", "ownerReferences") or [])
    ]
    yield from table(f"Nodes of this set ({len(rows)})", ["NAME", "STATUS", "AGE", "TAINTS"], rows)


def zone_name(found: JsonObject) -> str:
    """The zone of a node, `region/zone`, from its labels; the older ones count too."""
    labels = at(found, "metadata", "labels") or {}
    parts = []
    for part in ("region", "zone"):
        older = labels.get(f"failure-domain.beta.kubernetes.io/{part}", "")
        parts.append(str(labels.get(f"topology.kubernetes.io/{part}") or older))
    return "/".join(parts)


def _zone_of(client: Client, found: JsonObject) -> Iterator[str]:
    name = zone_name(found)
    known = {at(one, "status", "zone"): one for one in client.list(_ZONES, None)["items"]}
    state = f" ({zone_state(known[name])})" if name in known else ""
    yield pair("Zone", f"{name if name != '/' else 'none'}{state}")


def taints(client: Client, found: JsonObject) -> Iterator[str]:
    """The taints of a target with their origins, and those that are wanted and wait."""
    who = {"kind": found.get("kind"), "name": at(found, "metadata", "name")}
    origins = {
        (one["status"]["key"], one["status"]["effect"]): one["status"]
        for one in client.list(_TAINTS, None)["items"]
        if one["status"]["target"] == who and not one["status"].get("held")
    }
    rows = []
    for taint in at(found, "spec", "taints") or []:
        known = origins.get((taint.get("key"), taint.get("effect")), {})
        added = taint.get("timeAdded") or known.get("timeAdded") or ""
        origin = ",".join(known.get("origins") or []) or "being worked in"
        rows.append([taint_text(taint), origin, since(added), known.get("reason", "")])
    yield from table("Taints", ["TAINT", "ORIGIN", "SINCE", "REASON"], rows)
    held = [
        [taint_text(one), since(one.get("since")), str(one.get("reason") or "")]
        for one in at(found, "status", "heldTaints") or []
    ]
    if held:
        yield from table("Held taints", ["TAINT", "WANTED SINCE", "WAITS FOR"], held)


def _leaving(client: Client, found: JsonObject) -> Iterator[str]:
    who = (found.get("kind"), at(found, "metadata", "name"))
    yield from evictions(
        [
            one
            for one in client.list(_EVICTIONS, None)["items"]
            if (at(one, "status", "target", "kind"), at(one, "status", "target", "name")) == who
            and one["status"]["state"] in _OPEN
        ]
    )


def _tasks(binding: JsonObject) -> list[JsonObject]:
    tasks: list[JsonObject] = at(binding, "spec", "gracefulEvictionTasks") or []
    return tasks


def _parts(binding: JsonObject) -> list[JsonObject]:
    """The clusters of a ResourceBinding, and those that it is leaving."""
    there: list[JsonObject] = at(binding, "spec", "clusters") or []
    names = {one.get("name") for one in there}
    left = [{"name": one.get("fromCluster"), "replicas": one.get("replicas")} for one in _tasks(binding)]
    return [*there, *(one for one in left if one["name"] not in names)]


def binding(client: Client, found: JsonObject) -> Iterator[str]:
    """A ResourceBinding: what is where, with how many replicas, what it leaves, and why."""
    resource = at(found, "spec", "resource") or {}
    yield pair("Resource", f"{str(resource.get('kind')).lower()}/{resource.get('name')}")
    yield pair("Replicas", at(found, "spec", "replicas"))
    yield pair("Clusters", ",".join(cluster_text(one) for one in at(found, "spec", "clusters") or []))
    rows = [
        [str(one.get(field) or "") for field in ("type", "status", "reason", "message")]
        for one in at(found, "status", "conditions") or []
    ]
    yield from table("Conditions", ["TYPE", "STATUS", "REASON", "MESSAGE"], rows)
    health = [
        [str(one.get("clusterName")), str(one.get("health") or "Unknown")]
        for one in at(found, "status", "aggregatedStatus") or []
    ]
    yield from table("Health", ["CLUSTER", "HEALTH"], health)
    leaving = [
        [
            str(one.get("fromCluster")),
            str(one.get("purgeMode") or ""),
            since(one.get("creationTimestamp")),
            f"{one['gracePeriodSeconds']}s" if one.get("gracePeriodSeconds") is not None else "",
            str(one.get("message") or one.get("reason") or ""),
        ]
        for one in _tasks(found)
    ]
    yield from table("Leaving", ["CLUSTER", "PURGE MODE", "SINCE", "GRACE PERIOD", "REASON"], leaving)
    yield from evictions(
        [
            one
            for one in client.list(_EVICTIONS, str(at(found, "metadata", "namespace")))["items"]
            if at(one, "status", "workload", "kind") == "ResourceBinding"
            and at(one, "status", "workload", "name") == at(found, "metadata", "name")
            and one["status"]["state"] in _OPEN
        ]
    )


def disruption_budget(client: Client, found: JsonObject) -> Iterator[str]:
    """A PodDisruptionBudget: its numbers, and the evictions that it holds."""
    status = found.get("status") or {}
    for field, words in (("minAvailable", "Min available"), ("maxUnavailable", "Max unavailable")):
        if (value := at(found, "spec", field)) is not None:
            yield pair(words, value)
    labels = at(found, "spec", "selector", "matchLabels") or {}
    yield pair("Selector", ",".join(f"{key}={value}" for key, value in sorted(labels.items())))
    yield pair("Allowed", status.get("disruptionsAllowed", 0))
    yield pair("Healthy", f"{status.get('currentHealthy', 0)}, of which {status.get('desiredHealthy', 0)} must stay")
    yield pair("Expected", status.get("expectedPods", 0))
    namespace, name = str(at(found, "metadata", "namespace")), at(found, "metadata", "name")
    mine = f"PodDisruptionBudget/{namespace}/{name}"
    yield from evictions(_held_by(client, namespace, mine))


def guard(client: Client, found: JsonObject) -> Iterator[str]:
    """A budget or a pause as it was declared and counted, and the evictions that it holds."""
    for part in ("spec", "status"):
        if found.get(part):
            yield f"{part.title()}:"
            yield from (f"  {line}" for line in output.to_yaml(found[part]).splitlines())
    mine = f"{found.get('kind')}/{at(found, 'metadata', 'name')}"
    yield from evictions(_held_by(client, None, mine))


def _held_by(client: Client, namespace: str | None, guard_name: str) -> list[JsonObject]:
    """The evictions that a guard holds; of all namespaces when none is named."""
    return [
        one
        for one in client.list(_EVICTIONS, namespace)["items"]
        if one["status"]["state"] == "Held" and guard_name in (one["status"].get("heldBy") or [])
    ]
