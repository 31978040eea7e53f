"""Measures matching of pods' tolerations against many nodes, compared with upstream's scheduler plugin.

The last line is JSON.

Ours: `TaintMatrix.fits`, which placement's filter `TaintToleration` calls once for each shape of pods and version of
the fleet. It returns one boolean for each node. The peer: `plugin.Filter` of Kubernetes' TaintToleration, as run by
the oracle's `bench-match` in one thread; kube-scheduler calls it for each pod and node. Both run in turn for several
rounds, and the medians are compared. An evaluation is one pod against one node. Each of the pods here has tolerations
of its own. In placement, pods with an equal shape share one answer, which is not counted here.

Our time includes reading the pods' tolerations from the models, compiling them, computing the fitting nodes, and
counting them (upstream's loop counts too). Nothing about the pods is cached between rounds. Stated separately are the
time to add the nodes (`build_s`), and the same pods a second time, when the masks of their tolerations are cached.

On a sample the verdicts are compared with upstream's (the oracle's `filter`), and on another one with the scalar
matcher. MOORAGE_ORACLE names the oracle: its executable, a folder that contains it, or its source. By default it
is ../shared/oracle beside the project. A source is copied and built (with Go, in some minutes). Without Go or the
oracle only our figures are printed, with a null ratio.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # so that the script runs from any folder
from bench import harness
from bench.history import ROOT

from moorage.decide.taints.dialects.kubernetes import KUBERNETES
from moorage.decide.taints.matching import prefer_count, untolerated
from moorage.decide.taints.node_taint_matrix import TaintMatrix
from moorage_schemas.taint import Taint, Toleration

KEYS = (
    "dedicated",
    "nvidia.com/gpu",
    "spot",
    "node-role.kubernetes.io/control-plane",
    "arch",
    "zone-maintenance",
    "team",
    "storage",
    "example.com/licensed",
    "burst",
)
VALUES = ("a", "b", "c")


def make_taints(rng: random.Random, count: int) -> list[Taint]:
    """Return taints with distinct keys: 45 % NoSchedule, 15 % NoExecute, 40 % PreferNoSchedule, as in the oracle."""
    made = []
    for key in rng.sample(KEYS, count):
        draw = rng.randrange(100)
        effect = "PreferNoSchedule" if draw < 40 else "NoExecute" if draw < 55 else "NoSchedule"
        made.append(Taint(key=key, value=rng.choice(VALUES), effect=effect))
    return made


def make_tolerations(rng: random.Random, count: int) -> list[Toleration]:
    """Return tolerations with distinct keys: half Exists, half Equal; a half with the effect NoSchedule."""
    made = []
    for key in rng.sample(KEYS, count):
        equal = rng.random() < 0.5
        made.append(
            Toleration(
                key=key,
                operator="Equal" if equal else "Exists",
                value=rng.choice(VALUES) if equal else "",
                effect="NoSchedule" if rng.random() < 0.5 else "",
            )
        )
    return made


def build(nodes: list[list[Taint]]) -> TaintMatrix:
    """Return a matrix of the nodes. Comparison operators are off, as in the peer's run."""
    matrix = TaintMatrix(comparison=False)
    for i, taints in enumerate(nodes):
        matrix.set_node(f"node-{i}", taints)
    return matrix


def run_ours(matrix: TaintMatrix, pods: list[list[Toleration]]) -> tuple[float, int]:
    """Return the seconds for all pods, and the number of fits."""
    start = time.perf_counter()
    total = sum(int(np.count_nonzero(matrix.fits(tolerations))) for tolerations in pods)
    return time.perf_counter() - start, total


def run_peer(oracle: Path, options: argparse.Namespace) -> tuple[float, float]:
    """Return the evaluations per second of upstream's plugin.Filter, and the share of fits in its own data."""
    command = [
        str(oracle),
        "bench-match",
        *("--pods", str(options.pods), "--nodes", str(options.nodes)),
        *("--taints", str(options.taints), "--tolerations", str(options.tolerations)),
        *("--runs", "1", "--seed", str(options.seed)),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found = re.search(r"plugin\.Filter.*?median=(\S+).*?\(([\d.]+)/eval\)", done.stdout)
    if found is None:
        raise SystemExit(f"bench-match printed no line of plugin.Filter:\n{done.stdout}")
    return options.pods * options.nodes / seconds_of(found[1]), float(found[2])


def seconds_of(duration: str) -> float:
    """Return the seconds of a Go duration such as 1m2.5s, 412.9ms or 85µs."""
    units = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "µs": 1e-6, "us": 1e-6, "ns": 1e-9}
    return sum(float(n) * units[u] for n, u in re.findall(r"([\d.]+)(h|ms|µs|us|ns|m|s)", duration))


@contextmanager
def find_oracle() -> Iterator[Path | None]:
    """Provide the oracle's executable. None, with the reason on stderr, if there is none and none can be built."""
    place = Path(os.environ.get("MOORAGE_ORACLE") or ROOT.parent / "shared" / "oracle")
    program = place / "oracle" if place.is_dir() else place
    if program.is_file():
        yield program
        return
    if not (place / "main.go").is_file():
        reason = f"MOORAGE_ORACLE: Invalid value: {str(place)!r}: does not contain an oracle"
    elif shutil.which("go") is None:
        reason = "Go is not installed, so the oracle cannot be built"
    else:
        reason = "building the oracle failed"
        with tempfile.TemporaryDirectory(prefix="moorage-oracle-") as folder:
            copy = Path(folder) / "oracle"
            shutil.copytree(place, copy, copy_function=shutil.copyfile)
            for path in (copy, *copy.rglob("*")):
                path.chmod(0o755 if path.is_dir() else 0o644)
            harness.note("building the oracle; this takes some minutes")
            parts = ((copy / "k8s", "../oracle-k8s"), (copy, "oracle"))
            if not any(subprocess.call(["go", "build", "-o", output, "."], cwd=part) for part, output in parts):
                yield copy / "oracle"
                return
    harness.note(f"{reason}; only Moorage is measured")
    yield None


def ask(oracle: Path, requests: list[str]) -> list[dict[str, Any]]:
    """Send requests to the oracle, one a line. Return its answers."""
    with tempfile.TemporaryFile("w+") as lines:
        lines.writelines(f"{one}\n" for one in requests)
        lines.seek(0)
        done = subprocess.run([str(oracle)], stdin=lines, capture_output=True, text=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def check_against_peer(
    oracle: Path, matrix: TaintMatrix, nodes: list[list[Taint]], pods: list[list[Toleration]], sample: int
) -> tuple[int, int]:
    """Compare a sample of pods and nodes with upstream's filter. Return the numbers of pairs and of differences."""
    some_pods = range(0, len(pods), max(1, len(pods) // 50))
    some_nodes = range(0, len(nodes), max(1, len(nodes) * len(some_pods) // sample))
    ours = [(matrix.fits(pods[p]), matrix.prefer_counts(pods[p])) for p in some_pods]
    taints = [json.dumps([_wire(t) for t in nodes[n]]) for n in some_nodes]
    lines = []
    for p in some_pods:
        tolerations = json.dumps([_wire(t) for t in pods[p]])
        lines += [f'{{"op":"filter","taints":{t},"tolerations":{tolerations}}}' for t in taints]
    answers = iter(ask(oracle, lines))
    different = pairs = 0
    for fit, prefer in ours:
        for n in some_nodes:
            answer = next(answers)
            pairs += 1
            same = answer["fits"] == bool(fit[n]) and answer["preferNoScheduleCount"] == int(prefer[n])
            different += int(not same)
    return pairs, different


def _wire(model: Taint | Toleration) -> dict[str, Any]:
    dumped: dict[str, Any] = model.model_dump(mode="json", by_alias=True, exclude_none=True)
    return dumped


def check_against_scalar(
    matrix: TaintMatrix, nodes: list[list[Taint]], pods: list[list[Toleration]], sample: int
) -> tuple[int, int]:
    """Compare the answers with the scalar matcher. Return the numbers of pairs and of differences."""
    different = pairs = 0
    chosen = pods[: max(1, sample // len(nodes))]
    for tolerations in chosen:
        fitting = matrix.fits(tolerations)
        prefer = matrix.prefer_counts(tolerations)
        for n, taints in enumerate(nodes):
            pairs += 1
            fit = not untolerated(taints, tolerations, KUBERNETES.filtering, comparison=False)
            count = prefer_count(taints, tolerations, KUBERNETES.scoring, comparison=False)
            different += int(fit != bool(fitting[n]) or count != int(prefer[n]))
    return pairs, different


def main() -> int:
    """Measure, compare, print."""
    # --taints of a node and --tolerations of a pod are at most 10; --sample is the number of pairs in each comparison.
    sizes = {"pods": 1000, "nodes": 5000, "taints": 3, "tolerations": 3, "rounds": 5}
    options = harness.parser(__doc__, **sizes, sample=20_000, seed=1).parse_args()
    rng = random.Random(options.seed)
    nodes = [make_taints(rng, options.taints) for _ in range(options.nodes)]
    pods = [make_tolerations(rng, options.tolerations) for _ in range(options.pods)]
    evaluations = options.pods * options.nodes

    builds: list[float] = []
    ours: list[float] = []
    again: list[float] = []
    peers: list[float] = []
    share = peer_share = 0.0
    with find_oracle() as oracle:
        for number in range(options.rounds):
            start = time.perf_counter()
            matrix = build(nodes)
            builds.append(time.perf_counter() - start)
            seconds, total = run_ours(matrix, pods)
            ours.append(evaluations / seconds)
            again.append(evaluations / run_ours(matrix, pods)[0])
            share = total / evaluations
            text = f"round {number + 1}: ours {ours[-1] / 1e6:.0f} M evaluations/s"
            if oracle is not None:
                rate, peer_share = run_peer(oracle, options)
                peers.append(rate)
                text += f", plugin.Filter {rate / 1e6:.2f} M evaluations/s"
            harness.note(text)
        matrix = build(nodes)
        scalar_pairs, wrong = check_against_scalar(matrix, nodes, pods, options.sample)
        peer_pairs = 0
        if oracle is not None:
            peer_pairs, different = check_against_peer(oracle, matrix, nodes, pods, options.sample)
            wrong += different
    mine = harness.median(ours)
    theirs = harness.median(peers) if peers else None
    result = {
        "bench": "matching",
        "ours_evals_per_s": round(mine),
        "peer_evals_per_s": None if theirs is None else round(theirs),
        "ratio": None if theirs is None else round(mine / theirs, 1),
        "ratio_min": None if not peers else round(min(ours) / max(peers), 1),
        "verdicts_equal": wrong == 0,
        "verdicts_compared_with_peer": peer_pairs,
        "verdicts_compared_with_scalar": scalar_pairs,
        "ours_repeated_evals_per_s": round(harness.median(again)),
        "build_s": round(harness.median(builds), 4),
        "fit_share": round(share, 3),
        "peer_fit_share": peer_share if peers else None,
        **{name: getattr(options, name) for name in sizes},
    }
    harness.report(result)
    return 0 if wrong == 0 else 1


if __name__ == "__main__":
    raise SystemExit(main())
