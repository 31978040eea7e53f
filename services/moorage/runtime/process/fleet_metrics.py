"""Shows Prometheus the numbers of the fleet, from the states of the partitions that this process owns."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from time import perf_counter
from typing import Any, Final

from prometheus_client import REGISTRY, CollectorRegistry
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import Metric

from moorage.runtime.measures import LabelLimits, Measure, merged
from moorage.runtime.process.member import Member
from moorage.runtime.service import Service

PORTION: Final = 100
"""The number of changes that are counted before the time is checked: less than a millisecond."""

TURN: Final = 0.002
"""Seconds after which the event loop gets another turn."""


_PERIOD: Final = 60.0  # seconds


class FleetMetrics:
    """The numbers of all services of this process.

    A partition counts while its task runs. So those of a standby, or of a task that restores or is parked, do not count
    here, because they count in the process that owns them, or in none until they are restored.

    Args:
        members: returns the members of this process.
        now: returns the present time.
    """

    def __init__(self, members: Callable[[], Sequence[Member]], now: Callable[[], datetime]) -> None:
        self._members = members
        self._now = now
        self._limits = LabelLimits()

    async def settle(self) -> None:
        """Bring all counts up to date, in portions between which the event loop runs."""
        began = perf_counter()
        for task in [task for member in self._members() for task in member.tasks.values()]:
            for place in range(len(task.running)):
                while _settle_portion(task, place):
                    if perf_counter() - began >= TURN:
                        await asyncio.sleep(0)
                        began = perf_counter()

    async def run(self) -> None:
        """Count once in a while. Without scrapes, notes of what has ended would be kept forever."""
        while True:
            await asyncio.sleep(_PERIOD)
            await self.settle()

    def collect(self) -> Iterable[Metric]:
        """Yield the metrics."""
        for gauge, values in merged(self._measures(), self._limits).items():
            family = GaugeMetricFamily(gauge.name, gauge.documentation, labels=gauge.labels)
            for labels, value in values.items():
                family.add_metric(labels, value)
            yield family

    def _measures(self) -> Iterator[Measure]:
        now = self._now()
        for member in self._members():
            for task in list(member.tasks.values()):
                for service, state in _states(task):
                    yield from service.measures(state, now)


def _settle_portion(task: Any, place: int) -> bool:
    """Count a portion of the changes of one service of a task. Return whether any is left.

    A task that restarts meanwhile has other states, and one that has stopped has none.
    """
    running = task.running
    return bool(running) and not running[place].service.settle(running[place].state, PORTION)


def _states(task: Any) -> list[tuple[Service[Any], Any]]:
    return [(engine.service, engine.state) for engine in task.running]


class _Joined(CollectorRegistry):
    """The metrics of the process, and those of the fleet."""

    def __init__(self, fleet: FleetMetrics) -> None:
        super().__init__()
        self._fleet = fleet

    def collect(self) -> Iterator[Metric]:
        yield from REGISTRY.collect()
        yield from self._fleet.collect()


async def exposition(fleet: FleetMetrics, accept: str) -> tuple[bytes, str]:
    """Return all metrics of the process, and their content type.

    Args:
        fleet: the numbers of the fleet.
        accept: the content types that the client accepts. With OpenMetrics it gets exemplars.
    """
    await fleet.settle()
    encode, content_type = choose_encoder(accept)
    return encode(_Joined(fleet)), content_type
