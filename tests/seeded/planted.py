"""Plants each bug, and counts how many seeds it takes until the checker has found it.

python -m tests.seeded.planted --all                   measure every bug anew, and print the table
python -m tests.seeded.planted --bug NAME --seeds 50   one of them
python -m tests.seeded.planted --list                  what there is
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass

from tests.seeded.bugs import BUGS
from tests.seeded.seeds import run
from tests.seeded.stories import draw

SEEDS = 2000
"""Within which each bug must be found."""


@dataclass(frozen=True, slots=True)
class Found:
    """How a bug fared."""

    name: str
    seed: int | None
    """The first that found it; None when none did."""

    broken: str
    seconds: float


def find(name: str, seeds: Iterable[int]) -> Found:
    """Run seeds, in order, with a bug in the code of this process, until one finds it."""
    began = time.process_time()
    with BUGS[name].planted():
        for seed in seeds:
            outcome = run(draw(seed))
            if outcome.broken:
                return Found(name, seed, outcome.broken[0], time.process_time() - began)
    return Found(name, None, "", time.process_time() - began)


def _find(job: tuple[str, int, int]) -> Found:
    name, first, last = job
    return find(name, range(first, last))


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--all", action="store_true", help="every bug")
    parser.add_argument("--bug", action="append", default=[], choices=list(BUGS), metavar="NAME")
    parser.add_argument("--list", action="store_true", help="tell what there is")
    parser.add_argument("--seeds", type=int, default=SEEDS, help=f"at most (default {SEEDS})")
    parser.add_argument("--first", type=int, default=0, help="the seed to begin with")
    parser.add_argument("--processes", type=int, default=None)
    given = parser.parse_args()
    if given.list:
        print("\n".join(f"{bug.name:24} {bug.what}" for bug in BUGS.values()))
        return 0
    names = list(BUGS) if given.all else given.bug
    context = multiprocessing.get_context("fork")
    missed = 0
    print("| bug | seeds needed | what was broken |\n|---|---:|---|")
    with context.Pool(given.processes, maxtasksperchild=1) as pool:
        for found in pool.imap_unordered(_find, [(name, given.first, given.seeds) for name in names], chunksize=1):
            missed += found.seed is None
            needed = f"over {given.seeds}" if found.seed is None else str(found.seed + 1)
            promise = found.broken.partition(":")[0]
            what = BUGS[found.name].what
            print(f"| {found.name}: {what} | {needed} | {f'`{promise}`' if promise else ''} |", flush=True)
            print(f"{found.name}: {found.seconds:.0f} s: {found.broken[:200]}", file=sys.stderr, flush=True)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
