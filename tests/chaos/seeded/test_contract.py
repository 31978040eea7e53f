"""The simulated Kafka does what Moorage relies on of Kafka; tests/kafka/test_contract.py holds a broker to the same."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Mapping
from random import Random
from typing import Any

import pytest
from tests.chaos.seeded.kafka.admin import SimAdmin
from tests.chaos.seeded.kafka.cluster import Cluster, Faults
from tests.chaos.seeded.kafka.consumer import SimConsumer
from tests.chaos.seeded.kafka.contracts import CONTRACTS
from tests.chaos.seeded.kafka.loop import Process, VirtualLoop
from tests.chaos.seeded.kafka.producer import SimProducer
from tests.support.tables import table


class Simulated:
    """A rig on the simulation; each client has a process of its own."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self._numbers = itertools.count()

    def name(self, what: str) -> str:
        return f"{what}-{next(self._numbers)}"

    def process(self) -> Process:
        process = Process(self.cluster.loop, self.name("process"))
        self.cluster.watch(process)
        return process

    async def topic(self, partitions: int = 1, config: Mapping[str, str] | None = None) -> str:
        name = self.name("topic")
        self.cluster.create(name, partitions, dict(config or {}))
        return name

    async def producer(self, **options: Any) -> SimProducer:
        client = SimProducer(self.cluster, self.process(), **options)
        await client.start()
        return client

    async def consumer(self, **options: Any) -> SimConsumer:
        client = SimConsumer(self.cluster, self.process(), auto_offset_reset="earliest", **options)
        await client.start()
        return client

    async def admin(self) -> SimAdmin:
        client = SimAdmin(self.cluster, self.process())
        await client.start()
        return client

    async def die(self, consumer: SimConsumer) -> None:
        consumer.process.crash()

    async def compacted(self, topic: str) -> None:
        self.cluster.clean([topic])


HARD = Faults(
    latency=(0.001, 0.05),
    slow=0.1,
    answer_lost=0.1,
    straggling=0.5,
    fetch_slow=0.3,
    fetch_small=0.3,
)
"""A network that is slow now and then, which changes nothing of what is right."""


@table("seed", range(5))
@table("faults", [Faults(), HARD], ids=["sound", "hard"])
@table("name", CONTRACTS)
def test_the_simulation_keeps_the_contract(name: str, faults: Faults, seed: int) -> None:
    loop = VirtualLoop(max_steps=200_000)
    cluster = Cluster(loop, Random(seed), faults=faults, idle_poll=0.0)  # noqa: S311 - drawn to be repeated

    async def run() -> None:
        await CONTRACTS[name](Simulated(cluster))

    outside = Process(loop, "test")

    async def main() -> None:
        await outside.spawn(run())

    loop.play(main())
    assert not loop.unhandled


async def test_the_rig_of_the_simulation_needs_its_own_loop() -> None:
    with pytest.raises(RuntimeError, match="no threads"):
        VirtualLoop().run_in_executor(None, print)
    assert asyncio.get_running_loop().time() > 0
