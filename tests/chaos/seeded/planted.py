"""Plants each bug, and counts how many seeds it takes until the checker has found it.

python -m tests.chaos.seeded.planted --all                   every bug anew; prints the table of docs/simulation.md
python -m tests.chaos.seeded.planted --bug NAME --seeds 50   one of them
python -m tests.chaos.seeded.planted --list                  what there is
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from tests.chaos.seeded.bugs import BUGS
from tests.chaos.seeded.pool import each
from tests.chaos.seeded.seeds import run
from tests.chaos.seeded.stories import draw, theme_of

SEEDS = 2000
"""Within which each bug must be found."""

_MISFITS = ("AttributeError", "ImportError", "NameError", "TypeError")
"""How a bug fails that no longer fits the code that it is planted into. Then it is not the checker that finds it."""


@dataclass(frozen=True, slots=True)
class Found:
    """How a bug fared."""

    name: str
    seed: int | None
    """The first that found it; None when none did."""

    tried: int
    broken: str
    seconds: float
    """Of processor time."""


def likely(name: str, seeds: Iterable[int] = range(SEEDS)) -> Iterator[int]:
    """The seeds whose stories have a theme in which a bug is likely to show; all where it has none."""
    themes = BUGS[name].themes
    return (seed for seed in seeds if not themes or theme_of(seed) in themes)


def find(name: str, seeds: Iterable[int]) -> Found:
    """Run seeds, in order, with a bug in the code of this process, until one finds it.

    Raises:
        ValueError: The bug no longer fits the code that it is planted into.
    """
    began, tried = time.process_time(), 0
    with BUGS[name].planted():
        for seed in seeds:
            tried += 1
            bug = BUGS[name]
            outcome = run(replace(draw(seed), acknowledging=bug.acknowledging, chained=bug.chained))
            if outcome.broken:
                if any(misfit in outcome.broken[0] for misfit in _MISFITS):
                    message = f"the planted bug {name} no longer fits the code: {outcome.broken[0]}"
                    raise ValueError(message)
                return Found(name, seed, tried, outcome.broken[0], time.process_time() - began)
    return Found(name, None, tried, "", time.process_time() - began)


def _measure(job: tuple[str, range, bool]) -> Found:
    name, seeds, every = job
    return find(name, seeds if every else likely(name, seeds))


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--all", action="store_true", help="every bug")
    parser.add_argument("--bug", action="append", default=[], choices=list(BUGS), metavar="NAME")
    parser.add_argument("--list", action="store_true", help="tell what there is")
    parser.add_argument("--every", action="store_true", help="seeds of any theme, not only of those that are likely")
    parser.add_argument("--seeds", type=int, default=SEEDS, help=f"at most (default {SEEDS})")
    parser.add_argument("--first", type=int, default=0, help="the seed to begin with")
    parser.add_argument("--processes", type=int, default=None)
    given = parser.parse_args()
    if given.list:
        print("\n".join(f"{bug.name:24} {bug.what}" for bug in BUGS.values()))
        return 0
    names = list(BUGS) if given.all else given.bug
    rows: dict[str, str] = {}
    missed = 0
    jobs = [(name, range(given.first, given.first + given.seeds), given.every) for name in names]
    for found in each(_measure, jobs, processes=given.processes):
        missed += found.seed is None
        bug = BUGS[found.name]
        needed = f"over {given.seeds}" if found.seed is None else str(found.seed - given.first + 1)
        among = f"{found.tried} of {', '.join(bug.themes)}" if bug.themes and not given.every else ""
        promise = f"`{found.broken.partition(':')[0]}`" if found.broken else ""
        rows[bug.name] = f"| {bug.name} | {bug.what} | {needed} | {among} | {promise} |"
        told = f"{bug.name}: {needed} ({among}); {found.seconds:.0f} s: {found.broken[:160]}"
        print(told, file=sys.stderr, flush=True)
    print("| bug | fault | seeds needed | with its themes | violated first |\n|---|---|---:|---:|---|")
    print("\n".join(rows[name] for name in names))
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
