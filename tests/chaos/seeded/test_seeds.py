"""Seeds of the simulation: everything that Moorage promises holds, whatever breaks."""

from __future__ import annotations

import os
from functools import partial

import pytest
from tests.chaos.seeded.pool import each
from tests.chaos.seeded.seeds import job, twice
from tests.chaos.seeded.stories import draw

SEEDS = {"test": range(200), "rest": range(200, 1000), None: range(1000)}
"""The seeds of each tier. `make soak` runs them without end, and every night others are run (`nightly.yml`)."""

ACKNOWLEDGED = {"test": range(30), "rest": range(30, 150), None: range(150)}
"""The seeds that are run with a deployer that acknowledges evictions."""

REPLAYED = 20
"""The number of the first seeds that are decided on again, and must come out byte for byte."""

ACKNOWLEDGED_REPLAYED = 5
"""The same number for the seeds with a deployer that acknowledges."""


def of(tier: str | None, seeds: dict[str | None, range]) -> range:
    first = int(os.environ.get("MOORAGE_SEED", "0"))
    return range(first + seeds[tier].start, first + seeds[tier].stop)


@pytest.mark.timeout(3600)  # its processes give way to all other tests
def test_no_seed_breaks_a_promise(pytestconfig: pytest.Config) -> None:
    seeds = of(pytestconfig.option.tier, SEEDS)
    again = seeds[:REPLAYED]
    outcomes = [
        outcome
        for chained in (False, True)  # every other seed
        for outcome in each(
            partial(job, chained=chained), [(seed, False, seed in again) for seed in seeds if seed % 2 == chained]
        )
    ]
    broken = {outcome.seed: outcome.broken[0] for outcome in outcomes if outcome.broken}
    assert not broken, "\n".join(f"seed {seed}: {what}" for seed, what in sorted(broken.items()))
    assert sum(outcome.evicted for outcome in outcomes) > len(seeds) / 2, "too few evictions for this to show anything"


@pytest.mark.timeout(3600)
def test_no_seed_breaks_a_promise_with_a_deployer_that_acknowledges(pytestconfig: pytest.Config) -> None:
    seeds = of(pytestconfig.option.tier, ACKNOWLEDGED)
    again = seeds[:ACKNOWLEDGED_REPLAYED]
    outcomes = list(each(partial(job, acknowledging=True), [(seed, False, seed in again) for seed in seeds]))
    broken = {outcome.seed: outcome.broken[0] for outcome in outcomes if outcome.broken}
    assert not broken, "\n".join(f"seed {seed}: {what}" for seed, what in sorted(broken.items()))
    assert sum(outcome.acknowledged for outcome in outcomes) > len(seeds) / 2, "too few for this to show anything"


@pytest.mark.parametrize("seed", [3, 14, 59])
def test_a_seed_happens_in_the_same_way_each_time(seed: int) -> None:
    assert twice(draw(seed))
