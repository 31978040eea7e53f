"""Random fleets for the operation `pod_schedule`: nodes, pods with constraints on each other, namespaces and volumes.

Few values of everything, so that constraints meet. Each seed gives the same request.
"""

from __future__ import annotations

import random
from typing import Any

Request = dict[str, Any]

OPERATIONS = ("pod_schedule",)

ZONE, REGION, HOST = "topology.kubernetes.io/zone", "topology.kubernetes.io/region", "kubernetes.io/hostname"
OLD_ZONE = "failure-domain.beta.kubernetes.io/zone"
KEYS = (ZONE, ZONE, HOST, HOST, REGION, "rack")
NAMESPACES = ("red", "blue", "green")
_USUAL = ("red", "red", "red", "blue", "green")
LABELS = {"app": ("web", "db", "cache"), "tier": ("front", "back"), "version": ("1", "2", "3")}
ASPECTS = ("ports", "affinity", "anti", "preferred", "hard", "soft", "volumes")
_HONOR = ("Honor", "Ignore", None)


def schedule(rng: random.Random) -> Request:
    """A pod to be placed on a fleet. At least one of the aspects concerns it."""
    aspects = [one for one in ASPECTS if rng.random() < 0.35] or [rng.choice(ASPECTS)]
    nodes = [_node(rng, number) for number in range(rng.randint(1, 7))]
    names = [node["metadata"]["name"] for node in nodes]
    pods = [_placed(rng, number, names, aspects) for number in range(rng.choice((0, 1, 4, 9, 20)))]
    pod = _pod(rng, "new", aspects, own=True)
    request: Request = {"op": "pod_schedule", "pod": pod, "pods": pods, "nodes": nodes, "namespaces": _namespaces(rng)}
    if "volumes" in aspects:
        request |= _volumes(rng, pod)
    return request


def _some(rng: random.Random, values: dict[str, Any], chance: float) -> dict[str, Any]:
    return {key: value for key, value in values.items() if rng.random() < chance}


def _labels(rng: random.Random) -> dict[str, str]:
    return {key: rng.choice(values) for key, values in LABELS.items() if rng.random() < 0.75}


def _marked(rng: random.Random) -> Request:
    """The metadata of an object that may be one that is being deleted."""
    return {"deletionTimestamp": "2026-01-01T00:00:00Z"} if rng.random() < 0.1 else {}


def _node(rng: random.Random, number: int) -> Request:
    name = f"n{number}"
    labels = {HOST: name} if rng.random() < 0.92 else {}
    if rng.random() < 0.85:
        labels[ZONE] = rng.choice("abc")
    labels |= _some(rng, {REGION: rng.choice("xy"), "rack": rng.choice("12"), "disk": rng.choice(("ssd", "hdd"))}, 0.5)
    if rng.random() < 0.1:
        labels[OLD_ZONE] = rng.choice("abc")
    if rng.random() < 0.05:
        labels = {}
    spec: Request = {}
    if rng.random() < 0.2:
        spec["taints"] = [
            {"key": "t", "value": "v", "effect": rng.choice(("NoSchedule", "NoExecute", "PreferNoSchedule"))}
        ]
    if rng.random() < 0.05:
        spec["unschedulable"] = True
    offered = {"cpu": "64", "memory": "256Gi", "pods": rng.choice(("110", "110", "3"))}
    metadata = {"name": name, "labels": labels, **_marked(rng)}
    return {"metadata": metadata, "spec": spec, "status": {"allocatable": offered}}


def _placed(rng: random.Random, number: int, names: list[str], aspects: list[str]) -> Request:
    pod = _pod(rng, f"p{number}", aspects, own=False)
    pod["spec"]["nodeName"] = rng.choice(names)
    pod["metadata"] |= _marked(rng)
    return pod


def _pod(rng: random.Random, name: str, aspects: list[str], *, own: bool) -> Request:
    chance = 1.0 if own else 0.4
    spec: Request = {"containers": [{"name": "c", "image": "i"}]}
    if "ports" in aspects and rng.random() < chance:
        _take_ports(rng, spec)
    affinity = _affinity(rng, aspects, chance * 0.8)
    if own:
        _choose_nodes(rng, spec, affinity)
        spread = [
            _spread(rng, when)
            for aspect, when in (("hard", "DoNotSchedule"), ("soft", "ScheduleAnyway"))
            if aspect in aspects
            for _ in range(rng.choice((1, 1, 2)))
        ]
        spec |= {"topologySpreadConstraints": spread} if spread else {}
    spec |= {"affinity": affinity} if affinity else {}
    return {"metadata": {"name": name, "namespace": rng.choice(_USUAL), "labels": _labels(rng)}, "spec": spec}


def _take_ports(rng: random.Random, spec: Request) -> None:
    container = spec["containers"][0]
    container["ports"] = [_port(rng) for _ in range(rng.randint(1, 2))]
    if rng.random() < 0.1:
        spec["hostNetwork"] = True
        for port in container["ports"]:
            port.pop("hostPort", None)
    if rng.random() < 0.2:
        # With requests of their own, both count with these: upstream's smallest amounts are for each container.
        container["resources"] = {"requests": {"cpu": "200m", "memory": "300Mi"}}
        sidecar = {
            "name": "s",
            "image": "i",
            "ports": [_port(rng)],
            "resources": {"requests": {"cpu": "100m", "memory": "100Mi"}},
        }
        spec["initContainers"] = [sidecar | ({"restartPolicy": "Always"} if rng.random() < 0.6 else {})]


def _affinity(rng: random.Random, aspects: list[str], chance: float) -> Request:
    affinity: Request = {}
    for aspect, field, weighted in (
        ("affinity", "podAffinity", False),
        ("anti", "podAntiAffinity", False),
        ("preferred", "podAffinity", True),
        ("preferred", "podAntiAffinity", True),
    ):
        if aspect in aspects and rng.random() < chance:
            when = "preferred" if weighted else "required"
            terms: list[Request] = [_term(rng) for _ in range(rng.choice((1, 1, 2)))]
            if weighted:
                terms = [{"weight": rng.randint(1, 100), "podAffinityTerm": term} for term in terms]
            affinity.setdefault(field, {})[f"{when}DuringSchedulingIgnoredDuringExecution"] = terms
    return affinity


def _choose_nodes(rng: random.Random, spec: Request, affinity: Request) -> None:
    if rng.random() < 0.15:
        spec["nodeSelector"] = {"disk": "ssd"}
    if rng.random() < 0.1:
        terms = [{"matchExpressions": [{"key": ZONE, "operator": "In", "values": ["a", "b"]}]}]
        affinity["nodeAffinity"] = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    if rng.random() < 0.2:
        spec["tolerations"] = [{"key": "t", "operator": "Exists"}]


def _port(rng: random.Random) -> Request:
    port: Request = {"containerPort": rng.choice((80, 81))}
    if rng.random() < 0.9:
        port["hostPort"] = port["containerPort"]
    if rng.random() < 0.3:
        port["hostIP"] = rng.choice(("0.0.0.0", "127.0.0.1", "10.0.0.1"))  # noqa: S104 - test data
    if rng.random() < 0.3:
        port["protocol"] = rng.choice(("TCP", "UDP"))
    return port


def _selector(rng: random.Random, labels: dict[str, tuple[str, ...]] = LABELS) -> Request | None:
    if rng.random() < 0.05:
        return None
    if rng.random() < 0.05:
        return {}
    key = rng.choice(sorted(labels))
    if rng.random() < 0.6:
        return {"matchLabels": {key: rng.choice(labels[key])}}
    operator = rng.choice(("In", "NotIn", "Exists", "DoesNotExist"))
    one: Request = {"key": key, "operator": operator}
    if operator in {"In", "NotIn"}:
        one["values"] = sorted(rng.sample(labels[key], rng.randint(1, 2)))
    return {"matchExpressions": [one]}


def _match_keys(rng: random.Random, selector: Request | None) -> list[str]:
    """Keys that the API server accepts: none without a selector, nor one that the selector has."""
    if selector is None or rng.random() < 0.75:
        return []
    used = {*selector.get("matchLabels", {}), *(one["key"] for one in selector.get("matchExpressions", []))}
    free = sorted({*LABELS} - used)
    return rng.sample(free, rng.randint(1, len(free)))


def _term(rng: random.Random) -> Request:
    selector = _selector(rng)
    term: Request = {"topologyKey": rng.choice(KEYS)}
    if selector is not None:
        term["labelSelector"] = selector
    keys = _match_keys(rng, selector)
    if keys and rng.random() < 0.5:
        term["matchLabelKeys"] = keys
    elif keys:
        term["mismatchLabelKeys"] = keys
    if rng.random() < 0.35:
        term["namespaces"] = rng.sample(NAMESPACES, rng.randint(1, 2))
    if rng.random() < 0.3 and (among := _selector(rng, {"team": ("a", "b"), "stage": ("prod", "test")})) is not None:
        term["namespaceSelector"] = among
    return term


def _spread(rng: random.Random, when: str) -> Request:
    selector = _selector(rng)
    found: Request = {"maxSkew": rng.choice((1, 1, 2, 3)), "topologyKey": rng.choice(KEYS), "whenUnsatisfiable": when}
    if selector is not None:
        found["labelSelector"] = selector
    if keys := _match_keys(rng, selector):
        found["matchLabelKeys"] = keys
    if when == "DoNotSchedule" and rng.random() < 0.25:
        found["minDomains"] = rng.randint(1, 4)
    policies = {"nodeAffinityPolicy": rng.choice(_HONOR), "nodeTaintsPolicy": rng.choice(_HONOR)}
    return found | {name: policy for name, policy in policies.items() if policy is not None}


def _namespaces(rng: random.Random) -> list[Request]:
    return [
        {
            "metadata": {
                "name": name,
                **_marked(rng),
                "labels": _some(rng, {"team": rng.choice("ab"), "stage": "prod"}, 0.6),
            }
        }
        for name in NAMESPACES
        if rng.random() < 0.9
    ]


def _volumes(rng: random.Random, pod: Request) -> Request:
    claims, volumes, mounted = [], [], []
    for number in range(rng.randint(1, 2)):
        spec: Request = {}
        if rng.random() < 0.7:
            operator = rng.choice(("In", "NotIn", "Exists"))
            one: Request = {"key": rng.choice((ZONE, HOST, "rack")), "operator": operator}
            if operator != "Exists":
                one["values"] = rng.choice((["a"], ["a", "b"], ["n0", "n1", "1"]))
            spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": [{"matchExpressions": [one]}]}}
        labels = _some(rng, {ZONE: rng.choice(("a", "b", "a__b")), OLD_ZONE: "a", REGION: "x"}, 0.25)
        volumes.append({"metadata": {"name": f"v{number}", "labels": labels, **_marked(rng)}, "spec": spec})
        mounted.append({"name": f"m{number}", "persistentVolumeClaim": {"claimName": f"c{number}"}})
        claims.append(
            {
                "metadata": {
                    "name": f"c{number}",
                    "namespace": pod["metadata"]["namespace"],
                    "annotations": {"pv.kubernetes.io/bind-completed": "yes"},
                    **_marked(rng),
                },
                "spec": {"volumeName": f"v{number}"},
            }
        )
    pod["spec"]["volumes"] = mounted
    return {"claims": claims, "volumes": volumes}
