"""Validation of the kinds that hold evictions, and of machine sets."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from moorage.apiserver.rules.machine_sets import CAPACITY
from moorage.apiserver.rules.validation.core import (
    validate_label_selector,
    validate_labels,
    validate_name,
    validate_taints,
)
from moorage.apiserver.rules.validation.fields import amount, not_more_than_all
from moorage.decide.kubernetes import names
from moorage.decide.kubernetes.field_errors import FieldError, invalid, not_supported, required
from moorage.decide.kubernetes.selectors import matches_labels
from moorage.decide.taints.dialects.kubernetes import KUBERNETES
from moorage_schemas.keys import split_cluster
from moorage_schemas.refs import TargetKind
from moorage_schemas.resources.budgets import (
    Amount,
    EvictionBudgetSpec,
    EvictionPauseSpec,
    PodDisruptionBudgetSpec,
    Scope,
)
from moorage_schemas.resources.machines import MachineSet

_WHOLE: Final = re.compile(r"[0-9]{1,18}")
_UNHEALTHY_POLICIES: Final = ("AlwaysAllow", "IfHealthyBudget")
_NOT_NEGATIVE: Final = "must be greater than or equal to 0"


def validate_amount(value: Amount | None, path: str) -> list[FieldError]:
    """Validate a non-negative number, or a percentage of at most 100. An absent amount is valid."""
    return [*amount(value, path), *not_more_than_all(value, path)]


def validate_disruption_budget(spec: PodDisruptionBudgetSpec) -> list[FieldError]:
    """Validate a `PodDisruptionBudget`: exactly one of the two amounts, and the selector."""
    errors: list[FieldError] = []
    if spec.min_available is not None and spec.max_unavailable is not None:
        rule = "minAvailable and maxUnavailable cannot be both set"
        errors.append(invalid("spec", _internal(spec), rule))
    elif spec.min_available is None and spec.max_unavailable is None:
        errors.append(required("spec.minAvailable", "one of minAvailable and maxUnavailable must be set"))
    errors += validate_amount(spec.min_available, "spec.minAvailable")
    errors += validate_amount(spec.max_unavailable, "spec.maxUnavailable")
    errors += validate_label_selector(spec.selector, "spec.selector")
    policy = (spec.model_extra or {}).get("unhealthyPodEvictionPolicy")
    if policy is not None and policy not in _UNHEALTHY_POLICIES:
        errors.append(not_supported("spec.unhealthyPodEvictionPolicy", policy, _UNHEALTHY_POLICIES))
    return errors


def _internal(spec: PodDisruptionBudgetSpec) -> dict[str, Any]:
    """The spec in the form in which an API server shows it in messages: with capitals, and all of its fields."""
    selector = spec.selector
    return {
        "MinAvailable": spec.min_available,
        "Selector": None if selector is None else selector.model_dump(by_alias=True, exclude_none=True),
        "MaxUnavailable": spec.max_unavailable,
        "UnhealthyPodEvictionPolicy": (spec.model_extra or {}).get("unhealthyPodEvictionPolicy"),
    }


def validate_eviction_budget(spec: EvictionBudgetSpec) -> list[FieldError]:
    """Validate an `EvictionBudget`: at least one amount, and the scope."""
    errors: list[FieldError] = []
    if spec.max_concurrent is None and spec.max_in_window is None:
        errors.append(required("spec.maxConcurrent", "at least one of maxConcurrent and maxInWindow must be set"))
    errors += validate_amount(spec.max_concurrent, "spec.maxConcurrent")
    errors += validate_amount(spec.max_in_window, "spec.maxInWindow")
    return errors + validate_scope(spec.scope, "spec.scope")


def validate_eviction_pause(spec: EvictionPauseSpec) -> list[FieldError]:
    """Validate an `EvictionPause`: its scope."""
    return validate_scope(spec.scope, "spec.scope")


def validate_scope(scope: Scope, path: str) -> list[FieldError]:
    """Validate a scope: each entry must have the one accepted format."""
    lists = (("namespaces", scope.namespaces), ("zones", scope.zones), ("targets", scope.targets))
    errors = [
        invalid(f"{path}.{field}", listed, "must have at least one item; leave it out to mean all of them")
        for field, listed in (*lists, ("workloads", scope.workloads))
        if listed == []
    ]
    for i, namespace in enumerate(scope.namespaces or ()):
        errors += validate_name(namespace, f"{path}.namespaces[{i}]", dns_label=True)
    for i, zone in enumerate(scope.zones or ()):
        errors += _zone(zone, f"{path}.zones[{i}]")
    for i, target in enumerate(scope.targets or ()):
        errors += _target(target, f"{path}.targets[{i}]")
    for i, workload in enumerate(scope.workloads or ()):
        errors += _workload(workload, f"{path}.workloads[{i}]")
    return errors + validate_label_selector(scope.selector, f"{path}.selector")


def _zone(zone: str, path: str) -> list[FieldError]:
    cluster, rest = split_cluster(zone)
    parts = rest.split("/")
    if len(parts) != 2:  # noqa: PLR2004 - region and zone
        return [invalid(path, zone, "must be region/zone, such as eu/eu-1; / for targets without either")]
    messages = [*_cluster(cluster), *(message for part in parts for message in names.check_label_value(part))]
    return [invalid(path, zone, message) for message in messages]


def _target(target: str, path: str) -> list[FieldError]:
    cluster, rest = split_cluster(target)
    kind, slash, name = rest.partition("/")
    if not slash or "/" in name:
        return [invalid(path, target, "must be Kind/name, such as Node/n1")]
    if kind not in {known.value for known in TargetKind}:
        rule = f"must be Kind/name with one of the kinds {', '.join(known.value for known in TargetKind)}"
        return [invalid(path, target, rule)]
    return [invalid(path, target, message) for message in (*_cluster(cluster), *names.check_dns_subdomain(name))]


def _cluster(name: str) -> Iterable[str]:
    """The rules that the name of a cluster before a colon breaks. Empty stands for the home fleet."""
    return names.check_dns_subdomain(name) if name else ()


def _workload(workload: str, path: str) -> list[FieldError]:
    cluster, rest = split_cluster(workload)
    parts = rest.split("/")
    if len(parts) != 3 or not parts[0] or not parts[2]:  # noqa: PLR2004 - kind, namespace, name
        return [invalid(path, workload, "must be Kind/namespace/name, such as Deployment/shop/web")]
    _, namespace, name = parts
    messages = [
        *_cluster(cluster),
        *(names.check_dns_label(namespace) if namespace else ()),
        *names.check_dns_subdomain(name),
    ]
    return [invalid(path, workload, message) for message in messages]


def validate_machine_set(machine_set: MachineSet) -> list[FieldError]:
    """Validate a `MachineSet`: the number of nodes and their template."""
    spec = machine_set.spec
    template = spec.template
    errors = _capacities(machine_set.metadata.annotations or {}, "metadata.annotations")
    if spec.replicas is not None and spec.replicas < 0:
        errors.append(invalid("spec.replicas", spec.replicas, _NOT_NEGATIVE))
    errors += validate_label_selector(spec.selector, "spec.selector")
    labels = template.metadata.labels or {}
    if spec.selector is not None and not matches_labels(spec.selector, labels):
        path = "spec.template.metadata.labels"
        errors.append(invalid(path, labels, "`selector` does not match template `labels`"))
    errors += validate_labels(labels, "spec.template.metadata.labels")
    errors += validate_labels(template.spec.metadata.labels or {}, "spec.template.spec.metadata.labels")
    return errors + validate_taints(template.spec.taints or [], "spec.template.spec.taints", KUBERNETES)


def _capacities(annotations: Mapping[str, str], path: str) -> list[FieldError]:
    return [
        invalid(f"{path}[{name}]", annotations[name], "must be a whole number, not negative")
        for name in CAPACITY
        if name in annotations and not _WHOLE.fullmatch(annotations[name])
    ]
