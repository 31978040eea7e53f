"""The clock of a process, measured against a real broker's."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta
from typing import Any

import httpx
import pytest
from aiokafka.admin import NewTopic
from structlog.testing import capture_logs
from tests.support.brokers import Broker
from tests.support.toys import TOYS, Counter, Number, settings_for, write_numbers
from tests.support.waiting import until

from moorage.runtime import app
from moorage.runtime.app import ServiceRun, run_services
from moorage.runtime.kafka.admin.broker_clock import BrokerClock
from moorage.runtime.kafka.admin.topics_admin import ensure_topics
from moorage.runtime.kafka.clients import clients
from moorage.runtime.process.clock import CorrectedClock, WallClock, machine_time
from moorage.runtime.settings.process_settings import Settings
from moorage_schemas.topics import CLOCKS, JOURNAL

pytestmark = pytest.mark.kafka

AHEAD = timedelta(minutes=10)


class WrongClock(WallClock):
    """The clock of a machine on which it is ten minutes later."""

    def now(self) -> datetime:
        return machine_time() + AHEAD


async def test_a_broker_is_measured_and_the_clock_is_corrected(broker: Broker, topic_prefix: str) -> None:
    settings = settings_for(broker.bootstrap, topic_prefix)
    await ensure_topics(settings, (CLOCKS,))
    for ahead in (AHEAD, -AHEAD, timedelta(0)):
        clock = CorrectedClock(lambda by=ahead: machine_time() + by)  # type: ignore[misc]  # a default of a lambda
        brokers = BrokerClock(settings, ["timer"], clock)
        await brokers.start()
        try:
            assert abs(clock.now() - machine_time()) < timedelta(seconds=1)
            assert bool(brokers.state) is bool(ahead)
        finally:
            await brokers.stop()


async def test_a_topic_whose_times_are_the_writers_cannot_be_measured(broker: Broker, topic_prefix: str) -> None:
    settings = settings_for(broker.bootstrap, topic_prefix)
    admin = clients.admin_client(settings)
    await admin.start()
    try:
        await admin.create_topics([NewTopic(CLOCKS.name(settings.topic_prefix), settings.partitions, 1)])
    finally:
        await admin.close()
    brokers = BrokerClock(settings, ["timer"], clock := CorrectedClock(WrongClock().now))
    with capture_logs() as logs:
        await brokers.start()
    await brokers.stop()
    (warning,) = [line for line in logs if line["event"] == "clock.not_measured"]
    assert "LogAppendTime" in warning["why"]
    assert clock.now() - machine_time() > timedelta(minutes=9)


async def test_a_process_whose_clock_is_wrong_stamps_by_the_broker_s_and_says_so(
    broker: Broker, topic_prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = settings_for(broker.bootstrap, topic_prefix, http_port=0)
    monkeypatch.setattr(app, "ensure_topics", _toys)
    running: asyncio.Future[ServiceRun] = asyncio.get_running_loop().create_future()
    stop, seen = asyncio.Event(), list[datetime]()

    class Noting(Counter):
        def process(self, state: Any, batch: Any, now: datetime, **given: Any) -> Any:
            seen.append(now)
            return super().process(state, batch, now, **given)

    made = run_services([Noting()], settings, clock=WrongClock(), ready=running.set_result, stop=stop)
    task = asyncio.create_task(made)
    try:
        run = await running
        await write_numbers(settings, [Number(key="k", n=1)])
        await until(lambda: bool(seen))
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{run.http_port}") as client:
            body = (await client.get("/readyz")).json()
            gauge = (await client.get("/metrics")).text
    finally:
        stop.set()
        await task
    assert abs(seen[-1] - machine_time()) < timedelta(minutes=5)
    assert "600.0 s ahead of the brokers'" in body["clock"]
    assert "\nmoorage_clock_offset_seconds " in gauge


async def _toys(settings: Settings) -> dict[str, int]:
    return await ensure_topics(settings, (*TOYS, JOURNAL, CLOCKS))
