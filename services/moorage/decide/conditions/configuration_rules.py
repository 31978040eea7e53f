"""Validation of `MoorageConfiguration`, by the rules of the settings."""

from __future__ import annotations

import math
from typing import Final

from moorage.decide.conditions.heartbeats import parse_source_grace_periods
from moorage.decide.kubernetes.durations import LONGEST_DURATION, seconds_of
from moorage.decide.kubernetes.field_errors import FieldError, invalid, not_supported
from moorage_schemas.refs import TargetKind
from moorage_schemas.resources.configuration import (
    CONFIGURATION_NAME,
    FAILOVER,
    MoorageConfigurationSpec,
    Rate,
    SourceGracePeriod,
)

FEATURE_GATES: Final = (FAILOVER,)
"""The feature gates that exist."""

UNLIMITED: Final = "inf"
PURGE_MODES: Final = ("Gracefully", "Directly")
CLOUD_PROVIDERS: Final = ("", "external")
SMALLEST_REPORT: Final = 1024
"""The smallest value of `reportMaxBytes`."""

DURATIONS: Final = (
    "graceful_eviction_timeout",
    "eviction_retention",
    "node_monitor_grace_period",
    "cluster_monitor_grace_period",
    "managed_cluster_monitor_grace_period",
    "node_monitor_period",
    "taint_add_hold",
    "taint_remove_hold",
    "disruption_budget_patience",
    "clock_skew",
)
"""The fields of the spec that are durations."""

RATES: Final = ("resource_eviction_rate", "node_eviction_rate", "secondary_node_eviction_rate")
"""The fields of the spec that are rates."""

_DURATION: Final = "must be a duration such as 40s, 5m or 1m30s"


def validate_configuration_name(name: str) -> list[FieldError]:
    """Validate the name of a configuration: there is only one."""
    if name == CONFIGURATION_NAME:
        return []
    return [invalid("metadata.name", name, f'must be "{CONFIGURATION_NAME}": a fleet has one configuration')]


def validate_configuration(spec: MoorageConfigurationSpec) -> list[FieldError]:
    """Validate every field of a configuration."""
    errors = [
        not_supported("spec.featureGates", name, FEATURE_GATES)
        for name in spec.feature_gates
        if name not in FEATURE_GATES
    ]
    if spec.no_execute_taint_eviction_purge_mode not in PURGE_MODES:
        mode = spec.no_execute_taint_eviction_purge_mode
        errors.append(not_supported("spec.noExecuteTaintEvictionPurgeMode", mode, PURGE_MODES))
    for field in DURATIONS:
        errors += _duration(getattr(spec, field), _path(field))
    for field in RATES:
        errors += _rate(getattr(spec, field), _path(field))
    for number, entry in enumerate(spec.source_grace_periods):
        errors += _source(entry, f"spec.sourceGracePeriods[{number}]")
    if not 0 <= spec.unhealthy_zone_threshold <= 1:
        value = spec.unhealthy_zone_threshold
        errors.append(invalid("spec.unhealthyZoneThreshold", value, "must be between 0 and 1"))
    if spec.large_cluster_size_threshold < 0:
        value = spec.large_cluster_size_threshold
        errors.append(invalid("spec.largeClusterSizeThreshold", value, "must be greater than or equal to 0"))
    if spec.cloud_provider not in CLOUD_PROVIDERS:
        errors.append(not_supported("spec.cloudProvider", spec.cloud_provider, CLOUD_PROVIDERS))
    if spec.report_max_bytes < SMALLEST_REPORT:
        rule = f"must be greater than or equal to {SMALLEST_REPORT}"
        errors.append(invalid("spec.reportMaxBytes", spec.report_max_bytes, rule))
    return errors


def _path(field: str) -> str:
    return f"spec.{MoorageConfigurationSpec.model_fields[field].alias}"


def _duration(text: str, path: str) -> list[FieldError]:
    seconds = seconds_of(text)
    if seconds is None:
        return [invalid(path, text, _DURATION)]
    return [] if seconds <= LONGEST_DURATION else [invalid(path, text, "must be at most 36500d")]


def _rate(rate: Rate, path: str) -> list[FieldError]:
    if isinstance(rate, str):
        return [] if rate == UNLIMITED else [invalid(path, rate, f'must be a number, or "{UNLIMITED}" for no limit')]
    return [] if 0 <= rate < math.inf else [invalid(path, rate, "must be greater than or equal to 0")]


def _source(entry: SourceGracePeriod, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    kinds = [kind.value for kind in TargetKind]
    if entry.kind not in kinds:
        errors.append(not_supported(f"{path}.kind", entry.kind, kinds))
    if not entry.source or "," in entry.source or entry.source != entry.source.strip():
        rule = "must not be empty, and must not contain a comma or surrounding space"
        errors.append(invalid(f"{path}.source", entry.source, rule))
    elif "*" in entry.source[:-1]:
        errors.append(invalid(f"{path}.source", entry.source, "* may only be its last character"))
    errors += _duration(entry.grace_period, f"{path}.gracePeriod")
    if not errors:  # the setting has the same rules, as text
        parse_source_grace_periods(source_text(entry))
    return errors


def source_text(entry: SourceGracePeriod) -> str:
    """Return the grace period of a source as the setting `source_grace_periods` has it: `Node:probe/disk=5m`."""
    return f"{entry.kind}:{entry.source}={entry.grace_period}"
