"""The dashboards, the alerts and the runbooks agree with each other and with the metrics of the code."""

from __future__ import annotations

import json
import re
import runpy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml
from tests.architecture.files import ROOT
from tests.support.metrics import code_metrics
from tests.support.tables import table

MONITORING = ROOT / "ops" / "monitoring"
RUNBOOKS = (ROOT / "docs" / "runbooks.md").read_text("utf-8")
RENDERED: dict[Path, str] = runpy.run_path(str(MONITORING / "render"))["written"]()

SERIES = {name: labels for one in code_metrics().values() for name, labels in one.series.items()}
COUNTERS = {
    name
    for one in code_metrics().values()
    for name in one.series
    if one.kind == "histogram" or (one.kind == "counter" and name.endswith("_total"))
}
OF_THE_SCRAPE = frozenset({"instance", "pod", "job"})
"""Labels that Prometheus adds."""

_NAME = re.compile(r"\b(moorage_\w+)(?:\{([^}]*)\})?")
_MATCHER = re.compile(r'(\w+)\s*(?:=~|!~|!=|=)\s*"')
_GROUPING = re.compile(r"\b(?:by|without)\s*\(([^)]*)\)")
_LEGEND = re.compile(r"\{\{\s*(?:\$labels\.)?(\w+)")


def alerts() -> dict[str, dict[str, Any]]:
    groups = yaml.safe_load((MONITORING / "rules.yaml").read_text("utf-8"))["groups"]
    return {rule["alert"]: rule for group in groups for rule in group["rules"]}


def dashboards() -> dict[str, dict[str, Any]]:
    return {path.stem: json.loads(text) for path, text in RENDERED.items() if path.suffix == ".json"}


def expressions() -> Iterator[tuple[str, str, str]]:
    """Where each expression is, the expression, and the text that shows its labels."""
    for name, rule in alerts().items():
        yield name, rule["expr"], str(rule["annotations"]["summary"])
    for name, dashboard in dashboards().items():
        for panel in dashboard["panels"]:
            for target in panel["targets"]:
                yield f"{name}: {panel['title']} {target['refId']}", target["expr"], target["legendFormat"]


EXPRESSIONS = {where: (expr, text) for where, expr, text in expressions()}


@table("where", EXPRESSIONS)
def test_an_expression_is_on_series_and_labels_that_the_code_has(where: str) -> None:
    expr, text = EXPRESSIONS[where]
    found = _NAME.findall(expr)
    assert found
    for name, matchers in found:
        assert name in SERIES, name
        assert set(_MATCHER.findall(matchers)) <= SERIES[name], name
        # a gauge has no rate, and the value of a counter alone is meaningless
        is_counted = re.search(rf"\b(?:rate|increase)\({name}\b", expr) is not None
        assert is_counted == (name in COUNTERS), name
    known = frozenset[str]().union(*(SERIES[name] for name, _ in found)) | OF_THE_SCRAPE
    grouped = {label.strip() for labels in _GROUPING.findall(expr) for label in labels.split(",") if label.strip()}
    assert grouped <= known
    shown = set(_LEGEND.findall(text)) - {"value"}
    assert shown <= (grouped if " by (" in f" {expr}" else known)


def test_every_metric_of_the_fleet_is_drawn() -> None:
    drawn = {name for where, (expr, _) in EXPRESSIONS.items() if ":" in where for name, _ in _NAME.findall(expr)}
    fleet = {
        one.name
        for one in code_metrics().values()
        if re.match(r"moorage_(targets|taints|zone|eviction|disruption|workloads|placements|source)", one.name)
    }
    families = {re.sub(r"_(bucket|sum|count)$", "", name) for name in drawn}
    # these are the alerts' alone, or their histogram is drawn
    assert fleet - families == {
        "moorage_zone_waiting_since_timestamp_seconds",
        "moorage_zones_stopped",
        "moorage_eviction_held_seconds",
    }


def test_the_written_files_are_those_of_their_sources() -> None:
    for path, text in RENDERED.items():
        assert path.read_text("utf-8") == text, f"{path}: run `make monitoring`"


def test_kubernetes_and_the_chart_have_the_rules() -> None:
    groups = yaml.safe_load((MONITORING / "rules.yaml").read_text("utf-8"))["groups"]
    for path, text in RENDERED.items():
        if path.suffix == ".yaml":
            document = yaml.safe_load(text)
            assert document.get("spec", document)["groups"] == groups, path


@table("alert", alerts())
def test_an_alert_has_a_severity_a_summary_and_a_runbook(alert: str) -> None:
    rule = alerts()[alert]
    assert alert.startswith("Moorage")
    assert rule["labels"]["severity"] in {"critical", "warning", "info"}
    assert rule["annotations"]["runbook_url"] == f"docs/runbooks.md#{alert.lower()}"


def test_runbooks_and_alerts_are_the_same_and_in_the_same_order() -> None:
    sections = re.findall(r"^### (\w+)\n\n(.*?)(?=^##|\Z)", RUNBOOKS, re.MULTILINE | re.DOTALL)
    assert [name for name, _ in sections] == list(alerts())
    for name, text in sections:
        parts = re.findall(r"^\*\*(\w+)\.\*\*", text, re.MULTILINE)
        assert parts == ["Meaning", "Look", "Do"], name


def test_panels_fill_rows_without_gaps_and_have_numbers_of_their_own() -> None:
    for name, dashboard in dashboards().items():
        panels = dashboard["panels"]
        assert len({panel["id"] for panel in panels}) == len(panels), name
        taken: set[tuple[int, int]] = set()
        for panel in panels:
            place = panel["gridPos"]
            cells = {
                (x, y)
                for x in range(place["x"], place["x"] + place["w"])
                for y in range(place["y"], place["y"] + place["h"])
            }
            assert not cells & taken, (name, panel["title"])
            assert place["x"] + place["w"] <= 24
            taken |= cells
        assert len({panel["title"] for panel in panels}) == len(panels), name
    assert len({dashboard["uid"] for dashboard in dashboards().values()}) == len(dashboards())
