"""The page of upstream's suites shows the recorded results, and each spec that does not pass has a reason."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.planes.suites import programs, results
from tests.planes.suites.reasons import REASONS
from tests.planes.suites.reports import ENGINES, MOORAGE, Outcome, outcomes

from moorage.conformance.deviations import Deviation


def test_the_page_shows_the_recorded_results() -> None:
    text = results.PAGE.read_text("utf-8")
    assert results.page(text, results.read()) == text, "to renew it: python tests/planes/suites/results.py"


def test_the_results_are_those_of_the_versions_that_are_built() -> None:
    assert {name: one["version"] for name, one in results.read().items()} == programs.versions()


def test_each_spec_has_run_with_both_engines_and_what_fails_has_a_reason() -> None:
    for suite in results.read().values():
        for spec, found in suite["specs"].items():
            assert set(found) == {*ENGINES}, spec
            failed = [engine for engine, one in found.items() if not one["passed"]]
            assert bool(failed) == (spec in REASONS), spec
            if failed == [MOORAGE]:
                Deviation(REASONS[spec].split("`")[1])


def _spec(state: str, *names: str, kind: str = "It", seconds: float = 1.0, failure: str = "") -> dict[str, Any]:
    return {
        "ContainerHierarchyTexts": [*names[:-1]] or None,
        "LeafNodeType": kind,
        "LeafNodeText": names[-1],
        "State": state,
        "RunTime": int(seconds * 1e9),
        **({"Failure": {"Message": failure}} if failure else {}),
    }


def test_a_report_is_read_for_what_became_of_the_specs_that_ran(tmp_path: Path) -> None:
    specs = [
        _spec("passed", "", kind="BeforeSuite"),
        _spec("passed", "a", " b", "works", seconds=12.34),
        _spec("failed", "a", "does not", seconds=1.26, failure="\n  Expected\n  more"),
        _spec("skipped", "a", "was not chosen"),
        _spec("failed", "", kind="AfterSuite"),
    ]
    report = tmp_path / "report.json"
    report.write_text(json.dumps([{"SpecReports": specs}, {"SpecReports": None}]), "utf-8")
    assert outcomes(report) == {
        "a b works": Outcome(passed=True, seconds=12),
        "a does not": Outcome(passed=False, seconds=1.3, failure="Expected"),
        "AfterSuite": Outcome(passed=False, seconds=1.0),
    }


def test_the_table_counts_what_passes_with_each_engine_and_names_the_reasons() -> None:
    ran = {"passed": True, "seconds": 1.0}
    found = {"ocm": {"version": "v1", "specs": {"a": {"upstream": ran}, "b": {"upstream": {**ran, "passed": False}}}}}
    text = results.page(f"before\n{results.BEGIN}old\n{results.END}after\n", found)
    assert text.startswith("before\n")
    assert text.endswith("after\n")
    assert "old" not in text
    assert "| Open Cluster Management v1 | 1 of 2 | 0 of 0 |" in text
    assert "| a | passes, 1.0 s | not run |\n| b | fails, 1.0 s | not run |" in text
