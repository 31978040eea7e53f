"""Writes the tables of `docs/benchmarks.md` and `docs/scale.md`, and a plot of each benchmark, from the history.

    make bench-page

Figures and points come from `bench/history/` alone. The page and the plots are the same for the same history, so a test
compares them with it.
"""

from __future__ import annotations

import io
import json
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final
from xml.etree import ElementTree as ET

import matplotlib as mpl
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

sys.path.insert(0, str(Path(__file__).parents[1]))  # so that the script runs from any folder
from bench import history, scale_plan
from bench.catalog import CATALOG, Benchmark, number

PAGE: Final = history.ROOT / "docs" / "benchmarks.md"
SCALE: Final = history.ROOT / "docs" / "scale.md"
PLOTS: Final = history.ROOT / "docs" / "benchmarks"

SHOWN_RUNS: Final = 5
"""The number of runs in the table below a plot."""

_STYLE: Final[dict[Any, Any]] = {
    "svg.hashsalt": "moorage",  # ids are the same in each drawing
    "svg.fonttype": "none",  # text stays text
    "font.family": "sans-serif",
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
}
_COLORS: Final = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00")  # told apart by everyone
_LOG_FROM: Final = 30.0
"""The ratio of the greatest figure to the least from which the scale is logarithmic."""

_MOST_TICKS: Final = 8

_BEGIN: Final = "<!-- {}: written by make bench-page -->\n"
_END: Final = "<!-- end of {} -->\n"


def points(benchmark: Benchmark, folder: Path = history.FOLDER) -> list[dict[str, Any]]:
    """Return what is plotted of each run, oldest first."""
    return [
        {
            "date": line["date"],
            "commit": line["commit"],
            "quiet": history.quiet(line),
            "full": history.full_size(line),
            "plotted": line["plotted"],
        }
        for line in history.read(benchmark.name, folder)
        if line["plotted"]
    ]


def embedded(svg: str) -> Any:
    """Return the data that a plot was drawn from."""
    found = ET.fromstring(svg).find(".//{http://purl.org/dc/elements/1.1/}description")  # noqa: S314 - our own
    if found is None or not found.text:
        raise ValueError("the plot contains no data")
    return json.loads(found.text)


def data(benchmark: Benchmark, runs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the data that a plot is drawn from, as it is embedded in it."""
    return {"bench": benchmark.name, "unit": benchmark.unit, "goal": benchmark.goal, "runs": list(runs)}


def draw(benchmark: Benchmark, runs: Sequence[Mapping[str, Any]]) -> str:
    """Return the plot of a benchmark as SVG. The same runs give the same text."""
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(8.0, 3.0), layout="constrained")
        axes = figure.subplots()
        lines = list(dict.fromkeys(line for run in runs for line in run["plotted"]))
        for line, color in zip(lines, (_COLORS[at % len(_COLORS)] for at in range(len(lines))), strict=True):
            there = [(at, run) for at, run in enumerate(runs) if line in run["plotted"]]
            axes.plot([at for at, _ in there], [run["plotted"][line] for _, run in there], color=color, linewidth=0.8)
            for at, run in there:
                axes.plot(
                    at,
                    run["plotted"][line],
                    marker="o" if run["full"] else "^",
                    markersize=6,
                    markeredgecolor=color,
                    markerfacecolor=color if run["quiet"] else "white",
                )
        shown = [figure_ for run in runs for figure_ in run["plotted"].values()]
        if benchmark.goal is not None:
            shown.append(benchmark.goal)
            axes.axhline(benchmark.goal, color="#555555", linestyle="--", linewidth=1)
        if min(shown) > 0 and max(shown) / min(shown) > _LOG_FROM:
            axes.set_yscale("log")
        else:
            axes.set_ylim(0, max(*shown, 1e-9) * 1.1)
        axes.set_xlim(-0.5, len(runs) - 0.5)
        ticks = range(0, len(runs), 1 + len(runs) // _MOST_TICKS)
        axes.set_xticks(ticks, [f"{runs[at]['date'][:10]}\n{runs[at]['commit'][:7]}" for at in ticks])
        axes.set_title(benchmark.unit, loc="left", fontsize=9)
        figure.legend(handles=_legend(benchmark, lines), loc="outside right upper", frameon=False, fontsize=8)
        svg = io.StringIO()
        about = json.dumps(data(benchmark, runs), ensure_ascii=False)
        figure.savefig(svg, format="svg", metadata={"Date": None, "Creator": None, "Description": about})
    return re.sub(r"[ \t]+$", "", svg.getvalue(), flags=re.MULTILINE)


def _legend(benchmark: Benchmark, lines: Sequence[str]) -> list[Line2D]:
    def mark(label: str, marker: str, *, filled: bool) -> Line2D:
        face = "#555555" if filled else "white"
        return Line2D([], [], color="#555555", marker=marker, markerfacecolor=face, linestyle="", label=label)

    named = zip(lines, _COLORS * (1 + len(lines) // len(_COLORS)), strict=False)
    found = [Line2D([], [], color=color, label=line) for line, color in named if line]
    if benchmark.goal is not None:
        found.append(Line2D([], [], color="#555555", linestyle="--", label=f"goal {benchmark.goal_text}"))
    return [
        *found,
        mark("quiet machine", "o", filled=True),
        mark("loaded machine", "o", filled=False),
        mark("of another size", "^", filled=True),
    ]


def figures(plotted: Mapping[str, float]) -> str:
    """Return the figures of a run for a table."""
    return "; ".join(f"{line}: {number(one)}" if line else number(one) for line, one in plotted.items()) or "none"


def last_quiet(benchmark: Benchmark, folder: Path = history.FOLDER) -> str:
    """Return the figures of the last run of full size on a quiet machine, each line's own."""
    found: dict[str, float] = {}
    for run in points(benchmark, folder):
        if run["quiet"] and run["full"]:
            found |= run["plotted"]
    return figures(found) if found else "none yet"


def overview(folder: Path = history.FOLDER) -> str:
    """Return the table of all benchmarks."""
    rows = [
        f"| `{one.script}` | {one.measures} | {one.compared or 'nothing'} | {one.unit} | {one.goal_text} "
        f"| {last_quiet(one, folder)} |\n"
        for one in CATALOG.values()
    ]
    head = "| script | measures | compared with | figure | goal | last quiet figure |\n|---|---|---|---|---|---|\n"
    return head + "".join(rows)


def sections(folder: Path = history.FOLDER) -> str:
    """Return a section with the plot and the last runs of each benchmark that has been recorded."""
    found = [_section(one, folder) for one in CATALOG.values() if points(one, folder)]
    return "\n".join(found) or "No run is recorded.\n"


def _section(benchmark: Benchmark, folder: Path) -> str:
    rows = [
        f"| {line['date'][:10]} | `{line['commit']}`{' and changes' if line['dirty'] else ''} "
        f"| {', '.join(f'{name} {value}' for name, value in line['parameters'].items())} "
        f"| {figures(line['plotted'])} | {line['load']['others']:.0%} "
        f"| {line['load']['before'][0]} | {line['machine']['cpu']}, {line['machine']['cores']} cores |\n"
        for line in history.read(benchmark.name, folder)[-SHOWN_RUNS:]
    ]
    return (
        f"### {benchmark.name}\n\n"
        f"![{benchmark.name}: {benchmark.unit}, run by run](benchmarks/{benchmark.name}.svg)\n\n"
        f"| date | commit | parameters | {benchmark.unit} | used by others | load before | processor |\n"
        f"|---|---|---|---|---|---|---|\n{''.join(rows)}"
    )


def rendered(page: str, folder: Path = history.FOLDER) -> str:
    """Return the page of the benchmarks with its generated parts written anew.

    Raises:
        ValueError: the page has no such part.
    """
    return with_parts(page, {"overview": overview(folder), "plots": sections(folder)})


def with_parts(page: str, parts: Mapping[str, str]) -> str:
    """Return a page with these generated parts in the place of its own.

    Raises:
        ValueError: the page has no such part.
    """
    for name, text in parts.items():
        before, begin, rest = page.partition(_BEGIN.format(name))
        _, end, after = rest.partition(_END.format(name))
        if not begin or not end:
            raise ValueError(f"the page has no part {name!r}")
        page = f"{before}{begin}\n{text}\n{end}{after}"
    return page


def main() -> None:
    """Write the page and the plots."""
    PLOTS.mkdir(exist_ok=True)
    for benchmark in CATALOG.values():
        if runs := points(benchmark):
            path = PLOTS / f"{benchmark.name}.svg"
            # A plot of the same data stays as it is: other versions of the library draw it differently.
            if not path.exists() or embedded(path.read_text("utf-8")) != data(benchmark, runs):
                path.write_text(draw(benchmark, runs), "utf-8")
                print(path.relative_to(history.ROOT))
    PAGE.write_text(rendered(PAGE.read_text("utf-8")), "utf-8")
    SCALE.write_text(with_parts(SCALE.read_text("utf-8"), scale_plan.parts()), "utf-8")


if __name__ == "__main__":
    main()
