"""A configuration and the settings of a process say the same things."""

from __future__ import annotations

import pytest

from moorage.runtime.configuration import DECIDING, configured, duration_text, overruled, spec_of
from moorage.runtime.engine.journal import deciding
from moorage.runtime.settings import Settings
from moorage_schemas.resources.configuration import MoorageConfigurationSpec

ODD = Settings(
    feature_gates="Failover=true",
    allow_no_execute_taint_policy=True,
    enable_no_execute_taint_eviction=True,
    no_execute_taint_eviction_purge_mode="Directly",
    graceful_eviction_timeout=61.5,
    evict_without_replacement=True,
    resource_eviction_rate=float("inf"),
    node_monitor_grace_period=0,
    cluster_monitor_grace_period=90,
    managed_cluster_monitor_grace_period=7200,
    source_grace_periods="Node:probe/disk=5m,Cluster:a=b*=0",
    node_monitor_period=1,
    node_eviction_rate=3,
    secondary_node_eviction_rate=0,
    unhealthy_zone_threshold=0.25,
    large_cluster_size_threshold=7,
    taint_add_hold=0.25,
    taint_remove_hold=86_400,
    disruption_budget_patience=3661,
    cloud_provider="external",
    clock_skew=5,
    report_max_bytes=2048,
)


def test_the_defaults_of_both_are_the_same() -> None:
    assert spec_of(Settings()) == MoorageConfigurationSpec()


def test_every_setting_that_changes_a_decision_is_in_the_configuration() -> None:
    changed = {field: getattr(ODD, field) for field in DECIDING}
    plain = {field: getattr(Settings(), field) for field in DECIDING}
    assert all(changed[field] != plain[field] for field in DECIDING)
    assert set(deciding(ODD)) == set(DECIDING)


def test_a_configuration_decides_as_the_settings_that_it_was_made_from() -> None:
    found = configured(Settings(partitions=3), spec_of(ODD))
    assert found.partitions == 3
    changed = {field: getattr(found, field) for field in DECIDING}
    assert changed == {field: getattr(ODD, field) for field in DECIDING} | {
        "source_grace_periods": "Node:probe/disk=5m,Cluster:a=b*=0s"
    }
    assert found.failover
    assert spec_of(found) == spec_of(ODD)


def test_content_that_breaks_a_rule_is_refused() -> None:
    with pytest.raises(ValueError, match=r"spec\.nodeEvictionRate: Invalid value: -1"):
        configured(Settings(), MoorageConfigurationSpec(node_eviction_rate=-1.0))


def test_settings_that_state_something_else_are_named() -> None:
    spec = MoorageConfigurationSpec(taint_add_hold="1m", node_eviction_rate=2.0, feature_gates={})
    assert overruled(Settings(), spec) == []
    assert overruled(Settings(taint_add_hold=60), spec) == []
    own = Settings(taint_add_hold=10, feature_gates="Failover=true", node_eviction_rate=0.2)
    assert overruled(own, spec) == ["featureGates", "nodeEvictionRate", "taintAddHold"]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"),
        (40, "40s"),
        (300, "5m"),
        (90, "1m30s"),
        (3600, "1h"),
        (90_061, "1d1h1m1s"),
        (0.25, "0.25s"),
        (61.5, "61.5s"),
        (1e15, "36500d"),
    ],
)
def test_durations_are_written_as_people_write_them(seconds: float, text: str) -> None:
    assert duration_text(seconds) == text
