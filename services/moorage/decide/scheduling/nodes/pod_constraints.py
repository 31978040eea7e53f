"""Demands of a pod on other pods: affinity and anti-affinity, even spreading, and ports of its node.

A pod's spec states it relative to the pod: the pod's own namespace, and values of its own labels.
`completed_constraints` puts these in, so that the result can be compared with any pod.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from moorage.decide.kubernetes.selectors import DOES_NOT_EXIST, EXISTS, IN
from moorage_schemas.placement import HostPort, LabelRequirement, PodTerm
from moorage_schemas.resources.meta import LabelSelector
from moorage_schemas.resources.pod import Container, PodAffinity, PodAffinityTerm, PodSpec, TopologySpreadConstraint

Labels = tuple[tuple[str, str], ...]
"""A pod's labels, sorted."""

Requirements = tuple[LabelRequirement, ...]

ANY_ADDRESS: Final = HostPort(port=1).ip
_TCP: Final = HostPort(port=1).protocol
_SIDECAR: Final = "Always"
_HARD: Final = "DoNotSchedule"
_HONOR: Final = "Honor"
_IGNORE: Final = "Ignore"


class SpecTerm(NamedTuple):
    """A term of a pod's spec. Without namespaces, it is about the pod's own one."""

    term: PodTerm
    match_keys: tuple[str, ...] = ()
    """Labels whose values must be those of the pod."""

    mismatch_keys: tuple[str, ...] = ()
    """Labels whose values must not be those of the pod."""


@dataclass(frozen=True, slots=True)
class EvenSpread:
    """A constraint of `topologySpreadConstraints`."""

    hard: bool
    """Whether it rules nodes out (`DoNotSchedule`). Otherwise it counts in the score."""

    max_skew: int
    topology_key: str
    labels: Requirements | None
    match_keys: tuple[str, ...] = ()
    min_domains: int = 1
    honors_affinity: bool = True
    """Whether nodes that the pod's node affinity rules out are not counted."""

    honors_taints: bool = False
    """Whether nodes with a taint that the pod does not tolerate are not counted."""


def holds(requirements: Requirements | None, labels: Mapping[str, str]) -> bool:
    """Return whether labels meet all requirements. None is met by none. An unknown operator is never met."""
    return requirements is not None and all(_holds(one, labels.get(one.key)) for one in requirements)


def conflicts(one: HostPort, other: HostPort) -> bool:
    """Return whether two pods cannot take these ports of one node."""
    return (
        one.port == other.port
        and one.protocol == other.protocol
        and (one.ip == other.ip or ANY_ADDRESS in (one.ip, other.ip))
    )


def host_ports(spec: PodSpec) -> tuple[HostPort, ...]:
    """Return the ports that a pod takes of its node while it runs: all of its ports if it uses the node's network."""
    found: dict[HostPort, None] = {}
    for container in _running(spec):
        for port in container.ports or ():
            number = port.host_port or (port.container_port if spec.host_network else 0) or 0
            if number > 0:
                found[HostPort(port=number, protocol=port.protocol or _TCP, ip=port.host_ip or ANY_ADDRESS)] = None
    return tuple(found)


def spec_terms(spec: PodSpec) -> tuple[SpecTerm, ...]:
    """Return the terms of a pod's affinity and anti-affinity to other pods, required and preferred."""
    affinity = spec.affinity
    if affinity is None:
        return ()
    return tuple(_terms(affinity.pod_affinity, anti=False)) + tuple(_terms(affinity.pod_anti_affinity, anti=True))


def spread_constraints(spec: PodSpec) -> tuple[EvenSpread, ...]:
    """Return the constraints of a pod's spec on its spreading."""
    return tuple(map(_spread, spec.topology_spread_constraints or ()))


def claims_of(spec: PodSpec) -> tuple[str, ...]:
    """Return the names of the PersistentVolumeClaims that a pod mounts."""
    found = (volume.persistent_volume_claim for volume in spec.volumes or ())
    return tuple(one.claim_name for one in found if one is not None)


def requirements_of(selector: LabelSelector | None) -> Requirements | None:
    """Return the requirements of a label selector."""
    if selector is None:
        return None
    by_value = [
        LabelRequirement(key=key, operator=IN, values=(value,))
        for key, value in sorted((selector.match_labels or {}).items())
    ]
    by_operator = [
        LabelRequirement(key=one.key, operator=one.operator, values=tuple(one.values or ()))
        for one in selector.match_expressions or ()
    ]
    return (*by_value, *by_operator)


def text_of(requirements: Requirements | None) -> str:
    """Return a selector on one line, as kubectl writes it."""
    if requirements is None:
        return "no pod"
    return ",".join(map(_text, requirements)) or "any pod"


def _text(one: LabelRequirement) -> str:
    if one.operator == IN and len(one.values) == 1:
        return f"{one.key}={one.values[0]}"
    if one.operator in {EXISTS, DOES_NOT_EXIST}:
        return one.key if one.operator == EXISTS else f"!{one.key}"
    return f"{one.key} {one.operator.lower()} ({','.join(one.values)})"


def _running(spec: PodSpec) -> Iterator[Container]:
    yield from (one for one in spec.init_containers or () if one.restart_policy == _SIDECAR)
    yield from spec.containers


def _terms(affinity: PodAffinity | None, *, anti: bool) -> Iterator[SpecTerm]:
    if affinity is None:
        return
    for term in affinity.required_during_scheduling_ignored_during_execution or ():
        yield _spec_term(term, anti=anti, weight=0)
    for weighted in affinity.preferred_during_scheduling_ignored_during_execution or ():
        if weighted.weight:
            yield _spec_term(weighted.pod_affinity_term, anti=anti, weight=weighted.weight)


def _spec_term(term: PodAffinityTerm, *, anti: bool, weight: int) -> SpecTerm:
    made = PodTerm(
        anti=anti,
        weight=weight,
        topology_key=term.topology_key,
        namespaces=tuple(sorted(set(term.namespaces or ()))),
        namespace_selector=requirements_of(term.namespace_selector),
        labels=requirements_of(term.label_selector),
    )
    return SpecTerm(made, tuple(term.match_label_keys or ()), tuple(term.mismatch_label_keys or ()))


def _spread(one: TopologySpreadConstraint) -> EvenSpread:
    return EvenSpread(
        hard=one.when_unsatisfiable == _HARD,
        max_skew=one.max_skew,
        topology_key=one.topology_key,
        labels=requirements_of(one.label_selector),
        match_keys=tuple(one.match_label_keys or ()),
        min_domains=one.min_domains if one.min_domains is not None else 1,
        honors_affinity=(one.node_affinity_policy or _HONOR) == _HONOR,
        honors_taints=(one.node_taints_policy or _IGNORE) == _HONOR,
    )


def _holds(one: LabelRequirement, value: str | None) -> bool:
    match one.operator:
        case "In":
            return value in one.values
        case "NotIn":
            return value not in one.values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case _:
            return False
