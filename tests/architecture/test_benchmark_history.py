"""The page of the benchmarks shows the history, every benchmark has a goal, and runs are recorded completely."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from bench import history, page
from bench.catalog import CATALOG

FIELDS = {
    "bench",
    "date",
    "commit",
    "dirty",
    "arguments",
    "machine",
    "seconds",
    "load",
    "parameters",
    "plotted",
    "figures",
}
RECORDED = [line for path in sorted(history.FOLDER.glob("*.json")) for line in history.read(path.stem)]


def moment(*, wall: float, own: float, machine: float) -> history.MachineUsage:
    return history.MachineUsage(wall=wall, own=own, machine=machine, load=(0.1, 0.2, 0.3))


def stage(ratio: float, *, records: int = 40_000) -> dict[str, Any]:
    return {"bench": "stage", "what": "…", "records": records, "partitions": 1, "rounds": 5, "ours": 10, "ratio": ratio}


def run(ratio: float, *, others: float, records: int = 40_000) -> dict[str, Any]:
    before, after = moment(wall=0, own=0, machine=0), moment(wall=10, own=5, machine=5 + others * 10)
    line = history.line_of(stage(ratio, records=records), before, after)
    return line | {"load": line["load"] | {"others": others}}


def test_the_page_is_what_the_history_says_and_has_the_goal_of_each_benchmark() -> None:
    text = page.PAGE.read_text("utf-8")
    assert page.rendered(text) == text, "python -m bench.page"
    for benchmark in CATALOG.values():
        (row,) = (line for line in text.splitlines() if line.startswith(f"| `{benchmark.script}` |"))
        assert row.split(" | ")[4] == benchmark.goal_text != ""
        assert (history.ROOT / benchmark.script).is_file()
    with pytest.raises(ValueError, match="has no part 'overview'"):
        page.rendered("# Benchmarks\n")


def test_each_recorded_line_says_when_and_where_it_ran() -> None:
    assert {path.stem for path in history.FOLDER.glob("*")} <= CATALOG.keys()
    for line in [*RECORDED, run(0.5, others=0.0)]:
        assert line.keys() == FIELDS
        assert line["machine"].keys() == {"cpu", "cores", "memory_gib", "system", "python", "kafka"}
        assert line["load"].keys() == {"before", "after", "others"}
        assert set(line["parameters"]) <= set(CATALOG[line["bench"]].parameters)
        assert line["figures"], "the raw figures are kept, too"


def test_a_line_has_the_parameters_and_all_figures() -> None:
    line = run(0.5, others=0.0)
    assert line["parameters"] == {"records": 40_000, "partitions": 1, "rounds": 5}
    assert line["plotted"] == {"": 0.5}
    assert line["figures"] == {"ours": 10, "ratio": 0.5}
    assert line["machine"]["memory_gib"] > 0
    assert line["seconds"] == 10


def test_a_run_is_loaded_by_what_others_used() -> None:
    ticks = os.sysconf("SC_CLK_TCK")
    stat = f"cpu  {ticks} {ticks} {ticks} {900 * ticks} {50 * ticks} {ticks} {ticks} {ticks} 0 0\ncpu0 1 2 3\n"
    assert history.busy_seconds(stat) == 6, "without idle time"
    before = moment(wall=100, own=3, machine=500)
    assert history.others_share(before, moment(wall=110, own=13, machine=510), cores=2) == 0
    assert history.others_share(before, moment(wall=110, own=8, machine=515), cores=2) == 0.5
    assert history.quiet(run(0.5, others=0.05))
    assert not history.quiet(run(0.5, others=0.06))


def test_nothing_is_recorded_unless_it_is_wanted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "FOLDER", tmp_path / "history")
    for value in ("", "0"):
        monkeypatch.setenv(history.RECORD, value)
        history.record(stage(0.5))
    assert not (tmp_path / "history").exists()
    monkeypatch.setenv(history.RECORD, "1")
    history.record(stage(0.5))
    history.record(stage(0.6))
    assert [line["plotted"][""] for line in history.read("stage", tmp_path / "history")] == [0.5, 0.6]


def test_the_last_quiet_figure_is_of_a_quiet_run_of_full_size(tmp_path: Path) -> None:
    benchmark = CATALOG["stage"]
    assert page.last_quiet(benchmark, tmp_path) == "none yet"
    for line in (
        run(0.41, others=0.01),
        run(0.42, others=0.02),
        run(0.9, others=0.5),
        run(0.8, others=0.0, records=10),
    ):
        history.append(tmp_path, line)
    assert page.last_quiet(benchmark, tmp_path) == "0.42"
