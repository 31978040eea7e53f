"""The results of upstream's suites: a file that the runs write, and the page that shows it."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).parents[3]))  # so that the page can be written from any folder
from tests.planes.suites import programs
from tests.planes.suites.reasons import REASONS
from tests.planes.suites.reports import MOORAGE, UPSTREAM, Outcome

FILE: Final = programs.MODULES / "results.json"
PAGE: Final = Path(__file__).parents[3] / "docs" / "upstream-suites.md"

TITLES: Final = {"kubernetes": "Kubernetes", "ocm": "Open Cluster Management", "karmada": "Karmada"}

BEGIN: Final = "<!-- results: written by tests/planes/suites/results.py -->\n"
END: Final = "<!-- end of results -->\n"

Results = dict[str, Any]
"""By the name of a suite: its version, and by the name of a spec what became of it with each engine."""


def read() -> Results:
    """The results of the last run of each spec."""
    found: Results = json.loads(FILE.read_text("utf-8")) if FILE.is_file() else {}
    return found


def add(suite: str, engine: str, outcomes: Mapping[str, Outcome]) -> None:
    """Write what became of some specs, and the page."""
    found = read()
    version = programs.versions()[suite]
    if found.get(suite, {}).get("version") != version:
        found[suite] = {"version": version, "specs": {}}
    specs = found[suite]["specs"]
    for name, one in outcomes.items():
        specs.setdefault(name, {})[engine] = {"passed": one.passed, "seconds": one.seconds}
    found[suite]["specs"] = dict(sorted(specs.items()))
    text = json.dumps({name: found[name] for name in TITLES if name in found}, indent=1, ensure_ascii=False)
    FILE.write_text(f"{text}\n", "utf-8")
    PAGE.write_text(page(PAGE.read_text("utf-8"), found), "utf-8")


def unexpected(outcomes: Mapping[str, Outcome]) -> list[str]:
    """The specs that did not pass and have no reason."""
    return [name for name, one in outcomes.items() if not one.passed and name not in REASONS]


def page(text: str, results: Results) -> str:
    """The page with these results."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{_shown(results)}\n{END}{after}"


def _shown(results: Results) -> str:
    sections = [_section(name, results[name]) for name in TITLES if name in results]
    return f"{_overview(results)}\n" + "\n".join(sections)


def _overview(results: Results) -> str:
    rows = [
        f"| {TITLES[name]} {one['version']} | {_count(one['specs'], UPSTREAM)} | {_count(one['specs'], MOORAGE)} |\n"
        for name, one in results.items()
    ]
    return "| suite | upstream's controllers | Moorage |\n|---|---|---|\n" + "".join(rows)


def _count(specs: Results, engine: str) -> str:
    ran = [one[engine] for one in specs.values() if engine in one]
    return f"{sum(one['passed'] for one in ran)} of {len(ran)}"


def _section(name: str, suite: Results) -> str:
    rows = [
        f"| {spec} | {_outcome(one.get(UPSTREAM))} | {_outcome(one.get(MOORAGE))} |\n"
        for spec, one in suite["specs"].items()
    ]
    reasons = [f"| {spec} | {REASONS[spec]} |\n" for spec in suite["specs"] if spec in REASONS]
    why = "\n| spec that does not pass | reason |\n|---|---|\n" + "".join(reasons) if reasons else ""
    head = f"### {TITLES[name]} {suite['version']}\n\n| spec | upstream's controllers | Moorage |\n|---|---|---|\n"
    return head + "".join(rows) + why


def _outcome(one: Mapping[str, Any] | None) -> str:
    if one is None:
        return "not run"
    return f"{'passes' if one['passed'] else 'fails'}, {one['seconds']} s"


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text("utf-8"), read()), "utf-8")
