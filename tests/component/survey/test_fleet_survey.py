"""The fleet in numbers, from objects as the gateway serves them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from moorage.decide.conditions.heartbeats import HEARTBEAT_STOPPED
from moorage.insight.survey.findings import Level
from moorage.insight.survey.fleet_survey import FleetSurvey
from moorage_schemas.times import format_time

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)


def target(ready: str | None, condition: str = "Ready", **spec: Any) -> dict[str, Any]:
    conditions = [] if ready is None else [{"type": condition, "status": ready}]
    return {"spec": spec, "status": {"conditions": conditions}}


def eviction(state: str, minutes: int = 0, **status: Any) -> dict[str, Any]:
    return {"status": {"state": state, "decidedTime": format_time(NOW - timedelta(minutes=minutes)), **status}}


def condition(source: str, name: str, reason: str = "", minutes: int = 0) -> dict[str, Any]:
    heard = format_time(NOW - timedelta(minutes=minutes))
    target_of = {"kind": "Node", "name": name}
    return {"status": {"source": source, "target": target_of, "reason": reason, "lastHeartbeatTime": heard}}


def zone(state: str, *, stopped: bool = False) -> dict[str, Any]:
    counts = {"nodes": 10, "notReady": 6, "waiting": 2, "rate": 0.1}
    return {"status": {"state": state, "stopped": stopped, **counts}}


def test_a_cordoned_target_counts_by_its_health_as_well() -> None:
    fleet = FleetSurvey(NOW)
    fleet.add_targets("nodes", [target("True"), target("True", unschedulable=True), target("Unknown"), target(None)])
    fleet.add_targets("managedclusters", [target("False", "ManagedClusterConditionAvailable")])
    assert fleet.document()["targets"] == {
        "nodes": {"Ready": 2, "NotReady": 0, "Unknown": 1, "Unreported": 1, "Cordoned": 1},
        "managedclusters": {"Ready": 0, "NotReady": 1, "Unknown": 0, "Unreported": 0, "Cordoned": 0},
    }


def test_only_open_evictions_are_counted() -> None:
    fleet = FleetSurvey(NOW)
    fleet.add_evictions(
        [
            eviction("Scheduled"),
            eviction("Held", 30, heldBy=["PodDisruptionBudget/shop/web", "EvictionPause/all"]),
            eviction("Held", 20, heldBy=["EvictionPause/all"]),
            eviction("Requested", escalated={"reason": "Refused"}),
            eviction("Completed"),
            eviction("Cancelled"),
        ]
    )
    assert dict(fleet.evictions) == {"Scheduled": 1, "Held": 2, "Requested": 1}
    assert dict(fleet.held_by) == {"EvictionPause/all": 2, "PodDisruptionBudget/shop/web": 1}
    assert fleet.held_since == NOW - timedelta(minutes=30)
    assert [one.message for one in fleet.findings()] == ["1 evictions were not carried out by their deployers"]
    fleet.add_evictions([eviction("Held", 90)])
    assert "an eviction has been held for 90m" in [one.message for one in fleet.findings()]


def test_a_source_is_silent_on_the_targets_whose_heartbeats_have_stopped() -> None:
    fleet = FleetSurvey(NOW)
    fleet.add_conditions(
        [
            condition("probe/disk", "n1", HEARTBEAT_STOPPED, 9),
            condition("probe/disk", "n2", HEARTBEAT_STOPPED, 5),
            condition("probe/disk", "n2", HEARTBEAT_STOPPED, 5),
            condition("probe/disk", "n3"),
            condition("probe/net", "n1"),
            condition("", "n1"),
        ]
    )
    assert fleet.sources == 2
    (silent,) = fleet.silent
    assert (silent.name, silent.targets, silent.since) == ("probe/disk", 2, NOW - timedelta(minutes=5))


def test_unscheduled_workloads_pauses_webhooks_and_dead_letters() -> None:
    fleet = FleetSurvey(NOW)
    fleet.add_placements(
        [{"status": {"state": "Pending", "reason": "Unschedulable"}}, {"status": {"state": "Placed", "reason": "x"}}]
    )
    fleet.add_pauses([{"spec": {"reason": "power"}}, {"spec": {"scope": {"zones": ["eu/eu-1"]}}}])
    failing = [{"type": "Delivering", "status": "False", "message": "refused"}]
    fleet.add_webhooks([{"metadata": {"name": "ops"}, "status": {"conditions": failing}}, {"metadata": {"name": "b"}}])
    fleet.add_dead_letters([{"status": {"reason": "UnknownTarget"}}] * 3, more=True)
    assert dict(fleet.unscheduled) == {"Unschedulable": 1}
    assert [(one.check, one.message) for one in fleet.findings()] == [
        ("pauses", "evictions are paused: the whole fleet (power)"),
        ("pauses", "evictions are paused: zones=eu/eu-1"),
        ("webhooks", "ops: refused"),
        ("dead letters", "3+ records were refused in the last hour: 3 UnknownTarget"),
    ]


def test_zones_in_trouble_are_findings_and_a_quiet_fleet_has_none() -> None:
    fleet = FleetSurvey(NOW)
    fleet.add_zones([("eu/eu-1", zone("PartialDisruption")), ("none", zone("Normal"))])
    (found,) = fleet.findings()
    assert found.level is Level.WARNING
    assert found.message.startswith("zone eu/eu-1 is in PartialDisruption: 6 of 10 nodes are not ready")
    quiet = FleetSurvey(NOW)
    quiet.add_zones([("none", zone("Normal"))])
    quiet.add_dead_letters([], more=False)
    assert quiet.findings() == []
