"""Seeds of the simulation: everything that Moorage promises holds, whatever breaks."""

from __future__ import annotations

import os

import pytest
from tests.chaos.seeded.pool import each
from tests.chaos.seeded.seeds import acknowledging_job, job, twice
from tests.chaos.seeded.stories import draw

SEEDS = 1000
"""How many are run. `make soak` runs them without end, and every night others are run (`nightly.yml`)."""

ACKNOWLEDGED = 150
"""How many are run with a deployer that acknowledges evictions."""

REPLAYED = 40
"""How many of them, the first ones, are decided on again, and must come out byte for byte."""


@pytest.mark.timeout(2400)  # its processes give way to all other tests
def test_no_seed_breaks_a_promise() -> None:
    first = int(os.environ.get("MOORAGE_SEED", "0"))
    again, once = range(first, first + REPLAYED), range(first + REPLAYED, first + SEEDS)
    outcomes = list(each(job, [*((seed, False, True) for seed in again), *((seed, False, False) for seed in once)]))
    broken = {outcome.seed: outcome.broken[0] for outcome in outcomes if outcome.broken}
    assert not broken, "\n".join(f"seed {seed}: {what}" for seed, what in sorted(broken.items()))
    assert sum(outcome.evicted for outcome in outcomes) > SEEDS / 2, "too few evictions for this to show anything"


@pytest.mark.timeout(900)
def test_no_seed_breaks_a_promise_with_a_deployer_that_acknowledges() -> None:
    first = int(os.environ.get("MOORAGE_SEED", "0"))
    seeds = range(first, first + ACKNOWLEDGED)
    outcomes = list(each(acknowledging_job, [(seed, False, seed < first + 10) for seed in seeds]))
    broken = {outcome.seed: outcome.broken[0] for outcome in outcomes if outcome.broken}
    assert not broken, "\n".join(f"seed {seed}: {what}" for seed, what in sorted(broken.items()))
    assert sum(outcome.acknowledged for outcome in outcomes) > ACKNOWLEDGED / 2, "too few for this to show anything"


@pytest.mark.parametrize("seed", [3, 14, 59])
def test_a_seed_happens_in_the_same_way_each_time(seed: int) -> None:
    assert twice(draw(seed))
