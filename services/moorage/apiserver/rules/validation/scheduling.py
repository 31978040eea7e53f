"""Validation of what a pod says of its nodes: affinity, spread constraints, gates."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from moorage.apiserver.rules.validation.fields import (
    Fields,
    dns_label,
    dns_subdomain,
    inner,
    label_selector,
    label_values,
    listed,
    number,
    object_in,
    objects,
    qualified_name,
    text,
    unknown_operator,
    values_by_operator,
)
from moorage.decide.kubernetes.field_errors import FieldError, duplicate, forbidden, invalid, not_supported, required
from moorage.decide.kubernetes.selectors import DOES_NOT_EXIST, EXISTS, IN, NOT_IN

_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"
_COMPARISONS: Final = ("Gt", "Lt")
_HEAVIEST: Final = 100
_DO_NOT_SCHEDULE: Final = "DoNotSchedule"
_ACTIONS: Final = (_DO_NOT_SCHEDULE, "ScheduleAnyway")
_INCLUSIONS: Final = ("Honor", "Ignore")


def affinity(spec: Fields, path: str) -> Iterator[FieldError]:
    """The errors of a pod's affinity to nodes and to other pods. `path` is that of the affinity."""
    found = inner(spec, "affinity")
    nodes = inner(found, "nodeAffinity")
    at = f"{path}.nodeAffinity"
    if (selector := object_in(nodes, _REQUIRED)) is not None:
        yield from node_selector(selector, f"{at}.{_REQUIRED}")
    for term, term_path in objects(nodes, _PREFERRED, f"{at}.{_PREFERRED}"):
        yield from _weight(term, term_path)
        yield from _node_term(inner(term, "preference"), f"{term_path}.preference", strict=False)
    for field in ("podAffinity", "podAntiAffinity"):
        yield from _pods(inner(found, field), f"{path}.{field}")


def node_selector(selector: Fields, path: str) -> Iterator[FieldError]:
    """The errors of a selector of nodes."""
    where = f"{path}.nodeSelectorTerms"
    if not listed(selector, "nodeSelectorTerms"):
        yield required(where, "must have at least one node selector term")
    for term, term_path in objects(selector, "nodeSelectorTerms", where):
        yield from _node_term(term, term_path, strict=True)


def _weight(term: Fields, path: str) -> Iterator[FieldError]:
    weight = number(term, "weight") or 0
    if not 1 <= weight <= _HEAVIEST:
        yield invalid(f"{path}.weight", weight, "must be in the range 1-100")


def _node_term(term: Fields, path: str, *, strict: bool) -> Iterator[FieldError]:
    for requirement, at in objects(term, "matchExpressions", f"{path}.matchExpressions"):
        yield from _node_label(requirement, at, strict=strict)
    for requirement, at in objects(term, "matchFields", f"{path}.matchFields"):
        yield from _node_field(requirement, at)


def _node_label(requirement: Fields, path: str, *, strict: bool) -> Iterator[FieldError]:
    operator, values = text(requirement, "operator"), listed(requirement, "values")
    yield from values_by_operator(operator, values, path)
    if operator in _COMPARISONS:
        if len(values) != 1:
            yield required(f"{path}.values", "must be specified single value when `operator` is 'Lt' or 'Gt'")
    elif operator not in {IN, NOT_IN, EXISTS, DOES_NOT_EXIST}:
        yield unknown_operator(operator, path)
    yield from qualified_name(text(requirement, "key"), f"{path}.key")
    if strict:
        yield from label_values(values, path)


def _node_field(requirement: Fields, path: str) -> Iterator[FieldError]:
    operator, values = text(requirement, "operator"), listed(requirement, "values")
    if operator not in {IN, NOT_IN}:
        yield unknown_operator(operator, path)
    elif len(values) != 1:
        rule = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
        yield required(f"{path}.values", rule)
    if text(requirement, "key") != "metadata.name":
        yield invalid(f"{path}.key", text(requirement, "key"), "not a valid field selector key")
    else:
        for index, value in enumerate(values):
            yield from dns_subdomain(value, f"{path}.values[{index}]")


def _pods(terms: Fields, path: str) -> Iterator[FieldError]:
    for term, at in objects(terms, _REQUIRED, f"{path}.{_REQUIRED}"):
        yield from _pod_term(term, at)
    for term, at in objects(terms, _PREFERRED, f"{path}.{_PREFERRED}"):
        yield from _weight(term, at)
        yield from _pod_term(inner(term, "podAffinityTerm"), f"{at}.podAffinityTerm")


def _pod_term(term: Fields, path: str) -> Iterator[FieldError]:
    for field in ("labelSelector", "namespaceSelector"):
        yield from label_selector(object_in(term, field), f"{path}.{field}")
    for namespace in listed(term, "namespaces"):
        yield from dns_label(namespace, f"{path}.namespace")
    yield from _label_keys(term, path, "matchLabelKeys", "mismatchLabelKeys")
    key = text(term, "topologyKey")
    if not key:
        yield required(f"{path}.topologyKey", "can not be empty")
    yield from qualified_name(key, f"{path}.topologyKey")


def _label_keys(term: Fields, path: str, *fields: str) -> Iterator[FieldError]:
    selector = object_in(term, "labelSelector")
    for field in fields:
        keys = listed(term, field)
        if keys and selector is None:
            yield forbidden(f"{path}.{field}", "must not be specified when labelSelector is not set")
        elif keys:
            for index, key in enumerate(keys):
                yield from qualified_name(key, f"{path}.{field}[{index}]")
    matched, mismatched = listed(term, "matchLabelKeys"), listed(term, "mismatchLabelKeys")
    used = set(inner(selector or {}, "matchLabels"))
    for requirement, _ in objects(selector or {}, "matchExpressions", path):
        key = text(requirement, "key")
        if key in matched and key in used:
            yield invalid(f"{path}[{matched.index(key)}]", key, "exists in both matchLabelKeys and labelSelector")
        used.add(key)
    for index, key in enumerate(matched):
        if key in mismatched:
            rule = "exists in both matchLabelKeys and mismatchLabelKeys"
            yield invalid(f"{path}.matchLabelKeys[{index}]", key, rule)


def spread_constraints(spec: Fields, path: str) -> Iterator[FieldError]:
    """The errors of a pod's `topologySpreadConstraints`. `path` is that of the list."""
    found = list(objects(spec, "topologySpreadConstraints", path))
    for index, (constraint, at) in enumerate(found):
        skew, key, action = number(constraint, "maxSkew") or 0, text(constraint, "topologyKey"), _action(constraint)
        if skew < 1:
            yield invalid(f"{at}.maxSkew", skew, "must be greater than zero")
        if not key:
            yield required(f"{at}.topologyKey", "can not be empty")
        if action not in _ACTIONS:
            yield not_supported(f"{at}.whenUnsatisfiable", action, _ACTIONS)
        if any((text(other, "topologyKey"), _action(other)) == (key, action) for other, _ in found[index + 1 :]):
            yield duplicate(f"{at}.{{topologyKey, whenUnsatisfiable}}", f"{{{key}, {action}}}")
        yield from _domains(constraint, at)
        for field in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
            policy: Any = constraint.get(field)
            if policy is not None and policy not in _INCLUSIONS:
                yield not_supported(f"{at}.{field}", policy, _INCLUSIONS)
        yield from _label_keys(constraint, at, "matchLabelKeys")
        yield from label_selector(object_in(constraint, "labelSelector"), f"{at}.labelSelector")


def _action(constraint: Fields) -> str:
    return text(constraint, "whenUnsatisfiable")


def _domains(constraint: Fields, path: str) -> Iterator[FieldError]:
    least = number(constraint, "minDomains")
    if least is None:
        return
    if least < 1:
        yield invalid(f"{path}.minDomains", least, "must be greater than zero")
    if _action(constraint) != _DO_NOT_SCHEDULE:
        rule = f"can only use minDomains if whenUnsatisfiable={_DO_NOT_SCHEDULE}, not {_action(constraint)}"
        yield invalid(f"{path}.minDomains", least, rule)


def gates(spec: Fields, path: str) -> Iterator[FieldError]:
    """The errors of a pod's readiness gates and scheduling gates. `path` is that of the spec."""
    for gate, at in objects(spec, "readinessGates", f"{path}.readinessGates"):
        yield from qualified_name(text(gate, "conditionType"), f"{at}.conditionType")
    seen = set()
    for gate, at in objects(spec, "schedulingGates", f"{path}.schedulingGates"):
        name = text(gate, "name")
        yield from qualified_name(name, at)
        if name in seen:
            yield duplicate(at, name)
        seen.add(name)
