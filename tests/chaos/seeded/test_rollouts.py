"""Seeds of rollouts keep their promises, and the checker finds each planted bug."""

from __future__ import annotations

import pytest
from tests.chaos.seeded.bugs.rollouts import BUGS
from tests.chaos.seeded.rollout_stories import play

SEEDS = 12
MOST = 20
"""Seeds within which each bug must be found."""


def test_seeds_keep_the_promises() -> None:
    assert {seed: found[:1] for seed in range(SEEDS) if (found := play(seed))} == {}


@pytest.mark.parametrize("name", BUGS)
def test_a_planted_bug_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(*BUGS[name]())
    assert any(play(seed) for seed in range(MOST)), f"no seed found {name}"
