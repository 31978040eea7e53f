"""The settings that change decisions, as the fleet's `MoorageConfiguration` has them.

The settings of a process give the first content of that object. As soon as it exists, only the object counts.
"""

from __future__ import annotations

import math
from typing import Any, Final

from moorage.core.admission.validation.configuration import (
    DURATIONS,
    LONGEST_DURATION,
    RATES,
    UNLIMITED,
    source_text,
    validate_configuration,
)
from moorage.core.apimachinery.durations import seconds_of
from moorage.core.conditions.heartbeats import parse_source_grace_periods
from moorage.runtime.settings import Settings
from moorage_schemas.resources.configuration import FAILOVER, MoorageConfigurationSpec, SourceGracePeriod

DECIDING: Final[tuple[str, ...]] = tuple(MoorageConfigurationSpec.model_fields)
"""The settings that a configuration replaces, by their names. Its fields have the same names."""

_UNITS: Final = ((86_400, "d"), (3600, "h"), (60, "m"), (1, "s"))


def spec_of(settings: Settings) -> MoorageConfigurationSpec:
    """Return the content of a configuration that decides as a process with these settings would."""
    found: dict[str, Any] = {field: getattr(settings, field) for field in DECIDING}
    for field in DURATIONS:
        found[field] = duration_text(found[field])
    for field in RATES:
        found[field] = UNLIMITED if math.isinf(found[field]) else found[field]
    found["feature_gates"] = {FAILOVER: settings.failover}
    found["source_grace_periods"] = [
        SourceGracePeriod(
            kind=rule.kind.value,
            source=rule.source,
            grace_period=duration_text(rule.grace.total_seconds() if rule.grace is not None else 0.0),
        )
        for rule in parse_source_grace_periods(settings.source_grace_periods)
    ]
    return MoorageConfigurationSpec(**found)


def configured(settings: Settings, spec: MoorageConfigurationSpec) -> Settings:
    """Return the settings of a process with those of a configuration in their place.

    Raises:
        ValueError: the configuration breaks a rule. The gateway admits none that does.
    """
    if errors := validate_configuration(spec):
        raise ValueError("; ".join(map(str, errors)))
    found: dict[str, Any] = {field: getattr(spec, field) for field in DECIDING}
    for field in DURATIONS:
        found[field] = seconds_of(found[field])
    for field in RATES:
        found[field] = float(found[field])
    found["feature_gates"] = ",".join(f"{name}={str(on).lower()}" for name, on in spec.feature_gates.items())
    found["source_grace_periods"] = ",".join(map(source_text, spec.source_grace_periods))
    return settings.model_copy(update=found)


def overruled(settings: Settings, spec: MoorageConfigurationSpec) -> list[str]:
    """Return the fields of a configuration that differ from a process's settings.

    Settings with their defaults are left out, because they state nothing.
    """
    own, plain = spec_of(settings), MoorageConfigurationSpec()
    return [
        str(MoorageConfigurationSpec.model_fields[field].alias)
        for field in DECIDING
        if _meant(own, field) not in (_meant(plain, field), _meant(spec, field))
    ]


def duration_text(seconds: float) -> str:
    """Return a duration as people write it: `40s`, `5m`, `1m30s`, `0.25s`. The longest one is 36500 days."""
    seconds = min(seconds, LONGEST_DURATION)
    whole = int(seconds)
    if whole != seconds:
        return f"{seconds:.6f}".rstrip("0").rstrip(".") + "s"
    parts = []
    for size, unit in _UNITS:
        count, whole = divmod(whole, size)
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts) or "0s"


def _meant(spec: MoorageConfigurationSpec, field: str) -> object:
    """Return the meaning of a field, so that `60s` and `1m` are the same."""
    value = getattr(spec, field)
    if field in DURATIONS:
        return seconds_of(value)
    if field in RATES:
        return float(value)
    if field == "source_grace_periods":
        return [(entry.kind, entry.source, seconds_of(entry.grace_period)) for entry in value]
    return {FAILOVER: False, **value} if field == "feature_gates" else value
