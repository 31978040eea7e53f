"""Random disruption budgets, with pods and their controllers, for the operation `disruption_budget`."""

from __future__ import annotations

import random
from typing import Any

Request = dict[str, Any]

NOW = "2026-01-01T01:00:00Z"
_GRANTED = ("2026-01-01T00:57:59Z", "2026-01-01T00:58:00Z", "2026-01-01T00:59:00Z", "2026-01-01T01:00:30Z")
NAMESPACES = (*["red"] * 12, "blue")
LABELS = {"app": ("web", "web", "web", "db"), "tier": ("front", "front", "back")}
_ROLLOUT = ("argoproj.io/v1alpha1", "Rollout")
_KINDS = (
    ("apps/v1", "Deployment"),
    ("apps/v1", "ReplicaSet"),
    ("apps/v1", "ReplicaSet"),
    ("apps/v1", "StatefulSet"),
    ("v1", "ReplicationController"),
    ("apps/v1", "DaemonSet"),
    ("batch/v1", "Job"),
    _ROLLOUT,
    ("example.com/v1", "Ring"),
    ("example.com/v1", "Deployment"),
)
_USUAL = _KINDS[:5]
_AMOUNTS = (0, 1, 1, 2, 3, 7, "0%", "1%", "25%", "33%", "50%", "50%", "67%", "99%", "100%")
_FIELDS = (*["minAvailable", "maxUnavailable"] * 6, "")
_PHASES = ("Running", "Running", "Running", "Running", "Pending", "Succeeded", "Failed", "Unknown", None)
_READY = (*["True"] * 8, "False", "Unknown", None)


def budget(rng: random.Random) -> Request:
    """Budgets over pods, one of which is to be evicted."""
    kinds = _USUAL if rng.random() < 0.6 else _KINDS
    controllers = [_controller(rng, number, kinds) for number in range(rng.choice((0, 1, 1, 2, 3)))]
    for one in controllers:
        _own(rng, one, controllers, chance=0.6 if one["kind"] == "ReplicaSet" else 0.1)
    pods = [_pod(rng, number, controllers) for number in range(rng.choice((0, 1, 2, 3, 4, 5, 7, 10)))]
    budgets = [_budget(rng, number, pods) for number in range(rng.choice((1, 1, 1, 1, 2)))]
    request: Request = {"op": "disruption_budget", "now": NOW, "budgets": budgets, "pods": pods}
    request["controllers"] = [one for one in controllers if rng.random() < 0.93]
    known = [("argoproj.io/v1alpha1", "Rollout", True), ("example.com/v1", "Ring", rng.random() < 0.5)]
    request["kinds"] = [
        {"apiVersion": version, "kind": kind, "scale": scale} for version, kind, scale in known if rng.random() < 0.9
    ]
    if pods:
        request["evict"] = "{namespace}/{name}".format(**rng.choice(pods)["metadata"])
    return request


def _labels(rng: random.Random) -> dict[str, str]:
    return {key: rng.choice(values) for key, values in LABELS.items() if rng.random() < 0.9}


def _mark(rng: random.Random, chance: float) -> Request:
    return {"deletionTimestamp": "2026-01-01T00:59:50Z"} if rng.random() < chance else {}


def _controller(rng: random.Random, number: int, kinds: tuple[tuple[str, str], ...]) -> Request:
    version, kind = rng.choice(kinds)
    metadata = {"name": f"c{number}", "namespace": "red" if rng.random() < 0.97 else "blue", "uid": f"u{number}"}
    spec: Request = {}
    if rng.random() < 0.9 or (version, kind) == _ROLLOUT:
        spec["replicas"] = rng.choice((0, 1, 2, 2, 3, 3, 4, 5, 10, 100))
    return {"apiVersion": version, "kind": kind, "metadata": {**metadata, **_mark(rng, 0.15)}, "spec": spec}


def _own(rng: random.Random, owned: Request, controllers: list[Request], *, chance: float) -> None:
    """Give an object a controller, and perhaps other owners."""
    others = [one for one in controllers if one is not owned]
    references = []
    if others and rng.random() < 0.1:
        references.append(_reference(rng, rng.choice(others), controller=False))
    if others and rng.random() < chance:
        fitting = [one for one in others if (one["kind"] == "Deployment") == (owned.get("kind") == "ReplicaSet")]
        references.append(_reference(rng, rng.choice(fitting or others), controller=True))
    if references:
        owned["metadata"]["ownerReferences"] = references


def _reference(rng: random.Random, owner: Request, *, controller: bool) -> Request:
    name, uid = owner["metadata"]["name"], owner["metadata"]["uid"]
    found = {"apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": name, "uid": uid}
    if rng.random() < 0.03:
        found["uid"] = "of-a-former-one"
    if rng.random() < 0.02:
        found["name"] = "missing"
        found["uid"] = "unknown"
    return found | ({"controller": True} if controller else {})


def _pod(rng: random.Random, number: int, controllers: list[Request]) -> Request:
    metadata: Request = {"name": f"p{number}", "namespace": rng.choice(NAMESPACES), "labels": _labels(rng)}
    status: Request = {}
    bound = rng.random() < 0.9
    if (phase := rng.choice(_PHASES) if bound else "Pending") is not None:
        status["phase"] = phase
    if bound and (ready := rng.choice(_READY)) is not None:
        status["conditions"] = [{"type": "PodScheduled", "status": "True"}, {"type": "Ready", "status": ready}]
    pod: Request = {"metadata": metadata | _mark(rng, 0.1), "spec": {}, "status": status}
    if bound:
        pod["spec"]["nodeName"] = "n"
    _own(rng, pod, controllers, chance=0.85)
    return pod


def _budget(rng: random.Random, number: int, pods: list[Request]) -> Request:
    metadata = {"name": f"b{number}", "namespace": rng.choice(NAMESPACES), "generation": rng.choice((1, 2, 7))}
    spec: Request = {}
    if (selector := _selector(rng)) is not None:
        spec["selector"] = selector
    if (field := rng.choice(_FIELDS)) != "":
        spec[field] = rng.choice(_AMOUNTS)
    if (policy := rng.choice(("IfHealthyBudget", "AlwaysAllow", None))) is not None:
        spec["unhealthyPodEvictionPolicy"] = policy
    found: Request = {"metadata": metadata | _mark(rng, 0.15), "spec": spec}
    if rng.random() < 0.3:
        granted = [pod["metadata"]["name"] for pod in pods if rng.random() < 0.3]
        found["status"] = {"disruptedPods": {name: rng.choice(_GRANTED) for name in granted}}
        if rng.random() < 0.5:
            found["status"]["expectedPods"] = rng.randint(0, 9)
    return found


def _selector(rng: random.Random) -> Request | None:
    if (draw := rng.random()) < 0.1:
        return None if draw < 0.03 else {}
    key = rng.choice(sorted(LABELS))
    if draw < 0.75:
        return {"matchLabels": {key: rng.choice(LABELS[key])}}
    operator = rng.choice(("In", "NotIn", "Exists", "DoesNotExist"))
    values = (
        {"values": sorted(rng.sample(sorted({*LABELS[key]}), rng.randint(1, 2)))} if operator in {"In", "NotIn"} else {}
    )
    return {"matchExpressions": [{"key": key, "operator": operator, **values}]}
