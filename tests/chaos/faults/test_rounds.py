"""Short rounds with each kind of fault on three brokers; `make soak` plays many, each with one fault."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from tests.chaos.faults.cluster import Cluster
from tests.chaos.faults.kinds import KINDS, in_turn
from tests.chaos.faults.round import play

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(900)]

SEED = 1

ROUNDS = {
    "service-killed_link-cut": "eviction",
    "zombie_rebalance-storm": "taint-manager",
    "service-stopped_link-silent": "governor",
    "broker-lost_link-slow": "condition-ingest",
    "broker-frozen_leaders-moved": "placement",
    "clock-off_disk-full": "timer",
    "service-away": "eviction",
}
"""The faults of each round, in turn, and the service that they are about.

What is started, declared and waited for costs more than a fault lasts, so that two share it.
"""

TOO_LONG = {"none", "services-rolled", "brokers-restarted"}
"""Left to `make soak`."""


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def cluster(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Cluster]:
    """Three brokers for all rounds: a fault that cannot be healed would show in those that follow."""
    async with Cluster(tmp_path_factory.mktemp("cluster") / "brokers") as started:
        yield started


def test_every_kind_of_fault_is_in_a_round() -> None:
    assert sorted(name for one in ROUNDS for name in one.split("_")) == sorted(KINDS.keys() - TOO_LONG)


@pytest.mark.parametrize("names", ROUNDS)
async def test_a_round(cluster: Cluster, tmp_path: Path, names: str) -> None:
    kind = in_turn(*(KINDS[name] for name in names.split("_")))
    outcome = await play(cluster, kind, SEED, tmp_path, victim=ROUNDS[names])
    place = outcome.save(tmp_path) if outcome.failed else tmp_path
    assert not outcome.failed, f"{outcome}\n(everything about it is in {place})"
    assert outcome.records > 100, "too little happened to show anything"
    assert outcome.history.acknowledged
    assert bool(outcome.taken) == kind.cleaning, f"{outcome.taken} records were compacted or expired"
