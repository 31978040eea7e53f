"""The catalogue of the benchmarks: what each measures, compared with what, its goal, and its main figure.

`bench/page.py` writes the tables of `docs/benchmarks.md` from it and from the history.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

Result = Mapping[str, Any]
Figures = dict[str, float]
"""Main figures by their names. A single one has the name ``""``."""


@dataclass(frozen=True, slots=True)
class Benchmark:
    """One benchmark."""

    name: str
    """The name of its script, without the folder and `.py`."""

    measures: str
    compared: str
    """What it is compared with. Empty if there is no such thing."""

    unit: str
    """What the main figure is."""

    parameters: tuple[str, ...]
    """The fields of its result that are parameters. All others but `bench` and `what` are figures."""

    full: Mapping[str, Any]
    """The parameters of the size that the goal is about."""

    plotted: Callable[[Result], Figures]
    """Returns the main figures of its result."""

    goal: float
    """The limit of the main figure."""

    higher: bool = True
    """Whether a higher figure is better."""

    on_kafka: bool = True

    @property
    def script(self) -> str:
        """The path of its script."""
        return f"bench/{self.name}.py"

    @property
    def goal_text(self) -> str:
        """The goal as the page shows it."""
        return f"{'≥' if self.higher else '≤'} {number(self.goal)}" if self.goal else "0"


def number(figure: float) -> str:
    """Return a figure as the page shows it."""
    return f"{figure:,.0f}" if abs(figure) >= 100 or figure == int(figure) else f"{figure:.3g}"


def _single(name: str) -> Callable[[Result], Figures]:
    """The figure of one field. No figure if its limit was not measured."""
    return lambda result: {} if result[name] is None else {"": result[name]}


def _by_size(result: Result) -> Figures:
    return {f"{one['placements']:,} placements": one["ratio"] for one in result["sizes"] if one["ratio"] is not None}


def _by_processes(result: Result) -> Figures:
    """The ratio for each number of processes."""
    return {
        "one process" if count == "1" else f"{count} processes": one["ratio"]
        for count, one in result["processes"].items()
    }


def _pods_placed(result: Result) -> Figures:
    return {f"{one['what']}, {one['nodes']:,} nodes": one["per_s"] for one in result["results"]}


def _beside_peers(result: Result) -> Figures:
    """The ratio of the median, or of the time until everything is decided, of each case."""
    return {
        f"({row['measure']}) {row['case']}": row["times_as_fast"]
        for row in result["rows"]
        if row["figure"] in {"p50 ms", "NoSchedule p50 ms", "all s"} and row["times_as_fast"] is not None
    }


_ALL: Final = (
    Benchmark(
        "matching",
        "evaluations of pods against many nodes, by the query that placement makes for each shape",
        "Kubernetes' `TaintToleration` plugin, one thread",
        "times as fast as the plugin",
        ("pods", "nodes", "taints", "tolerations", "rounds"),
        {"pods": 1000, "nodes": 5000},
        _single("ratio"),
        goal=100.0,
        on_kafka=False,
    ),
    Benchmark(
        "stage",
        "records through condition-ingest",
        "a loop that passes the records on with aiokafka in transactions, at its best batch size",
        "of the best bare loop's records per second",
        ("records", "partitions", "rounds"),
        {"records": 40_000},
        _single("ratio"),
        goal=0.45,
    ),
    Benchmark(
        "latency",
        "from a report to the eviction decision, at low load",
        "a record through five such loops in a row",
        "times the latency of five bare loops",
        ("samples", "partitions"),
        {"samples": 60, "partitions": 24},
        _single("ratio"),
        goal=3.0,
        higher=False,
    ),
    Benchmark(
        "timers",
        "timers that are due within one second, until all that they fire is committed; by one process and by two",
        "the same records from a bare producer, in the best of five ways",
        "of the bare producer's records per second",
        ("timers", "partitions", "rounds"),
        {"timers": 1_000_000, "partitions": 24},
        _by_processes,
        goal=0.6,
    ),
    Benchmark(
        "heartbeats",
        "records and bytes on each topic for each heartbeat of a fleet in which nothing changes",
        "",
        "bytes for each report, all topics",
        ("nodes", "reports"),
        {"nodes": 100},
        _single("bytes_per_report"),
        goal=650.0,
        higher=False,
    ),
    Benchmark(
        "rest",
        "the processor time of `moorage up` while nothing is decided: with an empty fleet, and with nodes whose "
        "conditions are reported every 10 s, all at once or evenly spread",
        "",
        "percent of one core",
        ("nodes", "interval", "seconds"),
        {"nodes": 5000, "interval": 10.0},
        lambda result: {case: one["percent"] for case, one in result["cases"].items()},
        goal=25.0,
        higher=False,
    ),
    Benchmark(
        "restore",
        "the restore of a service from many records; `--service` chooses it, the default is eviction with its bindings",
        "a bare reader of the same topic",
        "times as long as the bare reader",
        ("service", "records", "partitions", "rounds"),
        {"records": 1_000_000},
        lambda result: {result["service"]: result["ratio"]},
        goal=2.0,
        higher=False,
    ),
    Benchmark(
        "placement",
        "pods placed per second through Kafka, everything durable; bare pods, and pods of Deployments, also with "
        "constraints on each other",
        "a bare producer of the same records in transactions",
        "pods per second",
        ("pods", "replicas", "partitions", "rounds"),
        {"pods": 10_000},
        _pods_placed,
        goal=1000.0,
    ),
    Benchmark(
        "ocm",
        "OCM placements decided one after another, the first included; beside it, what storing the clusters costs",
        "OCM's own scheduler",
        "times as fast as OCM's scheduler",
        ("clusters", "taints", "runs"),
        {"clusters": 1000},
        _by_size,
        goal=100.0,
        on_kafka=False,
    ),
    Benchmark(
        "growth",
        "whether topics, memory, open files or restores grow, in two hours of a fleet pressed into 20 minutes; "
        "`make bench BENCH=growth` ([growth](growth.md))",
        "itself after a quarter of the run",
        "series that grow",
        ("minutes", "nodes", "rate"),
        {"minutes": 20.0, "nodes": 500, "rate": 3000.0},
        lambda result: {"": len(result["growing"])},
        goal=0.0,
        higher=False,
    ),
    Benchmark(
        "peers",
        "Moorage with a bridge: taints, nodes that are not ready, placement and failover on real control planes; "
        "`make bench BENCH=peers`",
        "upstream's controllers on the same control plane, where `MOORAGE_PLANES` names one",
        "times as fast as the peer with its default limits, median",
        ("rounds", "nodes", "only", "clusters", "placements"),
        {"rounds": 3, "nodes": [50, 500], "clusters": 1000, "placements": [100, 1000]},
        _beside_peers,
        goal=1.0,
    ),
    Benchmark(
        "storm",
        "a zone is lost, as processes on a real broker in real time; `make bench BENCH=storm`",
        "the rates that the rules allow",
        "violations of the rules",
        ("nodes", "zones", "pods", "rates", "loss", "toleration_s"),
        {"nodes": 5000, "pods": 150_000},
        lambda result: {f"rates {result['rates']}": result["violations"]},
        goal=0.0,
        higher=False,
    ),
)

CATALOG: Final[Mapping[str, Benchmark]] = {one.name: one for one in _ALL}
"""All benchmarks by name, in the order of the page."""
