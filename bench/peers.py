"""Measures Moorage beside upstream's controllers, on the same control plane, with the same load, one after the other.

Where `MOORAGE_PLANES` names a folder with `up.sh` and `down.sh`, which start real control planes, each measure runs
with upstream's controller and its default limits, with lifted limits (`tuned`), and with Moorage and a bridge, which
keeps its own default limits. Whoever does not decide is off. The load generator of the control planes does the same to
each side, and counts from outside, from just before its request to when a watch of its own shows what follows. The
costs of the API server are in all figures.

  a  a node is tainted → the deletion of its pods is requested
  b  a node is not ready → its taints → the deletion of the first pods
  c  pods are created → bound
  d  OCM: Placements are created → their PlacementDecisions are complete
  e  Karmada: a ClusterTaintPolicy is created → its taint is on each cluster
  f  the process that decides is killed → decisions flow again; upstream's leader election beside two bridges, and
     beside two members of each service

The sides take turns, in rounds; the figures are the medians of the rounds. `times as fast` compares Moorage with the
peer as it is by default. The table goes to standard error, or as Markdown with `--markdown`. The last line is JSON.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import signal
import sys
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))  # so that the script runs from any folder
from bench import harness, peers_failover, peers_measures, peers_sides
from bench import peers_table as table
from bench.peers_table import Sample
from tests.planes import plane as planes

KUBERNETES = frozenset("abc")
"""The measures that are taken together, on one control plane for each size."""

ALONE = {"d": peers_measures.placements, "e": peers_measures.taint_policies, "f": peers_failover.failover}


def end_in_order() -> None:
    """Let SIGTERM end this process as Ctrl-C does, so that no control plane is left running."""
    task = asyncio.current_task()
    if task is not None:
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)


def names(text: str) -> frozenset[str]:
    """Parse the names of sides, separated by commas."""
    return _some_of(table.SIDES, "side", text)


def letters(text: str) -> frozenset[str]:
    """Parse the letters of measures, separated by commas."""
    return _some_of(table.MEASURES, "measure", text)


def _some_of(known: Iterable[str], what: str, text: str) -> frozenset[str]:
    found = frozenset(word.strip() for word in text.split(",") if word.strip())
    if unknown := sorted(found.difference(known)):
        raise argparse.ArgumentTypeError(f"no such {what}: {', '.join(unknown)}; must be of {', '.join(known)}")
    return found


def sizes(text: str) -> tuple[int, ...]:
    """Parse numbers, separated by commas."""
    return tuple(int(word) for word in text.split(","))


async def measure(
    options: argparse.Namespace, folder: Path, samples: list[Sample], failed: Callable[[str], None]
) -> None:
    """Take all samples."""
    async with harness.kafka() as bootstrap:
        wanted = peers_sides.Options(
            bootstrap,
            folder,
            wanted=options.only,
            sides=options.sides,
            rounds=options.rounds,
            found=samples.append,
            failed=failed,
            clusters=options.clusters,
            placements=options.placements,
        )
        if options.only & KUBERNETES:
            for nodes in options.nodes:
                async with planes.started(folder / f"plane-{nodes}") as plane:
                    await peers_measures.kubernetes(plane, wanted, nodes)
        for letter, work in ALONE.items():
            if letter in options.only:
                async with planes.started(folder / f"plane-{letter}") as plane:
                    await work(plane, wanted)


def result(options: argparse.Namespace, samples: list[Sample], failures: list[str]) -> dict[str, Any]:
    """The line of the run."""
    return {
        "bench": "peers",
        "what": "times as fast as upstream's controllers with their default limits, on the same control plane",
        "rounds": options.rounds,
        "nodes": list(options.nodes),
        "only": sorted(options.only),
        "clusters": options.clusters,
        "placements": list(options.placements),
        "failures": failures,
        "rows": [
            {**asdict(row), "times_as_fast": row.ratio, "times_as_fast_as_tuned": row.tuned_ratio}
            for row in table.rows(samples)
        ],
    }


async def main() -> dict[str, Any]:
    """Measure, and print the table."""
    parser = harness.parser(__doc__, rounds=3, clusters=1000)
    parser.add_argument(
        "--only", type=letters, default=frozenset(table.MEASURES), metavar="a,b,…", help="these measures alone"
    )
    parser.add_argument("--nodes", type=sizes, default=(50, 500), metavar="N,N", help="the sizes of (a), (b) and (c)")
    parser.add_argument("--sides", type=names, default=frozenset(table.SIDES), metavar="SIDE,…", help="these alone")
    parser.add_argument("--placements", type=sizes, default=(100, 1000), metavar="N,N", help="the sizes of (d)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all samples to a file, one a line")
    parser.add_argument("--markdown", action="store_true", help="print the table as Markdown")
    options = parser.parse_args()
    if planes.scripts() is None:
        sys.exit(planes.told())
    samples: list[Sample] = []
    failures: list[str] = []

    def failed(what: str) -> None:
        failures.append(what)
        harness.note(f"FAILED: {what}")

    end_in_order()
    try:
        with tempfile.TemporaryDirectory(prefix="moorage-peers-") as folder:
            await measure(options, Path(folder), samples, failed)
    finally:
        if options.json is not None:
            options.json.write_text("".join(f"{json.dumps(asdict(one))}\n" for one in samples), "utf-8")
        rows = table.rows(samples)
        harness.note(table.text(rows))
        if options.markdown:
            print(table.markdown(rows))
    return result(options, samples, failures)


if __name__ == "__main__":
    sys.exit(1 if harness.run(main)["failures"] else 0)
