"""Compares Moorage's core with OCM's own scheduler: how fast they schedule, and whether both decide the same.

    .venv/bin/python bench/ocm.py [--placements 100,1000,10000] [--clusters 1000] [--taints 3] [--runs 3]
                                  [--peer-placements 10000] [--sample 20]

Both schedule the same kind of placements, one after another. Each placement requests 10 clusters and tolerates the
clusters' taints. Its policy has mode Exact, with an add-on's score, ResourceAllocatableCPU and Balance; each decision
counts in Balance for the next one. The peer is the oracle's `bench-ocm` in core mode (only `Schedule`, in one process,
as in OCM). Ours is `PlacementScheduler.schedule`, plus counting its decisions. Sizes above `--peer-placements` are not
run with the peer, because its time grows with the square of the number.

What the measured span contains:
- Inside, for both: every decision from the first to the last, so also what the first one has to compute for all. For
  ours: matching the distinct taints with the tolerations, the filters and shared scores, and counting the decisions.
- Outside, for both: parsing the objects and the placements' specs, and storing the clusters and scores. For the peer
  the latter are its informers' caches; ours is the `ManagedFleet`, which keeps taints, amounts, scores and the order of
  the names as columns, and changes one row with each record. Nothing in it depends on a placement.
- What storing costs is stated beside it. `fold` is ours: `parse` is reading the objects, `store` is storing them, and
  `longest` is the longest single call. `peer set-up` is the wall time of the peer's process without its decisions: the
  start of the process, making the objects (it does not parse them), a fake client, and the informers' caches. So it is
  comparable in its purpose, not step by step.
- The first run in this process also loads code, so the medians of several runs are compared. `cold` is the first run.

One more run, which is not measured, records our scores on a sample of states. For these, the clusters, the scores and
the decisions so far are sent to the oracle (`ocm_schedule`), and its decisions, in their order, and its scores are
compared with ours. MOORAGE_ORACLE names the oracle, as in bench/matching.py.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import resource
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench import harness
from bench.matching import ask, find_oracle, seconds_of

from moorage.decide.scheduling.ocm.columns.cluster_facts import ManagedClusterFacts, ScoreFacts
from moorage.decide.scheduling.ocm.columns.managed_fleet import ManagedFleet
from moorage.decide.scheduling.ocm.columns.usage import Usage
from moorage.decide.scheduling.ocm.scheduler import PlacementScheduler
from moorage.decide.scheduling.ocm.spec import terms_of
from moorage_schemas.resources.managed import PlacementSpec

NOW = datetime(2026, 1, 1, tzinfo=UTC)
NAMESPACE = "benchmark"
Json = dict[str, Any]


def make_clusters(count: int, taints: int, seed: int) -> tuple[list[Json], list[Json]]:
    """Return the objects of the peer's run: clusters with taints and some CPU, and a score for each."""
    rng = random.Random(seed)
    clusters, scores = [], []
    for i in range(count):
        amount = {"cpu": str(1 + rng.randrange(64))}
        clusters.append(
            {
                "metadata": {
                    "name": f"cluster{i}",
                    "labels": {"cluster.open-cluster-management.io/clusterset": NAMESPACE},
                },
                "spec": {
                    "taints": [
                        {
                            "key": f"example.com/key{t}",
                            "value": str(rng.randrange(3)),
                            "effect": "NoSelect",
                            "timeAdded": "2026-01-01T00:00:00Z",
                        }
                        for t in range(taints)
                    ]
                },
                "status": {"allocatable": amount, "capacity": amount},
            }
        )
        scores.append(
            {
                "metadata": {"namespace": f"cluster{i}", "name": "demo"},
                "status": {"scores": [{"name": "demo", "value": 80}], "validUntil": "2026-01-01T16:40:00Z"},
            }
        )
    return clusters, scores


def make_placement(i: int, taints: int) -> Json:
    """Return the i-th placement of the peer's run."""
    built_in = [
        {"scoreCoordinate": {"type": "BuiltIn", "builtIn": name}, "weight": 1}
        for name in ("ResourceAllocatableCPU", "Balance")
    ]
    add_on = {"type": "AddOn", "addOn": {"resourceName": "demo", "scoreName": "demo"}}
    return {
        "metadata": {"namespace": NAMESPACE, "name": f"benchmark-{i}"},
        "spec": {
            "numberOfClusters": 10,
            "prioritizerPolicy": {
                "mode": "Exact",
                "configurations": [{"scoreCoordinate": add_on, "weight": 1}, *built_in],
            },
            "tolerations": [{"key": f"example.com/key{t}", "operator": "Exists"} for t in range(taints)],
        },
    }


@dataclass(slots=True)
class Run:
    """The seconds for all placements, and the mean for one placement in the first and in the last tenth."""

    total: float
    first: float
    last: float
    cpu: float
    """The CPU time of the whole run in seconds. For the peer it includes its set-up, which is subtracted later."""

    decisions: list[tuple[str, ...]] = field(default_factory=list)
    totals: dict[int, dict[str, int]] = field(default_factory=dict)
    """The scores of all clusters for the placements that are compared."""

    opening: float = 0.0
    """The seconds of the first decision."""

    parsing: float = 0.0
    storing: float = 0.0
    longest: float = 0.0
    """The seconds to read the clusters and scores, and to store them; and the longest call that stores one."""


def run_ours(clusters: Sequence[Json], scores: Sequence[Json], specs: Sequence[Json], sample: Sequence[int]) -> Run:
    """Schedule all placements, one after another, on a new fleet."""
    run = Run(0.0, 0.0, 0.0, 0.0)
    fleet = ManagedFleet()
    scheduler, usage = PlacementScheduler(fleet), Usage(fleet)
    start = time.perf_counter()
    facts = [ManagedClusterFacts.of(cluster) for cluster in clusters]
    given = [ScoreFacts.of(score) for score in scores]
    run.parsing = time.perf_counter() - start
    for store in (*(partial(fleet.put, one) for one in facts), *(partial(fleet.put_score, one) for one in given)):
        start = time.perf_counter()
        store()
        took = time.perf_counter() - start
        run.storing += took
        run.longest = max(run.longest, took)
    terms = [terms_of(PlacementSpec.model_validate(one["spec"])) for one in specs]
    compared = frozenset(sample)
    times = []
    busy = time.process_time()
    for i, one in enumerate(terms):
        start = time.perf_counter()
        scheduled = scheduler.schedule(one, usage=usage, now=NOW)
        usage.add(scheduled.decisions)
        times.append(time.perf_counter() - start)
        run.decisions.append(scheduled.decisions)
        if i in compared:
            # The scores are those before the decision was counted.
            names = fleet.names_at(scheduled.rows)
            run.totals[i] = dict(zip(names, scheduled.totals.tolist(), strict=True))
    run.cpu = time.process_time() - busy
    tenth = max(1, len(times) // 10)
    run.opening = times[0]
    run.total, run.first, run.last = sum(times), sum(times[:tenth]) / tenth, sum(times[-tenth:]) / tenth
    return run


def run_peer(oracle: Path, placements: int, options: argparse.Namespace) -> Run:
    """Run the same with OCM's scheduler."""
    command = [str(oracle), "bench-ocm", "--mode", "core", "--allocatable", "--runs", "1"]
    command += ["--placements", str(placements), "--clusters", str(options.clusters), "--taints", str(options.taints)]
    busy = _children()
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    busy = _children() - busy
    found = [
        re.search(rf"{name}=(\S+?)(?:/placement)?\s", said) for name in ("schedule-only", "first-tenth", "last-tenth")
    ]
    total, first, last = (seconds_of(one.group(1)) if one else float("nan") for one in found)
    return Run(total, first, last, busy)


def peer_setup(oracle: Path, options: argparse.Namespace) -> tuple[float, float]:
    """Return the seconds and CPU time that the peer's process takes apart from its decisions, with one placement."""
    start = time.perf_counter()
    run = run_peer(oracle, 1, options)
    return time.perf_counter() - start - run.total, run.cpu - run.total


def _children() -> float:
    """Return the CPU time of this process's children that have ended, in seconds."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def differences(
    oracle: Path, run: Run, clusters: Sequence[Json], scores: Sequence[Json], specs: Sequence[Json]
) -> list[int]:
    """Return the sampled placements for which upstream's decisions or scores differ from ours in the same state."""
    fixed = json.dumps({"clusters": clusters, "scores": scores})[1:-1]
    different = []
    for i, totals in run.totals.items():
        head = json.dumps(
            {"op": "ocm_schedule", "level": "scheduler", "now": "2026-01-01T00:00:00Z", "placement": specs[i]}
        )
        decisions = json.dumps([_decision(specs[k], run.decisions[k]) for k in range(i)])
        (answer,) = ask(oracle, [f'{head[:-1]}, {fixed}, "decisions": {decisions}}}'])
        if answer["decisions"] != list(run.decisions[i]) or answer["scores"] != totals:
            different.append(i)
    return different


def _decision(placement: Json, clusters: Sequence[str]) -> Json:
    name = placement["metadata"]["name"]
    label = {"cluster.open-cluster-management.io/placement": name}
    return {
        "metadata": {"namespace": NAMESPACE, "name": f"{name}-decision-1", "labels": label},
        "status": {"decisions": [{"clusterName": one, "reason": ""} for one in clusters]},
    }


def measure(oracle: Path | None, placements: int, options: argparse.Namespace) -> Json:
    """Run and compare both for one number of placements."""
    clusters, scores = make_clusters(options.clusters, options.taints, options.seed)
    specs = [make_placement(i, options.taints) for i in range(placements)]
    count = min(options.sample, placements)
    sample = [round(k * (placements - 1) / max(1, count - 1)) for k in range(count)]
    asked = oracle is not None and placements <= options.peer_placements
    ours, peers = [], []
    for _ in range(options.runs):
        ours.append(run_ours(clusters, scores, specs, ()))
        if oracle is not None and asked:
            peers.append(run_peer(oracle, placements, options))
    setups = [peer_setup(oracle, options) for _ in range(3)] if oracle is not None else []
    judged = run_ours(clusters, scores, specs, sample)
    if any(run.decisions != judged.decisions for run in ours):
        raise RuntimeError("two runs on the same objects made different decisions")
    mine, my_cpu = _median(run.total for run in ours), _median(run.cpu for run in ours)
    theirs, their_cpu = _median(run.total for run in peers), None
    if peers:
        their_cpu = harness.median(run.cpu for run in peers) - harness.median(busy for _, busy in setups)
    return {
        "placements": placements,
        "ours_s": _scaled(mine, 1, 4),
        "ours_us_per_placement": _scaled(mine, 1e6 / placements),
        "ours_us_first_tenth": _scaled(_median(run.first for run in ours), 1e6),
        "ours_us_last_tenth": _scaled(_median(run.last for run in ours), 1e6),
        "ours_us_first": _scaled(_median(run.opening for run in ours), 1e6),
        "ours_cold_s": round(ours[0].total, 4),
        "ours_us_first_cold": round(ours[0].opening * 1e6, 1),
        "fold_parse_ms": _scaled(_median(run.parsing for run in ours), 1e3),
        "fold_store_ms": _scaled(_median(run.storing for run in ours), 1e3),
        "fold_longest_ms": _scaled(_median(run.longest for run in ours), 1e3, 3),
        "peer_setup_ms": _scaled(_median(seconds for seconds, _ in setups), 1e3),
        "peer_s": _scaled(theirs, 1, 3),
        "peer_us_per_placement": _scaled(theirs, 1e6 / placements),
        "peer_us_first_tenth": _scaled(_median(run.first for run in peers), 1e6),
        "peer_us_last_tenth": _scaled(_median(run.last for run in peers), 1e6),
        "ratio": _ratio(theirs, mine),
        "ours_cpu_s": _scaled(my_cpu, 1, 3),
        "peer_cpu_s": _scaled(their_cpu, 1, 3),
        "ratio_cpu": _ratio(their_cpu, my_cpu),
        "states_compared": 0 if oracle is None else len(judged.totals),
        "different": [] if oracle is None else differences(oracle, judged, clusters, scores, specs),
    }


def _median(values: Iterable[float]) -> float | None:
    found = list(values)
    return harness.median(found) if found else None


def _scaled(value: float | None, scale: float, digits: int = 1) -> float | None:
    return None if value is None else round(value * scale, digits)


def _ratio(theirs: float | None, ours: float | None) -> float | None:
    return round(theirs / ours, 1) if theirs is not None and ours else None


COLUMNS = {
    "placements": "placements",
    "ours, µs each": "ours_us_per_placement",
    "first": "ours_us_first",
    "first tenth": "ours_us_first_tenth",
    "last tenth": "ours_us_last_tenth",
    "OCM, µs each": "peer_us_per_placement",
    "first tenth ": "peer_us_first_tenth",
    "last tenth ": "peer_us_last_tenth",
    "ratio": "ratio",
    "of CPU time": "ratio_cpu",
    "parse, ms": "fold_parse_ms",
    "store, ms": "fold_store_ms",
    "longest, ms": "fold_longest_ms",
    "OCM set-up, ms": "peer_setup_ms",
    "compared": "states_compared",
    "different": "different",
}
"""The columns of the printed table."""


SPAN = """\
Measured: every decision, from the first to the last, and counting it; warm code (the median of the runs).
Not measured, for both: parsing the objects and the specs, and storing the clusters and scores. For ours this is
"parse" and "store", with the longest single call; "OCM set-up" is the rest of the time of OCM's process (start,
objects, fake client, informers)."""


def main() -> int:
    """Measure, compare, print."""
    # --taints of a cluster are also the tolerations of a placement; --peer-placements is the largest size of the peer;
    # --sample is the number of states for each size in which decisions are compared.
    options = harness.parser(
        __doc__,
        placements="100,1000,10000",
        clusters=1000,
        taints=3,
        runs=3,
        peer_placements=10_000,
        sample=20,
        seed=1,
    ).parse_args()
    rows = []
    harness.note(f"{SPAN}\n{''.join(f'{title:>15}' for title in COLUMNS)}")
    with find_oracle() as oracle:
        for size in map(int, options.placements.split(",")):
            row = measure(oracle, size, options) | {"load": round(os.getloadavg()[0], 1)}
            rows.append(row)
            shown = row | {"different": len(row["different"])}
            cells = ["-" if shown[name] is None else str(shown[name]) for name in COLUMNS.values()]
            harness.note("".join(f"{cell:>15}" for cell in cells))
    equal = not any(row["different"] for row in rows)
    result = {
        "bench": "ocm",
        "clusters": options.clusters,
        "taints": options.taints,
        "runs": options.runs,
        "measured": SPAN,
        "decisions_equal": equal if any(row["states_compared"] for row in rows) else None,
        "sizes": rows,
    }
    harness.report(result)
    return 0 if equal else 1


if __name__ == "__main__":
    raise SystemExit(main())
