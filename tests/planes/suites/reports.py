"""What became of each spec of a suite, from the report that Ginkgo writes."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

UPSTREAM: Final = "upstream"
MOORAGE: Final = "moorage"
ENGINES: Final = (UPSTREAM, MOORAGE)
"""What decides while a suite runs."""

_NANOSECONDS: Final = 1_000_000_000
_LONG: Final = 10
_RUN: Final = {"passed", "failed", "panicked", "timedout", "interrupted", "aborted"}


@dataclass(frozen=True)
class Outcome:
    """What became of a spec."""

    passed: bool
    seconds: float
    failure: str = ""
    """The first line of what it missed."""


def outcomes(report: Path) -> dict[str, Outcome]:
    """What became of the specs that ran, by their full names.

    A suite that could not be set up has the name of the node that failed, such as `BeforeSuite`.
    """
    found = {}
    for suite in json.loads(report.read_text("utf-8")):
        for spec in suite["SpecReports"] or ():
            is_spec = spec["LeafNodeType"] == "It"
            if spec["State"] in _RUN and (is_spec or spec["State"] != "passed"):
                found[_name(spec) if is_spec else spec["LeafNodeType"]] = _outcome(spec)
    return found


def _name(spec: dict[str, Any]) -> str:
    words = [*(spec["ContainerHierarchyTexts"] or ()), spec["LeafNodeText"]]
    return " ".join(" ".join(words).split())


def _outcome(spec: dict[str, Any]) -> Outcome:
    failure = spec.get("Failure", {}).get("Message", "").strip()
    first = next(iter(failure.splitlines()), "")
    return Outcome(spec["State"] == "passed", _rounded(spec["RunTime"] / _NANOSECONDS), first)


def _rounded(seconds: float) -> float:
    return round(seconds, 1) if seconds < _LONG else round(seconds)
