"""What a process shows Prometheus of the states that it owns."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, cast

import httpx
import pytest
from tests.support.toys import Counter
from tests.support.waiting import until

from moorage.runtime.measures import Contribution, FleetGauge, Measure, SeriesTally
from moorage.runtime.process import fleet_metrics, metrics
from moorage.runtime.process.fleet_metrics import PORTION, FleetMetrics
from moorage.runtime.process.health import health_app
from moorage.runtime.process.member import Member
from moorage_schemas.envelope import Meta

NOW = datetime(2026, 1, 1, tzinfo=UTC)
THINGS = FleetGauge("moorage_test_things", "Things by color", ("color",))
AGE = FleetGauge("moorage_test_read_timestamp_seconds", "Unix time of the scrape", (), max)


@dataclass
class ThingState:
    """Things by name, each with a color."""

    things: dict[str, str] = field(default_factory=dict)
    tally: SeriesTally[str] = field(default_factory=SeriesTally)
    portions: int = 0

    def put(self, name: str, color: str) -> None:
        self.things[name] = color
        self.tally.touch(name)


class ThingService(Counter):
    """Shows its things."""

    def settle(self, state: Any, limit: int) -> bool:
        state.portions += 1
        return bool(state.tally.settle(lambda name: [Contribution(THINGS, (state.things[name],))], limit))

    def measures(self, state: Any, now: datetime) -> Iterable[Measure]:
        yield from state.tally.measures()
        yield Measure(AGE, (), now.timestamp())


def task(*states: ThingState) -> SimpleNamespace:
    """A task that runs, with the states of its services."""
    return SimpleNamespace(running=tuple(SimpleNamespace(service=ThingService(), state=state) for state in states))


def fleet(**tasks: SimpleNamespace) -> FleetMetrics:
    member = cast("Member", SimpleNamespace(tasks=dict(enumerate(tasks.values()))))
    return FleetMetrics(lambda: [member], lambda: NOW)


async def scraped(shown: FleetMetrics, accept: str = "") -> httpx.Response:
    app = httpx.ASGITransport(app=health_app(list, fleet=shown))
    async with httpx.AsyncClient(transport=app, base_url="http://moorage") as client:
        return await client.get("/metrics", headers={"accept": accept} if accept else {})


async def test_a_process_shows_the_sum_over_its_partitions_and_the_time_of_the_scrape() -> None:
    one, two = ThingState(), ThingState()
    one.put("a", "red")
    two.put("b", "red")
    two.put("c", "blue")
    text = (await scraped(fleet(first=task(one), second=task(two)))).text
    assert 'moorage_test_things{color="red"} 2.0\n' in text
    assert 'moorage_test_things{color="blue"} 1.0\n' in text
    read = re.search(r"^moorage_test_read_timestamp_seconds (\S+)$", text, re.MULTILINE)
    assert read is not None
    assert float(read[1]) == NOW.timestamp()


async def test_a_partition_that_does_not_run_does_not_count() -> None:
    state = ThingState()
    state.put("a", "red")
    mine = task(state)
    shown = fleet(only=mine)
    assert "moorage_test_things" in (await scraped(shown)).text
    mine.running = ()  # parked, restoring, or given up
    assert "moorage_test_things" not in (await scraped(shown)).text


async def test_many_changes_are_counted_in_portions_between_which_others_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fleet_metrics, "TURN", 0.0)
    state, turns = ThingState(), 0
    for number in range(4 * PORTION):
        state.put(str(number), "red")

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    beside = asyncio.create_task(other())
    shown = fleet(only=task(state))
    await shown.settle()
    beside.cancel()
    assert state.portions >= 4
    assert turns >= 3
    assert next(sample.value for family in shown.collect() for sample in family.samples) == 4 * PORTION


async def test_changes_are_counted_without_scrapes_so_that_notes_do_not_pile_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(fleet_metrics, "_PERIOD", 0.0)
    state = ThingState()
    state.put("a", "red")
    counting = asyncio.create_task(fleet(only=task(state)).run())
    await until(lambda: state.portions > 0, message="nothing was counted")
    counting.cancel()
    assert [measure.value for measure in state.tally.measures()] == [1]


async def test_a_client_that_takes_openmetrics_gets_exemplars() -> None:
    cause = Meta("id", "source", "type", traceparent=f"00-{'a' * 32}-{'b' * 16}-01")
    example = metrics.exemplar(cause, workload="Pod/shop/web", target="Node/n1")
    metrics.COMMITTED.labels("exemplary").inc(exemplar=example)
    plain, open_metrics = await scraped(fleet()), await scraped(fleet(), "application/openmetrics-text; version=1.0.0")
    assert plain.headers["content-type"].startswith("text/plain")
    assert "trace_id" not in plain.text
    assert open_metrics.headers["content-type"].startswith("application/openmetrics-text")
    line = next(one for one in open_metrics.text.splitlines() if 'total{service="exemplary"}' in one)
    for label in (f'trace_id="{"a" * 32}"', 'workload="Pod/shop/web"', 'target="Node/n1"'):
        assert label in line
    assert open_metrics.text.endswith("# EOF\n")


def test_an_exemplar_leaves_out_what_is_too_long_or_missing() -> None:
    assert metrics.exemplar(Meta("id", "source", "type"), workload="") is None
    cause = Meta("id", "source", "type", traceparent=f"00-{'a' * 32}-{'b' * 16}-01")
    assert metrics.exemplar(cause, workload="w" * 100, target="Node/n1") == {"trace_id": "a" * 32, "target": "Node/n1"}
