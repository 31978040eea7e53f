"""Random clusters and bindings for Karmada's scheduler. Upstream answers with `ops/upstream-karmada`."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

Request = dict[str, Any]

OPERATIONS = ("karmada_schedule",)

_PLACES = {"region": ("r1", "r2", "r3"), "zone": ("z1", "z2", "z3"), "provider": ("p1", "p2")}
_KEYS = ("t1", "t2")
_EFFECTS = ("NoSchedule", "NoExecute", "PreferNoSchedule")
_WANTED = {
    "cpu": ("100m", "500m", "1", "2", "0"),
    "memory": ("64Mi", "1Gi", "0", "100M"),
    "nvidia.com/gpu": ("1", "0"),
}
_HAD = {
    "pods": ("0", "3", "10", "50", "110"),
    "cpu": ("0", "0.1", "1", "2500m", "8", "64"),
    "memory": ("100M", "512Mi", "1Gi", "8Gi", "256Gi"),
    "nvidia.com/gpu": ("0", "1", "4"),
}
_GRADES: tuple[tuple[tuple[str, str], ...], ...] = (
    (("0", "0"), ("1", "4Gi"), ("2", "16Gi"), ("8", "64Gi")),
    (("100m", "64Mi"), ("500m", "1Gi")),
    (("1", "1Gi"),),
)


def schedule(rng: random.Random) -> Request:
    clusters = [_cluster(rng, f"m{number}") for number in range(rng.choice((1, 2, 3, 4, 6, 8)))]
    names = [one["metadata"]["name"] for one in clusters]
    resource = {"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "d", "name": "w"}
    resource["uid"] = rng.choice(("", "a", "b", "uid-1"))
    spec: Request = {"resource": resource, "replicas": rng.choice((0, 1, 2, 3, 5, 7, 20)), "placement": {}}
    if rng.random() < 0.2:
        resource |= {"apiVersion": "v1", "kind": "ConfigMap"}
        spec["replicas"] = 0
    elif rng.random() < 0.8:
        chosen = [name for name in _WANTED if rng.random() < 0.5]
        spec["replicaRequirements"] = {"resourceRequest": {name: rng.choice(_WANTED[name]) for name in chosen}}
    request: Request = {"op": OPERATIONS[0], "clusters": clusters, "spec": spec}
    spec["placement"] = _placement(rng, names, request)
    if rng.random() < 0.6:
        # Some of them do not exist.
        present = rng.sample([*names, "m9"], rng.randint(1, len(names) + 1))
        spec["clusters"] = [{"name": name, "replicas": rng.randint(0, 6)} for name in present]
        if rng.random() < 0.2:
            spec["gracefulEvictionTasks"] = [{"fromCluster": rng.choice(names), "reason": "r", "producer": "p"}]
    return request


def _some(rng: random.Random, make: Callable[[], Request], most: int) -> list[Request]:
    return [make() for _ in range(rng.randint(0, most))]


def _cluster(rng: random.Random, name: str) -> Request:
    spec: Request = {"syncMode": "Push"}
    for place in ("region", "provider"):
        if rng.random() < 0.8:
            spec[place] = rng.choice(_PLACES[place])
    if rng.random() < 0.6:
        spec["zones"] = rng.sample(_PLACES["zone"], rng.randint(1, 2))
    if rng.random() < 0.4:
        spec["taints"] = _some(
            rng, lambda: {"key": rng.choice(_KEYS), "value": rng.choice(("", "v")), "effect": rng.choice(_EFFECTS)}, 2
        )
    metadata: Request = {"name": name, "labels": {key: rng.choice("xy") for key in "ab" if rng.random() < 0.5}}
    if rng.random() < 0.08:
        metadata |= {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["karmada.io/cluster-controller"]}
    return {"metadata": metadata, "spec": spec, "status": _status(rng, spec)}


def _status(rng: random.Random, spec: Request) -> Request:
    made: Request = {}
    if rng.random() < 0.95:
        kinds = [("apps/v1", "deployments", "Deployment"), ("v1", "configmaps", "ConfigMap")]
        made["apiEnablements"] = [
            {"groupVersion": version, "resources": [{"name": plural, "kind": kind}]}
            for version, plural, kind in kinds
            if rng.random() < 0.95
        ]
    if rng.random() < 0.95:
        summary = made["resourceSummary"] = {
            "allocatable": {n: rng.choice(_HAD[n]) for n in _HAD if rng.random() < 0.9}
        }
        if rng.random() < 0.5:
            summary["allocated"] = {"pods": str(rng.randint(0, 12)), "cpu": rng.choice(("100m", "1", "3"))}
        if rng.random() < 0.3:
            summary["allocating"] = {"pods": str(rng.randint(0, 3)), "memory": "100Mi"}
        if rng.random() < 0.4:
            spec["resourceModels"], summary["allocatableModelings"] = _grades(rng)
    return made


def _grades(rng: random.Random) -> tuple[list[Request], list[Request]]:
    models = []
    for number, (cpu, memory) in enumerate(rng.choice(_GRADES)):
        ranges = [{"name": "cpu", "min": cpu, "max": "999"}, {"name": "memory", "min": memory, "max": "999Ti"}]
        models.append({"grade": number, "ranges": ranges})
    return models, [{"grade": one["grade"], "count": rng.choice((0, 0, 1, 2, 5))} for one in models]


def _placement(rng: random.Random, names: list[str], request: Request) -> Request:
    made: Request = {}
    if rng.random() < 0.4:
        made["clusterAffinity"] = _affinity(rng, names)
    elif rng.random() < 0.2:
        groups = [{"affinityName": name, **_affinity(rng, names)} for name in ("g1", "g2")]
        made["clusterAffinities"] = groups
        request["status"] = {"schedulerObservingAffinityName": rng.choice(("g1", "g2", "g3"))}
    if rng.random() < 0.4:
        made["clusterTolerations"] = [
            rng.choice(
                (
                    {"operator": "Exists"},
                    {"key": "t1", "operator": "Exists"},
                    {"key": "t2", "value": "v"},
                    {"key": "t1", "value": "v", "effect": "NoSchedule"},
                    {"value": "v"},
                    {"key": "t1", "operator": "Exists", "value": "v"},
                )
            )
        ]
    if rng.random() < 0.5:
        made["spreadConstraints"] = _spread(rng)
    if rng.random() < 0.8:
        made["replicaScheduling"] = _division(rng, names)
    return made


def _affinity(rng: random.Random, names: list[str]) -> Request:
    made: Request = {}
    if rng.random() < 0.3:
        made["clusterNames"] = rng.sample(names, rng.randint(1, len(names)))
    if rng.random() < 0.2:
        made["exclude"] = [rng.choice(names)]
    if rng.random() < 0.3:
        operator = rng.choice(("In", "NotIn", "Exists", "DoesNotExist"))
        wish: Request = {"key": rng.choice("ab"), "operator": operator}
        if operator in {"In", "NotIn"}:
            wish["values"] = rng.choice((["x"], ["x", "y"]))
        made["labelSelector"] = {"matchExpressions": [wish]}
    if rng.random() < 0.2:
        place = rng.choice(tuple(_PLACES))
        values = rng.sample(_PLACES[place], rng.randint(1, 2))
        wish = {"key": place, "operator": rng.choice(("In", "NotIn")), "values": values}
        made["fieldSelector"] = {"matchExpressions": [wish]}
    return made


def _spread(rng: random.Random) -> list[Request]:
    fields = rng.choice(
        (
            ("cluster",),
            ("cluster",),
            ("region", "cluster"),
            ("region", "cluster"),
            ("zone",),
            ("zone", "cluster"),
            ("provider", "region", "cluster"),
        )
    )
    found = []
    for field in rng.sample(fields, len(fields)):
        least = rng.choice((1, 1, 2, 3))
        most = rng.choice((0, least, least, least + 1, least + 2))
        found.append({"spreadByField": field, "minGroups": least, "maxGroups": most})
    return found


def _division(rng: random.Random, names: list[str]) -> Request:
    if rng.random() < 0.25:
        return {"replicaSchedulingType": "Duplicated"}
    made: Request = {"replicaSchedulingType": "Divided"}
    preference = rng.choice(("Aggregated", "Weighted", "Weighted", "Weighted", ""))
    if preference:
        made["replicaDivisionPreference"] = preference
    if preference == "Weighted" and rng.random() < 0.8:
        weights: Request = {}
        if rng.random() < 0.6:
            weights["dynamicWeight"] = "AvailableReplicas"
        else:
            weights["staticWeightList"] = [
                {"targetCluster": _affinity(rng, names), "weight": rng.randint(1, 5)}
                for _ in range(rng.randint(0 if rng.random() < 0.1 else 1, 3))
            ]
        made["weightPreference"] = weights
    return made
