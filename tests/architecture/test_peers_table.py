"""What the benchmark beside peers reads from the load generator, and what its table says."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import pytest
from bench import peers, peers_sides
from bench import peers_table as table
from bench.catalog import CATALOG
from bench.peers_table import MOORAGE, TUNED, UPSTREAM, Sample

TAINT = "node node.kubernetes.io/not-ready"
SCENARIO: dict[str, Any] = {
    "complete": True,
    "victims": 20,
    "to_deleting_ms": {"n": 20, "min": 10.0, "p50": 30.0, "p90": 90.0, "p99": 99.0, "max": 100.0},
    "evictions_per_s": 16.5,
}


def sample(
    side: str, figures: dict[str, float], *, measure: str = "a", case: str = "5 of 50", load: float = 1
) -> Sample:
    return Sample(measure, case, side, figures, load)


def test_a_row_has_the_median_of_each_side_and_the_loads() -> None:
    samples = [sample(UPSTREAM, {"p50 ms": value}, load=value) for value in (3.0, 1.0, 2.0)]
    samples += [sample(MOORAGE, {"p50 ms": 0.5}), sample(TUNED, {"p50 ms": 0.25})]
    (row,) = table.rows(samples)
    assert (row.upstream, row.tuned, row.moorage, row.load) == (2.0, 0.25, 0.5, (1.0, 3.0))
    assert (row.ratio, row.tuned_ratio) == (4.0, 0.5)


def test_rows_are_ordered_by_measure_and_keep_the_order_of_cases_and_figures() -> None:
    samples = [
        sample(UPSTREAM, {"p99 ms": 1, "p50 ms": 1}, measure="c", case="b"),
        sample(UPSTREAM, {"p50 ms": 1}, measure="a", case="z"),
        sample(MOORAGE, {"p50 ms": 1}, measure="a", case="a"),
    ]
    found = [(row.measure, row.case, row.figure) for row in table.rows(samples)]
    assert found == [("a", "z", "p50 ms"), ("a", "a", "p50 ms"), ("c", "b", "p99 ms"), ("c", "b", "p50 ms")]


@pytest.mark.parametrize(
    ("figure", "ours", "theirs", "expected"),
    [
        ("p50 ms", 10.0, 40.0, 4.0),
        ("evictions/s", 40.0, 10.0, 4.0),
        ("p50 ms", 40.0, 10.0, 0.25),
        ("evictions/s", 10.0, 40.0, 0.25),
        ("p50 ms", None, 10.0, None),
        ("p50 ms", 10.0, None, None),
        ("p50 ms", 0.0, 10.0, None),
    ],
)
def test_more_is_faster_whether_times_or_rates_are_compared(
    figure: str, ours: float | None, theirs: float | None, expected: float | None
) -> None:
    assert table.times_as_fast(figure, ours, theirs) == expected


def test_both_tables_have_a_line_for_each_row() -> None:
    rows = table.rows([sample(UPSTREAM, {"p50 ms": 1234.5}), sample(MOORAGE, {"p50 ms": 100.0}, load=2.25)])
    assert table.markdown(rows).splitlines()[2:] == [
        "| taint → deletion of the node's pods requested | 5 of 50 | p50 ms | 1,234 | 100 | 12.3 | - | 1.0 to 2.2 |"
    ]
    assert [line.split() for line in table.text(rows).splitlines()[1:]] == [
        ["a", "5", "of", "50", "p50", "ms", "1,234", "100", "12.3", "-", "1.0", "to", "2.2"]
    ]


def test_the_generators_lines_are_read_and_others_are_not() -> None:
    assert peers_sides.parsed('watch: it ended\n{"measure": "pods"}\n\n{"measure": "scenario"}\n') == [
        {"measure": "pods"},
        {"measure": "scenario"},
    ]


def test_a_rate_of_evictions_needs_some() -> None:
    assert table.scenario(SCENARIO) == {"p50 ms": 30.0, "p99 ms": 99.0, "evictions/s": 16.5}
    assert table.scenario({**SCENARIO, "victims": 4}) == {"p50 ms": 30.0, "p99 ms": 99.0}


def test_nodes_that_are_not_ready_have_the_times_of_both_taints_and_of_the_first_deletion() -> None:
    times = {"n": 2, "min": 5.0, "p50": 7.0, "p99": 9.0}
    found = table.not_ready(
        {**SCENARIO, "complete": False, f"{TAINT}:NoSchedule ms": times, f"{TAINT}:NoExecute ms": times}
    )
    assert found == {
        "NoSchedule p50 ms": 7.0,
        "NoSchedule p99 ms": 9.0,
        "first NoExecute ms": 5.0,
        "first deletion ms": 10.0,
    }
    assert table.not_ready({"complete": False, "to_deleting_ms": {"n": 0}}) == {}


def test_pods_and_placements() -> None:
    times = {"n": 3, "min": 5.0, "p50": 7.0, "p99": 9.0}
    assert table.pods({"created_to_bound_ms": times, "bound_per_s": 94.84}) == {
        "p50 ms": 7.0,
        "p99 ms": 9.0,
        "bound/s": 94.8,
    }
    figures = {"complete": True, "decided": 3, "placements": 3, "request_to_decision_ms": times, "decided_per_s": 17.0}
    assert table.placements(figures) == {"p50 ms": 7.0, "p99 ms": 9.0, "decided/s": 17.0}


@pytest.mark.parametrize(
    ("read", "figures", "message"),
    [
        (table.scenario, SCENARIO, "only 20 of 20 pods"),
        (table.placements, {"decided": 2, "placements": 3}, "only 2 of 3 placements"),
    ],
)
def test_what_has_not_ended_is_no_figure(
    read: Callable[[dict[str, Any]], dict[str, float]], figures: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        read({**figures, "complete": False})


def test_the_letters_of_measures() -> None:
    assert peers.letters("c, a") == {"a", "c"}
    with pytest.raises(argparse.ArgumentTypeError, match="no such measure: x"):
        peers.letters("a,x")


def test_the_plot_has_a_line_for_each_case() -> None:
    options = argparse.Namespace(rounds=3, nodes=(50, 500), only=frozenset("a"))
    samples = [sample(side, {"p50 ms": value, "p99 ms": 9.0}) for side, value in ((UPSTREAM, 10.0), (MOORAGE, 5.0))]
    result = peers.result(options, [*samples, sample(UPSTREAM, {"p50 ms": 1.0}, measure="c")])
    assert CATALOG["peers"].plotted(result) == {"(a) 5 of 50": 2.0}
    assert {name: result[name] for name in CATALOG["peers"].parameters} == {
        "rounds": 3,
        "nodes": [50, 500],
        "only": ["a"],
    }
