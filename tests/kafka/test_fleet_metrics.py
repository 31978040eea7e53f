"""The numbers of the fleet are right with several processes, and after one is gone."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

import pytest
from tests.support.brokers import Broker
from tests.support.toys import Counter, CounterState, Number, make_toys, settings_for, worker_for, write_numbers
from tests.support.waiting import until

from moorage.runtime.kafka.partition.worker import Worker
from moorage.runtime.measures import FleetGauge, Measure
from moorage.runtime.process.clock import MACHINE
from moorage.runtime.process.fleet_metrics import FleetMetrics

pytestmark = pytest.mark.kafka

KEYS = FleetGauge("moorage_test_keys", "Keys that were counted")


class Measured(Counter):
    """Shows how many keys it has counted."""

    def measures(self, state: CounterState, now: datetime) -> Iterable[Measure]:  # noqa: ARG002 - not used
        yield Measure(KEYS, (), len(state.tallies))


def shown(worker: Worker) -> float:
    """Return the number that the process of a worker shows."""
    found = [one for family in FleetMetrics(lambda: [worker], MACHINE.now).collect() for one in family.samples]
    return float(found[0].value) if found else 0.0


async def test_the_processes_add_up_to_the_fleet_and_standbys_count_nothing(broker: Broker, topic_prefix: str) -> None:
    settings = settings_for(broker.bootstrap, topic_prefix)
    await make_toys(settings)
    await write_numbers(settings, [Number(key=f"k{number}", n=number) for number in range(40)])
    async with worker_for(Measured(), settings) as one:
        await until(lambda: shown(one) == 40, message="not counted")
        async with worker_for(Measured(), settings) as two:
            # The other process has read all tables as a standby, and counts only what it owns.
            await until(
                lambda: one.ready and two.ready and 0 < shown(two) < 40 and shown(one) + shown(two) == 40,
                message="the processes do not add up",
            )
            assert shown(two) == sum(len(task.engines[0].state.tallies) for task in two.tasks.values())
            await one.stop()
            assert shown(one) == 0, "its part goes at once"
            await until(lambda: shown(two) == 40, message="its part was not taken over")
