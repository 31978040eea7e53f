"""The shape of a pod: everything about it that placement considers. Pods of one template share a shape.

A pod of a real cluster can have demands that no filter judges (`undecided_demand`). It must not be bound as if it had
none: the node would break it, or the kubelet refuse it. Source: the filters of kube-scheduler's default profile.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from moorage.decide.kubernetes.pod_defaults import effective_requests
from moorage.decide.kubernetes.quantities import CPU, MEMORY, whole_amounts
from moorage_schemas.resources.pod import Container, NodeSelector, PodSpec, PreferredSchedulingTerm
from moorage_schemas.taint import Toleration

_POD_LEVEL = (CPU, MEMORY)


@dataclass(frozen=True, slots=True, eq=False)
class PodShape:
    """The requirements of a pod on a node. Shapes with the same `key` are equal."""

    key: str
    """A hash of the other fields. Results are cached under this key."""

    tolerations: tuple[Toleration, ...]
    node_selector: tuple[tuple[str, str], ...]
    required: NodeSelector | None
    preferred: tuple[PreferredSchedulingTerm, ...]
    requests: tuple[tuple[str, int], ...]
    """By resource name, sorted: cpu in millicores, all others in their own unit. Zeros are left out."""

    priority: int = 0

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PodShape) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)


def shape_of(spec: PodSpec) -> PodShape:
    """Return the shape of an admitted pod. Raises QuantityError if a request or limit is not a quantity."""
    tolerations = tuple(
        Toleration(
            key=toleration.key,
            operator=toleration.operator,
            value=toleration.value,
            effect=toleration.effect,
            toleration_seconds=toleration.toleration_seconds,
        )
        for toleration in spec.tolerations or ()
    )
    node = spec.affinity.node_affinity if spec.affinity else None
    required = node.required_during_scheduling_ignored_during_execution if node else None
    preferred = tuple((node.preferred_during_scheduling_ignored_during_execution if node else None) or ())
    selector = tuple(sorted((spec.node_selector or {}).items()))
    requests = tuple(sorted((name, amount) for name, amount in pod_requests(spec).items() if amount))
    grounds = (
        [repr(toleration) for toleration in tolerations],
        selector,
        required.model_dump_json() if required else None,
        [term.model_dump_json() for term in preferred],
        requests,
        spec.priority or 0,
    )
    key = hashlib.blake2b(repr(grounds).encode(), digest_size=16).hexdigest()
    return PodShape(key, tolerations, selector, required, preferred, requests, spec.priority or 0)


def pod_requests(spec: PodSpec) -> dict[str, int]:
    """Return the resources that a pod takes of its node, computed as in Kubernetes.

    The requests are those of the pod's containers and sidecars in total, or the peak of its init containers if that is
    larger. Values of the pod's own `resources` for cpu, memory and huge pages replace those totals. The overhead is
    added.

    Raises:
        QuantityError: a request or limit is not a quantity.
    """
    running: dict[str, int] = {}
    for index, container in enumerate(spec.containers):
        _add(running, _requests(container, f"spec.containers[{index}]"))
    sidecars: dict[str, int] = {}
    starting: dict[str, int] = {}
    for index, container in enumerate(spec.init_containers or ()):
        requests = _requests(container, f"spec.initContainers[{index}]")
        if container.restart_policy == "Always":
            _add(running, requests)
            _add(sidecars, requests)
            need = sidecars
        else:
            need = dict(sidecars)
            _add(need, requests)
        _raise_to(starting, need)
    _raise_to(running, starting)
    if spec.resources is not None:
        own = effective_requests(_plain(spec.resources), "spec.resources")
        running.update((name, own[name]) for name in own if name in _POD_LEVEL or name.startswith("hugepages-"))
    _add(running, whole_amounts(spec.overhead, "spec.overhead"))
    return running


def _requests(container: Container, path: str) -> dict[str, int]:
    return effective_requests(_plain(container.resources), f"{path}.resources")


def _plain(resources: Any) -> dict[str, Any]:
    return {"requests": resources.requests, "limits": resources.limits}


def _add(total: dict[str, int], more: dict[str, int]) -> None:
    for name, amount in more.items():
        total[name] = total.get(name, 0) + amount


def _raise_to(total: dict[str, int], least: dict[str, int]) -> None:
    for name, amount in least.items():
        total[name] = max(total.get(name, 0), amount)


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
