"""Random pods. Upstream answers for their requests, class and tolerations with `ops/upstream-pods`."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

from moorage_schemas.taint import TaintEffect, TolerationOperator

Request = dict[str, Any]

OPERATIONS = ("pod_qos", "pod_requests", "pod_tolerations")

_AMOUNTS = {
    "cpu": ("0", "1", "2", "500m", "0.1", "1e-1", "1500u", "64", 3, "100n"),
    "memory": ("0", "1Gi", "1073741824", "64Mi", "100M", "0.5", "1500m", "1e9", 4096),
    "ephemeral-storage": ("1Gi", "0", "10M"),
    "hugepages-2Mi": ("2Mi", "64Mi", "0"),
    "hugepages-1Gi": ("1Gi",),
    "example.com/gpu": ("1", "2", "0"),
    "kubernetes.io/batch": ("1",),
}
_OFTEN = ("cpu", "memory")
_OF_A_POD = ("cpu", "memory", "hugepages-2Mi", "hugepages-1Gi")
_KEYS = (
    "node.kubernetes.io/not-ready",
    "node.kubernetes.io/unreachable",
    "node.kubernetes.io/memory-pressure",
    "example.com/gpu",
    "",
)


def pod(rng: random.Random) -> Request:
    op = rng.choice((*OPERATIONS, "pod_requests"))
    spec: Request = {"containers": [_container(rng, f"c{n}") for n in range(rng.choice((1, 1, 2, 3)))]}
    if rng.random() < 0.5:
        spec["initContainers"] = [_container(rng, f"i{n}", init=True) for n in range(rng.randint(0, 3))]
    if rng.random() < 0.6:
        spec["resources"] = _resources(rng, _OF_A_POD)
    if rng.random() < 0.3:
        spec["overhead"] = _amounts(rng, ("cpu", "memory"))
    request: Request = {"op": op, "pod": {"metadata": {"name": "p", "namespace": "ns"}, "spec": spec}}
    if op == "pod_tolerations":
        spec["tolerations"] = [_toleration(rng) for _ in range(rng.randint(0, 3))]
        spec["hostNetwork"] = rng.random() < 0.3
        request["daemon"] = rng.random() < 0.3
    if op == "pod_requests" and rng.random() < 0.6:
        request["running"] = rng.random() < 0.9
        request["pod"]["status"] = _status(rng, spec)
    return request


def _container(rng: random.Random, name: str, *, init: bool = False) -> Request:
    made: Request = {"name": name, "image": "i"}
    if rng.random() < 0.9:
        made["resources"] = _resources(rng, tuple(_AMOUNTS))
    if init and rng.random() < 0.5:
        made["restartPolicy"] = "Always"
    return made


def _resources(rng: random.Random, names: tuple[str, ...]) -> Request:
    made: Request = {}
    if rng.random() < 0.7:
        made["requests"] = _amounts(rng, names)
    if rng.random() < 0.6:
        # Often equal, because otherwise hardly any pod would be Guaranteed.
        same = "requests" in made and rng.random() < 0.4
        made["limits"] = dict(made["requests"]) if same else _amounts(rng, names)
    return made


def _amounts(rng: random.Random, names: tuple[str, ...]) -> Request:
    chosen = {name for name in _OFTEN if rng.random() < 0.7} | {name for name in names[2:] if rng.random() < 0.15}
    return {name: rng.choice(_AMOUNTS[name]) for name in sorted(chosen)}


def _toleration(rng: random.Random) -> Request:
    made: Request = {"key": rng.choice(_KEYS)}
    made["operator"] = "Exists" if not made["key"] else rng.choice(("Exists", "Equal", ""))
    if made["operator"] != "Exists" and rng.random() < 0.3:
        made["value"] = "x"
    made["effect"] = rng.choice(("", "NoSchedule", "NoExecute"))
    if made["effect"] == "NoExecute" and rng.random() < 0.5:
        made["tolerationSeconds"] = rng.choice((0, 30, 600))
    return {name: value for name, value in made.items() if value != ""}


def _status(rng: random.Random, spec: Mapping[str, Any]) -> Request:
    names = tuple(_AMOUNTS)
    made: Request = {}
    for kind, field in (("containers", "containerStatuses"), ("initContainers", "initContainerStatuses")):
        statuses = []
        for container in spec.get(kind, ()):
            one: Request = {"name": rng.choice((container["name"], container["name"], "other"))}
            if rng.random() < 0.6:
                one["allocatedResources"] = _amounts(rng, names)
            if rng.random() < 0.6:
                one["resources"] = _resources(rng, names)
            statuses.append(one)
        if rng.random() < 0.8:
            made[field] = statuses
    if rng.random() < 0.3:
        made["allocatedResources"] = _amounts(rng, names)
    if rng.random() < 0.3:
        made["resources"] = _resources(rng, _OF_A_POD)
    if rng.random() < 0.4:
        reason = rng.choice(("Infeasible", "Deferred"))
        made["conditions"] = [{"type": "PodResizePending", "status": "True", "reason": reason}]
    return made


_IDENTITY = ("key", "operator", "value", "effect", "tolerationSeconds")


def needed(found: list[Request]) -> list[Request]:
    """Return tolerations without those that another one covers, in the order of their text."""
    named = [one | {"operator": one.get("operator") or TolerationOperator.EQUAL.value} for one in found]
    ordered = sorted(named, key=lambda one: [str(one.get(name, "")) for name in _IDENTITY])
    kept: list[Request] = []
    for place, one in enumerate(ordered):
        others = [*kept, *ordered[place + 1 :]]
        if not any(_covers(other, one) for other in others):
            kept.append(one)
    return kept


def _covers(wide: Mapping[str, Any], narrow: Mapping[str, Any]) -> bool:
    """Return whether a toleration tolerates all that another one tolerates, for at least as long."""
    key, effect = wide.get("key") or "", wide.get("effect") or ""
    exists = wide.get("operator") == TolerationOperator.EXISTS
    if key != (narrow.get("key") or "") and (key or not exists):
        return False
    if effect and effect != (narrow.get("effect") or ""):
        return False
    if effect in {"", TaintEffect.NO_EXECUTE.value} and wide.get("tolerationSeconds") is not None:
        seconds = narrow.get("tolerationSeconds")
        if seconds is None or seconds > wide["tolerationSeconds"]:
            return False
    equal = TolerationOperator.EQUAL
    return exists or (
        (wide.get("operator") or equal) == (narrow.get("operator") or equal)
        and (wide.get("value") or "") == (narrow.get("value") or "")
    )
