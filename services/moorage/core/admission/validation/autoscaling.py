"""Validation of autoscalers, as Kubernetes 1.37 has it. Documents have the defaults of their fields."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from moorage.core.admission.validation.container_resources import container_resource_name
from moorage.core.admission.validation.fields import (
    Fields,
    dns_label,
    has_same_spec,
    inner,
    number,
    object_in,
    objects,
    path_segment,
    text,
)
from moorage.core.apimachinery import names
from moorage.core.apimachinery.field_errors import FieldError, forbidden, invalid, not_supported, required
from moorage.core.apimachinery.quantities import QuantityError, canonical_text, parse_quantity

_CORE_SCALABLE: Final = "ReplicationController"
"""The only kind of the core group that can be scaled."""

_LONGEST_PERIOD: Final = 1800
_LONGEST_WINDOW: Final = 3600
_POLICIES: Final = ("Percent", "Pods")
_CHOICES: Final = ("Disabled", "Max", "Min")
_TARGETS: Final = ("Utilization", "Value", "AverageValue")
_SOURCES: Final = {
    "Object": "object",
    "External": "external",
    "Pods": "pods",
    "Resource": "resource",
    "ContainerResource": "containerResource",
}
"""The types of metrics, each with its field, in the order in which the fields are looked at."""


def validate_autoscaler(document: Mapping[str, Any]) -> list[FieldError]:
    """Validate a new autoscaler."""
    return list(_autoscaler(inner(document, "spec"), any_version=False, any_metric_version=False))


def validate_autoscaler_update(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[FieldError]:
    """Validate a change of an autoscaler. A wrong version that it has already may stay.

    Args:
        before: the autoscaler as it is shown.
        after: the autoscaler as it is wanted.
    """
    if has_same_spec(before, after):
        return []
    old, new = inner(before, "spec"), inner(after, "spec")
    target, wanted = inner(old, "scaleTargetRef"), inner(new, "scaleTargetRef")
    described = [
        inner(inner(metric, "object"), "describedObject")
        for metric, _ in objects(old, "metrics", "")
        if text(metric, "type") == "Object"
    ]
    return list(
        _autoscaler(
            new,
            any_version=all(text(target, field) == text(wanted, field) for field in ("apiVersion", "kind")),
            any_metric_version=any(_version_flaw(text(one, "apiVersion"), may_be_core=True) for one in described),
        )
    )


def _autoscaler(spec: Fields, *, any_version: bool, any_metric_version: bool) -> Iterator[FieldError]:
    least, most = number(spec, "minReplicas"), number(spec, "maxReplicas") or 0
    if least is not None and most < least:
        yield invalid("spec.maxReplicas", most, "must be greater than or equal to `minReplicas`")
    target = inner(spec, "scaleTargetRef")
    yield from _reference(target, "spec.scaleTargetRef")
    if not any_version:
        yield from _version(target, "spec.scaleTargetRef", may_be_core=text(target, "kind") == _CORE_SCALABLE)
    metrics = list(objects(spec, "metrics", "spec.metrics"))
    for metric, at in metrics:
        yield from _metric(metric, at, any_version=any_metric_version)
    if least == 0 and not any(text(metric, "type") in {"Object", "External"} for metric, _ in metrics):
        rule = "must specify at least one Object or External metric to support scaling to zero replicas"
        yield forbidden("spec.metrics", rule)
    behavior = inner(spec, "behavior")
    for field in ("scaleUp", "scaleDown"):
        if (rules := object_in(behavior, field)) is not None:
            yield from _rules(rules, f"spec.behavior.{field}")
    # Kubernetes tells these after all others.
    if least is not None and least < 0:
        yield invalid("spec.minReplicas", least, "must be greater than or equal to 0")
    if most == 0:
        yield required("spec.maxReplicas")
    elif most < 0:
        yield invalid("spec.maxReplicas", most, "must be greater than or equal to 1")


def _reference(reference: Fields, path: str) -> Iterator[FieldError]:
    for field in ("kind", "name"):
        yield from path_segment(text(reference, field), f"{path}.{field}")


def _version(reference: Fields, path: str, *, may_be_core: bool) -> Iterator[FieldError]:
    value = text(reference, "apiVersion")
    if flaw := _version_flaw(value, may_be_core=may_be_core):
        yield invalid(f"{path}.apiVersion", value, flaw)


def _version_flaw(value: str, *, may_be_core: bool) -> str:
    if value.count("/") > 1:
        return f"unexpected GroupVersion string: {value}"
    group, slash, _ = value.partition("/")
    return "" if may_be_core or (group and slash) else "apiVersion must specify API group"


def _metric(metric: Fields, path: str, *, any_version: bool) -> Iterator[FieldError]:
    kind = text(metric, "type")
    if not kind:
        yield required(f"{path}.type", "must specify a metric source type")
    if kind not in _SOURCES:
        yield not_supported(f"{path}.type", kind, sorted(_SOURCES))
    given = [field for field in _SOURCES.values() if object_in(metric, field) is not None]
    if given:
        yield from _source(given[0], inner(metric, given[0]), f"{path}.{given[0]}", any_version=any_version)
    wanted = _SOURCES.get(kind)
    if wanted is not None and wanted not in given:
        yield required(f"{path}.{wanted}", "must populate information for the given metric source")
    if len(given) > 1:
        for field in given:
            if field != wanted:
                yield forbidden(f"{path}.{field}", "must populate the given metric source only")


def _source(field: str, source: Fields, path: str, *, any_version: bool) -> Iterator[FieldError]:
    if field == "object":
        described = inner(source, "describedObject")
        yield from _reference(described, f"{path}.describedObject")
        if not any_version:
            yield from _version(described, f"{path}.describedObject", may_be_core=True)
    if field in {"object", "external", "pods"}:
        yield from _identity(inner(source, "metric"), f"{path}.metric")
    else:
        yield from _resource(field, source, path)
    yield from _target(inner(source, "target"), f"{path}.target")
    yield from _amounts(field, inner(source, "target"), f"{path}.target")


def _amounts(field: str, target: Fields, at: str) -> Iterator[FieldError]:
    """The errors of the amounts that a source of metrics needs, or does not take together."""
    value, average, share = (target.get(one) for one in ("value", "averageValue", "averageUtilization"))
    if field in {"resource", "containerResource"}:
        if share is None and average is None:
            yield required(f"{at}.averageUtilization", "must set either a target raw value or a target utilization")
        elif share is not None and average is not None:
            yield forbidden(f"{at}.averageValue", "may not set both a target raw value and a target utilization")
    elif field == "pods":
        if average is None:
            yield required(f"{at}.averageValue", "must specify a positive target averageValue")
    elif value is None and average is None:
        other = "averageValue" if field == "object" else "for metric or a per-pod target"
        rule = "must set either a target value " + (f"or {other}" if field == "object" else other)
        yield required(f"{at}.averageValue", rule)
    elif field == "external" and value is not None and average is not None:
        yield forbidden(f"{at}.value", "may not set both a target value for metric and a per-pod target")


def _identity(metric: Fields, path: str) -> Iterator[FieldError]:
    name = text(metric, "name")
    if not name:
        yield required(f"{path}.name", "must specify a metric name")
    yield from (invalid(f"{path}.name", name, rule) for rule in names.check_path_segment(name))


def _resource(field: str, source: Fields, path: str) -> Iterator[FieldError]:
    name, container = text(source, "name"), text(source, "container")
    if not name:
        yield required(f"{path}.name", "must specify a resource name")
    if field != "containerResource":
        return
    if name:
        yield from container_resource_name(name, f"{path}.name")
    if container:
        yield from dns_label(container, f"{path}.container")
    else:
        yield required(f"{path}.container", "must specify a container")


def _target(target: Fields, path: str) -> Iterator[FieldError]:
    kind = text(target, "type")
    if not kind:
        yield required(f"{path}.type", "must specify a metric target type")
    if kind not in _TARGETS:
        yield invalid(f"{path}.type", kind, "must be either Utilization, Value, or AverageValue")
    for field in ("value", "averageValue"):
        if (found := target.get(field)) is not None and _sign(found) < 1:
            yield invalid(f"{path}.{field}", canonical_text(found), "must be positive")
    share = number(target, "averageUtilization")
    if share is not None and share < 1:
        yield invalid(f"{path}.averageUtilization", share, "must be greater than 0")


def _sign(value: Any) -> int:
    """-1, 0 or 1. What is no quantity is refused when it is decoded, and counts as positive here."""
    try:
        found = parse_quantity(value)
    except QuantityError:
        return 1
    return (found > 0) - (found < 0)


def _rules(rules: Fields, path: str) -> Iterator[FieldError]:
    window, choice = number(rules, "stabilizationWindowSeconds"), rules.get("selectPolicy")
    if window is not None and window < 0:
        yield invalid(f"{path}.stabilizationWindowSeconds", window, "must be greater than or equal to zero")
    if window is not None and window > _LONGEST_WINDOW:
        rule = f"must be less than or equal to {_LONGEST_WINDOW}"
        yield invalid(f"{path}.stabilizationWindowSeconds", window, rule)
    if isinstance(choice, str) and choice not in _CHOICES:
        yield not_supported(f"{path}.selectPolicy", choice, _CHOICES)
    policies = list(objects(rules, "policies", f"{path}.policies"))
    if not policies:
        yield required(f"{path}.policies", "must specify at least one Policy")
    for policy, at in policies:
        yield from _policy(policy, at)
    tolerance = rules.get("tolerance")
    if tolerance is not None and _sign(tolerance) < 0:
        yield invalid(f"{path}.tolerance", canonical_text(tolerance), "must be greater than or equal to 0")


def _policy(policy: Fields, path: str) -> Iterator[FieldError]:
    kind = text(policy, "type")
    if kind not in _POLICIES:
        yield not_supported(f"{path}.type", kind, _POLICIES)
    for field in ("value", "periodSeconds"):
        found = number(policy, field) or 0
        if found <= 0:
            yield invalid(f"{path}.{field}", found, "must be greater than zero")
        elif field == "periodSeconds" and found > _LONGEST_PERIOD:
            yield invalid(f"{path}.{field}", found, f"must be less than or equal to {_LONGEST_PERIOD}")
