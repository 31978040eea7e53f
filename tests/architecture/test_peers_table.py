"""What the benchmark beside peers reads from the load generator, and what its table says."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from bench import peers, peers_failover, peers_sides
from bench import peers_table as table
from bench.catalog import CATALOG
from bench.peers_sides import Options
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


def _ignore(_sample: Sample) -> None:
    """No samples are taken."""


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


@pytest.mark.parametrize("figure", ["p50 ms", "evictions/s"])
def test_more_is_faster_whether_times_or_rates_are_compared(figure: str) -> None:
    ratios = [table.times_as_fast(figure, ours, theirs) for ours, theirs in ((10.0, 40.0), (40.0, 10.0))]
    assert ratios == ([4.0, 0.25] if figure.endswith(" ms") else [0.25, 4.0])
    assert [table.times_as_fast(figure, ours, theirs) for ours, theirs in ((None, 10.0), (10.0, None))] == [None, None]
    assert table.times_as_fast("p50 ms", 0.0, 10.0) is None


def test_both_tables_have_a_line_for_each_row() -> None:
    rows = table.rows([sample(UPSTREAM, {"p50 ms": 1234.5}), sample(MOORAGE, {"p50 ms": 100.0}, load=2.25)])
    assert table.markdown(rows).splitlines()[2:] == [
        "| taint → deletion of the node's pods requested | 5 of 50 | p50 ms | 1,234 | 100 | 12.3 | - | 1.0 to 2.2 |"
    ]
    assert [line.split() for line in table.text(rows).splitlines()[1:]] == [
        ["a", "5", "of", "50", "p50", "ms", "1,234", "100", "12.3", "-", "1.0", "to", "2.2"]
    ]


TIMES = {"n": 3, "min": 5.0, "p50": 7.0, "p99": 9.0}
READ: tuple[tuple[Callable[[dict[str, Any]], dict[str, float]], dict[str, Any], dict[str, float]], ...] = (
    (table.scenario, SCENARIO, {"p50 ms": 30.0, "p99 ms": 99.0, "evictions/s": 16.5}),
    (table.scenario, {**SCENARIO, "victims": 4}, {"p50 ms": 30.0, "p99 ms": 99.0}),
    (
        table.not_ready,
        {**SCENARIO, "complete": False, f"{TAINT}:NoSchedule ms": TIMES, f"{TAINT}:NoExecute ms": TIMES},
        {"NoSchedule p50 ms": 7.0, "NoSchedule p99 ms": 9.0, "first NoExecute ms": 5.0, "first deletion ms": 10.0},
    ),
    (table.not_ready, {"complete": False, "to_deleting_ms": {"n": 0}}, {}),
    (
        table.pods,
        {"created_to_bound_ms": TIMES, "bound_per_s": 94.84},
        {"p50 ms": 7.0, "p99 ms": 9.0, "bound/s": 94.8},
    ),
    (
        table.placements,
        {
            "complete": True,
            "decided": 3,
            "placements": 3,
            "request_to_decision_ms": TIMES,
            "decided_per_s": 17.0,
        },
        {"p50 ms": 7.0, "p99 ms": 9.0, "decided/s": 17.0},
    ),
)


def test_what_the_generator_tells_is_read() -> None:
    assert peers_sides.parsed('watch: it ended\n{"measure": "pods"}\n\n{"measure": "scenario"}\n') == [
        {"measure": "pods"},
        {"measure": "scenario"},
    ]
    for read, told, figures in READ:
        assert read(told) == figures, read
    assert table.spread([number / 1000 for number in range(1, 101)]) == {"p50 ms": 51.0, "p99 ms": 99.0}
    assert table.spread([0.25]) == {"p50 ms": 250.0, "p99 ms": 250.0}


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


def test_what_fails_is_told_and_the_rest_is_measured() -> None:
    failures: list[str] = []

    async def attempt(options: Options, what: str, work: Callable[[], None]) -> None:
        async with options.attempt(what):
            work()

    def away() -> None:
        raise peers_sides.PeersError("it is away")

    options = Options("", Path(), frozenset(), frozenset(), 1, _ignore, failures.append, 1, (1,))
    asyncio.run(attempt(options, "first", away))
    asyncio.run(attempt(options, "second", lambda: None))
    assert failures == ["first: PeersError: it is away"]


def test_members_are_even_when_each_owns_a_half_and_all_standbys_are_warm() -> None:
    def member(owned: int, warm: int, cold: int = 0) -> dict[str, Any]:
        partitions = {str(number): {"phase": "Running"} for number in range(owned)}
        standbys = {str(number): "Warm" if number < warm else "Reading" for number in range(warm + cold)}
        return {"partitions": partitions, "standbys": standbys}

    assert peers_failover._is_even([member(12, 12), member(12, 12)])
    assert not peers_failover._is_even([member(24, 0), member(0, 24)])
    assert not peers_failover._is_even([member(12, 11, 1), member(12, 12)])


def test_the_letters_of_measures() -> None:
    assert peers.letters("c, a") == {"a", "c"}
    with pytest.raises(argparse.ArgumentTypeError, match="no such measure: x"):
        peers.letters("a,x")
    with pytest.raises(argparse.ArgumentTypeError, match="no such side: ours"):
        peers.names("upstream,ours")


def test_the_plot_has_a_line_for_each_case() -> None:
    options = argparse.Namespace(rounds=3, nodes=(50, 500), only=frozenset("a"), clusters=1000, placements=(100,))
    samples = [sample(side, {"p50 ms": value, "p99 ms": 9.0}) for side, value in ((UPSTREAM, 10.0), (MOORAGE, 5.0))]
    result = peers.result(options, [*samples, sample(UPSTREAM, {"p50 ms": 1.0}, measure="c")], ["lost"])
    assert result["failures"] == ["lost"]
    assert CATALOG["peers"].plotted(result) == {"(a) 5 of 50": 2.0}
    said = {"rounds": 3, "nodes": [50, 500], "only": ["a"], "clusters": 1000, "placements": [100]}
    assert {name: result[name] for name in CATALOG["peers"].parameters} == said
