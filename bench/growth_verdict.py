"""Judges the series of a growth run: does one grow after the first quarter, or is it flat?

Series are saw-teeth: a log grows until it is compacted, a heap until it is collected. Only the upper envelope counts.
So what follows the first quarter is divided into windows, each at least five cycles of the run long, and each window
gives its highest value. A series grows if both hold:

- The Theil-Sen slope of these values (the median of the slopes of all pairs) leads to a rise from the first quarter to
  the end of more than a tenth of their median, and more than a floor that is given for each kind of series.
- Of all pairs of windows, the part that rises less the part that falls (Kendall's tau) is at least 0.5. Pairs count as
  equal if they differ by less than a quarter of the rise that is allowed. Random values have this tau in one of twenty
  runs, and a single step has it, too.

Of the broker's heap, what full collections leave is judged, by the lowest value of each window. A series that falls is
flat. The table has the rise of each series, so it also shows what was too small to count.
"""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

Samples = Sequence[Sequence[float]]

WINDOWS: Final = 8
RISE: Final = 0.1
"""The part of a series' level by which it may rise in three quarters of the run."""

TAU: Final = 0.5

FLOORS: Final = {
    "bytes": 512 * 1024,
    "uss": 4 * 1024 * 1024,
    "heap": 32 * 1024 * 1024,
    "restore_cpu_s": 0.2,
    "restore_seconds": 0.5,
    "restore_records": 500,
    "restore_bytes": 512 * 1024,
    "rows": 20,
    "files": 5,
    "threads": 3,
    "metrics": 10,
    "segments": 50,
    "lag": 3000,
}
"""The series that are judged, by the first part of their names, and the rise that is always allowed."""


@dataclass(frozen=True, slots=True)
class Judged:
    """What became of one series."""

    name: str
    level: float
    """The median of the windows' highest values."""

    highest: float
    """The highest value after the first quarter."""

    rise: float
    """By how much it rose from the first quarter to the end, by its slope. Negative if it fell."""

    tau: float
    """The part of the pairs of windows that rise, less the part that falls."""

    allowed: float
    """The rise that is allowed."""

    grows: bool


def judge(name: str, samples: Samples, seconds: float) -> Judged | None:
    """Judge a series. None if it is not of a kind that is judged, or has too few samples.

    Args:
        name: its name, such as `bytes/conditions`.
        samples: seconds since the beginning, and values.
        seconds: the duration of the run.
    """
    floor = FLOORS.get(name.partition("/")[0])
    kept = [(at, value) for at, value in samples if seconds / 4 <= at <= seconds]
    windows = min(WINDOWS, len(kept) // 2)
    if floor is None or windows < 3:
        return None
    length = seconds * 3 / 4 / windows
    tops: list[tuple[float, float]] = []
    for number in range(windows):
        begin = seconds / 4 + number * length
        inside = [
            value for at, value in kept if begin <= at < begin + length or (number == windows - 1 and at >= begin)
        ]
        if inside:
            tops.append((begin + length / 2, min(inside) if name.startswith("heap/") else max(inside)))
    pairs = list(itertools.combinations(tops, 2))
    slope = statistics.median((later[1] - first[1]) / (later[0] - first[0]) for first, later in pairs)
    level = statistics.median(value for _, value in tops)
    rise, allowed = slope * seconds * 3 / 4, max(RISE * level, floor)
    differences = [later[1] - first[1] for first, later in pairs]
    tau = sum((one > allowed / 4) - (one < -allowed / 4) for one in differences) / len(pairs)
    return Judged(
        name=name,
        level=level,
        highest=max(value for _, value in tops),
        rise=rise,
        tau=tau,
        allowed=allowed,
        grows=rise > allowed and tau >= TAU,
    )


def judge_all(series: Mapping[str, Samples], seconds: float) -> list[Judged]:
    """Judge all series, those that grow first."""
    found = [one for name, samples in series.items() if (one := judge(name, samples, seconds)) is not None]
    return sorted(found, key=lambda one: (not one.grows, one.name))


def table(judged: Sequence[Judged]) -> str:
    """The judgements as a Markdown table."""
    lines = [
        "| series | level after the first quarter | highest | rise until the end | allowed | tau | verdict |",
        "|---|---:|---:|---:|---:|---:|---|",
    ]
    for one in judged:
        unit = one.name.partition("/")[0]
        shown = [_shown(unit, value) for value in (one.level, one.highest, one.rise, one.allowed)]
        verdict = "**grows**" if one.grows else "flat"
        lines.append(f"| {one.name} | {' | '.join(shown)} | {one.tau:+.2f} | {verdict} |")
    return "\n".join(lines)


def _shown(unit: str, value: float) -> str:
    if unit in {"bytes", "uss", "heap", "restore_bytes"}:
        return f"{value / 2**20:,.1f} MiB"
    if unit in {"restore_cpu_s", "restore_seconds"}:
        return f"{value:.2f} s"
    return f"{value:,.0f}"


def plot(series: Mapping[str, Samples], seconds: float, file: Path) -> None:
    """Draw topic bytes, memory and restores over time. A line shows the end of the first quarter."""
    import matplotlib as mpl  # noqa: PLC0415 - takes half a second, and only the end of a run needs it

    mpl.use("svg")
    mpl.rcParams.update({"svg.hashsalt": "growth", "svg.fonttype": "none", "font.size": 8})
    from matplotlib import pyplot as plt  # noqa: PLC0415 - as above

    figure, axes = plt.subplots(2, 2, figsize=(11, 7.5), layout="constrained")
    parts = (
        (axes[0][0], "bytes/", "MiB on disk, the largest topics", 2**20),
        (axes[0][1], "uss/", "MiB of memory of each process (USS)", 2**20),
        (axes[1][0], "restore_records/", "records that a restore reads, by service", 1),
        (axes[1][1], "restore_cpu_s/", "seconds of processor time of a restore, by service", 1),
    )
    for axis, prefix, title, unit in parts:
        found = {name.removeprefix(prefix): samples for name, samples in series.items() if name.startswith(prefix)}
        largest = sorted(found, key=lambda name: -max(value for _, value in found[name]))[:10]
        for name in largest:
            axis.plot([at / 60 for at, _ in found[name]], [v / unit for _, v in found[name]], label=name, linewidth=1)
        axis.axvline(seconds / 240, color="grey", linestyle=":", linewidth=1)
        axis.set_title(title)
        axis.set_xlabel("minutes")
        axis.set_ylim(bottom=0)
        axis.legend(fontsize=6, ncols=2)
    figure.savefig(file, metadata={"Date": None})
    plt.close(figure)
