"""A short round of each kind of fault on three brokers; `make soak` plays many."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from tests.chaos.faults.cluster import Cluster
from tests.chaos.faults.kinds import KINDS
from tests.chaos.faults.round import play

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(280)]

SEED = 1


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def cluster(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Cluster]:
    """Three brokers for all rounds: a fault that cannot be healed would show in those that follow."""
    async with Cluster(tmp_path_factory.mktemp("cluster") / "brokers") as started:
        yield started


@pytest.mark.parametrize("name", [kind.name for kind in KINDS.values() if kind.short])
async def test_a_round(cluster: Cluster, tmp_path: Path, name: str) -> None:
    outcome = await play(cluster, KINDS[name], SEED, tmp_path)
    place = outcome.save(tmp_path) if outcome.failed else tmp_path
    assert not outcome.failed, f"{outcome}\n(everything about it is in {place})"
    assert outcome.records > 100, "too little happened to show anything"
    assert outcome.history.acknowledged
    assert bool(outcome.taken) == KINDS[name].cleaning, f"{outcome.taken} records were compacted or expired"
