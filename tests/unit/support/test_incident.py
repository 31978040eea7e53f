"""The parts of the incident drill: what is changed of the shipped files, and what counts as shown."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import yaml
from tests.architecture.files import ROOT
from tests.support.incident import pictures, story, traces, viewer
from tests.support.incident.fleet import addresses
from tests.support.incident.prometheus import (
    MONITORING,
    PanelQuery,
    Shown,
    faults_of,
    panel_queries,
    scraping,
    shortened,
)
from tests.support.otlp_collector import ReceivedSpan
from tests.support.tables import table

IMAGES = ROOT / "docs" / "images"
SHIPPED = yaml.safe_load((MONITORING / "prometheus.yaml").read_text("utf-8"))
RULES = yaml.safe_load((MONITORING / "rules.yaml").read_text("utf-8"))
UP = "health and metrics: services http://127.0.0.1:8, gateway http://127.0.0.1:9\n"


def rules(document: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {rule["alert"]: rule for group in document["groups"] for rule in group["rules"]}


@table(
    ("alert", "wait", "part"),
    [
        ("MoorageZoneDisrupted", "10000ms", 'state!="Normal"}) == 1'),
        ("MoorageEvictionHeld", "1000ms", "> 60"),
        ("MoorageZoneQueueWaits", "5000ms", "> 30"),
        ("MoorageEvictionOverdue", "2000ms", "> 60"),  # a minute is short enough
        ("MoorageSourceSilent", "5000ms", "> 0.5"),
        ("MoorageLagGrows", "5000ms", "> 1000"),  # records, not seconds
        ("MoorageEvictionsPaused", "1440000ms", "> 0"),
        ("MoorageNothingDecided", "10000ms", "< 600"),
    ],
)
def test_a_shortened_rule_waits_less_and_is_otherwise_the_shipped_one(alert: str, wait: str, part: str) -> None:
    rule, shipped = rules(shortened(RULES, 60))[alert], rules(RULES)[alert]
    assert rule["for"] == wait
    assert part in rule["expr"]
    assert {**rule, "for": "", "expr": ""} == {**shipped, "for": "", "expr": ""}
    assert re.sub(r"> [\d.]+", "", rule["expr"]) == re.sub(r"> [\d.]+", "", shipped["expr"])


def test_all_processes_are_scraped_with_the_shipped_jobs() -> None:
    for version, kept in (((2, 42), False), ((3, 1), True)):
        found = scraping(SHIPPED, addresses([UP]), "1s", version)
        services, gateway = found["scrape_configs"]
        assert (services["job_name"], gateway["job_name"]) == ("moorage", "moorage-gateway")
        assert services["static_configs"] == [{"targets": ["127.0.0.1:8"], "labels": {"component": "services"}}]
        assert gateway["static_configs"] == [{"targets": ["127.0.0.1:9"], "labels": {"component": "gateway"}}]
        assert ("scrape_protocols" in services) is kept
        assert not {"dns_sd_configs", "tls_config", "authorization"} & (services.keys() | gateway.keys())
        assert found["global"]["evaluation_interval"] == "1s"


def test_every_expected_panel_exists() -> None:
    panels = {query.panel for name in ("fleet", "engine") for query in panel_queries(name, "15s")}
    assert {one.panel for one in story.FLEET_PANELS} | story.WITHOUT_DATA <= panels
    fleet = {query.panel for query in panel_queries("fleet", "15s")}
    assert fleet - {one.panel for one in story.FLEET_PANELS} == {"Reports of deployers that work was not removed"}


def test_every_expected_alert_is_a_shipped_rule() -> None:
    assert {one.name for one in story.ALERTS} <= rules(RULES).keys()


QUERY = PanelQuery("fleet", "Open evictions", "timeseries", "x", "{{state}}")
EXPECTED = (story.ExpectedSeries("Open evictions", "Held", 4),)


@table(
    ("shown", "expected", "faults"),
    [
        (Shown(QUERY, {"Held": 6.0}), EXPECTED, []),
        (Shown(QUERY, {"Held": 3.0}), EXPECTED, ["no 'Held' >= 4 in {'Held': 3.0}"]),
        (Shown(QUERY, {"Scheduled": 9.0}), EXPECTED, ["no 'Held' >= 4 in {'Scheduled': 9.0}"]),
        (Shown(QUERY, {}), (), ["no data"]),
        (Shown(replace(QUERY, panel="Webhooks"), {}), (), []),
        (Shown(QUERY, {" ": 1.0}, without=frozenset({"state"})), (), ["the legend shows the label 'state', which"]),
        (Shown(QUERY, {"a": 1.0}, "parse error"), (), ["parse error"]),
    ],
)
def test_what_a_panel_does_not_show_is_a_fault(
    shown: Shown, expected: tuple[story.ExpectedSeries, ...], faults: list[str]
) -> None:
    found = faults_of([shown], expected, story.WITHOUT_DATA)
    assert len(found) == len(faults)
    assert all(wanted in one for one, wanted in zip(found, faults, strict=True))


def test_legends_are_those_of_grafana() -> None:
    assert replace(QUERY, legend="{{state}} {{reason}}").named({"state": "Held", "reason": "R"}) == "Held R"
    assert replace(QUERY, kind="table", legend="").named({"zone": "eu/b", "state": "Normal"}) == "eu/b Normal"


def test_an_alert_counts_when_it_fires_with_its_labels() -> None:
    wanted = story.ExpectedAlert("A", (("zone", "eu/b"),))
    one = {"labels": {"alertname": "A", "zone": "eu/b", "severity": "warning"}, "state": "firing"}
    assert wanted.is_in([one])
    assert wanted.text == "A zone=eu/b"
    for other in ({**one, "state": "pending"}, {**one, "labels": {"alertname": "A", "zone": "eu/a"}}):
        assert not wanted.is_in([other])


def span(number: int, parent: int, name: str, **attributes: str) -> ReceivedSpan:
    found = {f"moorage.{key}": value for key, value in attributes.items()}
    begin = number * 1_000_000
    return ReceivedSpan("s", name, "t", str(number), str(parent) if parent else "", begin, begin + 500_000, found)


WAY = (
    span(1, 0, "send condition-reports", condition="Ready", status="False"),
    span(2, 1, "send conditions"),
    span(3, 2, "send taints"),
    span(4, 3, "send timer-fired"),
    span(5, 4, "send evictions", state="Requested", workload="Pod/a/b"),
    span(6, 5, "send workload-conditions"),
    span(7, 6, "send evictions", state="Completed", workload="Pod/a/b"),
)


def test_the_way_of_an_eviction_is_found_in_its_trace() -> None:
    other = span(8, 3, "send evictions", state="Completed", workload="Pod/a/other")
    assert traces.trace_of([other], "Pod/a/b") == ""
    assert traces.trace_of([other, *WAY], "Pod/a/b") == "t"
    chain = traces.chain_of({one.span_id: one for one in (*WAY, other)}, "Pod/a/b")
    assert chain == list(WAY)
    assert traces.missing(chain) == []
    assert traces.missing([one for one in chain if one.name != "send taints"])[0] == "send taints"
    broken = {one.span_id: one for one in WAY if one.name != "send workload-conditions"}
    assert len(traces.missing(traces.chain_of(broken, "Pod/a/b"))) == len(traces.CHAIN), "two traces"
    assert traces.text(chain).splitlines()[6].split() == [
        *("6.0", "ms", "s", "send", "evictions", "state=Completed", "workload=Pod/a/b")
    ]


def test_spans_for_zipkin() -> None:
    first, second, *_ = viewer.zipkin_spans(WAY)
    assert "parentId" not in first
    assert second["parentId"] == "1"
    assert (first["timestamp"], first["duration"]) == (1000, 500)
    assert json.loads(json.dumps(first))["tags"] == {"moorage.condition": "Ready", "moorage.status": "False"}


def test_graphs_of_several_expressions_are_one_address() -> None:
    assert pictures.graph_path(['a{b="c"}', "d"], 90.4) == (
        "/graph?g0.expr=a%7Bb%3D%22c%22%7D&g0.tab=0&g0.range_input=90s&g1.expr=d&g1.tab=0&g1.range_input=90s"
    )


def test_the_page_about_incidents_shows_each_picture_and_no_other() -> None:
    page = (ROOT / "docs" / "incident.md").read_text("utf-8")
    shown = re.findall(r"\(images/(incident-[\w-]+\.png)\)", page.replace("\n", " "))
    assert sorted(shown) == sorted(story.PICTURES) == sorted(one.name for one in IMAGES.glob("incident-*.png"))
    assert all(5_000 < (IMAGES / one).stat().st_size < 150_000 for one in shown)
