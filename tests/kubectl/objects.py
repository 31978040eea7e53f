"""What a case is given: `node a zone=x`, `pod p app=web`, or a whole manifest."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import yaml

CORE: Final = {"Node": "nodes", "Pod": "pods", "ConfigMap": "configmaps", "Namespace": "namespaces"}
SHARED: Final = ("base-1", "base-2", "base-3")
"""Nodes that take the pods of all cases."""

_OWN: Final = "example.com/own"
IMAGE: Final = "registry.example/app:1"


def manifest(words: str) -> dict[str, Any]:
    """The object of a line such as `node a zone=x`. Its names may have places, such as `<id>`.

    Raises:
        KeyError: there is no such kind.
    """
    kind, name, *more = words.split()
    numbers = [int(one) for one in more if one.isdigit()]
    pairs = dict(one.split("=", 1) for one in more if "=" in one)
    return _MADE[kind](name, pairs, numbers[0] if numbers else 1)


def node(name: str, labels: Mapping[str, str] | None = None, pods: int = 110) -> dict[str, Any]:
    """A node that a fake kubelet keeps, with room for this number of pods."""
    room = {"cpu": "32", "memory": "64Gi", "pods": str(pods)}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kwok": "a", **(labels or {})}},
        "status": {"capacity": room, "allocatable": room},
    }


def _node(name: str, pairs: Mapping[str, str], _: int) -> dict[str, Any]:
    """A node of the case without room, so that no pod of another case comes."""
    return node(f"{name}-<id>", {"case": "<id>", **pairs}, pods=0)


def _own_node(name: str, pairs: Mapping[str, str], _: int) -> dict[str, Any]:
    """A node for the pods of the case that have `on`. A taint keeps off those of other cases."""
    found = node(f"{name}-<id>", {"case": "<id>", "place": f"{name}-<id>", **pairs})
    return {**found, "spec": {"taints": [{"key": _OWN, "value": "<id>", "effect": "NoSchedule"}]}}


def _sent(spec: dict[str, Any], place: str | None) -> None:
    """Send pods to an own node of the case, or to `any` of them."""
    if place:
        spec["nodeSelector"] = {"case": "<id>"} if place == "any" else {"place": f"{place}-<id>"}
        spec["tolerations"] = [{"key": _OWN, "operator": "Exists"}]


def _template(labels: Mapping[str, str]) -> dict[str, Any]:
    return {"metadata": {"labels": dict(labels)}, "spec": {"containers": [{"name": "main", "image": IMAGE}]}}


def _pod(name: str, pairs: Mapping[str, str], _: int) -> dict[str, Any]:
    """A pod. `on=a` sends it to the case's own node a, which was given as `own a`."""
    labels = {key: value for key, value in pairs.items() if key != "on"}
    found = {"apiVersion": "v1", "kind": "Pod", **_template(labels)}
    found["metadata"] = {**found["metadata"], "name": name, "namespace": "<ns>"}
    _sent(found["spec"], pairs.get("on"))
    return found


def _workload(kind: str) -> Callable[[str, Mapping[str, str], int], dict[str, Any]]:
    def made(name: str, pairs: Mapping[str, str], replicas: int) -> dict[str, Any]:
        labels = {"app": name, **{key: value for key, value in pairs.items() if key != "on"}}
        template = _template(labels)
        _sent(template["spec"], pairs.get("on"))
        spec: dict[str, Any] = {"selector": {"matchLabels": {"app": name}}, "template": template}
        if kind != "DaemonSet":
            spec["replicas"] = replicas
        if kind == "StatefulSet":
            spec["serviceName"] = name
        metadata = {"name": name, "namespace": "<ns>", "labels": labels}
        return {"apiVersion": "apps/v1", "kind": kind, "metadata": metadata, "spec": spec}

    return made


def _config(name: str, pairs: Mapping[str, str], _: int) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "<ns>"}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": dict(pairs)}


def _budget(name: str, pairs: Mapping[str, str], minimum: int) -> dict[str, Any]:
    spec = {"minAvailable": minimum, "selector": {"matchLabels": dict(pairs)}}
    metadata = {"name": name, "namespace": "<ns>"}
    return {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": metadata, "spec": spec}


def _cluster(name: str, pairs: Mapping[str, str], _: int) -> dict[str, Any]:
    metadata = {"name": f"{name}-<id>", "labels": {"case": "<id>", **pairs}}
    spec = {"hubAcceptsClient": True}
    return {"apiVersion": "cluster.open-cluster-management.io/v1", "kind": "ManagedCluster", "metadata": metadata} | {
        "spec": spec
    }


def _job(name: str, pairs: Mapping[str, str], _: int) -> dict[str, Any]:
    template = _template(pairs)
    template["spec"]["restartPolicy"] = "Never"
    metadata = {"name": name, "namespace": "<ns>"}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": {"template": template}}


_MADE: Final[Mapping[str, Callable[[str, Mapping[str, str], int], dict[str, Any]]]] = {
    "node": _node,
    "own": _own_node,
    "pod": _pod,
    "deployment": _workload("Deployment"),
    "statefulset": _workload("StatefulSet"),
    "daemonset": _workload("DaemonSet"),
    "replicaset": _workload("ReplicaSet"),
    "configmap": _config,
    "budget": _budget,
    "job": _job,
    "managedcluster": _cluster,
}


def placed(value: Any, places: Mapping[str, str]) -> Any:
    """A value whose texts have what belongs into their places."""
    text = yaml.safe_dump(value)
    for place, given in places.items():
        text = text.replace(place, given)
    return yaml.load(text, yaml.CSafeLoader)


def path_of(found: Mapping[str, Any], plural: str = "") -> str:
    """The path of the collection of an object."""
    version, namespace = found["apiVersion"], found["metadata"].get("namespace", "")
    root = f"/apis/{version}" if "/" in version else f"/api/{version}"
    name = plural or CORE.get(found["kind"], f"{found['kind'].lower()}s")
    return f"{root}/namespaces/{namespace}/{name}" if namespace else f"{root}/{name}"
