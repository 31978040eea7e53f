"""What the figures of both sides say: medians of rounds, ratios, and the tables that show them."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

MEASURES: Final[Mapping[str, str]] = {
    "a": "taint → deletion of the node's pods requested",
    "b": "node not ready → taints → deletion of its pods requested",
    "c": "pods created → bound",
    "d": "Placement created → PlacementDecision complete",
    "e": "ClusterTaintPolicy created → taint on each cluster",
    "f": "SIGKILL of the deciding process → decisions again",
}
"""The measures by their letters."""

UPSTREAM: Final = "upstream"
TUNED: Final = "tuned"
MOORAGE: Final = "moorage"
SIDES: Final = (UPSTREAM, TUNED, MOORAGE)
"""The peer with its default limits, the peer with limits that it does not reach, and Moorage with its defaults."""

PER_SECOND: Final = "/s"
"""The end of the name of a figure that is better when it is higher. All others are times."""

Document = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Sample:
    """What one side did in one round.

    Attributes:
        measure: the letter of the measure.
        case: its size, in words.
        side: which side.
        figures: by name. The name ends with the unit.
        load: the machine's load average of one minute afterwards.
        cpu: the processor seconds of each process meanwhile.
        told: all that the generator has told, for who looks closer.
    """

    measure: str
    case: str
    side: str
    figures: Mapping[str, float]
    load: float
    cpu: Mapping[str, float] = field(default_factory=dict)
    told: Document = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Row:
    """A figure of all sides, as the medians of their rounds. None where a side was not measured."""

    measure: str
    case: str
    figure: str
    upstream: float | None
    tuned: float | None
    moorage: float | None
    load: tuple[float, float]
    """The lowest and the highest load of these rounds."""

    @property
    def ratio(self) -> float | None:
        """How many times as fast Moorage is as the peer with its default limits."""
        return times_as_fast(self.figure, self.moorage, self.upstream)

    @property
    def tuned_ratio(self) -> float | None:
        """How many times as fast Moorage is as the tuned peer."""
        return times_as_fast(self.figure, self.moorage, self.tuned)


def times_as_fast(figure: str, ours: float | None, theirs: float | None) -> float | None:
    """Return how many times as fast one side is as the other. None if one has no figure."""
    if ours is None or theirs is None:
        return None
    better, worse = (ours, theirs) if figure.endswith(PER_SECOND) else (theirs, ours)
    return round(better / worse, 2) if worse else None


def rows(samples: Sequence[Sample]) -> list[Row]:
    """Return a row for each figure, in the order of the measures and of the samples."""
    cases = dict.fromkeys((one.measure, one.case) for one in sorted(samples, key=lambda one: one.measure))
    return [row for measure, case in cases for row in _rows(measure, case, samples)]


def _rows(measure: str, case: str, samples: Sequence[Sample]) -> Iterator[Row]:
    found = [one for one in samples if (one.measure, one.case) == (measure, case)]
    loads = [one.load for one in found]
    for figure in dict.fromkeys(name for one in found for name in one.figures):

        def of(side: str, figure: str = figure) -> float | None:
            values = [one.figures[figure] for one in found if one.side == side and figure in one.figures]
            return float(statistics.median(values)) if values else None

        yield Row(measure, case, figure, of(UPSTREAM), of(TUNED), of(MOORAGE), (min(loads), max(loads)))


def stats(figures: Document, field_name: str) -> dict[str, float]:
    """Return p50 and p99 of a field of the generator. Empty if nothing was counted."""
    found = figures.get(field_name) or {}
    return {name: float(found[name]) for name in ("p50", "p99") if name in found}


def scenario(figures: Document) -> dict[str, float]:
    """Return the figures of a scenario with a taint.

    Raises:
        ValueError: not everything that had to go has gone.
    """
    if not figures["complete"]:
        gone = figures["to_deleting_ms"]["n"]
        raise ValueError(f"only {gone} of {figures['victims']} pods were deleted in time")
    found = {f"{name} ms": value for name, value in stats(figures, "to_deleting_ms").items()}
    return {**found, f"evictions{PER_SECOND}": float(figures["evictions_per_s"])} if _is_rate(figures) else found


def _is_rate(figures: Document) -> bool:
    """Whether so many pods have gone that a rate says something."""
    return "evictions_per_s" in figures and int(figures["victims"]) >= 10


def not_ready(figures: Document) -> dict[str, float]:
    """Return the figures of a scenario in which nodes become not ready.

    Of the eviction taint and of deletions the first ones count, since the rest follow at the rate of their zones.
    """
    taint = "node node.kubernetes.io/not-ready"
    found = {f"NoSchedule {name} ms": value for name, value in stats(figures, f"{taint}:NoSchedule ms").items()}
    for name, field_name in (("first NoExecute", f"{taint}:NoExecute ms"), ("first deletion", "to_deleting_ms")):
        if (times := figures.get(field_name) or {}).get("n"):
            found[f"{name} ms"] = float(times["min"])
    return found


def pods(figures: Document) -> dict[str, float]:
    """Return the figures of pods that were bound."""
    found = {f"{name} ms": value for name, value in stats(figures, "created_to_bound_ms").items()}
    return {**found, f"bound{PER_SECOND}": round(float(figures["bound_per_s"]), 1)}


def placements(figures: Document) -> dict[str, float]:
    """Return the figures of placements that were decided.

    Raises:
        ValueError: not all were.
    """
    if not figures["complete"]:
        raise ValueError(f"only {figures['decided']} of {figures['placements']} placements were decided in time")
    found = {f"{name} ms": value for name, value in stats(figures, "request_to_decision_ms").items()}
    return {**found, f"decided{PER_SECOND}": round(float(figures["decided_per_s"]), 1)}


def spread(seconds: Sequence[float]) -> dict[str, float]:
    """Return p50 and p99 of times, in milliseconds, as the generator computes them."""
    times = sorted(seconds)
    return {f"p{part} ms": round(times[int(part / 100 * (len(times) - 1) + 0.5)] * 1000, 1) for part in (50, 99)}


def number(value: float | None) -> str:
    """Return a figure as the tables show it."""
    return "-" if value is None else f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


_HEADS: Final = ("measure", "case", "figure", "upstream", "Moorage", "times as fast", "upstream tuned", "load")


def _cells(row: Row) -> tuple[str, ...]:
    low, high = row.load
    load = f"{low:.1f}" if round(low, 1) == round(high, 1) else f"{low:.1f} to {high:.1f}"
    ratio = "-" if row.ratio is None else f"{row.ratio:.3g}"
    figures = number(row.upstream), number(row.moorage), ratio, number(row.tuned)
    return MEASURES[row.measure], row.case, row.figure, *figures, load


def text(found: Iterable[Row]) -> str:
    """Return the table for a terminal."""
    lines = [("", *_HEADS[1:]), *((row.measure, *_cells(row)[1:]) for row in found)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join("  ".join(map(str.ljust, line, widths)).rstrip() for line in lines)


def markdown(found: Iterable[Row]) -> str:
    """Return the table as Markdown."""
    lines = [_HEADS, ("---",) * 3 + ("---:",) * 4 + ("---",), *(_cells(row) for row in found)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
