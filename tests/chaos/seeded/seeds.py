"""Runs seeds: each is drawn, played on the simulated Kafka, and checked; a seed that fails is made smaller.

python -m tests.chaos.seeded.seeds --count 2000              the seeds 0 … 1999
python -m tests.chaos.seeded.seeds --first 7 --count 1 -v    one seed, with what happened
python -m tests.chaos.seeded.seeds --minutes 60 --long       as many as an hour allows, and larger ones
python -m tests.chaos.seeded.seeds --count 100 --replay      decided on again, too, and compared byte for byte
python -m tests.chaos.seeded.seeds --count 100 --acknowledging    with a deployer that acknowledges evictions
python -m tests.chaos.seeded.seeds --count 100 --chained    with chains instead of their services
python -m tests.chaos.seeded.seeds --first 7 --shrink        the smallest story that fails in the same way
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from pathlib import Path

from tests.chaos.seeded.checker import check
from tests.chaos.seeded.kafka.world import dump
from tests.chaos.seeded.pool import each
from tests.chaos.seeded.replay import problems, replayed
from tests.chaos.seeded.stories import Play, Plot, draw


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a seed."""

    seed: int
    broken: tuple[str, ...]
    """What was broken, a line each; empty when nothing was."""

    told: tuple[str, ...]
    seconds: float
    """Of processor time."""

    records: int
    evicted: int
    acknowledged: int
    """Evictions that a deployer has acknowledged."""

    @property
    def kind(self) -> str:
        """The first promise that was broken, without names."""
        return self.broken[0].partition(":")[0] if self.broken else ""


def run(plot: Plot, *, replay: bool = False) -> Outcome:
    """Play a plot and check what happened.

    Args:
        plot: what is played.
        replay: whether everything is decided on again, too, and must come out byte for byte.
    """
    began = time.process_time()
    play = Play(plot)
    records, evicted, acknowledged = 0, 0, 0
    try:
        world = play.world()
        history = world.play(play)
        broken = [f"{found.invariant}: {found.where}: {found.message}" for found in check(history)]
        if replay:
            broken += problems(replayed(world.cluster), cleaned=plot.cleaned)
        records = len(history.entries)
        requests = [one.value for one in history.entries if one.value and b'"state":"Requested"' in one.value]
        acknowledged = sum(b'"acknowledged":{' in value for value in requests)
        evicted = sum(b'"acknowledged":{' not in value and b'"escalated":{' not in value for value in requests)
    except Exception as error:  # noqa: BLE001 - whatever a run ends with is a finding
        last = traceback.extract_tb(error.__traceback__)[-1]
        broken = [f"{type(error).__name__}: {last.name}:{last.lineno}: {error}"]
    seconds = time.process_time() - began
    return Outcome(plot.seed, tuple(broken), tuple(play.told), seconds, records, evicted, acknowledged)


def twice(plot: Plot) -> bool:
    """Whether a plot happens in the same way each time."""
    return dump(Play(plot).world().play(Play(plot))) == dump(Play(plot).world().play(Play(plot)))


def shrink(plot: Plot, fails: Callable[[Plot], bool]) -> Plot:
    """Leave out as many steps as can be left out while it fails.

    Args:
        plot: one that fails.
        fails: whether another one fails in the same way.
    """
    size = max(1, len(plot.steps) // 2)
    while size:
        place = 0
        while place < len(plot.steps):
            smaller = plot.without(frozenset(range(place, place + size)))
            if fails(smaller):
                plot = smaller
            else:
                place += size
        size //= 2
    return plot


def many(
    seeds: Iterable[int],
    *,
    long: bool = False,
    replay: bool = False,
    acknowledging: bool = False,
    chained: bool = False,
    processes: int | None = None,
) -> Iterator[Outcome]:
    """Run seeds on every core; the outcomes come as they are there.

    Args:
        seeds: which.
        long: whether each is a large one.
        replay: whether everything is decided on again, too.
        acknowledging: whether a deployer acknowledges evictions.
        chained: whether the services of a chain run as one.
        processes: how many at a time.
    """
    form = partial(job, acknowledging=acknowledging, chained=chained)
    return each(form, ((seed, long, replay) for seed in seeds), processes=processes)


def keep(outcome: Outcome, folder: Path, *, long: bool = False) -> Path:
    """Make a seed that failed smaller, and write it into a folder; returns the file.

    It says what was broken, by which seed, which of its steps are needed, and what happened with these only.
    """
    plot = draw(outcome.seed, long=long)
    smallest = shrink(plot, lambda one: run(one).kind == outcome.kind)
    again = run(smallest)
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"seed-{outcome.seed}{'-long' if long else ''}.json"
    found = {
        "seed": outcome.seed,
        "long": long,
        "broken": outcome.broken,
        "steps": [f"{step.after:g} {step.what} {step.seed}" for step in smallest.steps],
        "told": again.told,
        "smallest": again.broken,
    }
    file.write_text(json.dumps(found, indent=1))
    return file


def job(given: tuple[int, bool, bool], *, acknowledging: bool = False, chained: bool = False) -> Outcome:
    """Run a seed; with whether it is a large one, and whether it is decided on again.

    Args:
        given: the seed and these two.
        acknowledging: whether a deployer acknowledges evictions.
        chained: whether the services of a chain run as one.
    """
    seed, long, replay = given
    return run(replace(draw(seed, long=long), acknowledging=acknowledging, chained=chained), replay=replay)


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=None)
    parser.add_argument("--minutes", type=float, default=None)
    parser.add_argument("--long", action="store_true")
    parser.add_argument("--shrink", action="store_true")
    parser.add_argument("--replay", action="store_true", help="decide on everything again, and compare")
    parser.add_argument("--acknowledging", action="store_true", help="with a deployer that acknowledges evictions")
    parser.add_argument("--chained", action="store_true", help="with chains instead of their services")
    parser.add_argument("--processes", type=int, default=None)
    parser.add_argument("--out", type=Path, default=None, help="a folder for what failed")
    parser.add_argument("-v", "--verbose", action="store_true")
    given = parser.parse_args()
    if given.shrink:
        return _shrink(given.first, long=given.long, chained=given.chained)
    seeds: Iterable[int] = count(given.first)
    if given.count is not None or given.minutes is None:
        seeds = range(given.first, given.first + (given.count or 1))
    began, number, seconds, failed = time.monotonic(), 0, 0.0, 0
    evicted = 0
    kinds = {"long": given.long, "replay": given.replay, "acknowledging": given.acknowledging, "chained": given.chained}
    for outcome in many(seeds, **kinds, processes=given.processes):
        number += 1
        seconds += outcome.seconds
        evicted += outcome.evicted
        if outcome.broken:
            failed += 1
            print(f"seed {outcome.seed}: {outcome.broken[0][:300]}", flush=True)
            if given.out is not None:
                keep(outcome, given.out, long=given.long)
        if given.verbose:
            print("\n".join([*outcome.told, *outcome.broken]), flush=True)
        if given.minutes is not None and time.monotonic() - began > 60 * given.minutes:
            break
    passed = time.monotonic() - began
    each = 1000 * seconds / max(1, number)
    print(f"{number} seeds, {failed} failed; {evicted} evictions; {passed:.1f} s, {each:.0f} ms a seed", flush=True)
    return 1 if failed else 0


def _shrink(seed: int, *, long: bool, chained: bool) -> int:
    plot = replace(draw(seed, long=long), chained=chained)
    outcome = run(plot)
    if not outcome.broken:
        print(f"seed {seed}: nothing is broken")
        return 0
    smallest = shrink(plot, lambda one: run(one).kind == outcome.kind)
    outcome = run(smallest)
    print(f"seed {seed}: {len(plot.steps)} steps, {len(smallest.steps)} of them needed")
    print("\n".join([*outcome.told, *outcome.broken]))
    return 1


if __name__ == "__main__":
    sys.exit(main())
