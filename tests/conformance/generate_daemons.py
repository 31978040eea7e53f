"""Random DaemonSets with their nodes and pods, for the operation `daemonset_status`."""

from __future__ import annotations

import random
from typing import Any

Request = dict[str, Any]

NOW = "2026-01-01T01:00:00Z"
_SINCE = ("2026-01-01T00:59:29Z", "2026-01-01T00:59:30Z", "2026-01-01T00:59:31Z", "2026-01-01T00:00:00Z", None)
_CREATED = ("2026-01-01T00:10:00Z", "2026-01-01T00:20:00Z", "2026-01-01T00:20:00Z")
_KEYS = ("gpu", "gpu", "node.kubernetes.io/not-ready", "node.kubernetes.io/unschedulable", "example.com/x")
_NETWORK = "node.kubernetes.io/network-unavailable"
_EFFECTS = ("NoSchedule", "NoExecute", "PreferNoSchedule")
_OWNER = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "u", "controller": True}


def status(rng: random.Random) -> Request:
    """A DaemonSet with its nodes and pods."""
    names = [f"n{number}" for number in range(rng.choice((0, 1, 2, 3, 5, 8)))]
    metadata: Request = {"name": "d", "namespace": "red", "uid": "u", "generation": 3}
    if rng.random() < 0.2:
        metadata["annotations"] = {"deprecated.daemonset.template.generation": "7"}
    spec: Request = {"selector": {"matchLabels": {"app": "d"}}, "template": _template(rng, names)}
    if rng.random() < 0.3:
        spec["minReadySeconds"] = rng.choice((0, 1, 30))
    request: Request = {"op": "daemonset_status", "now": NOW, "daemonSet": {"metadata": metadata, "spec": spec}}
    request["nodes"] = [_node(rng, name) for name in names]
    places = [*names, *names, "gone"]
    request["pods"] = [_pod(rng, number, rng.choice(places)) for number in range(rng.choice((0, 1, 3, 6, 9)))]
    if rng.random() < 0.8:
        request["hash"] = "h1"
    return request


def _template(rng: random.Random, names: list[str]) -> Request:
    spec: Request = {"containers": [{"name": "c", "image": "i"}]}
    if rng.random() < 0.25:
        spec["nodeSelector"] = {"disk": rng.choice(("ssd", "hdd"))}
    if rng.random() < 0.25:
        terms = [_term(rng, names) for _ in range(rng.choice((0, 1, 1, 2)))]
        required = {"nodeSelectorTerms": terms}
        spec["affinity"] = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    if rng.random() < 0.4:
        spec["tolerations"] = [_toleration(rng) for _ in range(rng.randint(1, 2))]
    if rng.random() < 0.2:
        spec["hostNetwork"] = True
    if rng.random() < 0.08:
        spec["nodeName"] = rng.choice([*names, "gone"])
    return {"metadata": {"labels": {"app": "d"}}, "spec": spec}


def _term(rng: random.Random, names: list[str]) -> Request:
    draw = rng.random()
    if draw < 0.1:
        return {}
    if draw < 0.3:
        values = rng.sample([*names, "gone"], 1)
        return {"matchFields": [{"key": "metadata.name", "operator": rng.choice(("In", "NotIn")), "values": values}]}
    operator = rng.choice(("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"))
    one: Request = {"key": "disk", "operator": operator}
    if operator in {"In", "NotIn"}:
        one["values"] = rng.choice((["ssd"], ["hdd", "ssd"]))
    if operator in {"Gt", "Lt"}:
        one = {"key": "size", "operator": operator, "values": [rng.choice(("1", "3"))]}
    return {"matchExpressions": [one]}


def _toleration(rng: random.Random) -> Request:
    made: Request = {"operator": rng.choice(("Exists", "Equal", ""))}
    if made["operator"] != "Exists" or rng.random() < 0.85:
        made["key"] = rng.choice((*_KEYS, _NETWORK))
    if made["operator"] != "Exists" and rng.random() < 0.5:
        made["value"] = "v"
    made["effect"] = rng.choice(("", *_EFFECTS))
    if made["effect"] == "NoExecute" and rng.random() < 0.5:
        made["tolerationSeconds"] = rng.choice((0, 60))
    return {name: value for name, value in made.items() if value != ""}


def _mark(rng: random.Random, chance: float) -> Request:
    return {"deletionTimestamp": NOW} if rng.random() < chance else {}


def _node(rng: random.Random, name: str) -> Request:
    labels = {"disk": rng.choice(("ssd", "hdd"))} if rng.random() < 0.8 else {}
    if rng.random() < 0.5:
        labels["size"] = rng.choice(("1", "2", "4", "big"))
    spec: Request = {}
    if rng.random() < 0.45:
        keys = rng.sample([*_KEYS[1:], _NETWORK], rng.randint(1, 2))
        spec["taints"] = [{"key": key, "value": rng.choice(("", "v")), "effect": rng.choice(_EFFECTS)} for key in keys]
    if rng.random() < 0.1:
        spec["unschedulable"] = True
    return {"metadata": {"name": name, "labels": labels, **_mark(rng, 0.1)}, "spec": spec}


def _pod(rng: random.Random, number: int, node: str) -> Request:
    labels = {"app": "d" if rng.random() < 0.93 else "other"}
    if rng.random() < 0.8:
        labels["controller-revision-hash"] = rng.choice(("h1", "h1", "h0"))
    if rng.random() < 0.2:
        labels["pod-template-generation"] = rng.choice(("7", "6"))
    metadata: Request = {"name": f"p{number}", "namespace": "red" if rng.random() < 0.95 else "blue", "labels": labels}
    metadata |= {"creationTimestamp": rng.choice(_CREATED), **_mark(rng, 0.15)}
    metadata["ownerReferences"] = [_OWNER if rng.random() < 0.93 else _OWNER | {"uid": "former"}]
    status: Request = {"phase": rng.choice(("Running", "Running", "Running", "Pending", "Failed", "Succeeded"))}
    ready = rng.choice(("True", "True", "True", "False", "Unknown", None))
    if ready is not None:
        condition = {"type": "Ready", "status": ready}
        if (since := rng.choice(_SINCE)) is not None:
            condition["lastTransitionTime"] = since
        status["conditions"] = [condition]
    return {"metadata": metadata, "spec": _place(rng, node), "status": status}


def _place(rng: random.Random, node: str) -> Request:
    if rng.random() < 0.85:
        return {"nodeName": node}
    field = {"key": "metadata.name", "operator": "In", "values": [node]}
    required = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    return {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}}
