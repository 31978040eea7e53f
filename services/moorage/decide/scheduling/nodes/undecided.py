"""Demands of a pod that no filter here judges, although nodes differ in them.

A pod of a real cluster that has one must not be bound as if it had none: the node would break it, or the kubelet refuse
it. Source: the filters of kube-scheduler's default profile.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

_CONTAINERS: Final = ("containers", "initContainers")
_NODE_BOUND: Final = ("persistentVolumeClaim", "ephemeral")
"""The volumes that may tie a pod to some nodes."""


def undecided_demand(spec: Mapping[str, Any]) -> str:
    """Return the first field of a pod's spec with a demand that is not judged. Empty if there is none.

    Args:
        spec: of a pod that the API server has admitted.
    """
    return next(_demands(spec), "")


def _demands(spec: Mapping[str, Any]) -> Iterator[str]:
    yield from _of_other_pods(spec)
    yield from _of_ports(spec)
    for index, volume in enumerate(spec.get("volumes") or ()):
        yield from (f"spec.volumes[{index}].{kind}" for kind in _NODE_BOUND if kind in volume)
    if spec.get("resourceClaims"):
        yield "spec.resourceClaims"


def _of_other_pods(spec: Mapping[str, Any]) -> Iterator[str]:
    affinity: Mapping[str, Any] = spec.get("affinity") or {}
    for term in ("podAffinity", "podAntiAffinity"):
        if (affinity.get(term) or {}).get("requiredDuringSchedulingIgnoredDuringExecution"):
            yield f"spec.affinity.{term}.requiredDuringSchedulingIgnoredDuringExecution"
    for index, constraint in enumerate(spec.get("topologySpreadConstraints") or ()):
        if constraint.get("whenUnsatisfiable") != "ScheduleAnyway":
            yield f"spec.topologySpreadConstraints[{index}]"


def _of_ports(spec: Mapping[str, Any]) -> Iterator[str]:
    for containers in _CONTAINERS:
        for index, container in enumerate(spec.get(containers) or ()):
            for port, one in enumerate(container.get("ports") or ()):
                if one.get("hostPort"):
                    yield f"spec.{containers}[{index}].ports[{port}].hostPort"
