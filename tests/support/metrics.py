"""The metrics that the code has, read from its text."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from tests.architecture.files import files, tree

_MADE_BY: Final = {
    "Counter": "counter",
    "Gauge": "gauge",
    "FleetGauge": "gauge",
    "Histogram": "histogram",
    "BulkHistogram": "histogram",
}


@dataclass(frozen=True, slots=True)
class CodeMetric:
    """A metric of the code."""

    name: str
    kind: str
    documentation: str
    labels: tuple[str, ...]

    @property
    def series(self) -> dict[str, frozenset[str]]:
        """The names of its series, and their labels."""
        labels = frozenset(self.labels)
        if self.kind == "histogram":
            return {
                f"{self.name}_bucket": labels | {"le"},
                f"{self.name}_sum": labels,
                f"{self.name}_count": labels,
            }
        return {self.name: labels}


def code_metrics() -> dict[str, CodeMetric]:
    """Return the metrics by name."""
    found: dict[str, CodeMetric] = {}
    for path in files(".py", under="services"):
        for one in _metrics(tree(path)):
            assert one.name not in found, f"{path}: {one.name} exists twice"
            found[one.name] = one
    return found


def _metrics(module: ast.Module) -> Iterator[CodeMetric]:
    for node in ast.walk(module):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name) or node.func.id not in _MADE_BY:
            continue
        match node.args:
            case [ast.Constant(value=str(name)), ast.Constant(value=str(text)), *rest]:
                named = [one.value for one in node.keywords if one.arg in {"labels", "labelnames"}]
                labels = ast.literal_eval((rest or named)[0]) if rest or named else ()
                yield CodeMetric(name, _MADE_BY[node.func.id], text, tuple(labels))
            case _:  # collections.Counter
                pass
