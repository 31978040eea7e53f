"""Validation of ResourceQuotas and LimitRanges, and of changes to them, as Kubernetes 1.37 has it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from moorage.core.admission.validation.container_resources import (
    amount,
    container_resource_name,
    is_of_quotas,
    is_overcommitted,
    quantity,
    resource_name,
)
from moorage.core.admission.validation.fields import Fields, inner, listed, object_in, objects, qualified_name, text
from moorage.core.apimachinery.field_errors import FieldError, duplicate, forbidden, invalid, required
from moorage.core.apimachinery.quantities import canonical_text
from moorage.core.apimachinery.selectors import DOES_NOT_EXIST, EXISTS, IN, NOT_IN

_COUNTED: Final = frozenset({"pods"})
_COMPUTED: Final = frozenset(
    {"cpu", "memory", "limits.cpu", "limits.memory", "requests.cpu", "requests.memory", *_COUNTED}
)
_BEST_EFFORT: Final = "BestEffort"
_OF_PODS: Final = {
    "Terminating": _COMPUTED,
    "NotTerminating": _COMPUTED,
    "NotBestEffort": _COMPUTED,
    "PriorityClass": _COMPUTED,
    "CrossNamespacePodAffinity": _COMPUTED,
    _BEST_EFFORT: _COUNTED,
}
"""The resources that a scope may be about."""

_SCOPES: Final = frozenset({*_OF_PODS, "VolumeAttributesClass"})
_CONFLICTS: Final = ({_BEST_EFFORT, "NotBestEffort"}, {"Terminating", "NotTerminating"})
_WITHOUT_VALUES: Final = frozenset(_OF_PODS) - {"PriorityClass"}
_EXISTS_ONLY: Final = (
    "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, "
    "ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity"
)
_OF_RESOURCE: Final = "unsupported scope applied to resource"

_POD: Final = "Pod"
_CLAIM: Final = "PersistentVolumeClaim"
_LIMITED: Final = frozenset({_POD, "Container", _CLAIM})
_MIN: Final = "min"
_MAX: Final = "max"
_DEFAULT: Final = "default"
_DEFAULT_REQUEST: Final = "defaultRequest"
_RATIO: Final = "maxLimitRequestRatio"
_ORDERED: Final = (
    (_MIN, _MAX, _MIN, _MIN),
    (_MIN, _DEFAULT_REQUEST, _DEFAULT_REQUEST, _DEFAULT_REQUEST),
    (_DEFAULT_REQUEST, _MAX, _DEFAULT_REQUEST, _DEFAULT_REQUEST),
    (_DEFAULT_REQUEST, _DEFAULT, _DEFAULT_REQUEST, _DEFAULT_REQUEST),
    (_MIN, _DEFAULT, _DEFAULT, _MIN),
    (_DEFAULT, _MAX, _DEFAULT, _MAX),
)
"""The first field must not be greater than the second. An error is about the third and shows the value of the last."""

_CALLED: Final = {_MIN: "min", _MAX: "max", _DEFAULT: "default", _DEFAULT_REQUEST: "default request"}


def validate_quota(document: Mapping[str, Any]) -> list[FieldError]:
    """Validate the spec of a resource quota."""
    spec = inner(document, "spec")
    hard = inner(spec, "hard")
    return [
        *(error for name, value in sorted(hard.items()) for error in _hard(name, value)),
        *_scopes(listed(spec, "scopes"), hard),
        *_scope_selector(object_in(spec, "scopeSelector") or {}, hard),
    ]


def validate_quota_update(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[FieldError]:
    """Validate a change of a resource quota: its scopes stay.

    Args:
        before: the quota as it is shown.
        after: the quota as it is wanted.
    """
    earlier, later = (sorted(map(str, listed(inner(one, "spec"), "scopes"))) for one in (before, after))
    return [invalid("spec.scopes", later or None, "field is immutable")] if earlier != later else []


def validate_limit_range(document: Mapping[str, Any]) -> list[FieldError]:
    """Validate the spec of a limit range."""
    found: list[FieldError] = []
    seen: set[str] = set()
    for limit, path in objects(inner(document, "spec"), "limits", "spec.limits"):
        kind = text(limit, "type")
        found += _type(kind, f"{path}.type")
        if kind in seen:
            found.append(duplicate(f"{path}.type", kind))
        seen.add(kind)
        found += _limit(limit, kind, path)
    return found


def _hard(name: str, value: Any) -> Iterator[FieldError]:
    path = f"spec.hard[{name}]"
    yield from resource_name(name, path)
    if "/" not in name and not is_of_quotas(name):
        yield invalid(path, name, "must be a standard resource for quota")
    yield from amount(name, value, path)


def _is_about(scope: str, resource: str) -> bool:
    return not is_of_quotas(resource) or resource in _OF_PODS.get(scope, {resource})


def _scopes(scopes: Sequence[Any], hard: Fields) -> Iterator[FieldError]:
    path = "spec.scopes"
    for scope in scopes:
        if scope not in _SCOPES:
            yield invalid(path, scopes, "unsupported scope")
        yield from (invalid(path, scopes, _OF_RESOURCE) for name in sorted(hard) if not _is_about(scope, name))
    yield from (invalid(path, scopes, "conflicting scopes") for pair in _CONFLICTS if pair <= set(scopes))


def _scope_selector(selector: Fields, hard: Fields) -> Iterator[FieldError]:
    path = "spec.scopeSelector.matchExpressions"
    for one, _ in objects(selector, "matchExpressions", path):
        scope, operator, values = text(one, "scopeName"), text(one, "operator"), listed(one, "values")
        if scope not in _SCOPES:
            yield invalid(f"{path}.scopeName", scope, "unsupported scope")
        yield from (
            invalid(path, _shown(selector), _OF_RESOURCE) for name in sorted(hard) if not _is_about(scope, name)
        )
        if scope in _WITHOUT_VALUES and operator != EXISTS:
            yield invalid(f"{path}.operator", operator, _EXISTS_ONLY)
        if operator in {IN, NOT_IN}:
            if not values:
                rule = "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector"
                yield required(f"{path}.values", rule)
        elif operator in {EXISTS, DOES_NOT_EXIST}:
            if values:
                rule = "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector"
                yield invalid(f"{path}.values", values, rule)
        else:
            yield invalid(f"{path}.operator", operator, "not a valid selector operator")


def _shown(selector: Fields) -> dict[str, Any]:
    """A scope selector with the names that its fields have inside a kube-apiserver, as its message shows them."""
    return {
        "MatchExpressions": [
            {"ScopeName": text(one, "scopeName"), "Operator": text(one, "operator"), "Values": one.get("values")}
            for one, _ in objects(selector, "matchExpressions", "")
        ]
    }


def _type(kind: str, path: str) -> Iterator[FieldError]:
    wrong = list(qualified_name(kind, path))
    yield from wrong
    if not wrong and "/" not in kind and kind not in _LIMITED:
        yield invalid(path, kind, "must be a standard limit type or fully qualified")


def _limit(limit: Fields, kind: str, path: str) -> Iterator[FieldError]:
    check = container_resource_name if kind in {_POD, "Container"} else resource_name
    amounts = {field: inner(limit, field) for field in (_MIN, _MAX, _DEFAULT, _DEFAULT_REQUEST, _RATIO)}
    for field in (_MAX, _MIN, _DEFAULT, _DEFAULT_REQUEST, _RATIO):
        if kind == _POD and field in {_DEFAULT, _DEFAULT_REQUEST}:
            if amounts[field]:
                yield forbidden(f"{path}.{field}", f"may not be specified when `type` is '{_POD}'")
            amounts[field] = {}
            continue
        for name in sorted(amounts[field]):
            yield from check(name, f"{path}.{field}[{name}]")
    if kind == _CLAIM and "storage" not in {*amounts[_MIN], *amounts[_MAX]}:
        rule = "either minimum or maximum storage value is required, but neither was provided"
        yield required(f"{path}.limits", rule)
    for name in sorted({name for found in amounts.values() for name in found}):
        yield from _in_order(name, {field: found[name] for field, found in amounts.items() if name in found}, path)


def _in_order(name: str, values: Fields, path: str) -> Iterator[FieldError]:
    """The errors of the amounts of one resource beside each other."""
    found = {field: exact for field, value in values.items() if (exact := quantity(value)) is not None}
    shown = {field: canonical_text(values[field]) for field in found}
    for smaller, larger, named, told in _ORDERED:
        if smaller in found and larger in found and found[smaller] > found[larger]:
            second = (
                f"{_CALLED[larger]} limit" if (smaller, larger) == (_DEFAULT_REQUEST, _DEFAULT) else _CALLED[larger]
            )
            rule = f"{_CALLED[smaller]} value {shown[smaller]} is greater than {second} value {shown[larger]}"
            yield invalid(f"{path}.{named}[{name}]", shown[told], rule)
    if (ratio := found.get(_RATIO)) is not None:
        at = f"{path}.{_RATIO}[{name}]"
        if ratio < 1:
            yield invalid(at, shown[_RATIO], f"ratio {shown[_RATIO]} is less than 1")
        least, most = found.get(_MIN), found.get(_MAX)
        if least and most is not None and ratio > most / least:
            rule = f"ratio {shown[_RATIO]} is greater than max/min = {float(most / least):f}"
            yield invalid(at, shown[_RATIO], rule)
    if (
        not is_overcommitted(name)
        and found.keys() >= {_DEFAULT, _DEFAULT_REQUEST}
        and found[_DEFAULT] != found[_DEFAULT_REQUEST]
    ):
        rule = f"default value {shown[_DEFAULT]} must equal to defaultRequest value {shown[_DEFAULT_REQUEST]} in {name}"
        yield invalid(f"{path}.{_DEFAULT_REQUEST}[{name}]", shown[_DEFAULT_REQUEST], rule)
