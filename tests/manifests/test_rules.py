"""The alerts fire when they should, and not otherwise. Prometheus' own tool evaluates them on series."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from tests.support import promtool
from tests.support.manifests import ROOT
from tests.support.tables import table

RULES = ROOT / "ops" / "monitoring" / "rules.yaml"


@dataclass(frozen=True)
class Case:
    """Series under which an alert fires at a minute, and values under which it does not.

    Values are in promtool's notation, one for each minute: `0+1x60` grows by one, `5x60` stays.
    """

    fires: dict[str, str]
    quiet: dict[str, str]
    at: int
    labels: dict[str, str] = field(default_factory=dict)
    """The labels of the alert, besides its name and severity."""


_ZONE = 'moorage_zone_state{zone="eu/a",state="%s",instance="g:1"}'
_HELD = 'moorage_evictions_held_since_timestamp_seconds{by="EvictionBudget",instance="%s"}'
_OLDEST = 'moorage_evictions_oldest_timestamp_seconds{state="%s",instance="t:1"}'
_SOURCE = 'moorage_source_targets{kind="Node",source="probe/disk",state="%s",instance="%s"}'
_LATE = 'moorage_eviction_lateness_seconds_bucket{held="%s",le="%s",instance="t:1"}'
_REPORT, _DECISION = (
    'moorage_last_report_timestamp_seconds{instance="t:1"}',
    'moorage_last_decision_timestamp_seconds{service="condition-ingest",instance="t:1"}',
)
_ACTS = 'moorage_bridge_acts_total{act="evict",outcome="%s",instance="b:1"}'
_LAG = 'moorage_lag_records{service="eviction",partition="%s",instance="t:1"}'

CASES: dict[str, Case] = {
    "MoorageZoneDisrupted": Case(
        {_ZONE % "Normal": "0x60", _ZONE % "PartialDisruption": "1x60", _ZONE % "FullDisruption": "0x60"},
        {_ZONE % "Normal": "1x60", _ZONE % "PartialDisruption": "1x5 0x60", _ZONE % "FullDisruption": "0x60"},
        15,
        {"zone": "eu/a", "state": "PartialDisruption"},
    ),
    "MoorageFleetStopped": Case({"moorage_zones_stopped": "1x60"}, {"moorage_zones_stopped": "0x60"}, 10),
    "MoorageZoneQueueWaits": Case(
        {'moorage_zone_waiting_since_timestamp_seconds{zone="eu/a"}': "0x60"},
        {'moorage_zone_waiting_since_timestamp_seconds{zone="eu/a"}': "0+60x60"},
        40,
        {"zone": "eu/a"},
    ),
    # the first of two processes holds the older one
    "MoorageEvictionHeld": Case(
        {_HELD % "t:1": "0x100", _HELD % "t:2": "6000x100"},
        {_HELD % "t:1": "3000x100"},
        65,
        {"by": "EvictionBudget"},
    ),
    "MoorageEvictionOverdue": Case({_OLDEST % "Scheduled": "60x60"}, {_OLDEST % "Scheduled": "6000x60"}, 10),
    "MoorageEvictionsLate": Case(
        {_LATE % ("false", "10"): "0+1x60", _LATE % ("false", "30"): "0+2x60", _LATE % ("false", "+Inf"): "0+2x60"},
        # a held one may be late
        {
            _LATE % ("false", "10"): "0+2x60",
            _LATE % ("false", "+Inf"): "0+2x60",
            _LATE % ("true", "10"): "0x60",
            _LATE % ("true", "+Inf"): "0+2x60",
        },
        30,
    ),
    "MoorageEvictionNotCarriedOut": Case({_OLDEST % "Requested": "0x60"}, {_OLDEST % "Requested": "1200x60"}, 40),
    "MoorageSourceSilent": Case(
        {_SOURCE % ("Silent", "t:1"): "3x60", _SOURCE % ("Reporting", "t:2"): "2x60"},
        {_SOURCE % ("Silent", "t:1"): "2x60", _SOURCE % ("Reporting", "t:2"): "3x60"},
        10,
        {"kind": "Node", "source": "probe/disk"},
    ),
    "MoorageNothingDecided": Case({_REPORT: "0+60x60", _DECISION: "0x60"}, {_REPORT: "0x60", _DECISION: "0x60"}, 30),
    "MoorageWorkloadsUnscheduled": Case(
        {'moorage_workloads_unscheduled{kind="Pod",reason="Unschedulable"}': "1x60"},
        {'moorage_workloads_unscheduled{kind="Pod",reason="SchedulingGated"}': "1x60"},
        40,
        {"kind": "Pod", "reason": "Unschedulable"},
    ),
    "MoorageEvictionsPaused": Case(
        {"moorage_eviction_pauses": "1x1500"}, {"moorage_eviction_pauses": "1x700 0x800"}, 1445
    ),
    "MoorageServiceMissing": Case(
        {'moorage_partitions_owned{service="governor",instance="g:1"}': "24x10 stale"},
        {
            'moorage_partitions_owned{service="governor",instance="g:1"}': "24x10 stale",
            'moorage_partitions_owned{service="governor",instance="g:2"}': "0x10 24x60",
        },
        25,
        {"service": "governor"},
    ),
    "MoorageLagGrows": Case(
        {_LAG % 0: "0+200x60", _LAG % 1: "0+200x60"}, {_LAG % 0: "9000-100x60"}, 20, {"service": "eviction"}
    ),
    "MoorageRestoreStuck": Case(
        {'moorage_restore_progress{service="eviction",partition="3"}': "0.5x60"},
        {'moorage_restore_progress{service="eviction",partition="3"}': "0.5x5 1x60"},
        15,
        {"service": "eviction", "partition": "3"},
    ),
    "MooragePartitionsRestart": Case(
        {'moorage_partition_restarts_total{service="eviction",why="kafka",instance="t:1"}': "0+1x60"},
        {'moorage_partition_restarts_total{service="eviction",why="kafka",instance="t:1"}': "0x10 1x60"},
        20,
        {"service": "eviction", "why": "kafka"},
    ),
    "MoorageReconcilerRepairs": Case(
        {'moorage_reconciler_repairs_total{service="eviction"}': "0x10 1x60"},
        {'moorage_reconciler_repairs_total{service="eviction"}': "1x60"},
        15,
        {"service": "eviction"},
    ),
    "MoorageDeadLetters": Case(
        {'moorage_dead_letters_total{service="condition-ingest",reason="Forbidden"}': "0+90x60"},
        {'moorage_dead_letters_total{service="condition-ingest",reason="Forbidden"}': "0+30x60"},
        15,
        {"service": "condition-ingest", "reason": "Forbidden"},
    ),
    "MoorageClockOffset": Case(
        {'moorage_clock_offset_seconds{instance="t:1"}': "-3x60"},
        {'moorage_clock_offset_seconds{instance="t:1"}': "0.5x60"},
        10,
        {"instance": "t:1"},
    ),
    "MoorageGatewayNotReady": Case(
        {'moorage_gateway_ready{instance="a"}': "0x60", 'moorage_gateway_ready{instance="b"}': "0x60"},
        {'moorage_gateway_ready{instance="a"}': "0x60", 'moorage_gateway_ready{instance="b"}': "1x60"},
        10,
    ),
    "MoorageWebhookFails": Case(
        {'moorage_webhook_failing_since_seconds{webhook="w"}': "60x60"},
        {'moorage_webhook_failing_since_seconds{webhook="w"}': "0x60"},
        15,
        {"webhook": "w"},
    ),
    "MoorageBridgeNotLinked": Case(
        {'moorage_bridge_linked{instance="a",bridge="east"}': "0x60"},
        {
            'moorage_bridge_linked{instance="a",bridge="east"}': "0x60",
            'moorage_bridge_linked{instance="b",bridge="east"}': "1x60",
        },
        10,
        {"bridge": "east"},
    ),
    "MoorageBridgeRefused": Case(
        {_ACTS % "refused": "0+1x60"}, {_ACTS % "refused": "0+1x60", _ACTS % "done": "0+1x60"}, 40, {"act": "evict"}
    ),
    "MoorageBridgeContradicted": Case(
        {'moorage_bridge_contradicted_total{act="taint"}': "0+1x60"},
        {'moorage_bridge_contradicted_total{act="taint"}': "0+1x5 5x60"},
        40,
        {"act": "taint"},
    ),
}


def rules() -> dict[str, Any]:
    groups = yaml.safe_load(RULES.read_text("utf-8"))["groups"]
    return {rule["alert"]: rule for group in groups for rule in group["rules"]}


def firing(alert: str, severity: str, labels: dict[str, str]) -> str:
    """The series that Prometheus writes for an alert that fires."""
    about = {"alertname": alert, "alertstate": "firing", "severity": severity, **labels}
    return "ALERTS{" + ",".join(f"{name}={json.dumps(value)}" for name, value in sorted(about.items())) + "}"


def test_every_alert_has_a_case() -> None:
    assert CASES.keys() == rules().keys()


@table("alert", CASES)
def test_an_alert_fires_on_its_series_alone(alert: str, tmp_path: Path) -> None:
    case, rule = CASES[alert], rules()[alert]
    expected = firing(alert, rule["labels"]["severity"], case.labels)
    wanted = [[{"labels": expected, "value": 1}], []]
    tests = [
        {
            "interval": "1m",
            "input_series": [{"series": name, "values": values} for name, values in series.items()],
            "promql_expr_test": [
                {
                    "expr": f'ALERTS{{alertname="{alert}",alertstate="firing"}}',
                    "eval_time": f"{case.at}m",
                    "exp_samples": samples,
                }
            ],
        }
        for series, samples in zip((case.fires, case.quiet), wanted, strict=True)
    ]
    file = tmp_path / f"{alert}.yaml"
    file.write_text(yaml.safe_dump({"rule_files": [str(RULES)], "evaluation_interval": "1m", "tests": tests}), "utf-8")
    done = subprocess.run([promtool.program(), "test", "rules", file], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"


def test_promtool_finds_no_fault_in_the_rules() -> None:
    done = subprocess.run([promtool.program(), "check", "rules", RULES], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
