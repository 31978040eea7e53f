"""Validation of `Rollout`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from moorage.apiserver.rules.validation.fields import CheckedField
from moorage.apiserver.rules.validation.workloads import validate_same
from moorage.decide.kubernetes.field_errors import FieldError, invalid, required
from moorage.decide.rollouts.declared_strategy import terms_of
from moorage.decide.rollouts.strategy import RolloutType, StrategyError
from moorage_schemas.resources.rollouts import Rollout

_AMOUNT: Final = re.compile(r"(100|[0-9]{1,2})%|[0-9]+", re.ASCII)
"""The values that OCM's schema allows for `maxConcurrency` and `maxFailures`."""

_LONGEST: Final = 253


def validate_rollout(rollout: Rollout) -> list[FieldError]:
    """Validate the reference, the version and the strategy."""
    spec, errors = rollout.spec, list[FieldError]()
    if not spec.placement_ref.name:
        errors.append(required("spec.placementRef.name"))
    if not spec.version:
        errors.append(required("spec.version"))
    elif len(spec.version) > _LONGEST:
        errors.append(invalid("spec.version", spec.version, f"must have at most {_LONGEST} characters"))
    strategy = spec.strategy
    parts = {
        "all": strategy.all,
        "progressive": strategy.progressive,
        "progressivePerGroup": strategy.progressive_per_group,
    }
    for name, part in parts.items():
        for field, alias in (("max_failures", "maxFailures"), ("max_concurrency", "maxConcurrency")):
            value = getattr(part, field, None)
            if value is not None and not _AMOUNT.fullmatch(str(value)):
                rule = "must be a number of clusters or a percentage up to 100%"
                errors.append(invalid(f"spec.strategy.{name}.{alias}", value, rule))
        minimum = getattr(part, "min_success_time", "")
        if minimum.startswith("-"):
            errors.append(invalid(f"spec.strategy.{name}.minSuccessTime", minimum, "must not be negative"))
    if errors:
        return errors
    try:
        terms_of(strategy)
    except StrategyError as error:
        return [
            FieldError(f"spec.strategy.{error.error.path}", error.error.kind, error.error.value, error.error.detail)
        ]
    return []


def rollout_warnings(spec: Mapping[str, Any]) -> list[str]:
    """Return warnings about fields without effect."""
    strategy = CheckedField(spec)["strategy"]
    kind = strategy["type"].text or RolloutType.ALL
    used = kind[:1].lower() + kind[1:]
    found = [
        f"spec.strategy.{name}: ignored, because the type is {kind}"
        for name in ("all", "progressive", "progressivePerGroup")
        if name != used and strategy[name].is_object
    ]
    part = strategy["all"]
    if used == "all":
        fields = [
            field for field in ("minSuccessTime", "maxFailures") if part[field].value not in {None, "", "0", "0s", 0}
        ]
        found += [f"spec.strategy.all.{field}: ignored, because all clusters follow at once" for field in fields]
    return found


def validate_rollout_update(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[FieldError]:
    """Validate that the placement stays the same."""
    return validate_same(before, after, "placementRef")
