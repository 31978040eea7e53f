"""The fields that pods get at admission.

Pods get default tolerations and the requirements of rules for dedicated nodes. All functions are pure, work on plain
objects and never change their arguments. The rules are in docs/domain.md, "Default tolerations".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from moorage.decide.kubernetes.pod_resources import BEST_EFFORT, qos_class, requested_names
from moorage.decide.kubernetes.quantities import is_extended
from moorage.decide.kubernetes.selectors import matches_labels
from moorage.decide.kubernetes.taint_keys import (
    DISK_PRESSURE,
    MEMORY_PRESSURE,
    NETWORK_UNAVAILABLE,
    NOT_READY,
    PID_PRESSURE,
    UNREACHABLE,
    UNSCHEDULABLE,
)
from moorage_schemas.resources.dedicated import DedicatedNodes
from moorage_schemas.taint import TaintEffect, TolerationOperator

DEFAULT_TOLERATION_SECONDS: Final = 300
"""How long a pod stays by default on a node that is not ready or unreachable."""

_NO_SCHEDULE: Final = TaintEffect.NO_SCHEDULE.value
_NO_EXECUTE: Final = TaintEffect.NO_EXECUTE.value
_EXISTS: Final = TolerationOperator.EXISTS.value
_EQUAL: Final = TolerationOperator.EQUAL.value

_Object = dict[str, Any]


def admit_pod(pod: _Object, rules: Sequence[DedicatedNodes] = (), *, daemon: bool = False) -> _Object:
    """Return the pod with everything that admission adds. Admitting it a second time changes nothing.

    Args:
        pod: a pod, or an object made from a pod template. Only `metadata` and `spec` are used.
        rules: the `DedicatedNodes` of the fleet. They are applied in the order of their names.
        daemon: whether a DaemonSet creates the pod.

    Raises:
        QuantityError: a request or limit is not a quantity.
    """
    spec: _Object = {**(pod.get("spec") or {})}
    tolerations = [dict(toleration) for toleration in spec.get("tolerations") or ()]
    for rule in sorted(rules, key=lambda rule: rule.metadata.name):
        if rule_applies(rule, pod):
            _add(tolerations, _dedicated_toleration(rule))
            _require_label(spec, rule.spec.key, rule.spec.value)
    if daemon:
        for toleration in daemon_tolerations(host_network=spec.get("hostNetwork") is True):
            _add(tolerations, toleration)
    for resource in _extended_resources(spec):
        _add(tolerations, {"key": resource, "operator": _EXISTS, "effect": _NO_SCHEDULE})
    if qos_class(spec) != BEST_EFFORT:
        _add(tolerations, {"key": MEMORY_PRESSURE, "operator": _EXISTS, "effect": _NO_SCHEDULE})
    for key in (NOT_READY, UNREACHABLE):
        if not any(_speaks_of(toleration, key) for toleration in tolerations):
            tolerations.append(
                {
                    "key": key,
                    "operator": _EXISTS,
                    "effect": _NO_EXECUTE,
                    "tolerationSeconds": DEFAULT_TOLERATION_SECONDS,
                }
            )
    spec["tolerations"] = tolerations
    return {**pod, "spec": spec}


def daemon_tolerations(*, host_network: bool) -> list[_Object]:
    """Return the tolerations of a DaemonSet's pods, without time limit."""
    marks = [(NOT_READY, _NO_EXECUTE), (UNREACHABLE, _NO_EXECUTE)]
    marks += [(key, _NO_SCHEDULE) for key in (DISK_PRESSURE, MEMORY_PRESSURE, PID_PRESSURE, UNSCHEDULABLE)]
    if host_network:
        marks.append((NETWORK_UNAVAILABLE, _NO_SCHEDULE))
    return [{"key": key, "operator": _EXISTS, "effect": effect} for key, effect in marks]


def rule_applies(rule: DedicatedNodes, pod: Mapping[str, Any]) -> bool:
    """Return whether a rule for dedicated nodes names a pod's namespace and selects its labels."""
    metadata = pod.get("metadata") or {}
    namespaces = rule.spec.namespaces
    if namespaces is not None and (metadata.get("namespace") or "default") not in namespaces:
        return False
    return matches_labels(rule.spec.pod_selector, metadata.get("labels"))


def _extended_resources(spec: Mapping[str, Any]) -> list[str]:
    """Return the extended resources that containers request, sorted by name."""
    return sorted(name for name in requested_names(spec) if is_extended(name))


def _speaks_of(toleration: Mapping[str, Any], key: str) -> bool:
    """Return whether a toleration covers `NoExecute` of this key, so that the pod gets no default toleration for it."""
    return (toleration.get("key") or key) == key and (toleration.get("effect") or _NO_EXECUTE) == _NO_EXECUTE


def _add(tolerations: list[_Object], wanted: _Object) -> None:
    """Add a toleration, or replace the one with the same key, operator, value and effect."""
    identity = _identity(wanted)
    for index, toleration in enumerate(tolerations):
        if _identity(toleration) == identity:
            tolerations[index] = wanted
            return
    tolerations.append(wanted)


def _identity(toleration: Mapping[str, Any]) -> tuple[str, ...]:
    operator = toleration.get("operator") or _EQUAL
    return (toleration.get("key") or "", operator, toleration.get("value") or "", toleration.get("effect") or "")


def _dedicated_toleration(rule: DedicatedNodes) -> _Object:
    return {"key": rule.spec.key, "operator": _EQUAL, "value": rule.spec.value, "effect": rule.spec.effect}


def _require_label(spec: _Object, key: str, value: str) -> None:
    """Add `key=value` to every term of the required node affinity.

    Terms are ORed, so each of them needs the requirement. A term without requirements selects nothing and stays
    unchanged: with the requirement it would select something.
    """
    wanted = {"key": key, "operator": "In", "values": [value]}
    affinity: _Object = {**(spec.get("affinity") or {})}
    node: _Object = {**(affinity.get("nodeAffinity") or {})}
    name = "requiredDuringSchedulingIgnoredDuringExecution"
    required = node.get(name)
    terms = [{"matchExpressions": []}] if required is None else (required.get("nodeSelectorTerms") or [])
    node[name] = {
        **(required or {}),
        "nodeSelectorTerms": [
            _with(term, wanted) if required is None or _has_expressions(term) else term for term in terms
        ],
    }
    affinity["nodeAffinity"] = node
    spec["affinity"] = affinity


def _has_expressions(term: Mapping[str, Any]) -> bool:
    return bool(term.get("matchExpressions") or term.get("matchFields"))


def _with(term: Mapping[str, Any], wanted: _Object) -> _Object:
    expressions: Iterable[Any] = term.get("matchExpressions") or ()
    kept = list(expressions)
    return {**term, "matchExpressions": kept if wanted in kept else [*kept, wanted]}
