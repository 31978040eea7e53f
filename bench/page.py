"""Writes the tables of `docs/benchmarks.md` from the catalogue and the history: `python -m bench.page`."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).parents[1]))  # so that the script runs from any folder
from bench import history
from bench.catalog import CATALOG, Benchmark, number

PAGE: Final = history.ROOT / "docs" / "benchmarks.md"
SHOWN_RUNS: Final = 5
"""The number of runs in the table of a benchmark."""

_BEGIN: Final = "<!-- {}: written by bench/page.py -->\n"
_END: Final = "<!-- end of {} -->\n"


def figures(plotted: Mapping[str, float]) -> str:
    """Return the main figures of a run for a table."""
    return "; ".join(f"{line}: {number(one)}" if line else number(one) for line, one in plotted.items()) or "none"


def last_quiet(benchmark: Benchmark, folder: Path = history.FOLDER) -> str:
    """Return the figures of the last run of full size on a quiet machine, each by itself."""
    found: dict[str, float] = {}
    for line in history.read(benchmark.name, folder):
        if history.quiet(line) and history.full_size(line):
            found |= line["plotted"]
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


def runs(folder: Path = history.FOLDER) -> str:
    """Return a section with the last runs of each benchmark that has been recorded."""
    return "\n".join(_section(one, folder) for one in CATALOG.values() if history.read(one.name, folder))


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
        f"| date | commit | parameters | {benchmark.unit} | used by others | load before | processor |\n"
        f"|---|---|---|---|---|---|---|\n{''.join(rows)}"
    )


def rendered(page: str, folder: Path = history.FOLDER) -> str:
    """Return the page of the benchmarks with its generated parts written anew.

    Raises:
        ValueError: the page has no such part.
    """
    for name, text in {"overview": overview(folder), "runs": runs(folder)}.items():
        before, begin, rest = page.partition(_BEGIN.format(name))
        _, end, after = rest.partition(_END.format(name))
        if not begin or not end:
            raise ValueError(f"the page has no part {name!r}")
        page = f"{before}{begin}\n{text}\n{end}{after}"
    return page


if __name__ == "__main__":
    PAGE.write_text(rendered(PAGE.read_text("utf-8")), "utf-8")
