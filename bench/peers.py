"""Measures Moorage beside upstream's controllers, on the same control plane, with the same load, one after the other.

Where `MOORAGE_PLANES` names a folder with `up.sh` and `down.sh`, which start real control planes, each measure runs
with upstream's controller and its default limits, with lifted limits (`tuned`), and with Moorage and a bridge, which
keeps its own default limits. Whoever does not decide is off. The load generator of the control planes does the same to
each side, and counts from outside, from just before its request to when a watch of its own shows what follows. The
costs of the API server are in all figures.

  a  a node is tainted → the deletion of its pods is requested
  b  a node is not ready → its taints → the deletion of the first pods
  c  pods are created → bound

The sides take turns, in rounds; the figures are the medians of the rounds. `times as fast` compares Moorage with the
peer as it is by default. The table goes to standard error, or as Markdown with `--markdown`. The last line is JSON.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))  # so that the script runs from any folder
from bench import harness, peers_measures
from bench import peers_table as table
from bench.peers_table import Sample
from tests.planes import plane as planes

KUBERNETES = frozenset("abc")


def letters(text: str) -> frozenset[str]:
    """Parse the letters of measures, separated by commas."""
    found = frozenset(word.strip() for word in text.split(",") if word.strip())
    if unknown := sorted(found - set(table.MEASURES)):
        raise argparse.ArgumentTypeError(f"no such measure: {', '.join(unknown)}; one of {', '.join(table.MEASURES)}")
    return found


def sizes(text: str) -> tuple[int, ...]:
    """Parse numbers, separated by commas."""
    return tuple(int(word) for word in text.split(","))


async def measure(options: argparse.Namespace, folder: Path, samples: list[Sample]) -> None:
    """Take all samples."""
    async with harness.kafka() as bootstrap:
        wanted = peers_measures.Options(bootstrap, folder, options.only, options.rounds, samples.append)
        if options.only & KUBERNETES:
            for nodes in options.nodes:
                async with planes.started(folder / f"plane-{nodes}") as plane:
                    await peers_measures.kubernetes(plane, wanted, nodes)


def result(options: argparse.Namespace, samples: list[Sample]) -> dict[str, Any]:
    """The line of the run."""
    return {
        "bench": "peers",
        "what": "times as fast as upstream's controllers with their default limits, on the same control plane",
        "rounds": options.rounds,
        "nodes": list(options.nodes),
        "only": sorted(options.only),
        "rows": [
            {
                "measure": row.measure,
                "case": row.case,
                "figure": row.figure,
                "upstream": row.upstream,
                "tuned": row.tuned,
                "moorage": row.moorage,
                "times_as_fast": row.ratio,
                "times_as_fast_as_tuned": row.tuned_ratio,
                "load": list(row.load),
            }
            for row in table.rows(samples)
        ],
    }


async def main() -> dict[str, Any]:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", type=letters, default=KUBERNETES, metavar="a,b,…", help="these measures alone")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--nodes", type=sizes, default=(50, 500), metavar="N,N", help="the sizes of (a), (b) and (c)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all samples to a file, one a line")
    parser.add_argument("--markdown", action="store_true", help="print the table as Markdown")
    options = parser.parse_args()
    if planes.scripts() is None:
        sys.exit(planes.told())
    samples: list[Sample] = []
    try:
        with tempfile.TemporaryDirectory(prefix="moorage-peers-") as folder:
            await measure(options, Path(folder), samples)
    finally:
        if options.json is not None:
            options.json.write_text("".join(f"{json.dumps(table.document(one))}\n" for one in samples), "utf-8")
        rows = table.rows(samples)
        harness.note(table.text(rows))
        if options.markdown:
            print(table.markdown(rows))
    return result(options, samples)


if __name__ == "__main__":
    harness.run(main)
