"""A configuration and the settings of a process say the same things."""

from __future__ import annotations

from typing import Any

import pytest
import structlog
from tests.support.tables import table

from moorage.decide.kubernetes.durations import duration_text
from moorage.runtime.engine.journal import deciding
from moorage.runtime.service import Input
from moorage.runtime.settings.moorage_configuration import (
    DECIDING,
    Configuration,
    ConfiguredView,
    Derived,
    configuration_of,
    configured,
    overruled,
    spec_of,
)
from moorage.runtime.settings.process_settings import Settings
from moorage_schemas.configuration import ConfigurationChanged
from moorage_schemas.envelope import Meta
from moorage_schemas.resources.configuration import MoorageConfigurationSpec
from moorage_schemas.topics import CONFIGURATION

ODD = Settings(
    feature_gates="Failover=true",
    allow_no_execute_taint_policy=True,
    enable_no_execute_taint_eviction=True,
    no_execute_taint_eviction_purge_mode="Directly",
    graceful_eviction_timeout=61.5,
    evict_without_replacement=True,
    eviction_retention=3600,
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


@table(
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


def record(generation: int | None, uid: str = "u", **fields: Any) -> Input:
    """A record of the configuration; without a generation, a tombstone."""
    event = None
    if generation is not None:
        event = ConfigurationChanged(uid=uid, generation=generation, spec=MoorageConfigurationSpec(**fields))
    meta = Meta(id=f"id-{generation}", source="gateway", type=CONFIGURATION.event_type)
    return Input(CONFIGURATION, 0, 0, "cluster", event, meta)


def test_only_a_newer_configuration_of_the_same_life_counts() -> None:
    found = Configuration(Settings(taint_add_hold=5))
    assert (found.settings.taint_add_hold, found.generation, found.cause) == (5, 0, None)
    found.fold(record(2, taint_add_hold="20s"))
    found.fold(record(1, taint_add_hold="10s"))
    assert (found.settings.taint_add_hold, found.generation) == (20, 2)
    assert found.cause is not None
    assert found.cause.id == "id-2"
    found.fold(record(1, uid="later", taint_add_hold="30s"))
    assert (found.settings.taint_add_hold, found.generation) == (30, 1)
    found.fold(record(None))
    assert (found.settings.taint_add_hold, found.generation) == (5, 0)


def test_a_configuration_that_breaks_a_rule_changes_nothing() -> None:
    found = Configuration(Settings())
    found.fold(record(1, taint_add_hold="20s"))
    with pytest.raises(ValueError, match="must be a duration"):
        found.fold(record(2, taint_add_hold="soon"))
    assert (found.settings.taint_add_hold, found.generation) == (20, 1)


def test_a_process_whose_settings_say_otherwise_says_so_once() -> None:
    with structlog.testing.capture_logs() as logs:
        found = Configuration(Settings(taint_add_hold=5, clock_skew=60), "governor")
        found.fold(record(1, taint_add_hold="5s"))
        found.fold(record(2, taint_add_hold="6s"))
    assert logs == [
        {
            "event": "configuration.overrules_settings",
            "log_level": "warning",
            "service": "governor",
            "fields": ["clockSkew"],
        }
    ]


def test_what_is_derived_is_the_same_object_until_it_differs() -> None:
    found = Configuration(Settings())
    holds = Derived(found, lambda settings: (settings.taint_add_hold, settings.taint_remove_hold))
    first = holds.value
    found.fold(record(1, node_eviction_rate=2.0))
    assert holds.value is first
    found.fold(record(2, taint_add_hold="20s"))
    assert holds.value == (20, 0)


def test_a_view_wakes_all_partitions_once_for_each_change() -> None:
    view = ConfiguredView(Configuration(Settings()))
    assert configuration_of(view) is view.configuration
    assert configuration_of(None) is None
    assert view.changed() == ()
    view.apply(record(1))
    assert view.changed() is None
    assert view.changed() == ()
    view.apply(record(1))
    assert view.changed() == ()
