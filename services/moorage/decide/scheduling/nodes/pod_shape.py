"""The shape of a pod: everything about it that placement considers. Pods of one template share a shape.

A pod of a real cluster can have demands that no filter judges (`undecided_demand`). It must not be bound as if it had
none: the node would break it, or the kubelet refuse it. Source: the filters of kube-scheduler's default profile.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from moorage.decide.kubernetes.pod_resources import pod_requests
from moorage.decide.scheduling.nodes.pod_constraints import (
    EvenSpread,
    SpecTerm,
    claims_of,
    host_ports,
    spec_terms,
    spread_constraints,
)
from moorage_schemas.placement import HostPort
from moorage_schemas.resources.pod import (
    Container,
    NodeSelector,
    PodSpec,
    PreferredSchedulingTerm,
    ResourceRequirements,
)
from moorage_schemas.taint import Toleration


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
    ports: tuple[HostPort, ...] = ()
    """The ports that it takes of its node."""

    terms: tuple[SpecTerm, ...] = ()
    """The pods near or far from which it is to be."""

    spread: tuple[EvenSpread, ...] = ()
    claims: tuple[str, ...] = ()
    """The PersistentVolumeClaims that it mounts."""

    @property
    def reads_pods(self) -> bool:
        """Whether its place depends on the labels and the namespaces of pods, its own among them."""
        return bool(self.terms or self.spread)

    @property
    def awaits_pods(self) -> bool:
        """Whether a pod that is placed elsewhere may let it fit."""
        return any(not one.term.weight and not one.term.anti for one in self.terms) or any(
            one.hard for one in self.spread
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PodShape) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)


def shape_of(spec: PodSpec, status: Mapping[str, Any] | None = None) -> PodShape:
    """Return the shape of an admitted pod.

    Args:
        spec: of the pod.
        status: of a pod that runs and may be resized in place, as in `pod_requests`.

    Raises:
        QuantityError: a request or limit is not a quantity.
    """
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
    requests = tuple(sorted((name, amount) for name, amount in _requests(spec, status).items() if amount))
    ports, terms, spread, claims = host_ports(spec), spec_terms(spec), spread_constraints(spec), claims_of(spec)
    grounds: tuple[Any, ...] = (
        [repr(toleration) for toleration in tolerations],
        selector,
        required.model_dump_json() if required else None,
        [term.model_dump_json() for term in preferred],
        requests,
        spec.priority or 0,
    )
    if ports or terms or spread or claims:
        grounds = (*grounds, ports, terms, spread, claims)
    key = hashlib.blake2b(repr(grounds).encode(), digest_size=16).hexdigest()
    return PodShape(
        key, tolerations, selector, required, preferred, requests, spec.priority or 0, ports, terms, spread, claims
    )


def _requests(spec: PodSpec, status: Mapping[str, Any] | None) -> dict[str, int]:
    plain = {
        "containers": [_plain(one) for one in spec.containers],
        "initContainers": [_plain(one) for one in spec.init_containers or ()],
        "resources": _plain_resources(spec.resources) if spec.resources is not None else None,
        "overhead": spec.overhead,
    }
    return pod_requests(plain, status)


def _plain(container: Container) -> dict[str, Any]:
    return {
        "name": container.name,
        "resources": _plain_resources(container.resources),
        "restartPolicy": container.restart_policy,
    }


def _plain_resources(resources: ResourceRequirements) -> dict[str, Any]:
    return {"requests": resources.requests, "limits": resources.limits}


_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"


def undecided_demand(spec: Mapping[str, Any]) -> str:
    """Return the first field of a pod's spec with a demand that is not judged. Empty if there is none.

    Args:
        spec: of a pod that the API server has admitted.
    """
    return next(_demands(spec), "")


def _demands(spec: Mapping[str, Any]) -> Iterator[str]:
    affinity: Mapping[str, Any] = spec.get("affinity") or {}
    for kind in ("podAffinity", "podAntiAffinity"):
        for index, term in enumerate((affinity.get(kind) or {}).get(_REQUIRED) or ()):
            if term.get("namespaceSelector"):  # namespaces are not mirrored, so their labels are unknown
                yield f"spec.affinity.{kind}.{_REQUIRED}[{index}].namespaceSelector"
    for index, volume in enumerate(spec.get("volumes") or ()):
        if "ephemeral" in volume:
            yield f"spec.volumes[{index}].ephemeral"
    if spec.get("resourceClaims"):
        yield "spec.resourceClaims"
